"""What an audit says: attacks, people, membership, what stands beside the model; and pages that agree."""

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.membership.measuring import Measured, WithinPersons, measure_within_persons
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.commands.audit.pages import attacks_found, audit_page, audit_pdf
from smoothsweep.orchestrator.result.audit import (
    AttackFound,
    MembershipAudit,
    membership_words,
    read_audit,
    with_second,
)
from smoothsweep.orchestrator.result.data import Axis, ReportData, StageLink
from smoothsweep.orchestrator.result.standing import LESS, MORE, SCORES_ALONE, UNCLEAR
from smoothsweep.orchestrator.result.summary import summarise
from tests.orchestrator.result import test_standing

NAMES = ["Zoe <b>", "Ann", "Bob", "Cy"]
ATTACKS = {  # attack -> access, control, hit rate of each person
    "ppa": ("gradients", False, [1.0, 0.5, 0.25, 0.0]),
    "brep_mi": ("labels", False, [0.5, 0.0, 0.0, 0.0]),
    "random_latents": ("none", True, [0.0, 0.0, 0.25, 0.0]),
}
GIVEN = {"name": "m", "facts": {"Code": "x"}, "portraits": {}}


def made(cells, *, axes=("attack_settings",), links=lambda **cell: (), **more):
    """What is reported of cells: recipe, attack, seed, access, control, rates by class, and other columns."""
    rows, classes, linked = [], [], {}
    for cell in cells:
        recipe, attack, seed, access, control, rates, columns = cell
        trial = f"{recipe}-{attack}-{seed}"
        known = {"trial": trial, "seed": seed, "status": "done", "failure": None, "recipe_settings": recipe}
        known |= {"attack_settings": attack, "attack_access": access, "attack_control": control}
        rows.append({**known, "attack_published": True, "embedder_acc1": float(np.mean([*rates.values()])), **columns})
        classes += [{"trial": trial, "class": label, "embedder_acc1": rate} for label, rate in rates.items()]
        linked[trial] = links(recipe=recipe, attack=attack, seed=seed, trial=trial)
    known_axes = {
        "recipe_settings": Axis(key="recipe_settings", bare=True, defense=True),
        "attack_settings": Axis(key="attack_settings", role="attack", bare=True),
    }
    frames = {"results": pd.DataFrame(rows), "per_class": pd.DataFrame(classes)}
    return ReportData(title="t", **frames, axes=tuple(known_axes[axis] for axis in axes), links=linked, **more)


def data(seeds=(1, 2), attacks=ATTACKS):
    """One model under these attacks."""

    def links(trial, **_):
        return (
            StageLink(stage="attack", path=f"a/{trial}", seconds=8.0),
            StageLink(stage="pool", path="p", seconds=4.0),
            StageLink(stage="target", path="t", seconds=900.0),
        )

    cells = [
        (None, attack, seed, access, control, dict(enumerate(rates)), columns)
        for attack, (access, control, rates) in attacks.items()
        for seed in seeds
        for columns in [{"test_acc": 0.8, "embedder_real_acc": 0.9, "queries": None if control else 100.0}]
    ]
    return made(cells, links=links)


def read(given, **notes):
    return read_audit(given, summarise(given), **{"names": NAMES, "classes": 20} | notes)


@pytest.fixture(scope="module")
def audit():
    return read(data())


# What is said


@pytest.mark.parametrize(
    ("notes", "said"),
    [({"is_program": True}, ["--fix --reference"]), ({}, ["--fix"]), ({"is_program": True, "is_enrolled": True}, [])],
)
def test_what_to_do_names_a_training_that_is_possible(notes, said):
    """`--fix` alone is refused for a program, `--fix` and `--reference` with `--gallery`."""
    lines = [line for line in read(data(), **notes).said["advice"] if "--" in line]
    assert len(lines) == len(said)
    for words, line in zip(said, lines, strict=True):
        assert words in line and ("--reference" in words) == ("--reference" in line)


