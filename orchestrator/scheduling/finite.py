"""No artifact holds a number that is not finite, but where its stage says that it may: looked at before it is sealed.

A training that diverges late leaves such numbers in statistics that no loss shows (a `running_var`), and stages that
read the artifact would go on with them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from smoothsweep.core.errors import NotFinite
from smoothsweep.core.readers.tables import open_table

METRICS = "metrics"  # how a number of the manifest is named, where a file would stand
PART_BYTES = 64 * 2**20  # of a tensor, in memory at once
LIKELY = "a training that diverges leaves such numbers: try a lower learning rate"
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}  # safetensors' words -> bytes


def refuse_not_finite(draft: Path, metrics: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Raise NotFinite, one line, for the first number in a finished draft that is NaN, infinite, or missing.

    Every tensor of a safetensors file, every column of floating-point numbers of a Parquet file, where pandas writes
    NaN as null, and the metrics, where None stands for what was not measured.

    allowed: what may hold such numbers: `file`, `file:tensor or column`, `metrics:name`.
    """
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value) and f"{METRICS}:{name}" not in allowed:
            raise NotFinite(f"{METRICS}: {name}: expected a finite number, got {value}")
    for path in sorted(draft.iterdir()):
        if path.name in allowed or path.suffix not in _BY_SUFFIX:
            continue
        for name, bad, total in _BY_SUFFIX[path.suffix](path, {a for a in allowed if a.startswith(f"{path.name}:")}):
            raise NotFinite(f"{path.name}: {name}: expected finite numbers, got {bad} of {total} that are not")


def _bad_tensors(path: Path, allowed: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """(name, numbers that are not finite, numbers) of every tensor that has some, read in parts."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            if f"{path.name}:{name}" in allowed:
                continue
            held = file.get_slice(name)
            shape, size = held.get_shape(), _FLOATS.get(held.get_dtype(), 0)
            if not size or 0 in shape:
                continue
            if not shape:
                parts = iter([file.get_tensor(name)])
            else:
                rows = max(1, PART_BYTES // max(1, size * math.prod(shape[1:])))
                parts = (held[start : start + rows] for start in range(0, shape[0], rows))
            if bad := sum(part.numel() - int(part.float().isfinite().sum()) for part in parts):
                yield name, bad, math.prod(shape)


def _bad_columns(path: Path, allowed: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """As `_bad_tensors`, of the columns of a table; what is missing counts as not finite."""
    with path.open("rb") as opened, open_table(opened) as file:
        for field in file.schema_arrow:
            if not pa.types.is_floating(field.type) or f"{path.name}:{field.name}" in allowed:
                continue
            column = file.read([field.name]).column(0)
            finite = (
                pc.call_function("sum", [pc.call_function("is_finite", [column])]).as_py() or 0
            )  # nulls count as nothing
            if finite < len(column):
                yield field.name, len(column) - finite, len(column)


_BY_SUFFIX = {".safetensors": _bad_tensors, ".parquet": _bad_columns}
