"""How the smoothing factor moves over the epochs.

A schedule is a kind with its parameters; the factor it leads to (`alpha`) is given apart, so that one
schedule serves a whole grid of factors. Kinds measure progress by t = (e + 1) / E, the share of the training
done when zero-based epoch e of E ends. So t = 1 is the last epoch, a `start` of 0.5 leaves the first half
untouched, and the official code's ramp has the same clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal

from smoothsweep.core.bounds import Fraction
from smoothsweep.core.errors import InputError


def check_alpha(alpha: float, *, name: str = "alpha") -> float:
    """`alpha` as a float if it is finite and at most 1; otherwise InputError, which calls it `name`."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha) or alpha > 1:
        raise InputError(f"{name}: expected a finite number of at most 1, got {alpha!r}")
    return float(alpha)


REFERENCE_START, REFERENCE_FULL = 50, 75


@dataclass(frozen=True, kw_only=True)
class AlphaSchedule:
    """One way to reach the final smoothing factor. A field at None takes the kind's default (PARAMETERS).

    Types are checked where a sweep file is read, how the fields agree by `validate_schedule`, which `alpha_at` calls.

    Attributes:
        kind: Constant; reference, as the paper's code does; ramp, a smooth rise as in the paper's text; linear; cosine;
            step; or piecewise.
        start: Fraction of the training where the rise begins, with ramp, linear and cosine; null: 0.5 with ramp, else
            0.
        end: Fraction of the training where the rise is complete, with ramp, linear and cosine; null: 0.75 with ramp,
            else 1.
        at: Fraction of the training up to which the factor is 0, with step; null: 0.5.
        back: Fraction of the training from which the factor returns to 0, with ramp, linear, cosine and step; null: it
            stays.
        scaled: Whether the breakpoints lie at 1/2 and 3/4 of the training, with reference; null or false: at epochs 50
            and 75.
        points: List of [fraction of the training, alpha], joined by straight lines, with piecewise; two at one fraction
            jump.
    """

    kind: Literal["constant", "reference", "ramp", "linear", "cosine", "step", "piecewise"] = "constant"
    start: Fraction | None = None
    end: Fraction | None = None
    at: Fraction | None = None
    back: Fraction | None = None
    scaled: bool | None = None
    points: tuple[tuple[Fraction, float], ...] | None = None


def _constant(*, alpha: float, epoch: int, epochs: int) -> float:
    """alpha from the first epoch on."""
    return alpha


def _reference(*, alpha: float, epoch: int, epochs: int, scaled: bool) -> float:
    """The rise as coded in train_model.py of LukasStruppek/Plug-and-Play-Attacks (commit 9a79baf).

    Nothing for 50 epochs, a ramp whose slope depends on E up to epoch 75, then a jump to alpha.
    """
    start, full = (epochs // 2, 3 * epochs // 4) if scaled else (REFERENCE_START, REFERENCE_FULL)
    if epoch < start:
        return 0.0
    return alpha if epoch >= full else alpha * ((epoch + 1 - start) / (epochs - start))


def _rise(shape: Callable[[float], float]) -> Callable[..., float]:
    """A rise of this shape, [0, 1] to [0, 1], and from `back` to the end of the training its mirror image."""

    def curve(*, alpha: float, epoch: int, epochs: int, start: float, end: float, back: float | None = None) -> float:
        if back is None or (epoch + 1) / epochs <= back:
            return alpha * shape(_progress(epoch, epochs, start, end))
        return alpha * (1.0 - shape(_progress(epoch, epochs, back, 1.0)))

    return curve


def _step(*, alpha: float, epoch: int, epochs: int, at: float, back: float | None = None) -> float:
    """Nothing up to `at`, alpha from there on, nothing again after `back`."""
    t = (epoch + 1) / epochs
    return alpha if t > at and (back is None or t <= back) else 0.0


def _piecewise(*, alpha: float, epoch: int, epochs: int, points: tuple[tuple[float, float], ...]) -> float:
    """Straight lines between free points. `alpha` has been checked to be the last point's value."""
    t = (epoch + 1) / epochs
    if t <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if left < t <= right:
            share = (t - left) / (right - left)
            value = low * (1 - share) + high * share
            return min(max(value, min(low, high)), max(low, high))  # rounding must not leave the segment
    return points[-1][1]


def _progress(epoch: int, epochs: int, start: float, end: float) -> float:
    """0 up to `start`, 1 from `end` on, linear between; a jump just after `start` when both are equal."""
    t = (epoch + 1) / epochs
    if t <= start:
        return 0.0
    return 1.0 if t >= end else (t - start) / (end - start)


SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": _constant,
    "reference": _reference,
    # The smoothstep polynomial, flat at both ends, so that the loss never jumps: what the paper's text describes (4.1).
    "ramp": _rise(lambda x: min(1.0, x * x * (3 - 2 * x))),
    "linear": _rise(lambda x: x),
    "cosine": _rise(lambda x: (1 - math.cos(math.pi * x)) / 2),  # within 0.011 alpha of `ramp`
    "step": _step,
    "piecewise": _piecewise,
}

PARAMETERS: dict[str, dict[str, Any]] = {  # what each kind reads, and the default; None: must be given
    "constant": {},
    "reference": {"scaled": False},
    "ramp": {"start": 0.5, "end": 0.75},
    "linear": {"start": 0.0, "end": 1.0},
    "cosine": {"start": 0.0, "end": 1.0},
    "step": {"at": 0.5},
    "piecewise": {"points": None},
}

