"""Membership in an audit: the numbers of its store by a second way, and what is said of them and what is not."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.membership.measuring import WithinPersons
from smoothsweep.orchestrator.commands.audit.pages import audit_page, audit_pdf
from smoothsweep.orchestrator.result import audit_membership
from smoothsweep.orchestrator.result.audit import audit_sentences
from smoothsweep.orchestrator.result.audit_membership import (
    AttackFound,
    AuditMembership,
    ByShadows,
    Membership,
    read_membership,
    read_shadows,
    verdict_words,
)
from smoothsweep.orchestrator.result.standing import LESS, SCORES_ALONE
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.training import Recipe
from tests.orchestrator.result.test_audit import GIVEN, audit  # noqa: F401 - a fixture

PEOPLE, INSIDE, OUTSIDE = 6, 40, 20
OWN, PLAIN, OTHER = "imported model", "plain training", "smoothing -0.8"
GAPS = {OWN: (1.0,), PLAIN: (2.0, 0.5), OTHER: (0.1,)}
"""Recipe -> of each of its trainings, how far scores of members lie above those of others."""
SHADOWED = {"margin": 0.5, "loss": 0.6, "rmia": 1.0, "lira": 1.4, "label_views": 9.0}
"""Of the attacks with shadow models beside them; labels tell most, and are not of scores."""
REFERENCE = Recipe(architecture="resnet18", defense={"kind": "label_smoothing", "alpha": 0.0})


def table(gap, *, seed=1, labels_of=None):
    """scores.parquet of one training. labels_of: how many images of either kind labels are asked of; None: all."""
    draw, count = np.random.default_rng(seed), PEOPLE * (INSIDE + OUTSIDE)
    member = np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PEOPLE)
    margin = draw.normal(gap * member, 1.0)
    views = np.round(3 * draw.uniform(size=count) + member) / 4
    if labels_of is not None:
        for kind in (True, False):
            views[np.flatnonzero(member == kind)[labels_of:]] = np.nan
    scores = {"margin": margin, "loss": margin + draw.normal(0, 2.0, count), "label_views": views}
    return pd.DataFrame({"class": np.repeat(np.arange(PEOPLE), INSIDE + OUTSIDE), "member": member, **scores})


def shadowed_table(seed, more=0.0):
    draw, frame = np.random.default_rng(seed), table(0.0)
    for name, gap in SHADOWED.items():
        frame[name] = draw.normal((gap + more) * frame["member"], 1.0) + 3 * frame["class"]
    return frame


class Store:
    """Artifacts by the fingerprint of their stage."""

    def __init__(self, root, tables, **facts):
        self._root, self._facts = root, {"membership_shift": 0.5, "membership_copies": 0.0, **facts}
        for name, frame in tables.items():
            (root / name).mkdir()
            frame.to_parquet(root / name / "scores.parquet")

    def has(self, stage):
        return stage.name == "shadow" or (self._root / stage.fingerprint).is_dir()

    def needed_file(self, stage, name):
        return self._root / stage.fingerprint / name

    def metrics(self, stage):
        return self._facts

    def manifest(self, stage):
        return {"seconds": 2.5}


def trial_of(recipe, key=None, seed=7, imported=True):
    """A trial; without a key membership was not measured."""
    shadows = {f"shadow_{at:04d}": SimpleNamespace(name="shadow", config={"epochs": 9}) for at in range(8)}
    inputs = {"target": SimpleNamespace(name="target"), **shadows}
    stage = SimpleNamespace(name="judge_membership", fingerprint=key, inputs=inputs)
    settings = SimpleNamespace(
        recipe=ImportedClassifier.model_construct(imported="m") if recipe == OWN and imported else None,
        stages={seed: SimpleNamespace(judges={} if key is None else {"judge_membership": stage})},
        judges=SimpleNamespace(settings={"membership": SimpleNamespace(shadow_recipe=REFERENCE)}),
    )
    cell = SimpleNamespace(axes=recipe, is_baseline=recipe == PLAIN)
    return SimpleNamespace(settings=settings, seed=seed, cell=cell)


@pytest.fixture
def faked(monkeypatch):
    """Settings that are their own stages."""
    fakes = {
        "as_inversion": lambda settings: settings,
        "inversion_stages": lambda settings, seed: settings.stages[seed],
        "membership_frame": lambda data, summary: summary,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(audit_membership, name, fake)


@pytest.fixture
def reading(tmp_path, faked):
    """Reads what two attacks on each training of three recipes have left: the same artifact for both."""

    def read(access="gradients", labels_of=None, imported=True, leaks=None):
        tables, trials = {}, [trial_of(OWN), trial_of("adversarial training"), trial_of(OTHER, "gone")]
        for place, (recipe, gaps) in enumerate(GAPS.items()):
            for seed, gap in enumerate(gaps):
                tables[f"{place}-{seed}"] = table(gap, seed=10 * place + seed, labels_of=labels_of)
                trials += [trial_of(recipe, f"{place}-{seed}", seed, imported)] * 2
        trials.reverse()  # the model is not the first
        named, words = [(trial.cell.axes, trial) for trial in trials], verdict_words(None, leaks, access)
        return read_membership(named, Store(tmp_path, tables), access, words), tables

    return read


def pairwise(frame, attack):
    """The AUC by counting pairs."""
    known = frame[frame[attack].notna()]
    inner, outer = (known.loc[known["member"] == kind, attack].to_numpy() for kind in (True, False))
    return (inner[:, None] > outer).mean() + (inner[:, None] == outer).mean() / 2


def test_numbers_are_those_of_the_store_and_means_over_trainings(reading):
    found, tables = reading()
    trainings = {one.recipe: (one.role, one.trainings) for one in found.recipes}
    assert [*trainings.items()] == [(OWN, ("model", 1)), (OTHER, ("fix", 1)), (PLAIN, ("reference", 2))]
    assert found.reference is found.recipes[2] and {one.word for one in found.recipes} == {""}
    assert [one.by("label_distance") for one in found.recipes] == [None] * 3 and found.copies == 0
    assert (found.members, found.others, found.drawn) == (PEOPLE * INSIDE, PEOPLE * OUTSIDE, None)
    for one, keys in ((found.model, ["0-0"]), (found.reference, ["1-0", "1-1"])):
        for told in one.told:
            expected = np.mean([pairwise(tables[key], told.attack) for key in keys])
            assert told.auc == pytest.approx(expected) and told.low < expected < told.high
    assert found.strongest.attack == max(("margin", "loss", "label_views"), key=lambda n: pairwise(tables["0-0"], n))
    frame = tables["0-0"]
    allowed = np.sort(frame.loc[~frame["member"], "margin"])[-1 - int(0.01 * PEOPLE * OUTSIDE)]
    assert found.model.by("margin").found == (frame.loc[frame["member"], "margin"] > allowed).mean()


def test_every_recipe_gets_its_own_word(reading):
    words = {PLAIN: "baseline", OTHER: SCORES_ALONE, OWN: LESS}
    found, _ = reading(leaks=pd.DataFrame({"recipe": words.keys(), "word": words.values(), "less_by_labels": np.nan}))
    assert [(one.recipe, one.word) for one in found.recipes] == [(OWN, LESS), (OTHER, SCORES_ALONE), (PLAIN, "")]


def test_of_a_model_that_was_not_measured_there_is_nothing(reading):
    assert reading(imported=False)[0] is None


def test_who_sees_labels_alone_gets_nothing_of_scores(reading):
    found, _ = reading("labels", labels_of=30)
    assert [one.attack for one in found.model.told] == ["label_views"] and found.drawn == 60
    assert found.beforehand is found.strongest and found.strongest.found is None
    said = " ".join(found.lines).replace("\u00a0", " ")
    assert "from this model's labels" in said and "Labels were asked of 60 images" in said and "threshold" not in said
    assert "distinguishes 30 training images from 30 test images" in said, "those it was tried on"
    assert f"drawn from {PEOPLE * INSIDE} training images and {PEOPLE * OUTSIDE} test" in said
    assert "So few test images (30)" in said


def test_scores_are_of_all_images_where_labels_are_of_some(reading):
    found, _ = reading(labels_of=30)
    assert found.strongest.access == "scores" and found.tried_on(found.strongest) == (PEOPLE * INSIDE, PEOPLE * OUTSIDE)
    assert found.tried_on(found.model.by_labels) == (30, 30) and found.drawn == 60


def told(attack, auc, low, found=0.2):
    access = "labels" if "label" in attack else "scores"
    return AttackFound(attack=attack, access=access, auc=auc, low=low, high=0.9, found=found)


def one_found(shift=0.5, best=("margin", 0.8, 0.7), others=120, word="", trainings=1, **changes):
    rest = told("label_views", 0.6, 0.5)
    plain = Membership(recipe=PLAIN, role="reference", told=(told(best[0], 0.75, 0.6), rest), trainings=trainings)
    given = {"shift": shift, "members": 240, "others": others, "copies": 0, "drawn": None, "drawn_members": None}
    attacks = (told(*best), told("margin", 0.5, 0.4), rest)
    model = Membership(recipe=OWN, role="model", told=attacks, trainings=1, word=word)
    return AuditMembership(**given | changes, recipes=(model, plain))


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({}, ("AUC of 0.80 [0.70, 0.90]", "is better than chance", "finds 20.0", "labels alone"), ("picked", "copies")),
        ({"best": ("loss", 0.55, 0.45)}, ("not shown to be better", "picked", "reaches 0.50 [0.40, 0.90]"), ()),
        ({"best": ("margin", 0.8, 0.7, None), "others": 60}, ("60) show no false positive rate",), ("finds",)),
        ({"copies": 1}, ("1 test image is a copy of training images",), ()),
        ({"copies": 3}, ("3 test images are copies",), ()),
        ({}, ("inconclusive with 1 training of the reference",), ("this model leaks",)),
        ({"word": LESS, "trainings": 3}, ("Beside the reference this model leaks less: both",), ("inconclusive",)),
        ({"word": SCORES_ALONE, "trainings": 3}, ("this model lowers scores alone: attacks that see",), ()),
        ({"word": LESS}, ("inconclusive with 1 training",), ("this model leaks less",)),
        ({"shift": 0.9}, ("No claim about membership is made", "AUC 0.90"), ("% false", "reference", "0.80")),
    ],
)
def test_what_is_said_and_what_is_not(changes, said, unsaid):
    lines = " ".join(one_found(**changes).lines).replace("\u00a0", " ")
    assert [part for part in said if part not in lines] == [] and [part for part in unsaid if part in lines] == []


# By shadow models


def test_numbers_by_shadow_models_are_means_over_persons_of_what_sees_scores(tmp_path, faked):
    tables = {"own": shadowed_table(1), "plain": shadowed_table(2, more=1.0)}
    found = read_shadows([trial_of(OWN, "own"), trial_of(PLAIN, "plain")], Store(tmp_path, tables))
    assert (found.count, found.recipe, found.architecture, found.epochs) == (8, "plain training", "resnet18", 9)
    assert found.persons == PEOPLE and found.seconds == 8 * 2.5
    assert {one.attack for one in found.told} == set(SHADOWED) - {"label_views"}
    for results, frame in ((found.told, tables["own"]), (found.reference, tables["plain"])):
        assert [one.auc for one in results] == sorted((one.auc for one in results), reverse=True)
        for one in results:
            persons = [pairwise(mine, one.attack) for _, mine in frame.groupby("class")]
            half = 2.571 * np.std(persons, ddof=1) / np.sqrt(PEOPLE)  # Student's t of five degrees of freedom
            assert one.auc == pytest.approx(np.mean(persons))
            ends = one.auc - half, min(1.0, one.auc + half)
            assert (one.low, one.high) == pytest.approx(ends, abs=1e-3), "over persons"
    mine = tables["own"]
    threshold = np.sort(mine.loc[~mine["member"], "lira"])[-1 - int(0.01 * PEOPLE * OUTSIDE)]
    lira = next(one for one in found.told if one.attack == "lira")
    assert lira.found == {"fpr1": (mine.loc[mine["member"], "lira"] > threshold).mean(), "fpr01": None}
    assert found.strongest is lira and found.beforehand.attack == "rmia" and found.threshold.attack == "loss"
    assert found.of_reference("lira") in found.reference and found.of_reference("bavaria_t") is None


@pytest.mark.parametrize("made", [("own",), ("plain",), ()])
def test_of_a_model_that_shadow_models_did_not_attack_there_is_nothing(tmp_path, faked, made):
    store = Store(tmp_path, {key: shadowed_table(1) for key in made})
    found = read_shadows([trial_of(OWN, "own"), trial_of(PLAIN, "plain")], store)
    assert (found is not None) == ("own" in made) and (found is None or found.reference == ())


def within(attack, auc, found=0.12):
    return WithinPersons(attack=attack, auc=auc, low=0.6, high=0.95, found={"fpr1": found, "fpr01": None})


BY_SHADOWS = ByShadows(
    **{"count": 8, "recipe": PLAIN, "architecture": "resnet18", "epochs": 40, "persons": 20, "seconds": 95.0},
    told=(within("rmia", 0.8), within("loss", 0.7), within("rmia", 0.65)),
    reference=(within("rmia", 0.85),),
)


@pytest.mark.parametrize("shadows", [None, BY_SHADOWS])
@pytest.mark.parametrize("shift", [0.5, 0.9])
def test_page_pdf_and_json_say_the_same_and_show_numbers_only_with_a_claim(audit, shift, shadows):  # noqa: F811
    with_it = replace(audit, membership=replace(one_found(shift), shadowed=shadows))
    page, lines = audit_page(with_it, **GIVEN), audit_sentences(with_it)["membership"]
    found = json.loads(json.dumps(with_it.dump(), allow_nan=False))
    members, claims = found["membership"], shift == 0.5
    assert all(line.replace("'", "&#39;") in page for line in lines) and list(lines) == found["said"]["membership"]
    assert members["holds"] == claims and ("Training images found" in page) == claims
    assert [one["role"] for one in members["recipes"]] == (["model", "reference"] if claims else [])
    if claims:
        assert [one["attack"] for one in members["recipes"][0]["told"]] == ["margin", "margin", "label_views"]
    assert audit_pdf(with_it, **GIVEN).count(b"/Type /Page\n") == 2
    assert page.count(lines[0].replace("'", "&#39;")) == (1 if claims else 2)
    shown = claims and shadows is not None
    assert any("By shadow models" in line for line in lines) == shown == ("AUC within people" in page)
    assert any("No shadow model" in line for line in lines) == (claims and shadows is None)
    assert (members["shadowed"] is not None) == shown
    if shown:
        kept = members["shadowed"]
        assert (kept["count"], kept["seconds"], kept["reference"][0]["auc"]) == (8, 95.0, 0.85)
        assert kept["told"][0]["found"] == {"fpr1": 0.12, "fpr01": None} and kept["told"][0]["auc"] == 0.8


def test_of_an_audit_that_was_not_asked_nothing_is_said_and_what_did_not_fit_is(audit):  # noqa: F811
    assert audit.dump()["membership"] is None and audit_sentences(audit)["membership"] == ()
    assert 'id="membership"' not in audit_page(audit, **GIVEN)
    left = replace(audit, unmeasured=("Not measured: membership, which may ask 7 queries.",))
    assert left.dump()["membership"] is None and left.unmeasured == audit_sentences(left)["membership"]
    assert "Not measured: membership" in audit_page(left, **GIVEN)
