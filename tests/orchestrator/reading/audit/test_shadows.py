"""Membership by shadow models on an audit's pages: numbers by a second way, and what is said beside thresholds."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.membership.measuring import WithinPersons
from smoothsweep.orchestrator.page.audit import audit_page, audit_pdf
from smoothsweep.orchestrator.reading.audit import shadows
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences
from smoothsweep.orchestrator.reading.audit.shadows import ByShadows, read_shadows
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.training import Recipe
from tests.orchestrator.reading.audit.test_members import one_found
from tests.orchestrator.reading.audit.test_result import audit  # noqa: F401 - a fixture

PERSONS, INSIDE, OUTSIDE = 5, 30, 25
GAPS = {"margin": 0.5, "loss": 0.6, "rmia": 1.0, "lira": 1.4, "label_views": 9.0}


def scores(seed, more=0.0):
    """scores.parquet of a model; labels tell most, and are not of scores."""
    draw, member = np.random.default_rng(seed), np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PERSONS)
    person = np.repeat(np.arange(PERSONS), INSIDE + OUTSIDE)
    found = {name: draw.normal((gap + more) * member, 1.0) + 3 * person for name, gap in GAPS.items()}
    return pd.DataFrame({"class": person, "member": member, **found})


class Store:
    """Artifacts by the name of their stage."""

    def __init__(self, root, tables):
        self._root = root
        for name, frame in tables.items():
            (root / name).mkdir()
            frame.to_parquet(root / name / "scores.parquet")

    def has(self, stage):
        return stage.name == "shadow" or (self._root / stage.fingerprint).is_dir()

    def needed_file(self, stage, name):
        return self._root / stage.fingerprint / name

    def manifest(self, stage):
        return {"seconds": 2.5}


@pytest.fixture
def reading(tmp_path, monkeypatch):
    """Reads what attacks on the model, and on the reference, have left."""
    monkeypatch.setattr(shadows, "as_inversion", lambda settings: settings)
    monkeypatch.setattr(shadows, "inversion_stages", lambda settings, seed: settings.stages)

    def trial(key, recipe):
        made = {f"shadow_{at:04d}": SimpleNamespace(name="shadow", config={"epochs": 9}) for at in range(8)}
        target = SimpleNamespace(name="target")
        stage = SimpleNamespace(name="judge_membership", fingerprint=key, inputs={"target": target, **made})
        stages = SimpleNamespace(judges={"judge_membership": stage})
        judges = SimpleNamespace(settings={"membership": SimpleNamespace(shadow_recipe=PLAIN)})
        return SimpleNamespace(settings=SimpleNamespace(recipe=recipe, stages=stages, judges=judges), seed=1)

    def read(*made):
        own = trial("own", ImportedClassifier.model_construct(imported="m"))
        plain = trial("plain", SimpleNamespace(architecture="resnet18"))
        tables = {"own": scores(1), "plain": scores(2, more=1.0)}
        return read_shadows([own, plain], Store(tmp_path, {key: tables[key] for key in made})), tables

    return read


PLAIN = Recipe(architecture="resnet18", defense={"kind": "label_smoothing", "alpha": 0.0})


def by_pairs(frame, attack):
    """AUC among each person's images, by counting pairs."""
    found = []
    for _, mine in frame.groupby("class"):
        inner, outer = (mine.loc[mine["member"] == kind, attack].to_numpy() for kind in (True, False))
        found.append((inner[:, None] > outer).mean())
    return found


def test_numbers_are_means_over_persons_of_what_sees_scores(reading):
    found, tables = reading("own", "plain")
    assert (found.count, found.recipe, found.architecture, found.epochs) == (8, "plain training", "resnet18", 9)
    assert found.persons == PERSONS and found.seconds == 8 * 2.5
    assert {one.attack for one in found.told} == set(GAPS) - {"label_views"}
    for told, table in ((found.told, tables["own"]), (found.reference, tables["plain"])):
        assert [one.auc for one in told] == sorted((one.auc for one in told), reverse=True)
        for one in told:
            persons = by_pairs(table, one.attack)
            half = 2.776 * np.std(persons, ddof=1) / np.sqrt(PERSONS)  # Student's t of four degrees of freedom
            assert one.auc == pytest.approx(np.mean(persons))
            assert (one.low, one.high) == pytest.approx((one.auc - half, min(1.0, one.auc + half)), abs=1e-3), (
                "over persons"
            )
    mine = tables["own"]
    threshold = np.sort(mine.loc[~mine["member"], "lira"])[-1 - int(0.01 * PERSONS * OUTSIDE)]
    lira = next(one for one in found.told if one.attack == "lira")
    assert lira.found == {"fpr1": (mine.loc[mine["member"], "lira"] > threshold).mean(), "fpr01": None}
    assert found.strongest is lira and found.beforehand.attack == "rmia" and found.threshold.attack == "loss"
    assert found.of_reference("lira") in found.reference and found.of_reference("bavaria_t") is None


@pytest.mark.parametrize("made", [("own",), ("plain",), ()])
def test_of_a_model_that_was_not_attacked_there_is_nothing(reading, made):
    found, _ = reading(*made)
    assert (found is not None) == ("own" in made) and (found is None or found.reference == ())


def within(attack, auc, found=None, low=0.6):
    return WithinPersons(attack=attack, auc=auc, low=low, high=0.95, found={"fpr1": found, "fpr01": None})


def made(*, best="rmia", found=0.12, reference=True, **changes):
    told = (within(best, 0.8, found), within("loss", 0.7, found), within("rmia", 0.65, found))
    given = {"count": 8, "recipe": "plain training", "architecture": "resnet18", "epochs": 40, "persons": 20}
    given |= {"told": told, "reference": (within(best, 0.85),) if reference else (), "seconds": 95.0}
    return ByShadows(**given | changes)


@pytest.mark.parametrize("shift", [0.5, 0.9])
def test_page_pdf_and_json_show_them_only_where_a_claim_is_made(audit, shift):  # noqa: F811
    given = {"name": "m", "facts": {}, "anonymous": False, "portraits": []}
    with_it = replace(audit, membership=replace(one_found(shift), shadows=made()))
    page, found = audit_page(with_it, **given), json.loads(json.dumps(audit_json(with_it, {"name": "m"})))
    lines, claims = audit_sentences(with_it)["membership"], shift == 0.5
    assert any("By shadow models" in line for line in lines) == claims == ("AUC within people" in page)
    assert not any("No shadow model" in line for line in lines)
    assert audit_pdf(with_it, **given).count(b"/Type /Page\n") == 2
    shown = found["membership"]["shadow_models"]
    if not claims:
        assert shown is None
        return
    assert all(line.replace("'", "&#39;") in page for line in lines)
    assert (shown["count"], shown["device_seconds"], shown["chosen_beforehand"]) == (8, 95.0, "rmia")
    assert [(one["attack"], one["shadow_models"]) for one in shown["attacks"]] == [
        ("rmia", True),
        ("loss", False),
        ("rmia", True),
    ]
    assert shown["attacks"][0]["found_at_1_percent"] == 0.12 and shown["attacks"][0]["found_at_0_1_percent"] is None
    assert shown["reference"][0]["auc_within"] == 0.85 and shown["attacks"][0]["auc_within"] == 0.8
