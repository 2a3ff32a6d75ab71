from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.defenses.schedules import RETURNING, AlphaSchedule, alpha_at, validate_schedule
from smoothsweep.core.errors import InputError

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "label_smoothing.npz")
RISING = ("constant", "ramp", "linear", "cosine", "step")

fractions = st.floats(0, 1)
alphas = st.floats(-5, 1)
epoch_counts = st.integers(1, 130)


def alpha_curve(schedule, *, alpha, epochs):
    return [alpha_at(schedule, alpha=alpha, epoch=epoch, epochs=epochs) for epoch in range(epochs)]


@st.composite
def rising_schedules(draw):
    """Any valid schedule that goes from 0 to alpha, `reference` in its scaled form included."""
    kind = draw(st.sampled_from([*RISING, "reference"]))
    if kind == "reference":
        return AlphaSchedule(kind=kind, scaled=True)
    if kind == "step":
        return AlphaSchedule(kind=kind, at=draw(st.floats(0, 1, exclude_max=True)))
    if kind == "constant":
        return AlphaSchedule(kind=kind)
    start = draw(st.floats(0, 1, exclude_max=True))
    return AlphaSchedule(kind=kind, start=start, end=draw(st.floats(start, 1)))


@st.composite
def piecewise_schedules(draw):
    knots = sorted(draw(st.sets(fractions, min_size=1, max_size=6)))
    return AlphaSchedule(kind="piecewise", points=tuple((knot, draw(alphas)) for knot in knots))


@pytest.mark.parametrize(
    ("array", "alpha", "epochs"),
    [("m005_100ep", -0.05, 100), ("m005_80ep", -0.05, 80), ("m005_120ep", -0.05, 120), ("m03_100ep", -0.3, 100)],
)
def test_reference_equals_the_official_schedule(array, alpha, epochs):
    curve = alpha_curve(AlphaSchedule(kind="reference"), alpha=alpha, epochs=epochs)
    np.testing.assert_allclose(curve, GOLDEN[f"ls_schedule_alpha_{array}"], rtol=0, atol=1e-15)


def test_reference_scaled_is_the_same_curve_at_100_epochs_and_fits_any_length():
    scaled = AlphaSchedule(kind="reference", scaled=True)
    assert alpha_curve(scaled, alpha=-0.05, epochs=100) == alpha_curve(
        AlphaSchedule(kind="reference"), alpha=-0.05, epochs=100
    )
    assert alpha_curve(scaled, alpha=-0.8, epochs=8) == pytest.approx([0, 0, 0, 0, -0.2, -0.4, -0.8, -0.8])


def test_reference_with_the_official_epochs_never_smooths_a_short_training():
    schedule = AlphaSchedule(kind="reference")
    assert alpha_curve(schedule, alpha=-0.05, epochs=50) == [0.0] * 50
    with pytest.raises(InputError, match="only 50 epochs; set scaled to true"):
        validate_schedule(schedule, epochs=50)
    validate_schedule(schedule, epochs=51)
    validate_schedule(AlphaSchedule(kind="reference", scaled=True), epochs=2)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (AlphaSchedule(), [1, 1, 1, 1]),
        (AlphaSchedule(kind="linear"), [0.25, 0.5, 0.75, 1]),
        (AlphaSchedule(kind="linear", start=0.5), [0, 0, 0.5, 1]),
        (AlphaSchedule(kind="cosine"), [(1 - 0.5**0.5) / 2, 0.5, (1 + 0.5**0.5) / 2, 1]),
        (AlphaSchedule(kind="step"), [0, 0, 1, 1]),
        (AlphaSchedule(kind="step", at=0), [1, 1, 1, 1]),
        (AlphaSchedule(kind="ramp"), [0, 0, 1, 1]),
        (AlphaSchedule(kind="ramp", start=0.0, end=1.0), [0.15625, 0.5, 0.84375, 1]),
        (AlphaSchedule(kind="ramp", start=0.25, end=0.25), [0, 1, 1, 1]),
        (AlphaSchedule(kind="linear", start=0.0, end=0.5, back=0.5), [0.5, 1, 0.5, 0]),
        (AlphaSchedule(kind="linear", start=0.0, end=0.25, back=0.75), [1, 1, 1, 0]),
        (AlphaSchedule(kind="cosine", start=0.0, end=0.25, back=0.25), [1, 1 - (1 - 0.5) / 2, 1 - (1 + 0.5) / 2, 0]),
        (AlphaSchedule(kind="ramp", start=0.0, end=0.5, back=0.5), [0.5, 1, 0.5, 0]),
        (AlphaSchedule(kind="step", at=0.25, back=0.75), [0, 1, 1, 0]),
        (AlphaSchedule(kind="step", at=0, back=0.5), [1, 1, 0, 0]),
    ],
)
def test_closed_forms_over_four_epochs(schedule, expected):
    assert alpha_curve(schedule, alpha=-0.4, epochs=4) == pytest.approx([-0.4 * share for share in expected])
    assert alpha_curve(schedule, alpha=0.2, epochs=4) == pytest.approx([0.2 * share for share in expected])


