"""`smoothsweep audit --trained-on-data`: what is asked, within which budget, and what is said of it."""

import json
import re

import numpy as np
import pytest
import torch

from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import inside_part
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import as_file, audit_sweep, portfolio
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.parts import LabelledData
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import prepare_private
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.imported import adopt_classifier
from smoothsweep.tasks.judging import judge_membership
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


@pytest.mark.parametrize(("answers", "few"), [("logits", {"copies": 1, "levels": 1}), ("labels", {"images": 20})])
def test_an_endpoint_is_asked_no_more_than_was_counted_and_nothing_more_for_shadow_models(
    tmp_path, own_home, answers, few
):
    """The judge's own stage, against a server that keeps what it is sent."""
    people = write_split(tmp_path / "people", training=8, testing=6)
    members, others = 8 * len(PEOPLE), 6 * len(PEOPLE)
    with serving(Memory(people)) as server:
        out, given = tmp_path / "model", ["--per-second", "10000", "--queries", "9000", "--yes", "--answers", answers]
        command = ["import", "target", server.url, "--classes", str(len(PEOPLE)), "--data", str(people / "train")]
        assert main([*command, "--image-size", str(SIDE), *given, "--out", str(out)]) == 0
        load_sweep(asking(out, people, tmp_path))  # also of a model that gives labels alone
        target, data = adopted(out, people, tmp_path)
        before, settings, inputs = len(server.seen), {"trained_on_data": True, **few}, {"target": target, "data": data}
        metrics = judged(tmp_path / "judged", settings, inputs)
        asked = len(server.seen) - before
        if answers == "logits":
            inputs |= {f"shadow_{at:04d}": answered(tmp_path / f"shadow-{at}", at) for at in range(4)}
            found = judged(tmp_path / "by-shadows", {**settings, "shadows": 4}, inputs)
            assert len(server.seen) - before == asked > 0 and found["membership_rmia_auc"] is not None
    counted = Membership(**settings).most_pictures(members, others, scores=answers == "logits")
    assert counted - 2 * members <= asked <= counted  # what the import has shown is kept, and not asked again
    assert KeptAnswers(answers_database(out)).asked == len(server.seen)
    assert (metrics["membership_auc"] > 0.95) == (answers == "logits") and metrics["membership_auc_labels"] is not None
    assert (metrics["membership_margin_auc"] is None) == (answers == "labels")


def judged(folder, settings, inputs):
    folder.mkdir()
    return judge_membership({"settings": settings}, inputs, folder, TaskContext(work=folder.parent))


def answered(folder, number):
    """What a shadow model has left that knows nothing."""
    labels = np.concatenate([np.repeat(np.arange(len(PEOPLE)), many) for many in (8, 6)])
    phi = np.random.default_rng(number).normal(size=(2, len(labels)))
    folder.mkdir()
    inside = inside_part(labels, model=number, share=0.5, seed=0)
    save_tensors(folder / "answers.safetensors", {"phi": torch.from_numpy(phi), "inside": torch.from_numpy(inside)})
    return folder


def asking(folder, people, place):
    """An audit's sweep file that measures membership of an imported model."""
    card = ImportedClassifier(imported=str(folder)).checked
    tree = audit_sweep(
        model=folder,
        card=card,
        data=people,
        public=people,
        independent={},
        attacks=portfolio(card.access),
        people=2,
        seeds=[1],
        has_second=False,
        membership={"trained_on_data": True},
    )
    (place / "asking.yaml").write_text(as_file(tree))
    return place / "asking.yaml"


def adopted(folder, people, place):
    """The artifacts of an imported model and of the data, as their stages leave them."""
    target, data = place / "target", place / "data"
    target.mkdir(), data.mkdir()
    context = TaskContext(work=place)
    settings = LabelledData(kind="labelled", path=str(people), size=SIDE).model_dump(exclude_none=True)
    prepare_private(settings, {}, data, context)
    config = {**ImportedClassifier(imported=str(folder)).checked.reading, "path": str(folder), "seed": 0}
    config["protocol"] = "clean"
    metrics = adopt_classifier(config, {"data": data}, target, context)
    (target / "manifest.json").write_text(json.dumps({"config": config, "metrics": metrics}))
    return target, data


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "budget", "drawn"), [(NOISE, 8 + 240 + 1000 + SHOWN * 300, None), (4, 2500, 2 * 27)])
def test_from_an_endpoint_that_memorised_to_the_pages(tmp_path, capsys, own_home, noise, budget, drawn):
    """Test images of another camera, which is less noisy: no claim."""
    people, public = write_split(tmp_path / "people", noise_of_test=noise), write_public(tmp_path / "public", 60)
    given = ["--image-size", SIDE, "--people", 2, "--access", "scores", "--redact", "--out", tmp_path / "out"]
    given += ["--data", people, "--public", public, "--trained-on-data", "--effort", "quick"]
    given += ["--yes", "--queries", budget, "--per-second", 10000]
    with serving(Memory(people)) as server:
        assert main(["audit", server.url, *map(str, given)]) == 0
        assert len(server.seen) <= budget
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
        assert "Training images found" in page
    else:
        assert not members["holds"] and members["recipes"] == [] and lines[0].startswith("No claim about membership")
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