def test_controls_alone_are_an_audit_that_credits_them_with_no_leak():
    """Of an endpoint that no attack may ask enough: the page says so, and names what was left out."""
    only = {"random_latents": ATTACKS["random_latents"]}
    found = read(data(attacks=only), untried=("Not tried: BREP-MI.",))
    assert found.attacks == [] and found.people == () and found.standing == () and len(found.controls) == 1
    said = found.said
    assert said["answer"][0].startswith("No attack was tried") and said["unknown"][-1] == "Not tried: BREP-MI."
    page = audit_page(found, **GIVEN)
    assert 'id="standing"' not in page and "Everybody" not in page and audit_pdf(found, **GIVEN).startswith(b"%PDF")


def test_where_nothing_was_judged_or_every_attack_failed_there_is_no_audit():
    """It would say that no attack was tried."""
    given = data()
    failed = ~given.results["attack_control"]
    given.results.loc[failed, ["status", "failure", "embedder_acc1"]] = ["failed", "out of memory", np.nan]
    assert read(given) is None
    nothing = ReportData(title="t", results=data().results.drop(columns=["embedder_acc1"]), axes=given.axes)
    assert read(nothing) is None


def test_page_pdf_and_json_tell_the_same_and_escape_names(audit):
    pixels = np.full((8, 8, 3), 90, np.uint8)
    given = GIVEN | {"portraits": {0: (pixels, pixels)}}
    page, pdf = re.sub("</?kbd>", "", audit_page(audit, **given)), audit_pdf(audit, **given)
    found = json.loads(json.dumps(audit.dump(), allow_nan=False))
    assert found["reached"][0]["leak"] == audit.strongest["leak"] and found["by_access"]["labels"] == "brep_mi"
    for line in (line for lines in found["said"].values() for line in lines):
        assert line.replace("<b>", "&lt;b&gt;").replace("'", "&#39;") in page
    assert "<b> " not in page.split("Zoe")[1][:8] and page.count("data:image/png") == 2
    parts = ('class="answer"', 'id="faces"', 'id="standing"', 'id="details"', 'id="access"')
    order = [page.index(part) for part in parts]
    assert order == sorted(order) and page.split('class="answer"')[1].split("</div>")[0].count("<p>") == 1
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") == 2


# People


# Numbers where nothing is alike: seconds, devices, queries, shares differ by seed and recipe

SEEDS, PEOPLE = (2, 7, 5), (4, 0, 2, 3)
FIVE = ["Zoe", "Ann", "Bob", "Cy", "Di"]
"""Five classes, of which the second has no reconstructions."""
ACCESS = {"ppa": "gradients", "rlb": "scores", "brep": "labels", "random": "none", "chosen": "scores"}
CONTROLS = ("random", "chosen")
LEAKS = {
    "mine": {"ppa": 0.5, "rlb": 0.6, "brep": 0.3, "random": 0.05, "chosen": 0.2},
    "plain": {"ppa": 0.7, "rlb": 0.4, "brep": 0.5, "random": 0.1, "chosen": 0.3},
    "fixed": {"ppa": 0.1, "rlb": 0.2, "brep": 0.25, "random": 0.1, "chosen": 0.4},
}
TEST_ACC = {"mine": 0.9, "plain": 0.8, "fixed": 0.7}


def hits(recipe, attack, seed):
    """A rate for each person, by its place."""
    return np.array([LEAKS[recipe][attack] + 0.01 * seed * (place - 1.5) / 10 for place in range(len(PEOPLE))])


def by_person(*cell):
    return dict(zip(PEOPLE, hits(*cell), strict=True))


def stages(recipe, attack, seed, trial):
    """Stages of a trial: of another length each, some on two devices; `common` serves all recipes."""
    at = list(ACCESS).index(attack)
    return (
        StageLink(stage="target", path=f"t/{recipe}/{seed}", seconds=100.0 + seed, devices=2.0),
        StageLink(stage="prior", path="common", seconds=1000.0),
        StageLink(stage="pool", path=f"pool/{recipe}/{seed}", seconds=10.0 * (at + 1), devices=3.0),
        StageLink(stage="attack", path=f"a/{trial}", seconds=1.0 * seed, devices=1.5),
        StageLink(stage="judge_embedder", path=f"j/{trial}", seconds=7.0),
    )


