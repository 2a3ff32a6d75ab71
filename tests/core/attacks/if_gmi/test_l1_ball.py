"""The way back to the L1 ball: known points, the nearest of all by trying out, and what it never does."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.if_gmi.l1_ball import l1_balls, on_l1_ball


@pytest.mark.parametrize(
    ("change", "radius", "expected"),
    [
        ([3.0, -1.0, 0.5], 2.0, [2.0, 0.0, 0.0]),
        ([2.0, -1.5, 0.5], 2.0, [1.25, -0.75, 0.0]),
        ([1.0, 1.0, -1.0, 1.0], 2.0, [0.5, 0.5, -0.5, 0.5]),
        ([0.0, -5.0], 1e-6, [0.0, -1e-6]),
    ],
)
def test_points_worked_out_by_hand(change, radius, expected):
    found = on_l1_ball(torch.tensor(change, dtype=torch.float64), radius)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def nearest_by_trying(change, radius):
    """Of every choice of entries that are not 0, the nearest point of the face; the nearest of these."""
    best = None
    for kept in itertools.product((False, True), repeat=len(change)):
        rows = torch.tensor(kept)
        if not rows.any() or (change[rows] == 0).any():
            continue
        point = torch.zeros_like(change)
        point[rows] = change[rows] - change[rows].sign() * (change[rows].abs().sum() - radius) / rows.sum()
        allowed = bool((point * change >= 0).all())
        distance = float((point - change).norm())
        if allowed and (best is None or distance < best[0]):
            best = distance, point
    return best


entries = st.lists(st.floats(-4, 4, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=1, max_size=4)


@settings(max_examples=30)
@given(entries, st.floats(0.01, 0.99))
def test_it_is_the_nearest_point_of_the_ball(values, share):
    change = torch.tensor(values, dtype=torch.float64)
    radius = share * float(change.abs().sum())
    if not radius:
        return
    found = on_l1_ball(change, radius)
    distance, point = nearest_by_trying(change, radius)
    assert float(found.abs().sum()) == pytest.approx(radius, rel=1e-9)
    assert float((found - change).norm()) == pytest.approx(distance, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(found, point, rtol=0, atol=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(0.05, 3.0))
def test_every_row_and_span_has_a_ball_of_its_own_and_what_is_inside_stays_bit_for_bit(seed, count, radius):
    source = torch.Generator().manual_seed(seed)
    start, rows = (torch.randn(count, 9, generator=source) for _ in range(2))
    spans = slice(0, 2), slice(2, 7)  # the last two columns are nobody's
    found = l1_balls(start, spans, radius)(rows)
    assert torch.equal(found[:, 7:], rows[:, 7:])
    for span in spans:
        moved = (rows - start)[:, span]
        inside = moved.abs().sum(1, dtype=torch.float64) <= radius
        assert torch.equal(found[inside, span], rows[inside, span])
        for row in torch.nonzero(~inside)[:, 0]:
            torch.testing.assert_close((found - start)[row, span], on_l1_ball(moved[row], radius), rtol=0, atol=1e-6)
    alone = torch.cat([l1_balls(start[i : i + 1], spans, radius)(rows[i : i + 1]) for i in range(count)])
    assert torch.equal(found, alone)
