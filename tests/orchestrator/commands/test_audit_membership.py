"""`smoothsweep audit --trained-on-data`: what is asked, within which budget, and what is said of it."""

import json
import re

import pytest

from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.orchestrator.cli import main
from tests.foreign_classifier import PEOPLE, SIDE
from tests.made_endpoint import serving
from tests.memorising import NOISE, TESTING, TRAINING, Memory, write_split
from tests.orchestrator.commands.owned_model import write_public

MEMBERS, OTHERS = TRAINING * len(PEOPLE), TESTING * len(PEOPLE)
SHOWN = 14
"""Pictures for each image by hand: itself, its mirror image, six shifted copies, six under noise."""


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """Where a user's consent is noted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "budget", "drawn"), [(NOISE, 8 + 240 + 1000 + SHOWN * 300, None), (4, 2500, 2 * 27)])
def test_from_an_endpoint_that_memorised_to_the_pages(tmp_path, capsys, own_home, noise, budget, drawn):
    """With shadow models, which ask it nothing more; test images of another camera, which is less noisy: no claim."""
    people, public = write_split(tmp_path / "people", noise_of_test=noise), write_public(tmp_path / "public", 60)
    given = ["--image-size", SIDE, "--people", 2, "--access", "scores", "--redact", "--out", tmp_path / "out"]
    given += ["--data", people, "--public", public, "--trained-on-data", "--effort", "quick"]
    given += ["--yes", "--queries", budget, "--per-second", 10000, "--reference", "resnet_small", "--epochs", 1]
    with serving(Memory(people)) as server:
        assert main(["audit", server.url, *map(str, given)]) == 0
        assert KeptAnswers(answers_database(tmp_path / "out" / "model")).asked == len(server.seen) <= budget
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    said, page = capsys.readouterr().out, (tmp_path / "out" / "audit.html").read_text()
    lines, members = found["said"]["membership"], found["membership"]
    assert lines[0] in said and (members["members"], members["others"]) == (MEMBERS, OTHERS)
    assert "to come: membership: " in said and members["drawn"] == drawn
    assert not re.search(rf"\b({'|'.join(PEOPLE)})\b", " ".join(lines))
    assert found["model"]["name"] == "this model" and "127.0.0.1" not in page + json.dumps(found)
    if noise == NOISE:
        by_name = {one["attack"]: one for one in members["recipes"][0]["told"]}
        assert members["holds"] and by_name["margin"]["auc"] > 0.95 and by_name["margin"]["low"] > 0.9
        assert by_name["margin"]["found"] > 0.5 and "better than chance" in lines[0]
        shadowed = members["shadowed"]
        assert "Training images found" in page and (shadowed["count"], shadowed["recipe"]) == (4, "plain training")
        assert len(shadowed["reference"]) == len(shadowed["told"]) > 1 and "AUC within people" in page
    else:
        assert (
            not members["holds"]
            and members["recipes"] == []
            and members["shadowed"] is None
            and lines[0].startswith("No claim about membership")
        )
        assert "Training images found" not in page and abs(members["shift"] - 0.5) > 0.2


@pytest.mark.slow
def test_of_an_endpoint_that_no_attack_may_ask_enough_the_page_says_what_was_left_out(tmp_path, capsys, own_home):
    people, public = write_split(tmp_path / "people"), write_public(tmp_path / "public", 60)
    given = ["--image-size", SIDE, "--people", 2, "--access", "scores", "--out", tmp_path / "out", "--effort", "quick"]
    given += ["--data", people, "--public", public, "--yes", "--queries", 600, "--per-second", 10000]
    with serving(Memory(people)) as server:
        assert main(["audit", server.url, *map(str, given)]) == 0
        assert len(server.seen) <= 600
    found, said = json.loads((tmp_path / "out" / "audit.json").read_text()), capsys.readouterr().out
    assert [one["control"] for one in found["reached"]] == [True] and found["by_access"] == {}
    left = [line for line in found["said"]["unknown"] if line.startswith("Not tried: ")]
    assert len(left) == 4 and all("--queries" in line and line in said for line in left)
    assert found["said"]["answer"][0] in said and "No attack was tried" in (tmp_path / "out" / "audit.html").read_text()