def mixed(recipes=tuple(LEAKS), attacks=tuple(ACCESS)):
    cells = [
        (recipe, attack, seed, ACCESS[attack], attack in CONTROLS, by_person(recipe, attack, seed), more)
        for recipe in recipes
        for attack in attacks
        for seed in SEEDS
        for more in [
            {
                "test_acc": TEST_ACC[recipe] + 0.001 * seed,
                "embedder_real_acc": 0.9 + 0.01 * seed,
                "queries": None if attack == "random" else 10.0 * seed,
            }
        ]
    ]
    baseline = {"recipe_settings": "plain"} if "plain" in recipes else {}
    return made(cells, axes=("recipe_settings", "attack_settings"), links=stages, baseline=baseline)


def read_five(given, **notes):
    return read(given, names=FIVE, classes=5, **notes)


@pytest.fixture(scope="module")
def five():
    return read_five(mixed(), recipe="mine", planned={"fixed": 9.0, "plain": 8.0})


def test_attacks_then_controls_each_from_the_strongest_with_what_they_take(five):
    """The mean over seeds by person, on all devices: parts and attack, neither the target's training nor judges."""
    assert [one["attack"] for one in five.reached] == ["rlb", "ppa", "brep", "chosen", "random"]
    assert [one["leak"] for one in five.reached] == pytest.approx([0.6, 0.5, 0.3, 0.2, 0.05])
    levels = {level: one["attack"] for level, one in five.by_access.items()}
    assert levels == {"labels": "brep", "scores": "rlb", "gradients": "rlb"}
    assert five.test_acc == pytest.approx(0.9 + 0.001 * np.mean(SEEDS))
    assert five.ceiling == pytest.approx(0.9 + 0.01 * np.mean(SEEDS)) and five.chance == 1 / 5
    for one in five.reached:
        at = list(ACCESS).index(one["attack"])
        assert one["seconds"] == pytest.approx(np.mean([30.0 * (at + 1) + 1.5 * seed for seed in SEEDS]) / len(PEOPLE))
        assert one["queries"] == (None if one["attack"] == "random" else pytest.approx(10.0 * np.mean(SEEDS)))


def test_people_stand_by_what_the_strongest_attack_reaches_over_all_seeds(five):
    by_place = np.mean([hits("mine", "rlb", seed) for seed in SEEDS], axis=0)
    wanted = sorted(zip(PEOPLE, by_place, strict=True), key=lambda one: -one[1])
    assert [(one["label"], one["name"]) for one in five.people] == [(label, FIVE[label]) for label, _ in wanted]
    assert [one["share"] for one in five.people] == pytest.approx([share for _, share in wanted])


@pytest.mark.parametrize(("shares", "matched"), [([0.5, 0.5, 0.49, 0.0], 2), ([0.499] * 4, 0), ([1.0] * 4, 4)])
def test_half_of_the_reconstructions_match_and_of_two_alike_the_first_label_comes_first(shares, matched):
    given, by_label = mixed(("mine",)), dict(zip(PEOPLE, shares, strict=True))
    rates = given.per_class.assign(embedder_acc1=given.per_class["class"].map(by_label))
    found = read_five(replace(given, per_class=rates))
    assert [one["label"] for one in found.people] == sorted(PEOPLE, key=lambda label: (-by_label[label], label))
    assert f"{matched} of 4" in found.said["answer"][1].replace("\u00a0", " ")


def test_beyond_the_control_is_paired_by_seed_and_person_and_corrected_for_the_attacks(five):
    order = np.argsort(PEOPLE)
    sides = {name: np.stack([hits("mine", name, seed)[order] for seed in SEEDS]) for name in ("rlb", "chosen")}
    (pair,) = compare_recipes(sides, among=3, span=1.0).pairs
    found = (five.beyond.difference, five.beyond.low, five.beyond.high, five.beyond.n)
    assert found == pytest.approx((0.4, pair.low, pair.high, 3))
    without = read_five(mixed(attacks=("ppa", "rlb", "brep")), recipe="mine")
    assert without.beyond.n == 0 and np.isnan(without.beyond.difference) and without.controls == []


