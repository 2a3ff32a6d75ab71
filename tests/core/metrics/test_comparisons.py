import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import compare_recipes


def draw(shape, seed, *, between_seeds=0.3, shared=1.0, between_classes=0.5, noise=0.5):
    """Values [recipes, seeds, classes] with no true difference: every recipe has its own deviation by seed, by class
    and by cell, and all share what is easy and what is hard."""
    recipes, seeds, classes = shape
    rng = np.random.default_rng(seed)
    values = shared * rng.normal(size=(1, 1, classes)) + between_classes * rng.normal(size=(recipes, 1, classes))
    return values + between_seeds * rng.normal(size=(recipes, seeds, 1)) + noise * rng.normal(size=shape)


def named(cells):
    return {f"r{index}": matrix for index, matrix in enumerate(cells)}


def test_two_recipes_over_seeds_are_the_paired_t_test():
    first, second = np.random.default_rng(1).normal(size=(2, 4))
    pair = compare_recipes({"a": first[:, None], "b": second[:, None]}).pairs[0]
    assert pair.p == pytest.approx(stats.ttest_rel(first, second).pvalue)


def test_two_recipes_over_seeds_and_classes_are_banerjees_interval():
    """Either variance stretched by its own quantile of t, then added (Banerjee, 1961), the interaction counted once."""
    a, b = draw((2, 3, 20), 4)
    gaps = a - b
    residual = gaps - gaps.mean(axis=0) - gaps.mean(axis=1, keepdims=True) + gaps.mean()
    interaction = (residual**2).sum() / (2 * 19) / 60
    of_seeds, of_classes = gaps.mean(axis=1).var(ddof=1) / 3, gaps.mean(axis=0).var(ddof=1) / 20
    assert of_classes > interaction > of_seeds  # so the whole is what the classes alone say
    parts = [(of_seeds, 2), (of_classes - of_seeds, 19)]
    half = np.sqrt(sum(stats.t.isf(0.025, freedom) ** 2 * variance for variance, freedom in parts))
    pair = compare_recipes({"a": a, "b": b}).pairs[0]
    assert (pair.low, pair.high) == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    at_p = sum(stats.t.isf(pair.p / 2, freedom) ** 2 * variance for variance, freedom in parts)
    assert at_p == pytest.approx(gaps.mean() ** 2)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(2, 5), st.integers(1, 4), st.integers(1, 8)),
    seed=st.integers(0, 999),
    scale=st.floats(0.1, 10),
    shift=st.floats(-10, 10),
)
def test_comparisons_scale_with_the_data_and_turn_with_the_order(shape, seed, scale, shift):
    cells = draw(shape, seed)
    found = compare_recipes(named(cells))
    assert found == compare_recipes(named(cells))
    assert len(found.pairs) == shape[0] * (shape[0] - 1) // 2
    moved = compare_recipes(named(scale * cells + shift))
    turned = compare_recipes(dict(reversed(named(cells).items())))
    for pair, other in zip(found.pairs, moved.pairs, strict=True):
        back = turned.between(pair.first, pair.second)
        assert (back.first, back.second) == (pair.second, pair.first)
        assert back.difference == pytest.approx(-pair.difference, abs=1e-9)
        if shape[1] == 1:
            assert (pair.low, pair.high, pair.p, pair.p_corrected) == (None,) * 4
            assert pair.verdict == "inconclusive"
            continue
        assert pair.low <= pair.difference <= pair.high
        assert pair.p <= pair.p_corrected <= 1
        assert (pair.p_corrected <= 0.05) == (not pair.low <= 0 <= pair.high) == (pair.verdict != "inconclusive")
        assert (other.low, other.high) == pytest.approx((scale * pair.low, scale * pair.high), abs=1e-6)
        assert other.p == pytest.approx(pair.p, abs=1e-6)
        assert back.p_corrected == pytest.approx(pair.p_corrected, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(shape=st.tuples(st.integers(2, 4), st.integers(1, 3), st.integers(1, 4)), seed=st.integers(0, 999))
def test_no_interval_leaves_what_a_difference_can_be_and_no_verdict_changes(shape, seed):
    shares = np.random.default_rng(seed).random(shape)
    free, held = compare_recipes(named(shares)), compare_recipes(named(shares), span=1.0)
    for pair, other in zip(free.pairs, held.pairs, strict=True):
        assert (pair.difference, pair.p, pair.p_corrected, pair.verdict) == (
            other.difference,
            other.p,
            other.p_corrected,
            other.verdict,
        )
        if pair.low is not None:
            assert (other.low, other.high) == (max(pair.low, -1), min(pair.high, 1))


def test_more_recipes_need_more_evidence():
    cells = draw((8, 3, 20), 0)
    few, many = (compare_recipes(named(cells[:count])) for count in (2, 8))
    assert many.between("r0", "r1").p_corrected >= many.between("r0", "r1").p
    alone = few.pairs[0]
    counted = compare_recipes(named(cells[:2]), among=28).pairs[0]
    assert counted.high - counted.low > alone.high - alone.low and counted.p_corrected == min(1, 28 * alone.p)
    assert counted.verdict == "inconclusive" or counted.p_corrected <= 0.05


def test_what_is_there_is_found_and_what_is_shared_drops_out():
    """Classes differ far more than recipes, and a seed moves all recipes alike."""
    rng = np.random.default_rng(0)
    common = 10 * rng.normal(size=(1, 1, 20)) + 5 * rng.normal(size=(1, 3, 1))
    cells = common + np.array([0.0, 0.0, 0.2])[:, None, None] + 0.05 * rng.normal(size=(3, 3, 20))
    found = compare_recipes(named(cells))
    assert [pair.verdict for pair in found.pairs] == ["inconclusive", "lower", "lower"]
    assert found.between("r2", "r0").low < -0.2 < found.between("r2", "r0").high


@pytest.mark.parametrize(
    ("shape", "spreads"),
    [
        ((5, 3, 20), {"between_seeds": 1.0}),
        ((5, 2, 20), {}),
        ((5, 3, 1), {"between_seeds": 1.0, "between_classes": 0.0}),
        ((5, 5, 20), {"between_seeds": np.array([3.0, 1, 1, 1, 1])[:, None, None], "noise": 0.3}),
    ],
)
def test_false_claims_among_all_pairs_stay_below_the_level(shape, spreads):
    """Without any true difference, one or more claims may come up in 5 % of sweeps, not of pairs."""
    claims = single = 0
    for seed in range(200):
        found = compare_recipes(named(draw(shape, seed, **spreads)))
        claims += any(pair.verdict != "inconclusive" for pair in found.pairs)
        single += any(pair.p <= 0.05 for pair in found.pairs)
    assert claims / 200 <= 0.05 + 0.031  # two standard errors of the simulation
    assert single / 200 > 0.12  # the correction is needed: uncorrected p-values fail


def test_one_seed_gives_differences_and_nothing_else():
    found = compare_recipes({"a": [np.zeros(30)], "b": [np.ones(30)]})
    pair = found.pairs[0]
    assert (pair.difference, pair.low, pair.high, pair.p, pair.p_corrected) == (-1, None, None, None, None)
    assert pair.verdict == "inconclusive"


def test_equal_recipes_and_values_without_spread():
    flat = compare_recipes({"a": 4 * [[0.1, 0.1]], "b": 4 * [[0.1, 0.1]], "c": 4 * [[0.4, 0.4]]})
    same, apart = flat.between("a", "b"), flat.between("a", "c")
    assert (same.difference, same.low, same.high, same.p, same.verdict) == (0, 0, 0, 1, "inconclusive")
    assert (apart.low, apart.high) == (pytest.approx(-0.3), pytest.approx(-0.3))
    assert (apart.p, apart.verdict) == (2.0**-7, "lower")  # eight differences, all of one sign
    # Two numbers that happen to agree hold no hint of how far a third would lie.
    few = compare_recipes({"a": [[0.1], [0.1]], "c": [[0.4], [0.4]]}).pairs[0]
    assert (few.low, few.high, few.p, few.verdict) == (None, None, 0.5, "inconclusive")
    # 0.1 + 0.2 and 0.3 differ by rounding only.
    rounding = compare_recipes({"a": 2 * [[0.1 + 0.2, 0.7]], "b": 2 * [[0.3, 0.7]]}).pairs[0]
    assert (rounding.p, rounding.verdict) == (1, "inconclusive")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({"a": [[0.1, 0.2]]}, {}, "at least 2 recipes, got 1"),
        ({"a": [0.1], "b": [[0.1]]}, {}, r"recipe a: expected values \[seeds, classes\], got shape \[1\]"),
        ({"a": [[0.1]], "b": [[0.1, 0.2]]}, {}, r"same seeds and classes for all, got \[1, 1\], \[1, 2\]"),
        ({"a": [[0.1]], "b": [[float("nan")]]}, {}, "recipe b: expected finite values"),
    ],
)
def test_bad_values_are_refused(values, options, message):
    with pytest.raises(InputError, match=message):
        compare_recipes(values, **options)