def test_piecewise_interpolates_jumps_and_holds_its_ends():
    points = ((0.25, 0.1), (0.5, 0.0), (0.75, -0.1), (0.75, -0.3))
    curve = alpha_curve(AlphaSchedule(kind="piecewise", points=points), alpha=None, epochs=8)
    assert curve == pytest.approx([0.1, 0.1, 0.05, 0.0, -0.05, -0.1, -0.3, -0.3])


def test_piecewise_refuses_an_alpha_it_would_not_reach():
    schedule = AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (1.0, -0.05)))
    assert alpha_at(schedule, alpha=-0.05, epoch=9, epochs=10) == -0.05
    with pytest.raises(InputError, match=r"ends at its last point -0.05, got -0.1"):
        alpha_at(schedule, alpha=-0.1, epoch=9, epochs=10)


@given(schedule=rising_schedules(), alpha=alphas, epochs=epoch_counts)
def test_a_rise_is_monotone_stays_within_alpha_and_arrives(schedule, alpha, epochs):
    curve = [abs(value) for value in alpha_curve(schedule, alpha=alpha, epochs=epochs)]
    assert curve == sorted(curve)
    assert curve[0] >= 0
    assert curve[-1] == abs(alpha)


@st.composite
def returning_schedules(draw):
    """Any valid schedule that goes back to 0, and the same one without the way back."""
    kind = draw(st.sampled_from(RETURNING))
    if kind == "step":
        at = draw(st.floats(0, 0.9))
        given_ = {"at": at, "back": draw(st.floats(at, 1, exclude_min=True, exclude_max=True))}
    else:
        start = draw(st.floats(0, 0.9))
        end = draw(st.floats(start, 0.95))
        given_ = {"start": start, "end": end, "back": draw(st.floats(end, 1, exclude_max=True))}
    return AlphaSchedule(kind=kind, **given_), AlphaSchedule(kind=kind, **{**given_, "back": None})


@given(schedules=returning_schedules(), alpha=alphas, epochs=epoch_counts)
def test_the_way_back_leaves_the_rise_alone_never_rises_and_ends_at_0(schedules, alpha, epochs):
    there_and_back, there = (alpha_curve(schedule, alpha=alpha, epochs=epochs) for schedule in schedules)
    before = sum((epoch + 1) / epochs <= schedules[0].back for epoch in range(epochs))
    assert there_and_back[:before] == there[:before]
    falling = [abs(value) for value in there_and_back[before:]]
    assert falling == sorted(falling, reverse=True) and falling[-1] == 0


@given(schedule=piecewise_schedules(), epochs=epoch_counts)
def test_piecewise_stays_within_its_points_and_arrives(schedule, epochs):
    curve = alpha_curve(schedule, alpha=None, epochs=epochs)
    values = [alpha for _, alpha in schedule.points]
    assert min(values) <= min(curve) and max(curve) <= max(values)
    assert curve[-1] == values[-1]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (AlphaSchedule(kind="sigmoid"), "one of constant, reference, ramp, linear, cosine, step, piecewise"),
        (AlphaSchedule(kind="ramp", start=0.8, end=0.2), "ends before it starts, start 0.8, end 0.2"),
        (AlphaSchedule(kind="linear", start=-0.1), r"start: expected a fraction of the training in \[0, 1\]"),
        (AlphaSchedule(kind="cosine", start=float("nan")), "expected a fraction"),
        (AlphaSchedule(kind="cosine", start=1.0), "begins at 1, after the last epoch"),
        (AlphaSchedule(kind="step", start=0.5), "step: does not read 'start'; it reads at, back"),
        (AlphaSchedule(kind="constant", back=0.5), "constant: does not read 'back'"),
        (AlphaSchedule(kind="ramp", back=0.7), r"back: expected at least end \(0.75\), got 0.7"),
        (AlphaSchedule(kind="step", at=0.5, back=0.5), r"back: expected above at \(0.5\), got 0.5"),
        (AlphaSchedule(kind="linear", end=0.5, back=1), "goes back at 1, after the last epoch"),
        (AlphaSchedule(kind="reference", scaled="yes"), "expected true or false"),
        (AlphaSchedule(kind="piecewise"), r"expected a list of \(fraction, alpha\) pairs, got None"),
        (AlphaSchedule(kind="piecewise", points=((0.5,),)), "expected \\(fraction, alpha\\) pairs"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (0.2, 0.1))), "rising fractions, got 0.5, 0.2"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 2.0),)), "points: alpha: expected a finite number"),
        (AlphaSchedule(kind="piecewise", points=((1, 0.0), (1, 0.1))), "at most 1 at fraction 1, got 2"),
        (AlphaSchedule(kind="piecewise", points=((0.5, 0.0), (0.5, 0.1), (0.5, 0.2))), "at most 2 at"),
    ],
)
def test_wrong_schedules_are_refused_in_one_line(schedule, message):
    with pytest.raises(InputError, match=message) as refusal:
        validate_schedule(schedule)
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=message):
        alpha_at(schedule, alpha=0.0, epoch=0, epochs=1)