def test_every_recipe_stands_under_its_own_strongest_attack_beside_the_reference(five):
    """The signs: mine leaks .1 less than plain does, and is .1 more accurate. Stages count once, on all devices."""
    cells = [("mine", "model", "rlb"), ("plain", "reference", "ppa"), ("fixed", "fix", "brep")]
    assert [(one["recipe"], one["role"], one["reached"]["attack"]) for one in five.beside] == cells
    mine, plain, fixed = five.beside
    assert plain["leak"] is None and [one["planned_s"] for one in five.beside] == [None, 8.0, 9.0]
    assert [one["leak"].reduction for one in (mine, fixed)] == pytest.approx([0.1, 0.45])
    assert [one["accuracy"].difference for one in five.beside] == pytest.approx([0.1, np.nan, -0.1], nan_ok=True)
    accuracy = [one + 0.001 * np.mean(SEEDS) for one in TEST_ACC.values()]
    assert [one["test_acc"] for one in five.beside] == pytest.approx(accuracy)
    training = 2 * sum(100.0 + seed for seed in SEEDS)
    # A pool has one path for all attacks of a recipe and seed: of those that share it the last counts.
    pools, attacks = 3 * 3 * 10.0 * len(ACCESS), len(ACCESS) * sum(1.5 * seed for seed in SEEDS)
    for one in (plain, fixed):
        judging = 7.0 * len(ACCESS) * len(SEEDS)
        assert one["training_s"] == training and one["attacking_s"] == pytest.approx(pools + attacks + judging)
    assert (mine["training_s"], mine["attacking_s"]) == (None, None)


# What is said of a reference and of other recipes

MODEL, PLAIN, WEAK, STRONG = "imported model", "plain training", "smoothing -0.05", "smoothing -0.8"
ACCURACY = {MODEL: 0.95, PLAIN: 0.9, WEAK: 0.91, STRONG: 0.88}


@cache
def trained(seeds, recipes=(MODEL, PLAIN, WEAK, STRONG), model=0.7, published=("ppa", "adapted")):
    """Two attacks and a control; the second attack is weaker everywhere but on STRONG, where it finds a little more.

    model: the leak of the model under audit. published: attacks that were not made to find what is hidden.
    """
    leaks, noise, cells = {MODEL: model, PLAIN: 0.7, WEAK: 0.7, STRONG: 0.2}, np.random.default_rng(1), []
    for recipe in recipes:
        for attack, shift in (("ppa", 0.0), ("adapted", 0.1 if recipe == STRONG else -0.2), ("random", None)):
            for seed in range(1, seeds + 1):
                mean = 0.1 if shift is None else leaks[recipe] + shift
                rates = dict(enumerate(np.clip(mean + noise.normal(0, 0.01, 10), 0, 1)))
                access = "none" if shift is None else "gradients"
                more = {"test_acc": ACCURACY[recipe], "queries": None if shift is None else 50.0}
                more["attack_published"] = attack in published
                cells.append((recipe, attack, seed, access, shift is None, rates, more))
    axes, baseline = ("recipe_settings", "attack_settings"), {"recipe_settings": PLAIN}
    notes = {"names": [f"p{k}" for k in range(10)], "classes": 10, "recipe": MODEL}
    return read(made(cells, axes=axes, baseline=baseline), **notes, architecture="resnet18", epochs=40)


