"""Parts of a checkpoint one by one: a tensor's place in its storage, a storage's name, heads of both formats."""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles import checkpoints
from smoothsweep.core.pickles.checkpoints import Storage, StoredTensor
from smoothsweep.core.pickles.cursor import Refused
from smoothsweep.core.pickles.machine import Global
from smoothsweep.core.pickles.storages import MAGIC
from tests.core.pickles.torch_files import LEGACY, ZIPPED, read, refused, same, saved, unknown


class Rebuilt:
    """Pickled as a call of one of torch's functions with a storage and other arguments."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


FIRST, SECOND = torch._utils._rebuild_tensor, torch._utils._rebuild_tensor_v2


@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
@pytest.mark.parametrize(
    ("function", "more"),
    [
        (FIRST, ()),  # what torch wrote before 0.4
        (SECOND, (False, OrderedDict())),
        (SECOND, (True, OrderedDict())),
        (SECOND, (False, OrderedDict(), None)),
        (SECOND, (False, OrderedDict(), {})),
    ],
)
def test_a_tensor_is_read_however_torch_had_it_made(zipped, function, more):
    base = torch.arange(20.0)
    written = saved({"a": Rebuilt(function, base._typed_storage(), 3, (2, 4), (5, 1), *more)}, zipped)
    # Bytes that this test has written itself: torch reads them as a second way of computing what ours reads.
    theirs = torch.load(io.BytesIO(written), weights_only=False)
    assert same(read(written), theirs) and torch.equal(theirs["a"], base[3:13].reshape(2, 5)[:, :4])


def stored(length=12):
    return Storage(kind="FloatStorage", length=length, data=memoryview(torch.arange(float(length)).numpy().tobytes()))


def made(arguments, most_bytes=1000):
    return checkpoints._Reader(most_bytes=most_bytes, unknown=unknown).tensor(arguments)


PLAIN = (stored(), 0, (3, 4), (4, 1))
SIX = (1,) * 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (PLAIN[:3], "expected a storage, offset, size and stride"),
        ((*PLAIN, False), "expected a storage, offset, size and stride"),
        ((*PLAIN, False, {}, {}, {}), "expected a storage, offset, size and stride"),
        ((*PLAIN, False, {"hook": 1}), "without hooks or metadata"),
        ((*PLAIN, False, {}, {"meta": 1}), "without hooks or metadata"),
        ((1, *PLAIN[1:]), "expected a storage, offset, size and stride"),
        ((stored(), 0, (*SIX, 1), (*SIX, 1)), "sizes and strides of at most 6 axes, got a tuple of 7"),
        ((stored(), 0, [3], (1,)), "sizes and strides of at most 6 axes, got a list of 1"),
        ((stored(), 0, (3,), [1]), "sizes and strides of at most 6 axes, got a list of 1"),
        ((stored(), -1, (3,), (1,)), "whole numbers >= 0"),
        ((stored(), 0, (-3,), (1,)), "whole numbers >= 0"),
        ((stored(), 0, (3,), (-1,)), "whole numbers >= 0"),
        ((stored(), True, (3,), (1,)), "whole numbers >= 0"),
        ((stored(), 0, (3.0,), (1,)), "whole numbers >= 0"),
        ((stored(), 0, (1,), (2**40,)), "whole numbers >= 0"),
        ((stored(), 0, (3, 4), (1,)), "2 sizes and 1 strides"),
        ((stored(), 0, (13,), (0,)), "exceeds 12 elements"),
        ((stored(), 1, (3, 4), (4, 1)), "exceeds 12 elements"),
        ((stored(), 12, (), ()), "exceeds 12 elements"),
        ((stored(), 0, (2, 2), (11, 1)), "exceeds 12 elements"),
    ],
)
def test_a_tensor_that_does_not_lie_in_its_storage_is_refused(arguments, words):
    with pytest.raises(Refused, match=words):
        made(arguments)


def test_a_tensor_may_fill_its_storage_and_no_more_bytes_than_are_allowed():
    """An empty one lies nowhere: its offset is of no interest. Twelve numbers are 48 bytes."""
    values = torch.arange(12.0)
    for arguments, expected in (
        (PLAIN, values.view(3, 4)),
        ((stored(), 2, (2, 2), (8, 1)), values[[2, 3, 10, 11]].view(2, 2)),
        ((stored(), 11, (), ()), values[11]),
        ((stored(), 0, SIX, (2**40 - 1,) * 6), values[:1].view(SIX)),
        ((stored(), 2**39, (0, 3), (1, 1)), values[:0].view(0, 3)),
        ((stored(0), 2**39, (0,), (1,)), values[:0]),
    ):
        assert torch.equal(made(arguments, 48).tensor(), expected)
    reader = checkpoints._Reader(most_bytes=95, unknown=unknown)
    reader.tensor(PLAIN)
    reader.tensor((stored(), 1, (11,), (1,)))
    with pytest.raises(Refused, match="or claim more than 95 bytes"):
        reader.tensor((stored(), 1, (1,), (1,)))


@pytest.mark.parametrize("location", ["cpu", "cuda:3", None])
@pytest.mark.parametrize("more", [(), (None,)])
def test_a_storage_is_known_by_its_key(location, more):
    """Wherever torch had it; twice the same is one."""
    reader = checkpoints._Reader(most_bytes=99, unknown=unknown)
    kind = Global(name="LongStorage")
    first = reader.storage(("storage", kind, "7", location, 5, *more))
    assert (first.kind, first.length, first.bytes) == ("LongStorage", 5, 40) and reader.storages == {"7": first}
    assert reader.storage(("storage", kind, "7", location, 5, *more)) is first
    for wrong in ((kind, 6), (Global(name="IntStorage"), 5)):
        with pytest.raises(Refused, match="the tensor data '7' are announced twice, differently"):
            reader.storage(("storage", wrong[0], "7", location, wrong[1], *more))


LONG = Global(name="LongStorage")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["storage", LONG, "0", "cpu", 1], "expected a persistent id"),
        (("storage", LONG, "0", "cpu"), "expected a persistent id"),
        (("storage", LONG, "0", "cpu", 1, None, None), "expected a persistent id"),
        (("module", LONG, "0", "cpu", 1), "expected a persistent id"),
        (("storage", LONG, "0", "cpu", 1, ("1", 0, 1)), "expected a persistent id"),
        (("storage", "LongStorage", "0", "cpu", 1), "expected a storage's type, key and length"),
        (("storage", Global(name="float32"), "0", "cpu", 1), "expected a storage's type, key and length"),
        (("storage", LONG, 0, "cpu", 1), "expected a storage's type, key and length"),
        (("storage", LONG, "0", "cpu", True), "expected a storage's type, key and length"),
        (("storage", LONG, "0", "cpu", -1), "expected a length, and at most"),
        (("storage", LONG, "0", "cpu", 2**40), "expected a length, and at most"),
    ],
)
def test_what_names_no_storage_is_refused(value, words):
    reader = checkpoints._Reader(most_bytes=99, unknown=unknown)
    with pytest.raises(Refused, match=words):
        reader.storage(value)
    assert not reader.storages


def test_the_bytes_of_a_storage_are_those_that_were_announced():
    storage = Storage(kind="ShortStorage", length=3)
    for size in (5, 7, 0):
        with pytest.raises(Refused, match=f"3 elements of ShortStorage are announced, {size} bytes are there"):
            storage.bind(memoryview(bytes(size)))
    storage.bind(memoryview(b"\1\0\2\0\3\0"))
    tensor = StoredTensor(storage=storage, offset=1, size=(2,), stride=(1,)).tensor()
    assert tensor.dtype == torch.int16 and tensor.tolist() == [2, 3]


HEAD = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD.replace(b"M\xe9\x03", b"M\xea\x03") + b"\x80\x02}.\x80\x02].", "torch's format 1001, got .*, 1002"),
        (pickle.dumps(MAGIC + 1, 2) + HEAD[len(pickle.dumps(MAGIC, 2)) :], "expected torch's format 1001"),
        (pickle.dumps(float(MAGIC), 2) + HEAD[len(pickle.dumps(MAGIC, 2)) :], "expected torch's format 1001"),
        (HEAD.replace(b"\x88s", b"\x89s"), "written by a little-endian machine"),
        (HEAD.replace(b"\x88s", b"K\x01s"), "written by a little-endian machine"),
        (HEAD + b"\x80\x02}.\x80\x02}.", "expected a list of the tensor data that follow"),
        (HEAD + b"\x80\x02}.\x80\x02]K\x01a.", "expected a list of the tensor data that follow"),
        (HEAD + b"\x80\x02}.\x80\x02]X\x01\x00\x00\x000a.", "expected a list of the tensor data that follow"),
        (HEAD + b"\x80\x02}.\x80\x02].z", "1 bytes follow the tensors"),
    ],
)
def test_a_legacy_file_that_is_told_wrongly_is_refused(content, words):
    with pytest.raises((Refused, InputError), match=words):
        read(content)
    assert read(HEAD + b"\x80\x02}.\x80\x02].") == {}


def test_tensor_data_of_a_legacy_file_are_announced_once_with_their_length():
    content = saved({"a": torch.arange(3.0)}, LEGACY)
    key = read_key(content)
    twice = content.replace(b"]q\x00X" + key + b"q\x01a.", b"](X" + key + b"X" + key + b"e.")
    assert twice != content and "the same tensor data are announced twice" in refused(twice)
    assert content.count(struct.pack("<Qf", 3, 0.0)) == 1
    longer = content.replace(struct.pack("<Qf", 3, 0.0), struct.pack("<Qf", 4, 0.0))
    assert "have another length than announced" in refused(longer)


def read_key(content):
    """The key of the only storage, with its length in front."""
    at = content.rindex(b"]q\x00X") + 4
    [length] = struct.unpack("<I", content[at : at + 4])
    return content[at : at + 4 + length]


def test_an_archive_has_one_stream_all_its_data_and_the_order_of_bytes_that_is_read():
    stream = pickle.dumps({"a": 1}, 2)
    for names, words in (
        (("x/other.pkl",), "expected the archive of a state dictionary"),
        (("data.pkl",), "expected the archive of a state dictionary"),
        (("x/data.pkl", "y/data.pkl"), "expected the archive of a state dictionary"),
        (("x/data.pkl", "x/constants.pkl"), "a TorchScript program"),
        (("x/data.pkl", "y/constants.pkl"), ""),
        (("x/data.pkl",), ""),
    ):
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
            for name in names:
                archive.writestr(name, stream)
        if words:
            assert words in refused(buffer.getvalue())
        else:
            assert read(buffer.getvalue()) == {"a": 1}
    for order, fine in ((b"little", True), (b"big", False), (b"", False)):
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
            archive.writestr("x/data.pkl", stream)
            archive.writestr("x/byteorder", order)
        assert fine or "little-endian machine" in refused(buffer.getvalue())
    whole = saved({"a": torch.ones(2)})
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(buffer := io.BytesIO(), "w") as new:
        for name in old.namelist():
            if not name.endswith("data/0"):
                new.writestr(name, old.read(name))
    assert "the tensor data '0' are missing" in refused(buffer.getvalue())
