"""A sweep's leak beside chance, control, reach and ceiling: of the baseline and of the recipe that leaks least."""

import pandas as pd

from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.standing import control_of, recipe_standings, standing_sentences
from smoothsweep.orchestrator.result.summary import summarise

LEAKS = {
    ("ppa", 0.0): (0.60, 0.30),
    ("ppa", -0.8): (0.40, 0.20),
    ("weak", 0.0): (0.70, 0.10),
    ("weak", -0.8): (0.30, 0.05),
}
CONTROLS = {
    ("low", 0.0): (0.04, 0.0),
    ("high", 0.0): (0.09, 0.02),
    ("low", -0.8): (0.05, 0.0),
    ("high", -0.8): (0.02, 0.01),
}
CHECKS = {"embedder_real_acc": 0.98, "verified_far1_real": 0.96, "verified_far1_reach": 0.5, "reach_images": 50.0}


def sweep(alphas=(0.0, -0.8)):
    rows = [
        {
            "trial": f"{attack}-{alpha}-{seed}",
            "seed": seed,
            "status": "done",
            "attack_settings": attack,
            "alpha": alpha,
            "attack_access": "none" if control else "gradients",
            "attack_control": control,
            "attack_published": True,
            "test_acc": 0.8,
            "embedder_acc1": matched + 0.01 * seed,
            "verified_far1": verified,
            **CHECKS,
        }
        for control, values in ((False, LEAKS), (True, CONTROLS))
        for (attack, alpha), (matched, verified) in values.items()
        for seed in (1, 2, 3)
        if alpha in alphas
    ]
    axes = (Axis(key="alpha", role="recipe"), Axis(key="attack_settings", role="attack", bare=True))
    return ReportData(title="t", results=pd.DataFrame(rows), axes=axes, baseline={"alpha": 0.0})


def values(one):
    return {
        way.metric: [round(number.value, 9) for number in way.numbers.values()] for way in one.judged if way.reach.value
    }


def test_the_baseline_then_the_least_leak_each_under_its_strongest_attack_beside_its_own_control():
    first, second = recipe_standings(summarise(sweep()))
    assert [(one.recipe.split("\u00a0")[-1], one.attack) for one in (first, second)] == [
        ("0", "weak"),
        ("\u22120.8", "ppa"),
    ]
    assert values(first)["verified_far1"] == [0.1, 0.01, 0.02, 0.5, 0.96]  # beside the control that reaches most
    assert values(second)["verified_far1"] == [0.2, 0.01, 0.0, 0.5, 0.96]


def test_the_control_is_that_of_the_same_recipe():
    summary = summarise(sweep())
    for row in summary.frame.index[~summary.frame["control"]]:
        control = summary.frame.loc[control_of(summary, int(row))]
        assert control["recipe"] == summary.frame.loc[row, "recipe"] and control["control"]
        assert control["attack"] == ("high" if control["alpha"] == 0.0 else "low")


def test_one_recipe_stands_alone_and_nothing_measured_is_nothing():
    (only,) = recipe_standings(summarise(sweep(alphas=(0.0,))))
    assert only.attack == "weak"
    data = sweep()
    data.results["embedder_acc1"] = data.results["verified_far1"] = float("nan")
    assert recipe_standings(summarise(data)) == () == standing_sentences(summarise(data))