def test_a_difference_is_told_where_the_statistics_tell_it_and_nowhere_else():
    audit = trained(3)
    assert [one["leak"] and one["leak"].word for one in audit.beside] == [
        "inconclusive",
        None,
        "inconclusive",
        "reduces",
    ]
    said = audit.said["beside"]
    assert "90.0" in said[0] and "95.0" in said[0]
    assert "Which of the two leaks more is inconclusive (reduction" in said[1]
    [fix] = [line for line in said if "reduces the leak of plain training" in line]
    assert STRONG.capitalize() in fix and WEAK not in fix and "88.0" in fix and "reduction +4" in fix
    [other] = [line for line in said if line.startswith("Of the others")]
    assert f"{WEAK}: inconclusive (" in other
    less = trained(3, (MODEL, PLAIN), 0.4).said["beside"]
    assert "Against trainings like the reference this model reduces the leak (reduction +" in less[1]
    one = trained(1).said["beside"]
    assert "is inconclusive with one seed" in one[1] and "--seeds" in one[1]
    assert not any("reduces the leak of" in line for line in one)
    assert any("Whether a recipe reduces the leak is inconclusive" in line and "--seeds" in line for line in one)


# A second embedder

CHECKS = {"embedder_real_acc": 0.98, "verified_far1_real": 0.96, "embedder_reach": 0.9, "verified_far1_reach": 0.9}
JUDGED = {  # attack -> judge -> matched, verified
    "ppa": {"first": (0.7, 0.10), "second": (0.5, 0.12)},
    "if_gmi": {"first": (0.2, 0.0), "second": (0.6, 0.9)},
    "random": {"first": (0.1, 0.0), "second": (0.05, 0.01)},
}


def judged(judge, order, *, verifies=True):
    cells = []
    for name in order:
        matched, verified = JUDGED[name][judge]
        more = {"verified_far1": verified, **CHECKS} if verifies else {"embedder_real_acc": 0.98}
        more |= {"test_acc": 0.8, "queries": 10.0}
        access, rates = "none" if name == "random" else "gradients", dict.fromkeys(range(4), matched)
        cells += [(None, name, seed, access, name == "random", rates, more) for seed in (1, 2)]
    return made(cells)


def first(verifies=True, **notes):
    return read(judged("first", list(JUDGED), verifies=verifies), **notes)


def test_the_second_judges_the_attack_that_is_strongest_by_the_first():
    """Its own table has another order and another strongest attack."""
    found = with_second(first(), summarise(judged("second", ["random", "if_gmi", "ppa"])), "mobilefacenet_b")
    one = {standing.metric: standing for standing in found.second}["verified_far1"]
    assert (one.leak.value, one.control.value) == pytest.approx((0.12, 0.01))
    assert one.words.endswith(", by mobilefacenet_b") and found.standing == first().standing
    (said,) = [line for line in found.said["answer"] if "second embedder" in line]
    assert "(mobilefacenet_b)" in said and "12" in said and "10" in said and said.endswith("The two agree.")
    page, told = audit_page(found, **GIVEN), found.dump()
    assert all(f">{one.words}<" in page for one in (*found.standing, *found.second))
    assert told["second_name"] == "mobilefacenet_b" and len(told["second"]) == len(found.second)
    assert with_second(first(), summarise(judged("second", ["if_gmi", "random"])), "facenet") == first()


PERSONS, INSIDE, OUTSIDE = 6, 40, 20


def scores(folder, gap, *, seed=1, labels_of=None):
    """The scores that a judge left of one training, and its file.

    gap: how far scores of members lie above those of others. labels_of: how many images of either kind labels are
    asked of; None: all.
    """
    draw, count = np.random.default_rng(seed), PERSONS * (INSIDE + OUTSIDE)
    member = np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PERSONS)
    margin = draw.normal(gap * member, 1.0)
    views = np.round(3 * draw.uniform(size=count) + member) / 4
    if labels_of is not None:
        for kind in (True, False):
            views[np.flatnonzero(member == kind)[labels_of:]] = np.nan
    told = {"margin": margin, "loss": margin + draw.normal(0, 2.0, count), "label_views": views}
    frame = pd.DataFrame({"class": np.repeat(np.arange(PERSONS), INSIDE + OUTSIDE), "member": member, **told})
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
        allowed = np.sort(frame.loc[~frame["member"], "margin"])[-1 - int(0.01 * PERSONS * OUTSIDE)]
        rates.append((frame.loc[frame["member"], "margin"] > allowed).mean())
    assert next(one.found for one in found if one.attack == "margin") == pytest.approx(np.mean(rates))


