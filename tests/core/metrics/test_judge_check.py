"""Which judges can tell a leak, by hand."""

import pytest

from smoothsweep.core.metrics.intervals import check_judge

Z = 1.959963984540054


def wilson_low(p, n):
    k = Z**2 / n
    return (p + k / 2 - (k * p * (1 - p) + k**2 / 4) ** 0.5) / (1 + k)


@pytest.mark.parametrize(
    ("real", "images", "chance", "more", "why"),
    [
        (1 / 6, 24, 1 / 6, {}, "chance"),  # six people, and an evaluator that names one of them
        (0.5, 24, 1 / 6, {}, "chance"),  # its interval begins at 31 %, where a fifth of the way from chance is at 33 %
        (0.5, 240, 1 / 6, {}, ""),
        (0.5, None, 1 / 6, {}, ""),  # of how many is not known
        (0.3, None, 1 / 6, {}, "chance"),
        (0.75, 16, 0.5, {}, "chance"),  # two people
        (1.0, 16, 0.5, {}, ""),
        (0.25, 3000, 1 / 530, {"targets": 0.95}, "targets"),
        (0.48, 3000, 1 / 530, {"targets": 0.95}, ""),
        (0.02, 500, 0.01, {}, "chance"),  # a recogniser that accepts hardly more people than strangers
        (0.6, 500, 0.01, {}, ""),
        (0.62, 100, 0.05, {"reach": (0.96, 50)}, "reach"),
        (0.62, 100, 0.05, {"reach": (0.66, 50)}, ""),
        (0.95, 100, None, {}, ""),
    ],
)
def test_a_judge_tells_a_leak_where_its_interval_clears_chance_by_far(real, images, chance, more, why):
    check = check_judge(real, images=images, chance=chance, **more)
    assert check.why == why and check.is_good == (not why and real >= 0.8)
    assert check.low == pytest.approx(real if images is None else wilson_low(round(real * images) / images, images))
    assert not why or f"{100 * real:.1f}" in check.words
