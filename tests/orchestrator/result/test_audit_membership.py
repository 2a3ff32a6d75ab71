"""Membership in an audit: numbers of the scores that a judge left, what is said of them, and pages that agree."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.membership.measuring import Measured, WithinPersons, measure_within_persons
from smoothsweep.orchestrator.commands.audit.pages import attacks_found, audit_page, audit_pdf
from smoothsweep.orchestrator.result.audit import AttackFound, MembershipAudit, membership_words
from smoothsweep.orchestrator.result.standing import LESS, MORE, SCORES_ALONE, UNCLEAR
from smoothsweep.orchestrator.result.summary import summarise
from tests.orchestrator.result import test_standing
from tests.orchestrator.result.test_audit import GIVEN, audit  # noqa: F401 - a fixture

PEOPLE, INSIDE, OUTSIDE = 6, 40, 20
OWN, PLAIN = "imported model", "plain training"


def scores(folder, gap, *, seed=1, labels_of=None):
    """The scores that a judge left of one training, and its file.

    gap: how far scores of members lie above those of others. labels_of: how many images of either kind labels are
    asked of; None: all.
    """
    draw, count = np.random.default_rng(seed), PEOPLE * (INSIDE + OUTSIDE)
    member = np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PEOPLE)
    margin = draw.normal(gap * member, 1.0)
    views = np.round(3 * draw.uniform(size=count) + member) / 4
    if labels_of is not None:
        for kind in (True, False):
            views[np.flatnonzero(member == kind)[labels_of:]] = np.nan
    told = {"margin": margin, "loss": margin + draw.normal(0, 2.0, count), "label_views": views}
    frame = pd.DataFrame({"class": np.repeat(np.arange(PEOPLE), INSIDE + OUTSIDE), "member": member, **told})
    frame.to_parquet(folder / f"{seed}.parquet")
    return frame, folder / f"{seed}.parquet"


def pairwise(frame, attack):
    """The AUC by counting pairs."""
    known = frame[frame[attack].notna()]
    inner, outer = (known.loc[known["member"] == kind, attack].to_numpy() for kind in (True, False))
    return (inner[:, None] > outer).mean() + (inner[:, None] == outer).mean() / 2


@pytest.mark.parametrize("trainings", [1, 2])
def test_numbers_are_those_of_the_scores_and_means_over_trainings(tmp_path, trainings):
    made = [scores(tmp_path, gap, seed=seed) for seed, gap in enumerate((1.0, 0.5)[:trainings])]
    found = attacks_found(tuple(file for _, file in made), "gradients")
    expected = {one.attack: np.mean([pairwise(frame, one.attack) for frame, _ in made]) for one in found}
    assert [one.attack for one in found] == sorted(expected, key=lambda name: -expected[name]) and len(found) == 3
    for one in found:
        assert one.auc == pytest.approx(expected[one.attack]) and one.low < one.auc < one.high
    rates = []
    for frame, _ in made:
        allowed = np.sort(frame.loc[~frame["member"], "margin"])[-1 - int(0.01 * PEOPLE * OUTSIDE)]
        rates.append((frame.loc[frame["member"], "margin"] > allowed).mean())
    assert next(one.found for one in found if one.attack == "margin") == pytest.approx(np.mean(rates))


def test_who_sees_labels_alone_gets_nothing_of_scores_and_images_that_were_not_asked_do_not_count(tmp_path):
    frame, file = scores(tmp_path, 1.0, labels_of=30)
    [by_labels] = attacks_found((file,), "labels")
    assert by_labels.attack == "label_views" and by_labels.auc == pytest.approx(pairwise(frame, "label_views"))
    assert by_labels.found is None, "30 test images show no rate of 1 %"
    assert attacks_found((file,), "scores")[0].access == "scores"


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("gradients", {"0.1": MORE, "-0.2": SCORES_ALONE, "-0.8": LESS, "-0.05": UNCLEAR}),
        ("labels", {"0.1": UNCLEAR, "-0.2": UNCLEAR, "-0.8": LESS, "-0.05": UNCLEAR}),
    ],
)
def test_the_word_of_a_recipe_is_of_what_the_attacker_sees(access, words):
    given = test_standing.membership()
    found = membership_words(given, summarise(given), access)
    assert {name.split("\u00a0")[-1].replace("\u2212", "-"): word for name, word in found.items() if word} == words


def test_numbers_by_shadow_models_are_means_over_persons_of_what_sees_scores():
    draw, classes = np.random.default_rng(1), np.repeat(np.arange(PEOPLE), INSIDE + OUTSIDE)
    member, gaps = np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PEOPLE), {"lira": 1.4, "loss": 0.6, "label_views": 9.0}
    made = {name: draw.normal(gap * member, 1.0) + 3 * classes for name, gap in gaps.items()}
    found, persons = measure_within_persons(Measured(scores=made, member=member, labels=classes))
    assert persons == PEOPLE and [(one.attack, one.has_shadows) for one in found] == [("lira", True), ("loss", False)]
    frame = pd.DataFrame({"class": classes, "member": member, **made})
    for one in found:
        each = [pairwise(mine, one.attack) for _, mine in frame.groupby("class")]
        half = 2.571 * np.std(each, ddof=1) / np.sqrt(PEOPLE)  # Student's t of five degrees of freedom
        ends = one.auc - half, min(1.0, one.auc + half)
        assert one.auc == pytest.approx(np.mean(each)) and (one.low, one.high) == pytest.approx(ends, abs=1e-3)
    threshold = np.sort(made["lira"][~member])[-1 - int(0.01 * PEOPLE * OUTSIDE)]
    assert found[0].found == {"fpr1": (made["lira"][member] > threshold).mean(), "fpr01": None}


def told(attack, auc, low, found=0.2):
    access = "labels" if "label" in attack else "scores"
    return AttackFound(attack=attack, access=access, auc=auc, low=low, high=0.9, found=found)


def one_found(shift=0.5, best=("margin", 0.8, 0.7), word="", trainings=1, **changes):
    rest = told("label_views", 0.6, 0.5)
    against = (told(best[0], 0.75, 0.6), rest)
    plain = {"recipe": PLAIN, "role": "reference", "told": against, "trainings": trainings, "word": ""}
    given = {"shift": shift, "members": 240, "others": 120, "copies": 0, "drawn": None, "drawn_members": None}
    attacks = (told(*best), told("margin", 0.5, 0.4), rest)
    model = {"recipe": OWN, "role": "model", "told": attacks, "trainings": 1, "word": word}
    return MembershipAudit(access="scores", **given | changes, recipes=(model, plain))


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({}, ("AUC of 0.80 [0.70, 0.90]", "is better than chance", "finds 20.0", "labels alone"), ("picked", "copies")),
        ({"best": ("loss", 0.55, 0.45)}, ("not shown to be better", "picked", "reaches 0.50 [0.40, 0.90]"), ()),
        ({"best": ("margin", 0.8, 0.7, None), "others": 60}, ("60) show no false positive rate",), ("finds",)),
        ({"copies": 1}, ("1 test image is a copy of training images",), ()),
        ({"copies": 3}, ("3 test images are copies",), ()),
        ({"drawn": 60, "drawn_members": 30}, ("240 training images from 120 test", "asked of 60 images"), ()),
        (
            {"drawn": 60, "drawn_members": 30, "best": ("label_views", 0.8, 0.7)},
            ("from this model's labels", "30 training images from 30 test", "drawn from 240 training images and 120"),
            ("By labels alone",),
        ),
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


def within(attack, auc, found=0.12):
    return WithinPersons(attack=attack, auc=auc, low=0.6, high=0.95, found={"fpr1": found, "fpr01": None})


BY_SHADOWS = {
    **{"count": 8, "recipe": PLAIN, "architecture": "resnet18", "epochs": 40, "persons": 20, "seconds": 95.0},
    "told": (within("lira", 0.8), within("loss", 0.7), within("rmia", 0.65)),
    "reference": (within("lira", 0.85),),
}


@pytest.mark.parametrize("shadows", [None, BY_SHADOWS])
@pytest.mark.parametrize("shift", [0.5, 0.9])
def test_page_pdf_and_json_say_the_same_and_show_numbers_only_with_a_claim(audit, shift, shadows):  # noqa: F811
    with_it = replace(audit, membership=replace(one_found(shift), shadowed=shadows))
    page, lines = audit_page(with_it, **GIVEN), with_it.said["membership"]
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
    by_shadows = [line.replace("\u00a0", " ") for line in lines if "By shadow models" in line]
    assert len(by_shadows) == shown == ("AUC within people" in page)
    assert any("No shadow model" in line for line in lines) == (claims and shadows is None)
    assert (members["shadowed"] is not None) == shown
    if shown:
        for part in ("AUC of 0.80 [0.60", "reaches 0.70 [0.60", "beforehand", "reaches 0.65 [0.60"):
            assert part in by_shadows[0]
        kept = members["shadowed"]
        assert (kept["count"], kept["seconds"], kept["reference"][0]["auc"]) == (8, 95.0, 0.85)
        assert kept["told"][0]["found"] == {"fpr1": 0.12, "fpr01": None} and kept["told"][0]["auc"] == 0.8


def test_of_an_audit_that_was_not_asked_nothing_is_said_and_what_did_not_fit_is(audit):  # noqa: F811
    assert audit.dump()["membership"] is None and audit.said["membership"] == ()
    assert 'id="membership"' not in audit_page(audit, **GIVEN)
    left = replace(audit, unmeasured=("Not measured: membership, which may ask 7 queries.",))
    assert left.dump()["membership"] is None and left.unmeasured == left.said["membership"]
    assert "Not measured: membership" in audit_page(left, **GIVEN)
