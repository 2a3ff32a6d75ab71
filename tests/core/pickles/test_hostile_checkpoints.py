"""Everything else that a checkpoint's file can be: changed, contradictory, hostile. Plain data or one line."""

import io
import pickle
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.checkpoints import StoredTensor
from smoothsweep.core.pickles.cursor import Refused
from smoothsweep.core.pickles.opcodes import _STEPS
from smoothsweep.core.pickles.storages import MAGIC
from tests.core.pickles.torch_files import LEGACY, ZIPPED, archive_of, read, refused, saved

FRAGMENTS = [
    *[bytes([code]) for code in range(256)],
    *[bytes([code]) for code in _STEPS] * 2,
    b"X\x01\x00\x00\x00a",
    b"U\x01a",
    b"K\x01",
    b"M\x01\x02",
    b"q\x00",
    b"h\x00",
    b"q\x01",
    b"h\x01",
    b"\x8a\x01\x05",
    b"X\x07\x00\x00\x00storage",
    b"ctorch\nFloatStorage\n",
    b"ctorch\nLongStorage\n",
    b"X\x01\x00\x00\x000",
    b"X\x03\x00\x00\x00cpu",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ccollections\nOrderedDict\n",
    b"ctorch\nSize\n",
    b"cos\nsystem\n",
    b"cbuiltins\nbytearray\n",
    b")R",
    b"}b",
    b"(t",
]


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.booleans())
def test_any_sequence_of_opcodes_is_plain_data_or_one_line(fragments, zipped):
    stream = b"\x80\x02" + b"".join(fragments) + b"."
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
    try:
        read(archive_of(stream, _0=bytes(8)) if zipped else heads + stream + pickle.dumps([], 2))
    except (InputError, Refused) as error:
        assert "\n" not in str(error)


FILES = {
    zipped: saved({"a.weight": torch.arange(30.0), "b": [torch.ones(2, 2, dtype=torch.int64)], "epoch": 3}, zipped)
    for zipped in (ZIPPED, LEGACY)
}


@settings(deadline=None, max_examples=500)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.binary(max_size=10)), min_size=1, max_size=3
    ),
)
def test_changed_files_are_read_as_they_are_or_refused_in_one_line(zipped, changes):
    content = FILES[zipped]
    for where, removed, inserted in changes:
        start = int(where * len(content))
        content = content[:start] + inserted + content[start + removed :]
    try:
        found = read(content)
    except (InputError, Refused) as error:
        assert "\n" not in str(error)
        return
    for value in found.values() if type(found) is dict else ():
        if isinstance(value, StoredTensor):
            value.tensor()


@settings(deadline=None, max_examples=200)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_of_an_archive_changes_no_number(where, bit):
    """Members carry checksums, and whatever is said twice must agree."""
    content = bytearray(FILES[ZIPPED])
    content[int(where * len(content))] ^= 1 << bit
    try:
        found = read(bytes(content))
    except (InputError, Refused):
        return
    assert torch.equal(found["a.weight"].tensor(), torch.arange(30.0)) and found["epoch"] == 3


def test_two_readings_of_one_archive_are_refused():
    """The 64-bit end names another directory than the old one: torch would follow one, Python's zipfile the other."""
    content = FILES[ZIPPED]
    end = len(content) - 22
    at = end - 20 - 56
    for field, value in ((at + 32, 1), (at + 40, 50), (at + 48, 7), (end + 8, 1), (end + 12, 3), (end + 16, 9)):
        changed = bytearray(content)
        changed[field] = value
        assert "archive" in refused(bytes(changed))
    first = saved({"a": torch.zeros(3)})
    assert "is not where" in refused(first[:-98] + content)
    assert "no end" in refused(content + b"\0") and "is not where" in refused(b"PK\x03\x04" + content)


def test_members_that_share_bytes_or_names_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        for content in (b"}.", b"]."):
            archive.writestr("archive/data.pkl", content)
    assert "have one name" in refused(buffer.getvalue())
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        archive.writestr("archive/data/0", b"1234")
        archive.filelist[1].header_offset = archive.filelist[0].header_offset
    assert "overlap" in refused(buffer.getvalue())
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("code/data.pkl", b"\x80\x02}.")
        archive.writestr("code/constants.pkl", b"\x80\x02}.")
    assert "TorchScript" in refused(buffer.getvalue())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"}((K\x01K\x02tK\x03u.", "expected a text or a small whole number as key"),
        (b"}()" + b"\x85" * 5000 + b"K\x01u.", "expected a text or a small whole number as key"),
        (b"cbuiltins\nbytearray\nJ\x00\x00\x00\x70\x85R.", "builtins.bytearray is none of a tensor"),
        (b"c__builtin__\nbytearray\nJ\x00\x00\x00\x70\x85R.", "__builtin__.bytearray is none of a tensor"),
        (b"ccollections\nOrderedDict\nX\x03\x00\x00\x00abc\x85R.", "expected no arguments, or a list of pairs"),
        (b"cos\nsystem\nX\x02\x00\x00\x00id\x85R.", "os.system is none of a tensor"),
        (b"\x8b\xff\xff\xff\x7f.", "LONG4: this opcode is not of a checkpoint"),
        (b"X\xff\xff\xff\x7f.", "one holds at most"),
    ],
)
def test_hostile_streams_are_refused(content, words):
    assert words in refused(archive_of(b"\x80\x02" + content))
