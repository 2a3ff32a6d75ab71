"""`smoothsweep audit --trained-on-data`: what is asked, within which budget, and what is said of it."""

import json
import re

import numpy as np
import pytest
import torch

from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.external.base import Budget
from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import inside_part
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.costs import allowance_of
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
from tests.orchestrator.commands.test_flag_effects import one_round, unwritten  # noqa: F401 - fixtures

MEMBERS, OTHERS = TRAINING * len(PEOPLE), TESTING * len(PEOPLE)
SHOWN = 14
"""Pictures for each image by hand: itself, its mirror image, six shifted copies, six under noise."""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_split(tmp_path_factory.mktemp("split") / "people")


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """Where a user's consent is noted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def audit(owned, model, data, out, *more):
    given = ["--public", str(owned[2]), "--effort", "quick", "--out", str(out)]
    return main(["audit", str(model), "--data", str(data), *given, *map(str, more)])


@pytest.mark.parametrize("asked", [True, False])
def test_what_the_flag_asks_for_is_in_the_sweep_and_nothing_without_it(
    owned,
    imported,
    unwritten,  # noqa: F811
    people,
    tmp_path,
    asked,
):
    """Of the model and of the reference alike; the second embedder's sweep and earlier rounds do not count it."""
    more = ["--trained-on-data"] if asked else []
    assert audit(owned, imported, people, tmp_path / "out", *more) == 0
    sweep = load_sweep(tmp_path / "out" / "audit.yaml").sweep
    assert (sweep.judges.membership is not None) == asked
    if asked:
        assert sweep.judges.built["membership"] == Membership(trained_on_data=True)


@pytest.mark.parametrize(
    ("access", "budget", "drawn", "fits"),
    [
        # 8 to find out what it gives, the test images twice; of scores 1,000 for selection; then 2 or 0 of each image
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS), None, True),
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS) - 1, MEMBERS - 1, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (50 + 50), 50, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20), 20, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20) - 1, None, False),
        ("labels", 8 + 240 + 12 * (MEMBERS + OTHERS), None, True),
        ("labels", 8 + 240 + 12 * (30 + 30) + 23, 30, True),
        ("labels", 8 + 240 + 12 * 40 - 1, None, False),
    ],
)
def test_membership_takes_no_more_than_the_budget_leaves(monkeypatch, people, access, budget, drawn, fits):
    agreed, scores = Budget(queries=budget, per_second=10.0), access != "labels"
    counted = count_labelled(people)
    found = allowance_of(agreed, counted, attacked=len(PEOPLE), access=access, scores=scores, membership=True)
    asked = found.membership
    first = found.fitting(portfolio(access))
    assert found.fixed + found.queries_of(first) <= budget
    if not fits:
        [line] = asked.left_out
        per = SHOWN if access == "scores" else SHOWN - 2
        assert asked.settings is None and asked.queries == 0 and not asked.coming
        assert f"may ask {per * (MEMBERS + OTHERS):,} queries" in line and f"--queries {budget} does not" in line
        return
    assert asked.settings == {"trained_on_data": True, **({"images": drawn} if drawn else {})}
    few = [min(count, drawn or count) for count in (MEMBERS, OTHERS)]
    assert asked.queries == 12 * sum(few) + (2 * (MEMBERS + OTHERS) if access == "scores" else 0)
    assert f"{asked.queries:,} queries at most" in asked.coming[0] and not asked.left_out


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
