"""Parquet files from outside, within bounds, with no column type that this process has registered (Ray registers some).

A few kilobytes can stand for gigabytes: zeros compress, and a column repeats an entry of its dictionary at no cost. So
the sizes in the footer are added up first, entries of a dictionary stay one object each, and what comes is counted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smoothsweep.core.allotted import available_memory
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular, too_large
from smoothsweep.core.text import quoted

if TYPE_CHECKING:
    import pandas as pd  # loaded by `read_rows` alone

_MAGIC = b"PAR1"
_SCHEMA = b"ARROW:schema"
_LIMITS = {"thrift_string_size_limit": 16 * MIB, "thrift_container_size_limit": 1_000_000}
LEAST_BUDGET = 512 * MIB
TIMES = 8
"""Times the file's size that its columns may take. Encoded pictures hardly compress; plain ones (BMP) do."""

ROW_BYTES = 500
"""What a row costs beside its values: Python's objects."""

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)
_MOST_ROWS = 1024  # at a time
_PLAIN = (pa.types.is_primitive, *_TEXTS, pa.types.is_null)
_PLAIN_OF_PANDAS = re.compile(r"bool|boolean|str|string|object|float\d+|Float\d+|u?int\d+|U?Int\d+|datetime64\[\w+\]")


def open_table(file: BinaryIO, *, read_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file whose columns all have types of Parquet's own.

    pyarrow makes a registered extension type while it opens a file, and that type's code then reads bytes of the file.
    It finds the type's name in the footer under a key that is given another name here, in memory.

    read_dictionary: columns whose repeated values stay one value each. Raises pyarrow.ArrowException for what is no
    Parquet file.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - 12:
        raise pa.ArrowInvalid("not the end of a Parquet file")
    file.seek(size - 8 - length)
    footer = file.read(length).replace(_SCHEMA, _SCHEMA.lower())
    metadata = pq.ParquetFile(pa.BufferReader(_MAGIC + footer + end), **_LIMITS).metadata
    options = {"metadata": metadata, "pre_buffer": False, **_LIMITS}
    return pq.ParquetFile(file, read_dictionary=list(read_dictionary), **options)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The rows of a table from a store or a bundle, of these columns or of all.

    Raises InputError, one line with file and column, for a column that holds anything but plain numbers and text, and
    for a file that is no table or lacks a column.
    """
    with open_regular(path) as file:
        try:
            with open_table(file) as table:
                _refuse_other_than_plain(path, table.schema_arrow)
                if lacking := [name for name in columns or () if name not in table.schema_arrow.names]:
                    raise InputError(f"{path}: expected a column {quoted(lacking[0])}, got none")
                return table.read(columns=None if columns is None else list(columns)).to_pandas()
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{path}: expected a table in Parquet, got: {reason}") from None


def _refuse_other_than_plain(path: Path, schema: pa.Schema) -> None:
    odd = {field.name: str(field.type) for field in schema if not any(check(field.type) for check in _PLAIN)}
    for column in json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", []):
        if not _PLAIN_OF_PANDAS.fullmatch(str(column["numpy_type"])):  # a type of its own, which pandas would make
            odd[str(column["name"])] = quoted(str(column["numpy_type"]))
    for name, got in odd.items():
        raise InputError(f"{path}: column {quoted(name)}: expected plain numbers or text, got {got}")


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
