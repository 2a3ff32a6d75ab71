"""Zip archives written here field by field, beside Python's own reader of them; then each field on its own wrong."""

import io
import itertools
import struct
import zipfile
import zlib
from dataclasses import dataclass, replace

import pytest

from smoothsweep.core.pickles import archive
from smoothsweep.core.pickles.archive import read_archive
from smoothsweep.core.pickles.cursor import Refused

FULL16, FULL32 = 2**16 - 1, 2**32 - 1
WIDE_END, LOCATOR, END = 56, 20, 22
"""Bytes of the three parts of an archive's end."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """wide: which of size, stored size and offset stand in the 64-bit field; extra: what stands before that field in
    the directory; local, entry: other values of fields than the right ones; padding: bytes before its content."""

    name: bytes
    content: bytes
    wide: tuple[bool, bool, bool] = (False, False, False)
    extra: bytes = b""
    flags: int = 0
    local: tuple[tuple[str, object], ...] = ()
    entry: tuple[tuple[str, object], ...] = ()
    padding: bytes = b""


def local_part(one):
    """Version, time and date are of no interest."""
    field = {"signature": b"PK\3\4", "method": 0, "stored": len(one.content), "name": one.name} | dict(one.local)
    head = field["signature"] + struct.pack("<HHHHH", 20, one.flags, field["method"], 0, 0)
    head += struct.pack("<III", zlib.crc32(one.content), field["stored"], len(one.content))
    return head + struct.pack("<HH", len(field["name"]), len(one.padding)) + field["name"] + one.padding + one.content


def directory_part(one, offset):
    size = len(one.content)
    field = {"signature": b"PK\1\2", "flags": one.flags, "method": 0, "crc": zlib.crc32(one.content), "disk": 0}
    field |= {"comment": b"", "size": size, "stored": size, "offset": offset, "names": len(one.name)} | dict(one.entry)
    numbers, wide = [], b""
    for name, is_wide in zip(("size", "stored", "offset"), one.wide, strict=True):
        numbers.append(FULL32 if is_wide else field[name])
        wide += struct.pack("<Q", field[name]) if is_wide else b""
    extra = one.extra + (struct.pack("<HH", 1, len(wide)) + wide if wide else b"")
    head = field["signature"] + struct.pack("<HHHHHH", 20, 20, field["flags"], field["method"], 0, 0)
    head += struct.pack("<III", field["crc"], numbers[1], numbers[0])
    head += struct.pack("<HHHHHI", field["names"], len(extra), len(field["comment"]), field["disk"], 0, 0)
    return head + struct.pack("<I", numbers[2]) + one.name + extra + field["comment"]


def written(members, *, wide_end=False, narrow=(), end=(), after=b""):
    """narrow: entries, size or offset of the old end that say another number; end: other fields of either end; after:
    what the directory holds beyond its entries."""
    body, directory = b"", b""
    for one in members:
        directory += directory_part(one, len(body))
        body += local_part(one)
    directory += after
    said = {"entries": len(members), "size": len(directory), "offset": len(body)}
    field = {"disk": 0, "other": 0, "comment": 0, "here": None, "disks": 1, "at": len(body) + len(directory)}
    field |= {"wide disk": 0, "wide other": 0, "wide here": len(members), "length": WIDE_END - 12} | dict(end)
    found = body + directory
    if wide_end:
        found += b"PK\6\6" + struct.pack("<QHHII", field["length"], 45, 45, field["wide disk"], field["wide other"])
        found += struct.pack("<QQQQ", field["wide here"], said["entries"], said["size"], said["offset"])
        found += b"PK\6\7" + struct.pack("<IQI", field.get("locator", 0), field["at"], field["disks"])
    said |= dict(narrow)
    here = said["entries"] if field["here"] is None else field["here"]
    found += b"PK\5\6" + struct.pack("<HHHH", field["disk"], field["other"], here, said["entries"])
    return found + struct.pack("<IIH", said["size"], said["offset"], field["comment"])


def ours(content):
    return {name: bytes(found) for name, found in read_archive(memoryview(content)).items()}


def pythons(content):
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        return {name: found.read(name) for name in found.namelist()}


THREE = [
    Member(name=b"a/data.pkl", content=b"first"),
    Member(name="a/\u00e9".encode(), content=b"the second one", flags=0x800, padding=b"\x46\x42\x02\x00ZZ"),
    Member(name=b"a/empty", content=b""),
]


@pytest.mark.parametrize("wide_end", [True, False])
@pytest.mark.parametrize("wide", list(itertools.product([True, False], repeat=3)))
def test_members_are_those_that_python_reads(wide, wide_end):
    """Any of the three numbers of a member may stand in its 64-bit field, after fields of other kinds."""
    other = struct.pack("<HH3s", 0x7777, 3, b"abc")
    members = [replace(one, wide=wide, extra=other if place else b"") for place, one in enumerate(THREE)]
    content = written(members, wide_end=wide_end)
    assert ours(content) == pythons(content) == {one.name.decode(): one.content for one in THREE}


def test_members_are_named_in_the_order_in_which_they_lie():
    assert list(ours(written(THREE))) == [one.name.decode() for one in THREE]
    assert ours(written([])) == {}


def test_a_member_may_end_where_the_directory_begins():
    """Also one of no name and no bytes, of which the head alone is there."""
    for last in (Member(name=b"b", content=b"1"), Member(name=b"", content=b"")):
        assert ours(written([*THREE, last]))[last.name.decode()] == last.content


@pytest.mark.parametrize("field", ["entries", "size", "offset"])
def test_the_old_end_says_what_the_64_bit_end_says_or_that_it_cannot(field):
    full = FULL16 if field == "entries" else FULL32
    assert ours(written(THREE, wide_end=True, narrow=((field, full),))) == ours(written(THREE))
    for wrong in (0, full - 1, 1):
        with pytest.raises(Refused, match="the archive's two ends contradict each other"):
            read_archive(memoryview(written(THREE, wide_end=True, narrow=((field, wrong),))))
    with pytest.raises(Refused, match="the archive lacks its 64-bit end"):
        read_archive(memoryview(written(THREE, narrow=((field, full),))))


@pytest.mark.parametrize(
    ("stored", "flags", "fine"),
    [
        (FULL32, 0, True),
        (0, 8, True),
        (5, 8, True),
        (0, 0, False),
        (4, 0, False),
        (4, 8, False),
        (FULL32 - 1, 0, False),
    ],
)
def test_the_size_before_a_member_is_the_directorys_or_left_to_it(stored, flags, fine):
    """Left to the directory: all ones, or none where sizes follow the member."""
    content = written([replace(THREE[0], local=(("stored", stored),), flags=flags)])
    if fine:
        assert ours(content) == {"a/data.pkl": b"first"}
        return
    with pytest.raises(Refused, match="contradicts a member"):
        read_archive(memoryview(content))


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"disk": 1}, "contradicts itself, or there are several disks"),
        ({"other": 1}, "contradicts itself, or there are several disks"),
        ({"here": 2}, "contradicts itself, or there are several disks"),
        ({"comment": 1}, "contradicts itself, or there are several disks"),
        ({"locator": 1}, "64-bit end is not where it should be"),
        ({"disks": 0}, "64-bit end is not where it should be"),
        ({"disks": 2}, "64-bit end is not where it should be"),
        ({"at": 0}, "64-bit end is not where it should be"),
        ({"wide disk": 1}, "64-bit end contradicts itself"),
        ({"wide other": 1}, "64-bit end contradicts itself"),
        ({"wide here": 2}, "64-bit end contradicts itself"),
        ({"length": 43}, "64-bit end contradicts itself"),
        ({"length": 45}, "64-bit end contradicts itself"),
    ],
)
def test_an_end_that_says_something_else_is_refused(end, words):
    with pytest.raises(Refused, match=words):
        read_archive(memoryview(written(THREE, wide_end=True, end=tuple(end.items()))))


TWO_WIDE = struct.pack("<HHQ", 1, 8, 5)
DIRECTORY = {
    "damaged, or a member is encrypted": [
        {"entry": (("signature", b"PK\1\3"),)},
        {"entry": (("disk", 1),)},
        {"entry": (("comment", b"c"),)},
        {"entry": (("flags", 1),)},
        {"entry": (("names", 300),)},
    ],
    "is a compressed archive": [{"entry": (("method", 8),)}, {"entry": (("size", 6),)}, {"entry": (("stored", 4),)}],
    "directory is damaged": [{"extra": struct.pack("<HH", 0x7777, 1)}, {"extra": struct.pack("<HHH", 0x7777, 3, 0)}],
    "has two 64-bit sizes": [{"extra": TWO_WIDE, "wide": (True, False, False)}, {"extra": TWO_WIDE * 2}],
    "lacks its 64-bit size": [
        {"entry": (("size", FULL32), ("stored", FULL32))},
        {"entry": (("size", FULL32),), "extra": struct.pack("<HH7s", 1, 7, b"")},
    ],
    "lies outside it": [{"entry": (("offset", 2**20),)}, {"entry": (("size", 99), ("stored", 99))}],
    "contradicts a member": [
        {"local": (("signature", b"PK\3\5"),)},
        {"local": (("method", 8),)},
        {"local": (("name", b"a/data.pk1"),)},
    ],
    "its checksum is another": [{"entry": (("crc", 7),)}],
    "has no readable name": [{"name": b"a/\xff"}],
    "two members of the archive have one name": [{"name": b"a/empty"}],
}


@pytest.mark.parametrize(("words", "changes"), [(words, one) for words, some in DIRECTORY.items() for one in some])
def test_a_member_that_is_told_wrongly_is_refused(words, changes):
    with pytest.raises(Refused, match=words):
        read_archive(memoryview(written([replace(THREE[0], **changes), *THREE[1:]])))


def test_the_directory_has_room_for_its_entries_and_for_nothing_else(monkeypatch):
    with pytest.raises(Refused, match="directory ends late"):
        read_archive(memoryview(written(THREE, after=b"\0")))
    with pytest.raises(Refused, match="directory ends early"):
        read_archive(memoryview(written(THREE, narrow=(("entries", 4),))))
    for most in (3, 2):
        monkeypatch.setattr(archive, "MOST_MEMBERS", most)
        if most == 3:
            assert len(ours(written(THREE))) == 3
            continue
        with pytest.raises(Refused, match="expected a directory of at most 2 members"):
            read_archive(memoryview(written(THREE)))
    for part in (b"", b"PK\5\6", bytes(END), written(THREE) + b"\0"):
        with pytest.raises(Refused, match="no end, or a comment after it"):
            read_archive(memoryview(part))
    with pytest.raises(Refused, match="at most 2 members right before the archive's end"):
        read_archive(memoryview(written(THREE[:1], narrow=(("offset", 1),))))


def test_members_that_lie_in_one_another_are_refused():
    """One that begins inside another's bytes, where a head as good as any stands."""
    inner = Member(name=b"b", content=b"x")
    outer = Member(name=b"a", content=local_part(inner))
    inside = len(local_part(outer)) - len(outer.content)
    assert ours(written([outer])) == {"a": outer.content}
    with pytest.raises(Refused, match="overlap"):
        read_archive(memoryview(written([outer, replace(inner, entry=(("offset", inside),))])))
