import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.metrics.intervals import bootstrap_mean_interval, seed_mean_interval

shapes = st.tuples(st.integers(1, 6), st.integers(1, 15))


def draw(shape, seed, *, between_seeds=0.5, between_classes=1.0, noise=0.5):
    """Values [seeds, classes] around 0: every seed, every class and every cell has its own normal deviation."""
    rng = np.random.default_rng(seed)
    rows = between_seeds * rng.normal(size=(shape[0], 1)) + between_classes * rng.normal(size=(1, shape[1]))
    return rows + noise * rng.normal(size=shape)


@settings(deadline=None, max_examples=50)
@given(shape=shapes, seed=st.integers(0, 9999), level=st.floats(0.01, 0.99))
def test_contains_the_mean_and_says_what_it_resampled(shape, seed, level):
    values = draw(shape, seed)
    interval = bootstrap_mean_interval(list(values), level=level, resamples=100, seed=seed)
    assert interval.mean == pytest.approx(values.mean())
    assert (interval.n_seeds, interval.n_classes, interval.level) == (*shape, level)
    varies = [name for name, count in zip(("seeds", "classes"), shape, strict=True) if count > 1]
    assert interval.resampled == ("+".join(varies) or "nothing")
    if varies:
        assert interval.low <= interval.mean <= interval.high
    else:
        assert interval.low is None and interval.high is None


@settings(deadline=None, max_examples=30)
@given(shape=shapes, seed=st.integers(0, 9999), shift=st.floats(-100, 100), scale=st.floats(0.1, 10))
def test_moves_with_the_data_and_repeats_with_the_seed(shape, seed, shift, scale):
    values = draw(shape, seed)
    interval = bootstrap_mean_interval(list(values), resamples=100, seed=seed)
    assert bootstrap_mean_interval(values.tolist(), resamples=100, seed=seed) == interval
    moved = bootstrap_mean_interval(list(scale * values + shift), resamples=100, seed=seed)
    assert moved.mean == pytest.approx(scale * interval.mean + shift, abs=1e-9)
    if interval.low is not None:
        assert moved.low == pytest.approx(scale * interval.low + shift, abs=1e-9)
        assert moved.high == pytest.approx(scale * interval.high + shift, abs=1e-9)


def test_another_seed_draws_other_resamples_of_the_same_mean():
    values = list(draw((3, 10), 0))
    one, other = (bootstrap_mean_interval(values, seed=seed) for seed in (1, 2))
    assert one.mean == other.mean
    assert one.low != other.low
    assert one.low == pytest.approx(other.low, abs=0.2 * (one.high - one.low))


@pytest.mark.parametrize(("few", "many"), [((1, 5), (1, 80)), ((3, 40), (12, 40)), ((4, 4), (4, 40))])
def test_shrinks_with_more_seeds_and_more_classes(few, many):
    widths = []
    for shape in (few, many):
        intervals = [bootstrap_mean_interval(list(draw(shape, s)), resamples=200, seed=s) for s in range(20)]
        widths.append(np.mean([interval.high - interval.low for interval in intervals]))
    assert widths[1] < 0.75 * widths[0]


def test_widens_with_the_level():
    values = list(draw((3, 10), 0))
    narrow, wide = (bootstrap_mean_interval(values, level=level, seed=0) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(
    ("shape", "spreads"),
    [
        ((1, 20), {"between_seeds": 0.0}),
        ((3, 20), {"between_seeds": 0.1}),
        ((3, 20), {"between_seeds": 1.0}),
        ((5, 10), {"between_seeds": 1.0, "between_classes": 0.2}),
        ((10, 20), {}),
    ],
)
def test_covers_the_truth_as_often_as_it_says(shape, spreads):
    covered = 0
    for seed in range(300):
        interval = bootstrap_mean_interval(list(draw(shape, seed, **spreads)), resamples=300, seed=seed)
        covered += interval.low <= 0 <= interval.high
    assert 0.90 <= covered / 300 <= 0.99


def test_seed_interval_covers_the_truth_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(size=(300, 3))
    intervals = [seed_mean_interval(values) for values in draws]
    covered = sum(interval.low <= 0 <= interval.high for interval in intervals)
    assert 0.90 <= covered / 300 <= 0.99


def test_one_class_gives_students_t_width_around_the_mean():
    """Three seeds of a single number: the quantiles are the bootstrap's, the scale is Student's."""
    values = [0.1, 0.2, 0.6]
    bootstrap = bootstrap_mean_interval([[value] for value in values], seed=0)
    student = seed_mean_interval(values)
    assert bootstrap.resampled == "seeds"
    assert bootstrap.high - bootstrap.low == pytest.approx(student.high - student.low, rel=0.15)


def test_students_interval_in_closed_form():
    interval = seed_mean_interval([1.0, 2.0, 3.0])
    assert (interval.mean, interval.n_seeds, interval.n_classes, interval.resampled) == (2.0, 3, None, "seeds")
    half = 4.302652729696142 / 3**0.5
    assert (interval.low, interval.high) == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("seeds", [1, 3])
def test_an_interval_says_what_it_is_of(level, seeds):
    several, one = np.arange(2.0 * seeds).reshape(seeds, 2), np.arange(1.0 * seeds)
    for interval, classes in (
        (bootstrap_mean_interval(several, level=level, seed=0), 2), (seed_mean_interval(one, level=level), None),
    ):  # fmt: skip
        assert (interval.level, interval.n_seeds, interval.n_classes) == (level, seeds, classes)


def test_one_seed_has_no_interval():
    interval = seed_mean_interval([0.7])
    assert (interval.mean, interval.low, interval.high, interval.resampled) == (0.7, None, None, "nothing")


def test_one_resample_is_enough_to_be_taken():
    found = bootstrap_mean_interval([[0.1, 0.4], [0.3, 0.9]], seed=0, resamples=1)
    assert np.isfinite([found.low, found.high]).all()


def test_bounds_clip_and_a_spread_of_zero_has_no_width():
    values = [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    assert bootstrap_mean_interval(values, seed=0).high > 1
    assert bootstrap_mean_interval(values, seed=0, bounds=(0, 1)).high == 1
    assert seed_mean_interval([0.0, 0.1], bounds=(0, 1)).low == 0
    flat = bootstrap_mean_interval([[0.3, 0.3], [0.3, 0.3]], seed=0)
    assert (flat.low, flat.high) == (pytest.approx(0.3), pytest.approx(0.3))


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "at least one non-empty array"),
        ([[]], {}, "at least one non-empty array"),
        ([[0.1, 0.2], [0.1]], {}, "the same classes for every seed, got 2, 1 of them"),
        ([[0.1, float("nan")]], {}, "finite numbers"),
        ([[0.1, 0.2]], {"level": 1.0}, "level: expected a number between 0 and 1"),
        ([[0.1, 0.2]], {"resamples": 0}, "resamples: expected at least 1"),
    ],
)
def test_bad_values_are_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_mean_interval(values, seed=0, **options)
