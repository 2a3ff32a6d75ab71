"""The columns of a Parquet file from outside, within a budget that follows from its size and the memory.

A few kilobytes can stand for gigabytes: zeros compress, and a column repeats an entry of its dictionary at no cost. So
the sizes in the footer are added up first, entries of a dictionary stay one object each, and what comes is counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smoothsweep.core.allotted import available_memory
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular, too_large
from smoothsweep.core.readers.tables import open_table

LEAST_BUDGET = 512 * MIB
TIMES = 8
"""Times the file's size that its columns may take. Encoded pictures hardly compress; plain ones (BMP) do."""

ROW_BYTES = 500
"""What a row costs beside its values: Python's objects."""

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)
_MOST_ROWS = 1024  # at a time


class UnreadableTable(Exception):
    """The bytes are no Parquet file."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of a table.

    Attributes:
        names: All columns of the file, also those that were not asked for.
        rows: How many rows the file has.
        values: Values of the columns that were asked for and are there, as Python's objects; of a structure {bytes,
            ...} its bytes.
        classes: Column -> what its whole numbers stand for, as Hugging Face's schema says (ClassLabel).
    """

    names: tuple[str, ...]
    rows: int
    values: Mapping[str, list[Any]]
    classes: Mapping[str, Sequence[str]]


def read_columns(path: Path, wanted: Sequence[str], *, encoded: Sequence[str] = ()) -> Columns:
    """The columns `wanted`, as far as the file has them. encoded: those of them that hold encoded pictures.

    Raises UnreadableTable for what is no Parquet file, OSError where it cannot be read, and InputError, one line: two
    columns of one name, a column of another type, or values that would take more than `TIMES` the file's size, at least
    `LEAST_BUDGET`, or more than there is memory.
    """
    with open_regular(path) as file:
        least = max(LEAST_BUDGET, TIMES * os.fstat(file.fileno()).st_size)
        budget = min(least, max(LEAST_BUDGET, available_memory()))
        try:
            with open_table(file) as table:
                footer, schema = table.metadata, table.schema_arrow
            leaves = {
                name: column_leaf(schema, name, f"data {path}", encoded=name in encoded)
                for name in wanted
                if name in schema.names
            }
            size, dictionaries = _footer_sizes(footer, tuple(leaves.values()))
            _check(path, max(size, footer.num_rows * ROW_BYTES), budget)
            values: dict[str, list[Any]] = {name: [] for name in leaves}
            with open_table(file, read_dictionary=dictionaries) as table:
                held, groups = 0, [group for group in range(footer.num_row_groups) if footer.row_group(group).num_rows]
                options: dict[str, Any] = {"columns": list(leaves.values()), "use_threads": False}
                for group in groups if leaves else ():  # a batch of several has no dictionary
                    for batch in table.iter_batches(_MOST_ROWS, row_groups=[group], **options):
                        held += batch.nbytes + ROW_BYTES * len(batch)
                        _check(path, held, budget)
                        for name, filled in values.items():
                            filled.extend(column_values(batch.column(name)))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise UnreadableTable(str(error)) from error
    return Columns(names=tuple(schema.names), rows=footer.num_rows, values=values, classes=_classes(schema))


def column_leaf(schema: pa.Schema, name: str, where: str, *, encoded: bool) -> str:
    """The path of a column's values. Raises InputError, one line from `where` on, for a type that is not read."""
    if (count := schema.names.count(name)) > 1:
        raise InputError(f"{where}: expected one column '{name}', got {count}")
    kind = schema.field(name).type
    if encoded:
        wrapped = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        held = kind.field("bytes").type if wrapped else kind
        if not any(check(held) for check in _BYTES):
            raise InputError(f"{where}: column '{name}': expected encoded pictures (bytes), got {kind}")
        return f"{name}.bytes" if wrapped else name
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(check(plain) for check in (*_TEXTS, *_NUMBERS)):
        raise InputError(f"{where}: expected numbers or names in '{name}', got {kind}")
    return name


def column_values(column: pa.Array) -> list[Any]:
    """Its values as Python's objects; equal entries of a dictionary are one object."""
    if pa.types.is_struct(column.type):
        column = pc.call_function("struct_field", [column], pc.StructFieldOptions("bytes"))
    if not pa.types.is_dictionary(column.type):
        return column.to_pylist()
    entries = column.dictionary.to_pylist()
    return [None if place is None else entries[place] for place in column.indices.to_pylist()]


def _footer_sizes(footer: pq.FileMetaData, leaves: Sequence[str]) -> tuple[int, list[str]]:
    """Bytes of these columns when decompressed, and those of bytes or text whose pages use a dictionary."""
    total, dictionaries = 0, set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            chunk = footer.row_group(group).column(index)
            if chunk.path_in_schema in leaves:
                total += max(0, chunk.total_uncompressed_size)
                if chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in kind for kind in chunk.encodings):
                    dictionaries.add(chunk.path_in_schema)
    return total, sorted(dictionaries)


def _check(path: Path, needed: int, budget: int) -> None:
    if needed > budget:
        raise InputError(f"data {path}: expected values of {too_large(budget, needed)} or more")


def _classes(schema: pa.Schema) -> dict[str, Sequence[str]]:
    """Column -> names, of the columns that Hugging Face's `datasets` marks as ClassLabel."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: tuple(map(str, feature["names"]))
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return {}
