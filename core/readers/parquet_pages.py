"""The pages of a Parquet column, by their headers: how large they are when decompressed, before anything is.

The footer of a file repeats the sum of them, but a file can say one thing in its footer and do another in its pages;
the reader allocates what the pages say. Source: apache/parquet-format, src/main/thrift/parquet.thrift (PageHeader), and
apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

_FIRST, _MOST = 4096, 16 * 2**20
"""Bytes read of a header at first, and at most: statistics in it can be long."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_UNCOMPRESSED, _COMPRESSED = 2, 3  # fields of a PageHeader
_DEEPEST = 16


class DamagedPages(Exception):
    """The bytes are no sequence of pages; the message says why."""


def page_sizes(file: BinaryIO, start: int, length: int) -> Iterator[int]:
    """Bytes of every page of a column chunk when decompressed, header left out.

    start, length: of the chunk in the file, in bytes. Raises DamagedPages.
    """
    at, end = start, start + length
    if start < 0 or length < 0:
        raise DamagedPages("a column begins before the file does")
    while at < end:
        fields, header = _header(file, at, end)
        compressed, uncompressed = fields.get(_COMPRESSED), fields.get(_UNCOMPRESSED)
        if not isinstance(compressed, int) or not isinstance(uncompressed, int) or min(compressed, uncompressed) < 0:
            raise DamagedPages("a page without its sizes")
        yield uncompressed
        at += header + compressed


def _header(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    """The whole numbers of the header that begins at byte `at`, by field, and its length."""
    window = min(_FIRST, end - at)
    while True:
        file.seek(at)
        reader = _Compact(file.read(window))
        try:
            return reader.struct(0), reader.at
        except IndexError:
            if window >= min(_MOST, end - at):
                raise DamagedPages("a page whose header does not end") from None
            window = min(window * 16, _MOST, end - at)


class _Compact:
    """Thrift's compact protocol, of which whole numbers are kept and all else is passed over."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def struct(self, depth: int) -> dict[int, int]:
        """Field -> whole number, of the fields that are one. Raises IndexError where the bytes end before it does."""
        if depth > _DEEPEST:
            raise DamagedPages("a page whose header is nested too deeply")
        fields: dict[int, int] = {}
        number = 0
        while (byte := self._byte()) != 0:
            number = number + (byte >> 4) if byte >> 4 else self._zigzag()
            value = self._value(byte & 0x0F, depth)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> int | None:
        """A field's value, or None once it has been passed over."""
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind in (_BYTE, _DOUBLE):
            self._pass(1 if kind == _BYTE else 8)
        elif kind == _BINARY:
            self._pass(self._varint())
        elif kind in (_LIST, _SET):
            self._items(depth)
        elif kind == _STRUCT:
            self.struct(depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise DamagedPages(f"a page whose header holds a field of kind {kind}")
        return None

    def _items(self, depth: int) -> None:
        """A list: its length and the kind of its items, then the items."""
        byte = self._byte()
        count, kind = byte >> 4, byte & 0x0F
        count = self._varint() if count == 15 else count
        for _ in range(count):
            if kind in (_TRUE, _FALSE):
                self._pass(1)
            else:
                self._value(kind, depth + 1)

    def _pass(self, count: int) -> None:
        if self.at + count > len(self._content):
            raise IndexError
        self.at += count

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise DamagedPages("a page whose header holds a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