RETURNING = ("ramp", "linear", "cosine", "step")
"""Kinds that may also read `back`. It is no key of what a schedule resolves to unless it is given, so that those
without it keep the fingerprints they had before it existed."""


def alpha_at(schedule: AlphaSchedule, *, alpha: float | None, epoch: int, epochs: int) -> float:
    """Effective smoothing factor of zero-based `epoch` of `epochs`, for a schedule that leads to `alpha`.

    `piecewise` carries its own values: there alpha must be None or equal the last point's.
    Raises InputError for an invalid schedule or alpha, ValueError for an epoch outside [0, epochs).
    """
    validate_schedule(schedule)
    if epochs < 1 or not 0 <= epoch < epochs:
        raise ValueError(f"epoch: expected 0 <= epoch < epochs, got {epoch} of {epochs}")
    final = _final_alpha(schedule, alpha)
    return SCHEDULES[schedule.kind](alpha=final, epoch=epoch, epochs=epochs, **schedule_parameters(schedule))


def usual_schedule(alpha: float) -> Literal["ramp", "constant"]:
    """The kind of schedule that a factor takes where none is named: the paper text's `ramp` below 0, else constant."""
    return "ramp" if alpha < 0 else "constant"


def schedule_parameters(schedule: AlphaSchedule) -> dict[str, Any]:
    """The parameters a known kind reads, defaults filled in; with the kind, they decide the curve's shape."""
    defaults = PARAMETERS[schedule.kind]
    stated = {name: getattr(schedule, name) for name in defaults}
    parameters = {name: defaults[name] if value is None else value for name, value in stated.items()}
    if schedule.kind in RETURNING and schedule.back is not None:
        parameters["back"] = schedule.back
    return parameters


def validate_schedule(schedule: AlphaSchedule, *, epochs: int | None = None) -> None:
    """Raises InputError (one line) if the schedule is wrong in itself.

    That is: a parameter the kind does not read, an end before the start, a rise that would begin after the last epoch,
    a way back before the rise is complete or after the last epoch, points out of order or without effect. With
    `epochs` given, also an unscaled `reference` schedule too short to ever smooth.
    """
    accepted = (*PARAMETERS[schedule.kind], *(("back",) if schedule.kind in RETURNING else ()))
    for field in fields(schedule):
        if field.name != "kind" and field.name not in accepted and getattr(schedule, field.name) is not None:
            reads = ", ".join(accepted) or "no parameter"
            raise InputError(f"schedule {schedule.kind}: does not read {field.name!r}; it reads {reads}")
    parameters = schedule_parameters(schedule)
    if schedule.kind == "piecewise":
        return _check_points(parameters["points"])
    if schedule.kind == "reference":
        return _check_reference(parameters["scaled"], epochs)
    begin = next((parameters[name] for name in ("start", "at") if name in parameters), None)
    if begin is not None and begin == 1:
        raise InputError(f"schedule {schedule.kind}: begins at 1, after the last epoch; expected below 1")
    if "end" in parameters and parameters["end"] < parameters["start"]:
        start, end = parameters["start"], parameters["end"]
        raise InputError(f"schedule {schedule.kind}: ends before it starts, start {start:g}, end {end:g}")
    if "back" in parameters:
        _check_back(schedule.kind, parameters)


def _final_alpha(schedule: AlphaSchedule, alpha: float | None) -> float:
    if schedule.kind == "piecewise":
        last = float(schedule_parameters(schedule)["points"][-1][1])
        if alpha is not None and not math.isclose(check_alpha(alpha), last, rel_tol=1e-12):
            raise InputError(f"alpha: a piecewise schedule ends at its last point {last:g}, got {alpha:g}")
        return last
    if alpha is None:
        raise InputError(f"alpha: expected a number for a {schedule.kind} schedule, got nothing")
    return check_alpha(alpha)


def _check_reference(scaled: bool, epochs: int | None) -> None:
    if not scaled and epochs is not None and epochs <= REFERENCE_START:
        raise InputError(
            f"schedule reference: starts to smooth at epoch {REFERENCE_START}, but there are only {epochs} "
            "epochs; set scaled to true or train longer"
        )


def _check_back(kind: str, parameters: dict[str, Any]) -> None:
    back, name = parameters["back"], "end" if "end" in parameters else "at"
    complete = parameters[name]
    if back == 1:
        raise InputError(f"schedule {kind}: goes back at 1, after the last epoch; expected back below 1")
    if back < complete or (name == "at" and back == complete):  # a step back where it jumps would smooth nothing
        least = "at least" if name == "end" else "above"
        raise InputError(f"schedule {kind}: back: expected {least} {name} ({complete:g}), got {back:g}")


def _check_points(points: tuple[tuple[float, float], ...] | None) -> None:
    what = "schedule piecewise: points"
    if not points:
        raise InputError(f"{what}: expected a list of (fraction, alpha) pairs, got {points!r}")
    for _, alpha in points:
        check_alpha(alpha, name=f"{what}: alpha")
    fractions = [fraction for fraction, _ in points]
    if fractions != sorted(fractions):
        raise InputError(f"{what}: expected rising fractions, got {', '.join(f'{f:g}' for f in fractions)}")
    for fraction in set(fractions):
        times = fractions.count(fraction)
        most = 1 if fraction in (0, 1) else 2  # no effect: a jump at the very ends, the middle of three
        if times > most:
            raise InputError(f"{what}: expected at most {most} at fraction {fraction:g}, got {times}")
