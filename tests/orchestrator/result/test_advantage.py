"""The attacker's gain over plain training: recomputed from the means, by factor and by images per class."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.estimates import Comparison, Sample
from smoothsweep.orchestrator.result.leaks import advantage_panels, exposed
from smoothsweep.orchestrator.result.summary import summarise


@pytest.fixture(scope="module")
def swept(make_data):
    return summarise(make_data())


def test_every_point_is_the_relative_difference_to_plain_training(swept):
    panels = advantage_panels(swept)
    assert [panel.title for panel in panels] == ["cross entropy", "Poincar\u00e9"]
    frame = swept.frame[swept.frame["attack_loss"] == "poincare"].set_index("alpha")
    rows = {cell["alpha"]: row for row, cell in swept.cells.items() if cell["attack_loss"] == "poincare"}
    panel = panels[1]
    for label, key, sign in (("independent judge", "embedder_acc1", 1), ("face distance", "dist_face", -1)):
        points = {point.x: point for point in panel.curves[label]}
        plain = frame.loc[0.0, key]
        for alpha, point in points.items():
            expected = sign * swept.gap(rows[alpha], key).difference / plain if alpha else 0.0
            assert point.value == pytest.approx(expected, abs=0.02)  # a seed is missing on one side
            assert not point.low > point.value and not point.high < point.value
    negative = {point.x: point.value for point in panel.curves["independent judge"]}
    assert negative[-0.2] < negative[0.0] == 0 < negative[0.1]


def test_without_several_factors_there_is_no_panel(make_data):
    data = make_data()
    few = data.results[data.results["alpha"].isin([0.0, 0.1])]
    assert advantage_panels(summarise(make_data(results=few))) == []
    assert advantage_panels(summarise(make_data(baseline={}))) == []


def hand_made(axes=("alpha",), **columns):
    """A frame with differences that need no statistics: `leak_diff` beside the leak, and its ends."""
    frame = pd.DataFrame(columns)
    rows = len(frame)
    plain = {"control": [False] * rows, "is_baseline": frame["alpha"].eq(0).tolist()}
    shown = frame.assign(is_baseline=plain["is_baseline"])

    def gap(row, key):
        return Comparison(**{name: frame.loc[row, f"{key}_diff{end}"] for name, end in ENDS.items()}, n=1, verdict="")

    return SimpleNamespace(
        cells=dict(enumerate(shown.to_dict("records"))),
        gap=gap,
        frame=frame.assign(**{name: values for name, values in plain.items() if name not in frame}),
        axes=tuple(Axis(key=key) for key in axes),
        measured=("embedder_acc1", "dist_face"),
    )


ENDS = {"difference": "", "low": "_low", "high": "_high"}
RISING = [0.1, -0.2, 0.0, -0.1]
BY_HAND = {
    "alpha": RISING,
    "embedder_acc1": [0.6, 0.1, 0.4, 0.3],
    "embedder_acc1_diff": [0.2, -0.3, np.nan, -0.1],
    "embedder_acc1_diff_low": [0.1, -0.36, np.nan, -0.2],
    "embedder_acc1_diff_high": [0.24, -0.28, np.nan, np.nan],
    "dist_face": [1.0, 1.5, 1.25, 1.4],
    "dist_face_diff": [-0.25, 0.25, np.nan, 0.15],
    "dist_face_diff_low": [-0.5, 0.125, np.nan, 0.1],
    "dist_face_diff_high": [-0.125, 0.5, np.nan, 0.2],
}


def values(points):
    return [(point.x, point.value, point.low, point.high) for point in points]


def test_by_hand_a_rate_grows_and_a_distance_shrinks():
    """From .4: +.2 is half more, -.3 three fourths less. A distance of 1.25 less .25 is a fifth more leak."""
    (panel,) = advantage_panels(hand_made(**BY_HAND))
    rate, distance = panel.curves["independent judge"], panel.curves["face distance"]
    assert (panel.title, set(panel.curves)) == ("", {"independent judge", "face distance"})
    np.testing.assert_allclose(
        values(rate),
        [
            (-0.2, -0.75, -0.9, -0.7),
            (-0.1, -0.25, -0.5, np.nan),
            (0.0, 0.0, np.nan, np.nan),
            (0.1, 0.5, 0.25, 0.6),
        ],
    )
    np.testing.assert_allclose(
        values(distance),
        [
            (-0.2, -0.2, -0.4, -0.1),
            (-0.1, -0.12, -0.16, -0.08),
            (0.0, 0.0, np.nan, np.nan),
            (0.1, 0.2, 0.1, 0.4),
        ],
    )


METRIC = "embedder_acc1"
NAMES = list("abcdefgh")
RATES = np.linspace(0.0, 1.0, len(NAMES))


def sample(names=NAMES, images=10):
    rates = pd.Series(dict(zip(NAMES, RATES, strict=True)))[list(names)]
    counts = None if images is None else pd.Series(images, index=list(names))
    return Sample(value=float(rates.mean()), by_class=rates, counts=counts)


def summary(*samples):
    seeds = dict(enumerate(samples))
    return SimpleNamespace(samples=[{METRIC: seeds}], settings=SimpleNamespace(level=0.95))


def test_each_number_is_that_of_the_estimator_and_the_surest_come_first():
    found = exposed(summary(sample(), sample()), 0, METRIC)
    wanted = exposures(np.stack([RATES, RATES]), np.full((2, len(NAMES)), 10), level=0.95)
    assert [one.key for one in found][:3] == ["h", "g", "f"]
    for one in found:
        at = NAMES.index(one.key)
        assert (one.share, one.rate, one.low, one.high, one.among_top) == pytest.approx(
            (wanted.share[at], wanted.rate[at], wanted.low[at], wanted.high[at], wanted.among_top[at])
        )
