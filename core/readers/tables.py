"""Open Parquet files so that no column type registered in this process (Ray registers some) interprets their bytes."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular
from smoothsweep.core.text import quoted

_MAGIC = b"PAR1"
_SCHEMA, _EXTENSION = b"ARROW:schema", b"ARROW:extension:name"
_LIMITS = {"thrift_string_size_limit": 16 * MIB, "thrift_container_size_limit": 1_000_000}
_PLAIN = (pa.types.is_primitive, pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
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
    """schema: of a table from `open_table`, which keeps the file's own under a key of another name."""
    metadata = schema.metadata or {}
    own = {field.name: field.metadata or {} for field in _own_schema(metadata.get(_SCHEMA.lower()))}
    of_pandas = json.loads(metadata.get(b"pandas", b"{}")).get("columns", [])
    for field in schema:
        extension = own.get(field.name, {}).get(_EXTENSION.lower())
        if extension is not None or not any(check(field.type) for check in _PLAIN):
            got = (
                field.type if extension is None else f"the extension type {quoted(extension.decode(errors='replace'))}"
            )
            raise InputError(f"{path}: column {quoted(field.name)}: expected plain numbers or text, got {got}")
    for column in of_pandas:
        if not _PLAIN_OF_PANDAS.fullmatch(str(column["numpy_type"])):
            got = quoted(str(column["numpy_type"]))
            raise InputError(f"{path}: column {quoted(str(column['name']))}: expected plain numbers or text, got {got}")


def _own_schema(encoded: bytes | None) -> pa.Schema:
    """The Arrow schema that the writer left in the file, extension types as what they are stored as."""
    if encoded is None:
        return pa.schema([])
    try:
        content = base64.b64decode(encoded).replace(_EXTENSION, _EXTENSION.lower())
    except binascii.Error as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.ipc.read_schema(pa.py_buffer(content))
