"""A portfolio: a recipe counts with the attack that works best against it; controls are the line beside it."""

import pandas as pd
import pytest

from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.findings import control_line
from smoothsweep.orchestrator.result.leaks import by_access
from smoothsweep.orchestrator.result.summary import summarise

LEAKS = {  # recipe -> attack -> leak
    0.0: {"ppa poincare": 0.6, "ppa cross_entropy": 0.7, "selection_only": 0.9, "random_latents": 0.05, "labels": 0.3},
    -0.2: {"ppa poincare": 0.5, "ppa cross_entropy": 0.2, "selection_only": 0.8, "random_latents": 0.06, "labels": 0.4},
}
ACCESS = {
    "ppa poincare": "gradients",
    "ppa cross_entropy": "gradients",
    "selection_only": "scores",
    "random_latents": "none",
    "labels": "labels",
}
CONTROLS = ("selection_only", "random_latents")


def data(attacks=tuple(ACCESS)):
    rows = [
        {
            "trial": f"{alpha}-{attack}-{seed}",
            "seed": seed,
            "status": "done",
            "failure": None,
            "alpha": alpha,
            "attack_settings": attack,
            "attack_access": ACCESS[attack],
            "attack_control": attack in CONTROLS,
            "test_acc": 0.95,
            "embedder_acc1": LEAKS[alpha][attack] + 0.01 * seed,
            "gradient_cosine": 0.5,
        }
        for alpha in LEAKS
        for attack in attacks
        for seed in (1, 2, 3)
    ]
    axes = (Axis(key="alpha"), Axis(key="attack_settings", role="attack", bare=True))
    return ReportData(title="t", results=pd.DataFrame(rows), axes=axes, baseline={"alpha": 0.0})


@pytest.fixture(scope="module")
def summary():
    return summarise(data())


def test_the_leak_is_told_by_what_the_attacker_sees(summary):
    assert summary.access_levels == ["labels", "gradients"]
    row = summary.evidence.rows[summary.frame.loc[summary.frame["alpha"] == -0.2, "recipe"].iloc[0]]
    (sentence,) = by_access(summary, row)
    assert "42" in sentence and "the decided class alone" in sentence and "52" in sentence and "gradients" in sentence


def test_without_controls_and_with_one_level_nothing_is_added():
    plain = summarise(data(("ppa poincare", "ppa cross_entropy")))
    assert control_line(plain) == () and by_access(plain, 0) == ()