def test_numbers_by_shadow_models_are_means_over_persons_of_what_sees_scores():
    draw, classes = np.random.default_rng(1), np.repeat(np.arange(PERSONS), INSIDE + OUTSIDE)
    member, gaps = (
        np.tile(np.arange(INSIDE + OUTSIDE) < INSIDE, PERSONS),
        {"lira": 1.4, "loss": 0.6, "label_views": 9.0},
    )
    made = {name: draw.normal(gap * member, 1.0) + 3 * classes for name, gap in gaps.items()}
    found, persons = measure_within_persons(Measured(scores=made, member=member, labels=classes))
    assert persons == PERSONS and [(one.attack, one.has_shadows) for one in found] == [
        ("lira", True),
        ("loss", False),
    ]
    frame = pd.DataFrame({"class": classes, "member": member, **made})
    for one in found:
        each = [pairwise(mine, one.attack) for _, mine in frame.groupby("class")]
        half = 2.571 * np.std(each, ddof=1) / np.sqrt(PERSONS)  # Student's t of five degrees of freedom
        ends = one.auc - half, min(1.0, one.auc + half)
        assert one.auc == pytest.approx(np.mean(each)) and (one.low, one.high) == pytest.approx(ends, abs=1e-3)
    threshold = np.sort(made["lira"][~member])[-1 - int(0.01 * PERSONS * OUTSIDE)]
    assert found[0].found == {"fpr1": (made["lira"][member] > threshold).mean(), "fpr01": None}


def told(attack, auc, low, found=0.2):
    access = "labels" if "label" in attack else "scores"
    return AttackFound(attack=attack, access=access, auc=auc, low=low, high=0.9, found=found)


def one_found(shift=0.5, best=("margin", 0.8, 0.7), word="", trainings=1, **changes):
    rest = told("label_views", 0.6, 0.5)
    against = (told(best[0], 0.75, 0.6), rest)
    plain = {
        "recipe": PLAIN,
        "role": "reference",
        "told": against,
        "trainings": trainings,
        "word": "",
    }
    given = {"shift": shift, "members": 240, "others": 120, "copies": 0, "drawn": None, "drawn_members": None}
    attacks = (told(*best), told("margin", 0.5, 0.4), rest)
    model = {"recipe": MODEL, "role": "model", "told": attacks, "trainings": 1, "word": word}
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
    **{
        "count": 8,
        "recipe": PLAIN,
        "architecture": "resnet18",
        "epochs": 40,
        "persons": 20,
        "seconds": 95.0,
    },
    "told": (within("lira", 0.8), within("loss", 0.7), within("rmia", 0.65)),
    "reference": (within("lira", 0.85),),
}


@pytest.mark.parametrize("shadows", [None, BY_SHADOWS])
@pytest.mark.parametrize("shift", [0.5, 0.9])
def test_page_pdf_and_json_say_the_same_and_show_numbers_only_with_a_claim(audit, shift, shadows):
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


def test_a_reduction_pays_for_the_choice_among_the_attacks():
    """Both pay for the choice among the attacks; too few seeds leave both inconclusive."""
    few, more = (trained(seeds, (MODEL, PLAIN), 0.65, ("ppa",)) for seeds in (2, 5))
    assert (few.beside[0]["leak"].word, more.beside[0]["leak"].word) == ("inconclusive", "reduces")
    for one in (few, more):
        new = json.loads(json.dumps(one.dump()))["beside"][0]["leak"]
        assert new["word"] == one.beside[0]["leak"].word and new["high"] <= 1
        assert new["hidden"]["part"]["value"] is not None and new["comparisons"] == 2
    assert trained(2, (MODEL, PLAIN), 0.4).beside[0]["leak"].hidden is None


