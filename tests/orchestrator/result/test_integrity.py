"""What the page says of sweeps that invert nothing, of masked gradients and of trainings that collapsed."""

from types import SimpleNamespace

import pandas as pd
import pytest

from smoothsweep.orchestrator.result.findings import (
    collapsed_trainings,
    inverts_nothing,
    masked_gradients,
    without_leak,
)

RATES = (
    "fgsm_untargeted_correct",
    "pgd_untargeted_correct",
    "bim_untargeted_correct",
    "margin_pgd_untargeted_correct",
    "auto_pgd_untargeted_correct",
)


def summary(**rates):
    frame = pd.DataFrame(
        [{"recipe": recipe, **dict(zip(RATES, values, strict=True))} for recipe, values in rates.items()]
    )
    cells = dict(enumerate(frame.to_dict("records")))
    return SimpleNamespace(frame=frame, cells=cells, measured=("test_acc", "zero_gradients"))


def data(**columns):
    rows = len(next(iter(columns.values())))
    given = {"attack": [None] * rows, "status": ["done"] * rows}
    return SimpleNamespace(results=pd.DataFrame({**given, **columns}))


def test_masked_gradients_are_named_where_the_logits_attacks_go_far_beyond():
    found = summary(plain=(0.7, 0.8, 0.8, 0.85, 0.8), negative=(0.03, 0.1, 0.03, 0.9, 0.95))
    (line,) = masked_gradients(found)
    assert "negative (10.0\u00a0% against 95.0\u00a0%)" in line and "plain" not in line
    assert masked_gradients(summary(plain=(0.7, 0.8, 0.8, 0.85, 0.8))) == ()
    unmeasured = SimpleNamespace(frame=found.frame, measured=("test_acc",))
    assert masked_gradients(unmeasured) == ()


@pytest.mark.parametrize(
    ("rates", "masked"),
    [
        ((0.5, 0.1, 0.2, 0.3, 0.71), True),
        ((0.1, 0.2, 0.5, 0.71, 0.3), True),
        ((None, 0.2, 0.5, None, 0.71), True),
        ((None, None, None, 0.9, 0.9), False),
        ((0.1, 0.1, 0.1, None, None), False),
        ((0.25, 0.25, 0.25, 0.5, 0.25), True),
    ],
)
def test_the_best_of_each_kind_of_attack_is_compared(rates, masked):
    """A fifth of the images and more, between the largest of the three and the largest of the two."""
    found = masked_gradients(summary(plain=(0.1,) * 5, odd=rates, fine=(0.9,) * 5))
    assert bool(found) is masked and (not masked or ("odd (" in found[0] and "plain" not in found[0]))


def test_collapsed_trainings_are_counted_among_the_poisoned_alone():
    some = data(backdoor_collapsed=[None, 0.0, 1.0, 1.0])
    (line,) = collapsed_trainings(some)
    assert line.startswith("Of 3\u00a0poisoned trainings, 2\u00a0collapsed")
    assert collapsed_trainings(data(backdoor_collapsed=[0.0, None])) == ()


def test_a_sweep_without_an_attack_says_so():
    mixed = data(attack=["ppa", None])
    assert inverts_nothing(data(seed=[1, 2])) and not inverts_nothing(mixed)
    half = data(status=["done", "missing"])
    unmeasured = SimpleNamespace(primary=None, measured=("test_acc",))
    assert without_leak(half, unmeasured).endswith("(1\u00a0of 2\u00a0trials done).")


def measured(values, **verdicts):
    """A sweep whose robust accuracy was measured of these recipes, the first of them the baseline."""
    frame = pd.DataFrame(
        {
            "recipe": list(values),
            "robust_acc": list(values.values()),
            "is_baseline": [place == 0 for place in range(len(values))],
        }
    )
    gaps = {row: SimpleNamespace(verdict=verdicts.get(recipe, "")) for row, recipe in enumerate(values)}
    cells = dict(enumerate(frame.to_dict("records")))
    measured = ("test_acc", "robust_acc")
    return SimpleNamespace(frame=frame, cells=cells, gaps=lambda _: gaps, measured=measured, primary=None)


@pytest.mark.parametrize(
    ("values", "verdicts", "said"),
    [
        (
            {"plain": 0.4, "a": 0.35, "b": 0.5},
            {"a": "inconclusive", "b": "higher"},
            "Robust accuracy lies between 35.0\u00a0% (a) and 50.0\u00a0% (b); b is higher than plain (40.0\u00a0%).",
        ),
        (
            {"plain": 0.4, "a": 0.35},
            {"a": "inconclusive"},
            "lies between 35.0\u00a0% (a) and 40.0\u00a0% (plain); every recipe is inconclusive against plain "
            "(40.0\u00a0%).",
        ),
        ({"plain": 0.4, "a": 0.4}, {}, "Robust accuracy is 40.0\u00a0% under every recipe."),
        ({"plain": None, "a": 0.4, "b": 0.3}, {}, "lies between 30.0\u00a0% (b) and 40.0\u00a0% (a)."),
    ],
)
def test_a_sweep_without_an_attack_answers_by_what_it_measured(values, verdicts, said):
    answer = without_leak(data(seed=[1, 2]), measured(values, **verdicts))
    assert answer.startswith("This sweep inverts nothing") and answer.endswith(said)
