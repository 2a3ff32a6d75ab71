"""The zip archives that torch.save writes, read where they lie: one reading of the file, and nothing is unpacked.

Readers of zip files differ in which of two ends they believe, in what they do about gaps and overlaps, and in which of
two members of one name they take. Here everything that is said twice must agree, else the file is refused. Source of
the layout: APPNOTE.TXT of PKWARE, 4.3 and 4.4; `pytorch/pytorch`, caffe2/serialize/inline_container.cc.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from smoothsweep.core.pickles.cursor import Refused

START = b"PK\x03\x04"
MOST_MEMBERS = 100_000
COMPRESSED = "is a compressed archive, which torch does not write"

_END = struct.Struct("<4s4H2IH")  # signature, disk, disk of directory, entries here, entries, size, offset, comment
_LOCATOR = struct.Struct("<4sIQI")  # signature, disk, offset of the 64-bit end, disks
_END64 = struct.Struct("<4sQ2H2I4Q")  # signature, size, versions, disks, entries here, entries, size, offset
_ENTRY = struct.Struct("<4s6H3I5H2I")  # of the directory
_LOCAL = struct.Struct("<4s5H3I2H")  # before a member's bytes
_ENCRYPTED, _SIZES_FOLLOW, _ZIP64 = 0x1, 0x8, 0x0001
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class _Entry:
    name: bytes
    method: int
    checksum: int
    size: int
    stored: int
    flags: int
    offset: int


def read_archive(view: memoryview) -> dict[str, memoryview]:
    """The members by name, as views into the file. Raises Refused for anything that torch does not write."""
    number, directory = _find_directory(view)
    entries = _read_entries(view, number, directory)
    if any(entry.method or entry.size != entry.stored for entry in entries):
        raise Refused(COMPRESSED)
    members: dict[str, memoryview] = {}
    begin = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset < begin:
            raise Refused("two members of the archive overlap")
        content, begin = _content(view, entry, directory.start)
        name = _text(entry.name)
        if name in members:
            raise Refused("two members of the archive have one name")
        members[name] = content
    return members


def _find_directory(view: memoryview) -> tuple[int, slice]:
    """How many members the directory lists, and where it lies."""
    at = len(view) - _END.size
    if at < 0 or bytes(view[at : at + 4]) != b"PK\x05\x06":
        raise Refused("the archive has no end, or a comment after it")
    _, disk, other, entries_on_disk, entries, size, offset, comment = _END.unpack(view[at:])
    if disk or other or entries_on_disk != entries or comment:
        raise Refused("the archive's end contradicts itself, or there are several disks")
    end, wide = at, _find_wide_end(view, at)
    if wide is not None:
        end, narrow, (entries, size, offset) = wide[0], (entries, size, offset), wide[1:]
        for value, full, stated in zip((entries, size, offset), (_FULL16, _FULL32, _FULL32), narrow, strict=True):
            if stated not in (full, value):
                raise Refused("the archive's two ends contradict each other")
    elif entries == _FULL16 or _FULL32 in (size, offset):
        raise Refused("the archive lacks its 64-bit end")
    if entries > MOST_MEMBERS or offset + size != end:
        raise Refused(f"expected a directory of at most {MOST_MEMBERS} members right before the archive's end")
    return entries, slice(offset, end)


def _find_wide_end(view: memoryview, end: int) -> tuple[int, int, int, int] | None:
    """Where the 64-bit end begins, its entries, size and offset of the directory; None if there is none."""
    locator = end - _LOCATOR.size
    if locator < 0 or bytes(view[locator : locator + 4]) != b"PK\x06\x07":
        return None
    _, disk, at, disks = _LOCATOR.unpack(view[locator:end])
    if disk or disks != 1 or at != locator - _END64.size:
        raise Refused("the archive's 64-bit end is not where it should be")
    signature, length, _, _, disk, other, entries_on_disk, entries, size, offset = _END64.unpack(view[at:locator])
    if signature != b"PK\x06\x06" or length != _END64.size - 12 or disk or other or entries_on_disk != entries:
        raise Refused("the archive's 64-bit end contradicts itself")
    return at, entries, size, offset


def _read_entries(view: memoryview, number: int, directory: slice) -> list[_Entry]:
    at, entries = directory.start, []
    for _ in range(number):
        if at + _ENTRY.size > directory.stop:
            raise Refused("the archive's directory ends early")
        (signature, _, _, flags, method, _, _, checksum, stored, size, names, extras, comments, disk, _, _, offset) = (
            _ENTRY.unpack(view[at : at + _ENTRY.size])
        )
        begin = at + _ENTRY.size
        at = begin + names + extras + comments
        if signature != b"PK\x01\x02" or disk or comments or flags & _ENCRYPTED or at > directory.stop:
            raise Refused("the archive's directory is damaged, or a member is encrypted")
        extra = view[begin + names : begin + names + extras]
        size, stored, offset = _wide_values(extra, (size, stored, offset))
        name = bytes(view[begin : begin + names])
        entries.append(
            _Entry(name=name, method=method, checksum=checksum, size=size, stored=stored, flags=flags, offset=offset)
        )
    if at != directory.stop:
        raise Refused("the archive's directory ends late")
    return entries


def _wide_values(extra: memoryview, values: tuple[int, ...]) -> list[int]:
    """Read the values that do not fit 32 bits from an extra field, where they stand in their order."""
    wide = None
    while len(extra) >= 4:
        kind, length = struct.unpack("<2H", extra[:4])
        if length > len(extra) - 4:
            raise Refused("the archive's directory is damaged")
        if kind == _ZIP64:
            if wide is not None:
                raise Refused("a member of the archive has two 64-bit sizes")
            wide = extra[4 : 4 + length]
        extra = extra[4 + length :]
    widened = []
    for value in values:
        if value == _FULL32:
            if wide is None or len(wide) < 8:
                raise Refused("a member of the archive lacks its 64-bit size")
            value, wide = int.from_bytes(wide[:8], "little"), wide[8:]
        widened.append(value)
    return widened


def _content(view: memoryview, entry: _Entry, limit: int) -> tuple[memoryview, int]:
    """The member's bytes, and where they end. What stands before them must agree with the directory."""
    if entry.offset + _LOCAL.size > limit:
        raise Refused("a member of the archive lies outside it")
    (signature, _, flags, method, _, _, _, stored, _, names, extras) = _LOCAL.unpack(
        view[entry.offset : entry.offset + _LOCAL.size]
    )
    begin = entry.offset + _LOCAL.size
    at = begin + names + extras
    same = signature == START and method == entry.method and bytes(view[begin : begin + names]) == entry.name
    follow = flags & _SIZES_FOLLOW and stored == 0
    if not same or not (follow or stored in (entry.stored, _FULL32)) or at + entry.size > limit:
        raise Refused("the archive's directory contradicts a member, or one lies outside it")
    content = view[at : at + entry.size]
    if zlib.crc32(content) != entry.checksum:
        raise Refused("a member of the archive is damaged: its checksum is another")
    return content, at + entry.size


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("a member of the archive has no readable name") from None
