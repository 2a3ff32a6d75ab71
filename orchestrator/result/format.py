"""Numbers as a reader wants them: as many digits as the interval supports, true minus signs, units that never wrap."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import MINUS, NBSP, counted, minus
from smoothsweep.orchestrator.result.data import Axis

if TYPE_CHECKING:
    from typing_extensions import TypeIs

ABSENT = "\u2013"
ROUGH = 0.02
"""Intervals of fractions at least this far to either side are given in whole per cents."""


def is_null(value: Any) -> TypeIs[None]:
    """None, NaN and pandas' NA mean "not measured"."""
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def axis_value(axis: Axis, value: Any) -> str:
    """A value of an axis as text: the axis's own wording first, numbers without a tail of digits."""
    if is_null(value):
        return ABSENT
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, sort_keys=True, default=str)
    if value in axis.values:
        return str(axis.values[value])
    item = value.item() if hasattr(value, "item") else value
    return minus(f"{item:g}") if isinstance(item, (int, float)) and not isinstance(item, bool) else str(item)


def axis_words(axis: Axis, value: Any) -> str:
    """`alpha −0.2`, or the value alone where it speaks for itself."""
    text = axis_value(axis, value)
    return text if axis.bare else f"{axis.name}{NBSP}{text}"


def defense_key(parameters: Sequence[Axis], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of these axes, equal for equal defenses however a table stores them: None for each that is missing."""
    stated: list[Any] = [values.get(axis.key) for axis in parameters]
    return tuple(None if is_null(value) else value if isinstance(value, str) else float(value) for value in stated)


def ascii_text(text: str) -> str:
    """The same text for a terminal: plain minus signs, spaces and quotes."""
    for fine, plain in ((MINUS, "-"), (NBSP, " "), (ABSENT, "-"), ("\u201c", '"'), ("\u201d", '"')):
        text = text.replace(fine, plain)
    return text


def significant(value: float) -> str:
    """`value` to three digits but no more than three decimals, unless it would look like 0; never in powers of ten."""
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    decimals = min(3, max(0, 2 - power))
    if round(abs(value), decimals) == 0:
        decimals = min(-power, 9)
    return minus(f"{value:,.{decimals}f}")


def number(spec: Metric, value: Any, *, rough: bool = False) -> str:
    """A metric's value with its unit, or a dash where it was not measured. rough: whole per cents."""
    if is_null(value):
        return ABSENT
    if spec.unit == "percent":
        return f"{minus(f'{100 * value:.{0 if rough else 1}f}')}{NBSP}%"
    return significant(value)


def interval(spec: Metric, low: Any, high: Any) -> str:
    """`[low, high]` without unit; empty where no interval is known."""
    if is_null(low) or is_null(high):
        return ""
    decimals = 0 if _is_wide(low, high) else 1
    ends = [minus(f"{100 * end:.{decimals}f}") if spec.unit == "percent" else significant(end) for end in (low, high)]
    return f"[{ends[0]},{NBSP}{ends[1]}]"


def estimate(spec: Metric, mean: Any, low: Any, high: Any) -> str:
    """Mean and interval for a sentence: whole per cents where the interval is wide."""
    rough = not is_null(low) and not is_null(high) and _is_wide(low, high)
    return f"{number(spec, mean, rough=rough)} {interval(spec, low, high)}".strip()


def _is_wide(low: float, high: float) -> bool:
    return (high - low) / 2 >= ROUGH


def signed(spec: Metric, value: Any) -> str:
    """A difference with its sign: percentage points for fractions."""
    if is_null(value):
        return ABSENT
    digits = _size(spec, value)
    return _sign(digits, value) + digits


def points(spec: Metric, value: float) -> str:
    """The size of a difference in words: "1.2 points", "0.4"."""
    digits = _size(spec, value)
    return digits if spec.unit != "percent" else f"{digits}{NBSP}{'point' if digits == '1.0' else 'points'}"


def difference(spec: Metric, value: Any, low: Any, high: Any) -> str:
    """A difference with sign, unit and interval, for a sentence."""
    if is_null(value):
        return ABSENT
    return f"{_sign(_size(spec, value), value)}{points(spec, value)} {signed_interval(spec, low, high)}".strip()


def gap(spec: Metric, value: Any, low: Any, high: Any) -> str:
    """A difference in a table, such as `+20.5 [+2, +39]`; percentage points for rates, empty without one."""
    return "" if is_null(value) else f"{signed(spec, value)} {signed_interval(spec, low, high)}".strip()


def in_row(spec: Metric, row: Mapping[str, Any], key: str) -> str:
    """A number of a frame's row, such as `47.2 % [34, 60]`; without interval where none is known."""
    return f"{number(spec, row[key])} {interval(spec, row[f'{key}_low'], row[f'{key}_high'])}".strip()


def gap_in_row(spec: Metric, row: Mapping[str, Any], key: str = "reduction") -> str:
    """A difference of a frame's row, see `gap`."""
    return gap(spec, row[key], row[f"{key}_low"], row[f"{key}_high"])


def signed_interval(spec: Metric, low: Any, high: Any) -> str:
    """The interval of a difference, both ends with their sign. An end near zero keeps the digits that show its side."""
    if is_null(low) or is_null(high):
        return ""
    ends = [_signed_end(spec, end, 0 if _is_wide(low, high) else 1) for end in (low, high)]
    return f"[{ends[0]},{NBSP}{ends[1]}]"


def _signed_end(spec: Metric, end: float, decimals: int) -> str:
    if spec.unit != "percent":
        return signed(spec, end)
    tries = [f"{100 * abs(end):.{places}f}" for places in range(decimals, 4)]
    digits = next((digits for digits in tries if float(digits) or end == 0), tries[-1])
    return _sign(digits, end) + digits


def _size(spec: Metric, value: float) -> str:
    return f"{100 * abs(value):.1f}" if spec.unit == "percent" else significant(abs(value))


def _sign(digits: str, value: float) -> str:
    """None before digits that say 0."""
    return "" if float(digits.replace(",", "")) == 0 else "+" if value > 0 else MINUS


def seeds(row: Mapping[str, Any]) -> str:
    """The seeds of a frame's row as text: `2`, or `2 of 3` where trials failed or are missing."""
    planned = row["planned"] if "planned" in row else row["n"] + row["failed"] + row["missing"]
    return str(row["n"]) if planned == row["n"] else f"{row['n']} of {planned}"


def duration(seconds: float) -> str:
    """Seconds as a reader says them: 42 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}{NBSP}s" if seconds < 10 else f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min {whole % 60}{NBSP}s"
    return f"{whole // 3600}{NBSP}h {whole % 3600 // 60}{NBSP}min"


def count(number_of: int, noun: str, plural: str = "") -> str:
    """`1 seed`, `2 seeds`, `3 classes`, with a space that does not wrap."""
    return counted(number_of, noun, plural, space=NBSP)


def listing(items: Iterable[str]) -> str:
    """`a, b and c`."""
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> list[str]:
    """A line for each row: columns of words start, those of numbers end below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def named(recipe: str) -> str:
    """A recipe's name as a sentence holds it: in quotes where commas would take it apart."""
    return f"\u201c{recipe}\u201d" if ", " in recipe else recipe


def start(sentence: str) -> str:
    """The sentence with a capital, as sentences begin."""
    return sentence[:1].upper() + sentence[1:]
