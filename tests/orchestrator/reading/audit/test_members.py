"""Membership in an audit: the numbers of its store by a second way, and what is said of them and what is not."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.leak_comparisons import REDUCES
from smoothsweep.orchestrator.page.audit import audit_page, audit_pdf
from smoothsweep.orchestrator.reading.audit import members
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.members import AttackFound, AuditMembership, Membership, read_membership
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences, membership_lines
from smoothsweep.orchestrator.result.membership import LESS, SCORES_ALONE, Leaks
from smoothsweep.sweeps.imported import ImportedClassifier
from tests.orchestrator.reading.audit.test_result import audit  # noqa: F401 - a fixture

PEOPLE, INSIDE, OUTSIDE = 6, 40, 20
OWN, PLAIN, OTHER = "imported model", "plain training", "smoothing -0.8"
GAPS = {OWN: (1.0,), PLAIN: (2.0, 0.5), OTHER: (0.1,)}
"""Recipe -> of each of its trainings, how far scores of members lie above those of others."""


def table(gap, *, seed=1, labels_of=None):
    """scores.parquet of one training. labels_of: how many images of either kind labels are asked of; None: all."""
    draw, count = np.random.default_rng(seed), PEOPLE * (INSIDE + OUTSIDE)
    member = np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PEOPLE)
    margin = draw.normal(gap * member, 1.0)
    views = np.round(3 * draw.uniform(size=count) + member) / 4
    if labels_of is not None:
        for kind in (True, False):
            views[np.flatnonzero(member == kind)[labels_of:]] = np.nan
    return pd.DataFrame(
        {
            "class": np.repeat(np.arange(PEOPLE), INSIDE + OUTSIDE),
            "member": member,
            "margin": margin,
            "loss": margin + draw.normal(0, 2.0, count),
            "label_views": views,
        }
    )


class Store:
    """Artifacts by the fingerprint of their stage."""

    def __init__(self, root, tables, **facts):
        self._root, self._facts = root, {"membership_shift": 0.5, "membership_copies": 0.0, **facts}
        for name, frame in tables.items():
            (root / name).mkdir()
            frame.to_parquet(root / name / "scores.parquet")

    def has(self, stage):
        return (self._root / stage.fingerprint).is_dir()

    def needed_file(self, stage, name):
        return self._root / stage.fingerprint / name

    def metrics(self, stage):
        return self._facts


@pytest.fixture
def reading(tmp_path, monkeypatch):
    """Reads what two attacks on each training of three recipes have left: the same artifact for both."""
    fakes = {
        "as_inversion": lambda settings: settings,
        "inversion_stages": lambda settings, seed: settings.stages[seed],
        "recipe_label": lambda axes, cell: cell,
        "two_leaks": lambda data, summary: summary,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(members, name, fake)

    def read(access="gradients", labels_of=None, imported=True, leaks=None, **facts):
        tables, trials = {}, []
        for place, (recipe, gaps) in enumerate(GAPS.items()):
            for seed, gap in enumerate(gaps):
                key = f"{place}-{seed}"
                tables[key] = table(gap, seed=10 * place + seed, labels_of=labels_of)
                stage = SimpleNamespace(fingerprint=key)
                settings = SimpleNamespace(
                    recipe=ImportedClassifier.model_construct(imported="m") if recipe == OWN and imported else None,
                    stages={seed: SimpleNamespace(judges={"judge_membership": stage})},
                )
                cell = SimpleNamespace(axes=recipe, is_baseline=recipe == PLAIN)
                trials += [SimpleNamespace(settings=settings, seed=seed, cell=cell)] * 2
        root = tmp_path / f"{access}-{labels_of}-{imported}"
        root.mkdir()
        trials += [
            trial_of(OWN),
            trial_of("adversarial training"),
            trial_of(OTHER, SimpleNamespace(fingerprint="gone")),
        ]
        trials.reverse()  # the model is not the first
        return read_membership(trials, Store(root, tables, **facts), SimpleNamespace(axes=()), leaks, access), tables

    return read


def trial_of(recipe, stage=None, seed=7):
    """A trial of which membership was not measured, or not yet."""
    judges = {} if stage is None else {"judge_membership": stage}
    settings = SimpleNamespace(recipe=None, stages={seed: SimpleNamespace(judges=judges)})
    return SimpleNamespace(settings=settings, seed=seed, cell=SimpleNamespace(axes=recipe, is_baseline=False))


def pairwise(frame, attack):
    """The AUC by counting pairs."""
    known = frame[frame[attack].notna()]
    inner, outer = (known.loc[known["member"] == kind, attack].to_numpy() for kind in (True, False))
    return (inner[:, None] > outer).mean() + (inner[:, None] == outer).mean() / 2


def test_numbers_are_those_of_the_store_and_means_over_trainings(reading):
    found, tables = reading()
    assert found.recipes[0].recipe == OWN and found.model.role == "model"
    assert {one.recipe: one.trainings for one in found.recipes} == {OWN: 1, PLAIN: 2, OTHER: 1}
    assert [(one.recipe, one.role) for one in found.beside] == [(OTHER, "fix"), (PLAIN, "reference")]
    assert found.reference is found.beside[1] and {one.word for one in found.recipes} == {""}
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
    less, none = SimpleNamespace(word=REDUCES), SimpleNamespace(word="no difference")
    rows = [
        Leaks(recipe=PLAIN, inversion=None, cells={}),
        Leaks(recipe=OTHER, inversion=None, cells={}, scores=less, labels=none),
        Leaks(recipe=OWN, inversion=None, cells={}, scores=less, labels=less),
    ]
    found, _ = reading(leaks=SimpleNamespace(baseline=PLAIN, rows=rows))
    assert [(one.recipe, one.word) for one in found.recipes] == [(OWN, LESS), (OTHER, SCORES_ALONE), (PLAIN, "")]


def test_who_sees_labels_alone_gets_nothing_of_scores(reading):
    found, _ = reading("labels", labels_of=30)
    assert [one.attack for one in found.model.told] == ["label_views"] and found.drawn == 60
    assert found.beforehand is found.strongest and found.strongest.found is None
    said = " ".join(membership_lines(found))
    assert "from this model's labels" in said and "Labels were asked of 60 images" in said
    assert "threshold" not in said
    assert "distinguishes 30 training images from 30 test images" in said.replace("\u00a0", " "), (
        "those it was tried on"
    )
    assert f"drawn from {PEOPLE * INSIDE} training images and {PEOPLE * OUTSIDE} test" in said.replace("\u00a0", " ")
    assert "So few test images (30)" in said


def test_scores_are_of_all_images_where_labels_are_of_some(reading):
    found, _ = reading(labels_of=30)
    assert found.strongest.access == "scores" and found.tried_on(found.strongest) == (PEOPLE * INSIDE, PEOPLE * OUTSIDE)
    assert found.tried_on(found.model.by_labels) == (30, 30) and found.drawn == 60


def test_no_claim_is_made_of_a_model_that_was_not_measured(reading):
    assert reading(imported=False)[0] is None


def told(attack, auc, low, found=0.2):
    return AttackFound(
        attack=attack, access="labels" if "label" in attack else "scores", auc=auc, low=low, high=0.9, found=found
    )


def one_found(shift=0.5, best=("margin", 0.8, 0.7), others=120, word="", trainings=1, **changes):
    rest = told("label_views", 0.6, 0.5)
    plain = Membership(recipe=PLAIN, role="reference", told=(told(best[0], 0.75, 0.6), rest), trainings=trainings)
    given = {"shift": shift, "members": 240, "others": others, "copies": 0, "drawn": None, "drawn_members": None}
    model = Membership(
        recipe=OWN, role="model", told=(told(*best), told("margin", 0.5, 0.4), rest), trainings=1, word=word
    )
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
    lines = " ".join(membership_lines(one_found(**changes))).replace("\u00a0", " ")
    assert [part for part in said if part not in lines] == [] and [part for part in unsaid if part in lines] == []


@pytest.mark.parametrize("shift", [0.5, 0.9])
def test_page_pdf_and_json_say_the_same_and_show_numbers_only_with_a_claim(audit, shift):  # noqa: F811
    given = {"name": "m", "facts": {}, "anonymous": False, "portraits": []}
    with_it = replace(audit, membership=one_found(shift))
    page, found = audit_page(with_it, **given), json.loads(json.dumps(audit_json(with_it, {"name": "m"})))
    lines = audit_sentences(with_it)["membership"]
    assert all(line.replace("'", "&#39;") in page for line in lines) and list(lines) == found["said"]["membership"]
    claims = shift == 0.5
    assert found["membership"]["holds"] == claims and ("Training images found" in page) == claims
    attacks = found["membership"]["attacks"]
    assert [one["attack"] for one in attacks] == (["margin", "margin", "label_views"] if claims else [])
    assert [one["role"] for one in found["membership"]["beside"]] == (["reference"] if claims else [])
    assert audit_pdf(with_it, **given).count(b"/Type /Page\n") == 2
    assert page.count(lines[0].replace("'", "&#39;")) == (1 if claims else 2)


def test_of_an_audit_that_was_not_asked_nothing_is_said_and_what_did_not_fit_is(audit):  # noqa: F811
    given = {"name": "m", "facts": {}, "anonymous": False, "portraits": []}
    assert audit_json(audit, {})["membership"] is None and audit_sentences(audit)["membership"] == ()
    assert 'id="membership"' not in audit_page(audit, **given)
    left = replace(audit, unmeasured=("Not measured: membership, which may ask 7 queries.",))
    assert audit_json(left, {})["membership"] is None
    assert (
        "Not measured: membership" in audit_page(left, **given)
        and left.unmeasured == audit_sentences(left)["membership"]
    )
