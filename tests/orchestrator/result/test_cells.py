"""Recipes, attacks and access: three recipes, four attacks of three levels and two controls, judged by a second way."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.result.cells import Summary
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.estimates import Sample
from smoothsweep.orchestrator.result.summary import decide, summarise

ACCESS = {
    "brep": "labels",
    "rlb": "scores",
    "ppa": "gradients",
    "plg": "gradients",
    "random": "none",
    "chosen": "scores",
}
CONTROLS = ("random", "chosen")
LEAKS = {  # recipe -> attack -> mean leak; each recipe has another strongest attack, at each level another one
    "base": {"brep": 0.20, "rlb": 0.50, "ppa": 0.70, "plg": 0.40, "random": 0.06, "chosen": 0.30},
    "alpha": {"brep": 0.35, "rlb": 0.30, "ppa": 0.10, "plg": 0.55, "random": 0.15, "chosen": 0.10},
    "mid": {"brep": 0.45, "rlb": 0.15, "ppa": 0.25, "plg": 0.20, "random": 0.10, "chosen": 0.60},
}
SEEDS, CLASSES = (3, 1, 2), [f"c{at}" for at in range(5)]


def leak(recipe, attack, seed, place):
    """A rate of its own for each trial and class."""
    return LEAKS[recipe][attack] + 0.01 * seed + 0.002 * place * (1 if attack in ("ppa", "rlb") else -1)


def frame(metric="embedder_acc1", leave_out=(), times=1.0):
    rows, samples = [], []
    for attack in ACCESS:
        for recipe in LEAKS:
            seeds = [seed for seed in SEEDS if (recipe, attack, seed) not in leave_out]
            rates = {seed: pd.Series([leak(recipe, attack, seed, at) for at in range(5)], CLASSES) for seed in seeds}
            samples.append(
                {
                    metric: {
                        seed: Sample(value=times * float(one.mean()), by_class=times * one)
                        for seed, one in rates.items()
                    }
                }
            )
            values = [one.value for one in samples[-1][metric].values()]
            rows.append(
                {
                    "recipe": recipe,
                    "attack": attack,
                    "access": ACCESS[attack],
                    "control": attack in CONTROLS,
                    metric: np.mean(values) if values else np.nan,
                    "test_acc": 0.9,
                }
            )
    return pd.DataFrame(rows), tuple(samples)


def named(cells, worst):
    return {recipe: cells.frame.loc[row, "attack"] for recipe, row in worst.items()}


@pytest.mark.parametrize(
    ("access", "base", "alpha", "mid"),
    [
        (None, "ppa", "plg", "brep"),
        ("gradients", "ppa", "plg", "brep"),
        ("scores", "rlb", "brep", "brep"),
        ("labels", "brep", "brep", "brep"),
    ],
)
def test_at_each_level_the_strongest_of_those_that_see_no_more(access, base, alpha, mid):
    cells = Summary(**dict(zip(("frame", "samples"), frame(), strict=True)))
    assert named(cells, cells.worst("embedder_acc1", access)) == {"base": base, "alpha": alpha, "mid": mid}
    attacks = [
        attack
        for attack, level in ACCESS.items()
        if attack not in CONTROLS
        and level
        in {"labels": ("labels",), "scores": ("labels", "scores")}.get(access, ("labels", "scores", "gradients"))
    ]
    cases = cells.cases("embedder_acc1", access)
    assert cases.attacks == tuple(attacks) and cases.seeds == (1, 2, 3) and cases.recipes == tuple(LEAKS)


def test_of_a_distance_the_strongest_attack_is_the_nearest():
    cells = Summary(**dict(zip(("frame", "samples"), frame("dist_face", times=-1.0), strict=True)))
    assert named(cells, cells.worst("dist_face")) == {"base": "ppa", "alpha": "plg", "mid": "brep"}


def test_the_strongest_attack_is_that_of_the_seeds_that_count():
    """Over its own three seeds plg is the strongest against base; over the two that all share ppa is."""
    shown, samples = frame(leave_out=[("mid", "rlb", 3), ("mid", "plg", 3), ("alpha", "brep", 3)])
    row = shown.index[(shown["recipe"] == "base") & (shown["attack"] == "plg")][0]
    samples[row]["embedder_acc1"][3] = Sample(value=3.0)
    shown.loc[row, "embedder_acc1"] = np.mean([one.value for one in samples[row]["embedder_acc1"].values()])
    assert shown.loc[row, "embedder_acc1"] > 0.75
    cells = Summary(frame=shown, samples=samples)
    assert cells.cases("embedder_acc1").seeds == (1, 2)
    assert named(cells, cells.worst("embedder_acc1")) == {"base": "ppa", "alpha": "plg", "mid": "brep"}


def test_a_recipe_that_lacks_an_attack_is_compared_with_none_and_what_it_lacks_is_named():
    cells = Summary(
        **dict(zip(("frame", "samples"), frame(leave_out=[("alpha", "ppa", s) for s in SEEDS]), strict=True))
    )
    cases = cells.cases("embedder_acc1")
    assert cases.recipes == ("base", "mid") and cases.missing == {"alpha": {"ppa": (1, 2, 3)}}
    assert set(cells.worst("embedder_acc1")) == {"base", "mid"}
    assert set(cells.worst("embedder_acc1", "scores")) == set(LEAKS), "with less access it lacks nothing"


def data(accuracies, leaks=LEAKS, seeds=(5, 1, 4, 2, 3), metric="embedder_acc1", **more):
    """The same as trials of a sweep, whose recipes have these accuracies; by class, with a little noise."""
    rows, classes, draw = [], [], np.random.default_rng(0)
    for attack in ACCESS:
        for recipe in leaks:
            noise = draw.normal(0, 0.01, (len(seeds), 8))
            noise -= noise.mean()  # so that the mean of a cell is the one that is listed
            for seed, shift in zip(seeds, noise, strict=True):
                trial, hits = f"{recipe}-{attack}-{seed}", leaks[recipe][attack] + shift
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "recipe_name": recipe,
                        "attack_name": attack,
                        "attack_access": ACCESS[attack],
                        "attack_control": attack in CONTROLS,
                        "attack_published": True,
                        "test_acc": accuracies[recipe],
                        metric: float(hits.mean()),
                    }
                )
                classes += [{"trial": trial, "class": at, "embedder_acc1": hit} for at, hit in enumerate(hits)]
    axes = (Axis(key="recipe_name", bare=True), Axis(key="attack_name", role="attack", bare=True))
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        axes=axes,
        baseline={"recipe_name": "base"},
        per_class=pd.DataFrame(classes) if metric == "embedder_acc1" else None,
        **more,
    )


ACCURACIES = {"base": 0.95, "alpha": 0.9, "mid": 0.8}


def test_a_summary_names_attacks_controls_and_levels_in_one_order_and_the_best_control():
    summary = summarise(data(ACCURACIES), resamples=20)
    assert summary.attacks == ["brep", "rlb", "ppa", "plg"] and summary.controls == ["random", "chosen"]
    assert summary.recipes == list(LEAKS)
    control, row = summary.worst_of_control("embedder_acc1")
    assert (control, summary.frame.loc[row, "recipe"]) == ("chosen", "mid")
    assert summary.leaks("embedder_acc1", "rlb") == pytest.approx({"base": 0.5, "alpha": 0.3, "mid": 0.15})
    assert summary.leaks("embedder_acc1") == pytest.approx({"base": 0.7, "alpha": 0.55, "mid": 0.45})
    far = summarise(data(ACCURACIES, metric="dist_face"), resamples=20)
    control, row = far.worst_of_control("dist_face")
    assert (control, far.frame.loc[row, "recipe"]) == ("random", "base"), "of a distance the nearest"
    assert far.leaks("dist_face")["mid"] == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("floor", "best", "front"),
    [
        (None, "mid", ("base", "alpha", "mid")),
        (0.85, "alpha", ("base", "alpha")),
        (0.92, "base", ("base",)),
        (0.96, None, ()),
    ],
)
def test_who_is_chosen_among_the_accurate_enough(floor, best, front):
    summary = summarise(data(ACCURACIES, min_test_acc=floor), resamples=20)
    found = decide(summary)
    assert set(found.rows) == set(LEAKS) and found.front == front and found.seeds == 5
    assert (None if found.best is None else summary.frame.loc[found.best, "recipe"]) == best
    assert summary.frame.loc[found.reference, ["recipe", "attack"]].tolist() == ["base", "ppa"]
    assert found.marked == found.best
    if best == "mid":
        assert (
            summary.frame.loc[found.best, "attack"] == "brep" and found.clear and found.significant and not found.ties
        )
