"""The columns of a Parquet file from outside: read a few rows at a time, within a budget that follows from its size.

A few kilobytes can stand for gigabytes: zeros compress, and a column repeats an entry of its dictionary at no cost. So
the pages are measured by their headers first, then the rows are counted while they come.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smoothsweep.core.allotted import available_memory
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular, too_large
from smoothsweep.core.readers.parquet_pages import DamagedPages, page_sizes
from smoothsweep.core.readers.tables import open_table

LEAST_BUDGET = 512 * MIB
TIMES = 8
"""Times the file's size that its columns may take. Encoded pictures hardly compress; plain ones (BMP) do."""

ROW_BYTES = 500
"""What a row costs beside its values: Python's objects."""

_PLAIN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
)
_STEP = 64 * MIB
_MOST_ROWS = 1024  # at a time


class UnreadableTable(Exception):
    """The bytes are no Parquet file."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of a Parquet file.

    Attributes:
        names: All columns of the file, also those that were not asked for.
        rows: How many rows the file has.
        values: Values of the columns that were asked for and are there, as Python's objects; of a structure {bytes,
            ...} its bytes.
    """

    names: tuple[str, ...]
    rows: int
    values: Mapping[str, list[Any]]


def read_columns(path: Path, wanted: Sequence[str], *, encoded: Sequence[str] = ()) -> Columns:
    """The columns `wanted`, as far as the file has them. encoded: those of them that hold encoded pictures.

    Raises UnreadableTable for what is no Parquet file, OSError where it cannot be read, and InputError, one line: two
    columns of one name, a column of another type, or values that would take more than `TIMES` the file's size, at least
    `LEAST_BUDGET`, or more than there is memory.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with open_table(file) as table:
                return _Reading(path=path, file=file, table=table, budget=_budget(size)).columns(wanted, encoded)
        except (pa.ArrowException, DamagedPages, UnicodeDecodeError) as error:
            raise UnreadableTable(str(error)) from error


def _budget(size: int) -> int:
    return min(max(LEAST_BUDGET, TIMES * size), max(LEAST_BUDGET, available_memory()))


@dataclass(frozen=True, kw_only=True)
class _Reading:
    path: Path
    file: BinaryIO
    table: pq.ParquetFile
    budget: int

    def columns(self, wanted: Sequence[str], encoded: Sequence[str]) -> Columns:
        schema = self.table.schema_arrow
        chosen = {name: self._leaf(schema, name, name in encoded) for name in wanted if name in schema.names}
        rows = self.table.metadata.num_rows
        self._check(rows * ROW_BYTES)
        data = self.table.metadata
        groups = [group for group in range(data.num_row_groups) if data.row_group(group).num_rows]
        largest = self._check_pages(tuple(chosen.values()), groups)
        values: dict[str, list[Any]] = {name: [] for name in chosen}
        if chosen and rows:
            step = max(1, min(_MOST_ROWS, _STEP // max(1, largest)))
            batches = self.table.iter_batches(
                batch_size=step, row_groups=groups, columns=list(chosen.values()), use_threads=False
            )
            self._fill(values, batches)
        return Columns(names=tuple(schema.names), rows=rows, values=values)

    def _leaf(self, schema: pa.Schema, name: str, encoded: bool) -> str:
        """The path of the column's values, whose type must be one that is read."""
        if (count := schema.names.count(name)) > 1:
            raise InputError(f"data {self.path}: expected one column '{name}', got {count}")
        kind = schema.field(name).type
        if encoded:
            wrapped = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
            held = kind.field("bytes").type if wrapped else kind
            if not (pa.types.is_binary(held) or pa.types.is_large_binary(held)):
                raise InputError(f"data {self.path}: column '{name}': expected encoded pictures (bytes), got {kind}")
            return f"{name}.bytes" if wrapped else name
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(check(plain) for check in _PLAIN):
            raise InputError(f"data {self.path}: expected numbers or names in '{name}', got {kind}")
        return name

    def _check_pages(self, leaves: Sequence[str], groups: Sequence[int]) -> int:
        """Bytes of the largest page of these columns. Raises InputError if all of them exceed the budget."""
        total = largest = 0
        data = self.table.metadata
        for group in groups:
            for index in range(data.num_columns):
                column = data.row_group(group).column(index)
                if not any(
                    column.path_in_schema == leaf or column.path_in_schema.startswith(f"{leaf}.") for leaf in leaves
                ):
                    continue
                start = column.data_page_offset
                if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
                    start = column.dictionary_page_offset
                for page in page_sizes(self.file, start, column.total_compressed_size):
                    total, largest = total + page, max(largest, page)
                    self._check(total)
        return largest

    def _fill(self, values: dict[str, list[Any]], batches: Iterable[pa.RecordBatch]) -> None:
        held = 0
        for batch in batches:
            for name, filled in values.items():
                column = batch.column(name)
                if pa.types.is_struct(column.type):
                    column = pc.call_function("struct_field", [column], pc.StructFieldOptions("bytes"))
                held += column.nbytes + ROW_BYTES * len(column)
                self._check(held)
                filled.extend(column.to_pylist())

    def _check(self, needed: int) -> None:
        if needed > self.budget:
            raise InputError(f"data {self.path}: expected values of {too_large(self.budget, needed)} or more")
