import io
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import Refused
from smoothsweep.core.pickles.machine import Data
from smoothsweep.core.pickles.storages import StorageRecord, array_of, read_storage, rebuild_tensor


def blob(tensor):
    """The bytes that torch itself writes for a tensor's storage."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(tensor.storage(), stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def read(content):
    return read_storage(Data(view=memoryview(content), offset=1000), name="network.pkl")


def record(count):
    data = np.arange(count, dtype="<f4").tobytes()
    return StorageRecord(dtype="<f4", length=count, data=memoryview(data))


GOOD = blob(torch.arange(6.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32])
def test_torch_storages_are_read(dtype):
    values = torch.arange(7).to(dtype)
    storage = read(blob(values))
    tensor = rebuild_tensor((storage, 0, (7,), (1,), False, {}))
    np.testing.assert_array_equal(array_of(tensor), values.numpy())


def test_nothing_is_copied_before_it_is_wanted():
    content = bytearray(GOOD)
    storage = read(bytes(content))
    assert storage.data.obj is not None and storage.length == 6
    assert bytes(storage.data) == GOOD[-24:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b[:-1], "6 elements of FloatStorage are announced, then 6; 23 bytes follow"),
        (lambda b: b + b"\0", "25 bytes follow"),
        (lambda b: b[:-32] + b"\x07" + b[-31:], "announced, then 7"),
        (lambda b: b[:10], "expected|claimed"),
        (lambda b: b.replace(b"M\xe9\x03.", b"M\xe8\x03."), "legacy storage format"),
        (lambda b: b.replace(b"\x88X\n", b"\x89X\n"), "little-endian machine"),
        (lambda b: b.replace(b"FloatStorage", b"ByteStorage"), "'torch' 'ByteStorage' is not of"),
        (lambda b: b.replace(b"ctorch\nFloatStorage", b"cposix\nsystem"), "'posix' 'system' is not of"),
        (lambda b: b.replace(b"\x07\x00\x00\x00storage", b"\x07\x00\x00\x00Storage"), "expected a persistent id"),
        (lambda b: b.replace(b"Ntq\x04Q", b"\x88tq\x04Q"), "no view, got 6 and True"),
        (lambda b: b.replace(b"\x03\x00\x00\x00cpu", b"\x03\x00\x00\x00\xff\xffu"), "UTF-8"),
        (lambda b: b.replace(b"]q\x00X", b"}q\x00X"), "expected a list to fill"),
    ],
)
def test_broken_storages_are_refused(change, words):
    content = change(GOOD)
    assert content != GOOD
    with pytest.raises((Refused, InputError), match=words):
        read(content)


def test_a_storage_of_another_key_is_refused():
    parts = GOOD.split(b"\x80\x02]q\x00X")
    assert len(parts) == 2
    with pytest.raises(Refused, match="the list of the one key"):
        read(parts[0] + b"\x80\x02]q\x00X\x01\x00\x00\x00zq\x01a." + GOOD[-32:])


def test_other_forms_of_storage_are_refused():
    zipped = io.BytesIO()
    torch.save(torch.arange(6.0), zipped)
    for content in (zipped.getvalue(), pickle.dumps(1, 2) * 5 + GOOD[-32:], b""):
        with pytest.raises((Refused, InputError)):
            read(content)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, (3, 5), (5, 1)), "exceeds 12 elements"),
        ((0, (1000,), (0,)), "exceeds 12 elements"),
        ((0, (4, 4, 4, 4), (0, 0, 0, 0)), "exceeds 12 elements"),
        ((1, (12,), (1,)), "exceeds 12 elements"),
        ((0, (2, 3), (20, 1)), "exceeds 12 elements"),
        ((12, (), ()), "exceeds 12 elements"),
        ((-1, (3,), (1,)), "offset and strides >= 0"),
        ((0, (3,), (-1,)), "offset and strides >= 0"),
        ((0, (-3,), (1,)), "sizes >= 1"),
        ((0, (0,), (1,)), "sizes >= 1"),
        ((0, (True,), (1,)), "whole numbers"),
        ((0, (2.0,), (1,)), "whole numbers"),
        ((0, [2], (1,)), "at most 6 axes, got a list of 1"),
        ((0, (1,) * 7, (1,) * 7), "at most 6 axes"),
        ((0, (2, 2), (1,)), "2 sizes and 1 strides"),
    ],
)
def test_tensors_outside_their_storage_are_refused(arguments, words):
    with pytest.raises(Refused, match=words):
        rebuild_tensor((record(12), *arguments, False, {}))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (1, 0, (1,), (1,), False, {}),
        (record(2), 0, (1,), (1,), 0, {}),
        (record(2), 0, (1,), (1,), False, []),
        (record(2), 0, (1,), (1,), False, {"hook": 1}),
        (record(2), 0, (1,), (1,), False, {}, {}),
    ],
)
def test_other_arguments_are_refused(arguments):
    with pytest.raises(Refused, match="expected"):
        rebuild_tensor(arguments)


@given(
    count=st.integers(1, 64),
    offset=st.integers(0, 70),
    axes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2**70) | st.integers(0, 9)), max_size=6),
)
def test_an_accepted_tensor_holds_what_torch_would_see(count, offset, axes):
    size, stride = tuple(n for n, _ in axes), tuple(step for _, step in axes)
    try:
        tensor = rebuild_tensor((record(count), offset, size, stride, False, {}))
    except Refused:
        last = offset + sum((n - 1) * step for n, step in axes)
        assert last >= count or np.prod(size) > count
        return
    steps = [step if n > 1 else 0 for n, step in axes]
    expected = torch.as_strided(torch.arange(float(count)), size, steps, offset)
    np.testing.assert_array_equal(array_of(tensor), expected.numpy())
    assert tensor.bytes == expected.numel() * 4 <= count * 4