CROWD = [f"person {letter}" for letter in "abcdefghijkl"]


def crowd(rates, seeds=(1, 2, 3), images=4):
    """An audit of a dozen people under one attack, every seed with the same rates."""
    given = data(seeds=seeds, attacks={"ppa": ("gradients", False, rates), "none": ("none", True, [0.0] * len(rates))})
    given.per_class["embedder_acc1_images"] = images
    return read(given, names=CROWD)


def test_nobody_is_named_without_an_interval_and_the_probability_of_the_rank():
    rates = [0.0, 1.0, 0.25, 0.5, 0.25, 1.0, 0.25, 0.25, 0.0, 0.25, 0.25, 0.25]
    audit, expected = crowd(rates), exposures(np.tile(rates, (3, 1)), np.full(12, 4))
    assert sum(person["among_top"] for person in audit.people) == pytest.approx(5)
    named, how = audit.said["people"]
    rate = r"matched in (\d+)\s% \[(\d+),\s(\d+)\], the control's images in [\d.]+\s%"
    said = re.findall(rf"(person .) \(probability ([\w\s]+)\s%; {rate}\)", named)
    assert [name for name, *_ in said] == ["person b", "person f", "person d"]
    for name, among, *ends in said:
        at = CROWD.index(name)
        assert int(among.split()[-1]) in (99, round(100 * expected.among_top[at]))
        shown = (expected.rate[at], expected.low[at], expected.high[at])
        assert [int(end) for end in ends] == [round(100 * end) for end in shown]
    assert "shrunk" in how and "assumed" not in how
    page = audit_page(audit, **GIVEN)
    for person in audit.people:
        row = page.split('<th scope="row">{}</th>'.format(person["name"]))[1].split("</tr>")[0]
        assert 'data-v="{}"'.format(person["among_top"]) in row and row.count("<td") == 5 and "[" in row


def test_people_who_cannot_be_ranked_are_not_named():
    first, how = crowd([0.25] * 12, seeds=(1,)).said["people"]
    assert "No person is among the" in first and "42\u00a0%" in first, "five of twelve"
    assert not re.search(r"person [a-l]\b", first) and "assumed, not measured" in how
    (nothing,) = crowd([0.0] * 12).said["people"]
    assert nothing == "No person was matched in any image."


@pytest.mark.parametrize(
    ("verifies", "judge", "strangers", "said"),
    [
        (True, "embedder_acc1", 30, None),
        (False, "embedder_acc1", 30, "Not verified: a threshold of 1 % false accepts takes 50 public images or more"),
        (False, "attack_acc1", 900, "Not verified: the judge is a second classifier of the same images"),
    ],
)
def test_where_nothing_is_verified_one_line_says_why(verifies, judge, strangers, said):
    found = replace(first(verifies=verifies, strangers=strangers), judge=judge)
    lines = [line for line in found.said["answer"] if line.startswith("Not verified")]
    assert lines == [] if said is None else len(lines) == 1 and lines[0].startswith(said)


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


def test_who_sees_labels_alone_gets_nothing_of_scores_and_images_that_were_not_asked_do_not_count(tmp_path):
    frame, file = scores(tmp_path, 1.0, labels_of=30)
    [by_labels] = attacks_found((file,), "labels")
    assert by_labels.attack == "label_views" and by_labels.auc == pytest.approx(pairwise(frame, "label_views"))
    assert by_labels.found is None, "30 test images show no rate of 1 %"
    assert attacks_found((file,), "scores")[0].access == "scores"


def test_of_an_audit_that_was_not_asked_nothing_is_said_and_what_did_not_fit_is(audit):
    assert audit.dump()["membership"] is None and audit.said["membership"] == ()
    assert 'id="membership"' not in audit_page(audit, **GIVEN)
    left = replace(audit, unmeasured=("Not measured: membership, which may ask 7 queries.",))
    assert left.dump()["membership"] is None and left.unmeasured == left.said["membership"]
    assert "Not measured: membership" in audit_page(left, **GIVEN)
