import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import recommend, selection_optimism


def audits(truth, seed, *, seeds=3, classes=20, between_seeds=0.5, between_classes=0.3, noise=0.3):
    """recipe -> [seeds, classes] around its true leak; some classes are easier than others for all recipes."""
    rng = np.random.default_rng(seed)
    shape = (len(truth), seeds, classes)
    cells = np.asarray(truth, dtype=float)[:, None, None] + rng.normal(size=(1, 1, classes))
    cells = cells + between_seeds * rng.normal(size=(*shape[:2], 1)) + noise * rng.normal(size=shape)
    cells = cells + between_classes * rng.normal(size=(shape[0], 1, classes))
    return {f"r{index}": matrix for index, matrix in enumerate(cells)}


def test_the_least_leak_among_the_accurate_enough():
    leak = audits([0.0, 10.0, 10.2, 20.0], 0)
    accuracy = {"r0": 0.5, "r1": 0.9, "r2": 0.95, "r3": 0.99}
    found = recommend(leak, accuracy=accuracy, min_accuracy=0.9, seed=0)
    assert (found.best, found.allowed) in [("r1", ("r1", "r2", "r3")), ("r2", ("r1", "r2", "r3"))]
    assert {found.best, *found.runners_up} == {"r1", "r2"}
    assert found.probability_best["r3"] < 0.01
    assert recommend(leak, accuracy=accuracy, seed=0).best == "r0"
    # The constraint changes who is compared, and so the correction.
    assert len(found.comparisons.pairs) == 3


def test_one_allowed_recipe_is_best_and_none_is_said():
    leak, accuracy = audits([0.0, 1.0], 0), {"r0": 0.5, "r1": 0.9}
    alone = recommend(leak, accuracy=accuracy, min_accuracy=0.9, seed=0)
    assert (alone.best, alone.runners_up, alone.probability_best, alone.comparisons) == ("r1", (), {"r1": 1.0}, None)
    nobody = recommend(leak, accuracy=accuracy, min_accuracy=0.91, seed=0)
    assert (nobody.best, nobody.allowed, nobody.probability_best) == (None, (), None)


def test_two_recipes_probability_is_students():
    """Over seeds alone, P(a is best) is Student's t distribution at the standardised difference."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=25), rng.normal(size=25) + 0.3
    found = recommend({"a": a[:, None], "b": b[:, None]}, resamples=20000, seed=0)
    t = stats.ttest_rel(a, b).statistic
    assert found.probability_best["a"] == pytest.approx(stats.t.cdf(-t, 24), abs=0.02)


def test_a_single_seed_cannot_tell():
    for classes in (1, 20):
        leak = audits([0.0, 10.0, 20.0], 0, seeds=1, classes=classes)
        found = recommend(leak, seed=0)
        assert (found.best, found.runners_up, found.probability_best) == ("r0", ("r1", "r2"), None)
        assert np.isnan(selection_optimism(leak, seed=0))


@given(gap=st.floats(0, 3), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_no_probability_contradicts_the_verdicts(gap, seed):
    """Beside a recipe that it cannot be told from, none is the best with more than the level; told from all, with more
    than not."""
    found = recommend(audits([0.0, gap, gap], seed, seeds=2, between_seeds=0.2), resamples=300, seed=seed)
    share = found.probability_best[found.best]
    assert share <= 0.95 + 1e-9 if found.runners_up else share > 0.9
    assert sum(found.probability_best.values()) == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(
    truth=st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    seeds=st.integers(2, 3),
    seed=st.integers(0, 999),
    least=st.floats(0, 1),
)
def test_every_allowed_recipe_is_best_or_runner_up_or_clearly_worse(truth, seeds, seed, least):
    leak = audits(truth, seed, seeds=seeds, classes=6)
    accuracy = dict(zip(leak, np.random.default_rng(seed).random(len(leak)).tolist(), strict=True))
    found = recommend(leak, accuracy=accuracy, min_accuracy=least, resamples=100, seed=seed)
    assert set(found.allowed) == {name for name, value in accuracy.items() if value >= least}
    if not found.allowed:
        return
    assert sum(found.probability_best.values()) == pytest.approx(1)
    means = {name: leak[name].mean() for name in found.allowed}
    assert means[found.best] == min(means.values())
    for name in set(found.allowed) - {found.best}:
        pair = found.comparisons.between(found.best, name)
        told = "lower" if pair.first == found.best else "higher"
        assert pair.verdict == ("inconclusive" if name in found.runners_up else told)
    # Leak in other units, and an order of recipes: the same decision.
    moved = recommend(
        {name: 3 * leak[name] + 1 for name in reversed(leak)}, accuracy=accuracy, min_accuracy=least, seed=seed
    )
    assert moved.best == found.best


@pytest.mark.parametrize("truth", [np.zeros(6), 0.3 * np.arange(6), 2.0 * np.arange(6)])
def test_best_and_runners_up_hold_the_truly_best(truth):
    kept = 0
    for seed in range(150):
        found = recommend(audits(truth, seed), resamples=100, seed=seed)
        kept += "r0" in (found.best, *found.runners_up)
    assert kept / 150 >= 0.95


@pytest.mark.parametrize(("gap", "near"), [(0.0, 0.25), (0.3, 0.25), (2.0, 0.5)])
def test_optimism_is_what_selection_gained(gap, near):
    """Against the truth, known here: how far the selected mean lies below its own, measured from all recipes'."""
    truth = gap * np.arange(6)
    estimated, actual = [], []
    for seed in range(150):
        leak = audits(truth, seed)
        estimated.append(selection_optimism(leak, resamples=200, seed=seed))
        deviations = np.array([cells.mean() for cells in leak.values()]) - truth
        actual.append(deviations.mean() - deviations[np.argmin([cells.mean() for cells in leak.values()])])
    assert np.mean(estimated) == pytest.approx(np.mean(actual), rel=near, abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recommend({"a": [[0.1]]}, min_accuracy=0.9, seed=0), "0.9 needs the test accuracy of recipe a"),
        (lambda: recommend({"a": [[0.1]]}, accuracy={"a": np.nan}, min_accuracy=0.9, seed=0), "of recipe a"),
        (lambda: recommend({}, seed=0), "no recipe"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
