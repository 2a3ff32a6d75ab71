"""Files of tensors: of torch.save in the isolated process, or safetensors: the same tensors, or one line; no code."""

import argparse
import collections
import datetime
import hashlib
import io
import json
import os
import pickle
import struct
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torchvision.models import resnet18

from smoothsweep.core.cards import read_weights, write_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import plain_tensors, read_tensor_file
from smoothsweep.core.models.official import import_target
from smoothsweep.core.readers.tensors import StoredTensor

MAGIC = 0x1950A86A20F9469CFC6C
HEADS = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
ZIPPED, LEGACY = True, False
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def saved(value, zipped=ZIPPED, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped, **options)
    return buffer.getvalue()


def archive(stream, **data):
    """An archive as torch writes it, around any stream of opcodes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("a/data.pkl", b"\x80\x02" + stream)
        made.writestr("a/version", b"3\n")
        for key, content in data.items():
            made.writestr(f"a/data/{key[1:]}", content)
    return buffer.getvalue()


def legacy(stream):
    return HEADS + b"\x80\x02" + stream + pickle.dumps([], 2)


@pytest.fixture
def read(tmp_path):
    def read(content):
        (tmp_path / "x.pth").write_bytes(content)
        return read_tensor_file(tmp_path / "x.pth", "test")

    return read


@pytest.fixture
def refused(read):
    def refused(content):
        with pytest.raises(InputError) as caught:
            read(content)
        assert str(caught.value).isprintable() and "x.pth" in str(caught.value)
        return str(caught.value)

    return refused


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        got = ours.fetch()
        return (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape) and torch.equal(got, theirs.detach())
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], value) for key, value in theirs.items())
    return type(ours) is type(theirs) and ours == theirs


@st.composite
def tensors(draw):
    made = torch.arange(draw(st.integers(1, 9)) + 81).to(getattr(torch, draw(st.sampled_from(DTYPES))))
    shape = draw(st.lists(st.integers(0, 3), max_size=4))
    tensor = made[draw(st.integers(0, 5)) :][: torch.Size(shape).numel()].reshape(shape)
    tensor = tensor.transpose(0, -1) if draw(st.booleans()) and tensor.ndim > 1 else tensor
    return torch.nn.Parameter(tensor) if draw(st.booleans()) and tensor.is_floating_point() else tensor


plain = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=6)
entries = st.dictionaries(st.text(max_size=4), plain | tensors(), max_size=4)
contents = st.dictionaries(st.text(max_size=4) | st.integers(0, 99), plain | tensors() | entries, max_size=5)


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(contents, st.booleans(), st.integers(2, 5))
def test_what_torch_writes_is_what_comes_back(read, content, zipped, protocol):
    assert same(read(saved(content, zipped, pickle_protocol=protocol)), content)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
def test_every_type_of_number_and_every_view_comes_back(read, zipped, protocol):
    content = {"tied": torch.zeros(1).expand(50, 2)}
    for name in DTYPES:
        base = torch.arange(24).to(getattr(torch, name))
        content[name] = {"a": base.clone()[3:9].reshape(2, 3), "b": base[5:], "c": base.reshape(4, 6).T, "d": base[:0]}
    assert same(read(saved(content, zipped, pickle_protocol=protocol)), content)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
def test_a_trainers_file_with_its_plain_values(read, zipped, protocol):
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    network[1].weight = network[0].weight
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    beside = {
        "args": argparse.Namespace(lr=0.1, out=Path("runs"), nested=argparse.Namespace(data=None)),
        "more": types.SimpleNamespace(a=1),
        "best": np.float64(0.5),
        "folder": Path("a/b"),
        "counts": collections.Counter("aab"),
    }
    content = {"state_dict": network.state_dict(), "optimizer": optimizer.state_dict(), **beside, "epoch": 3}
    found = read(saved(content, zipped, pickle_protocol=protocol))
    assert same(found["state_dict"], network.state_dict()) and found["epoch"] == 3
    assert beside.keys() <= found.keys()


def test_numbers_that_are_none_of_ours_are_refused_by_name(read):
    for odd in (torch.zeros(2, 2).to_sparse(), torch.zeros(2, dtype=torch.complex64)):
        found = read(saved({"a": odd}))
        with pytest.raises(InputError, match="a: expected a dense tensor of real numbers"):
            plain_tensors(found, "test")


class OwnNetwork(torch.nn.Linear):
    """A class of the user's own, pickled whole."""


class Hostile:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def test_an_own_class_of_network_is_told_how_to_go_on(refused):
    said = refused(saved(OwnNetwork(2, 2)))
    assert "OwnNetwork" in said and "state_dict()" in said and "torch.export.save" in said
    assert "datetime.date" in refused(saved({"state_dict": {}, "when": datetime.date(2020, 1, 1)}))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
@pytest.mark.parametrize("wrap", [lambda h: h, lambda h: {"state_dict": {}, "x": [{"b": h}]}])
def test_hostile_pickles_are_refused_and_not_run(refused, tmp_path, wrap, zipped, protocol):
    witness = tmp_path / "witness"
    calls = ((os.system, f"touch {witness}"), (eval, f"open({str(witness)!r}, 'w')"), (os.mkdir, str(witness)))
    for call, argument in calls:
        said = refused(saved(wrap(Hostile(call, argument)), zipped, pickle_protocol=protocol))
        assert f"{call.__name__})" in said and not witness.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_are_refused_and_not_run(refused, tmp_path, protocol):
    refused(pickle.dumps(Hostile(os.mkdir, str(tmp_path / "witness")), protocol=protocol))
    assert not (tmp_path / "witness").exists()


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ\x00\x00\x10\x00tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
LAUGHS = b"](" + b"N" * 10 + b"e"
LAUGHS += b"".join(b"r" + struct.pack("<I", i) + b"](" + (b"j" + struct.pack("<I", i)) * 10 + b"e" for i in range(200))
BOMBS = {
    "a deep tuple": archive(b")" + b"\x85" * 200_000 + b"."),
    "a deep tuple as a key": legacy(b"})" + b"\x85" * 200_000 + b"K\x01s."),
    "deep dictionaries": archive(b"}" * 1 + b"K\x00}" * 100_000 + b"s" * 100_000 + b"."),
    "bytearray of 3 GiB": archive(b"cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\xc0\x00\x85R."),
    "a huge whole number": archive(b"\x8b\xff\xff\xff\x7f" + bytes(100) + b"."),
    "a huge storage": archive(STORAGE.replace(b"\x00\x00\x10\x00t", b"\xff\xff\xff\x7ft") + b".", _0=bytes(8)),
    "one element everywhere": archive(
        b"}X\x01\x00\x00\x00a" + REBUILD + b"(" + STORAGE + b"K\x00J\xff\xff\xff\x7f\x85K\x00\x85\x89}tRs.",
        _0=bytes(4 * 2**20),
    ),
    "a million opcodes": archive(b"]" + b"Na" * 700_000 + b"."),
    "marks": archive(b"(" * 300_000 + b"."),
    "laughs": archive(LAUGHS + b"."),
    "members": archive(b"}.", **{f"_{i}": b"" for i in range(20_000)}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_in_one_line(read, monkeypatch, name):
    """Within the process's memory and time; what is read after all holds no tensor that could be taken further."""
    monkeypatch.setenv("SMOOTHSWEEP_PROGRAM_GIB", "1")
    monkeypatch.setenv("SMOOTHSWEEP_PROGRAM_SECONDS", "60")
    try:
        found = read(BOMBS[name])
        plain_tensors(found, "x.pth", most_bytes=2**24)
    except InputError as error:
        assert str(error).isprintable() and len(str(error)) < 700
    else:
        pytest.fail(f"{name} became weights")


FILES = {zipped: saved({"a": torch.arange(30.0), "b": {"c": torch.ones(2)}, "epoch": 3}, zipped) for zipped in (0, 1)}


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.booleans(), st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.binary(max_size=10))
def test_changed_files_are_read_or_refused_in_one_line(read, zipped, where, removed, inserted):
    content = FILES[zipped]
    start = int(where * len(content))
    try:
        found = read(content[:start] + inserted + content[start + removed :])
        for value in found.values() if isinstance(found, dict) else ():
            if isinstance(value, StoredTensor):
                value.fetch()
    except InputError as error:
        assert "\n" not in str(error)


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(5)
    return {f"model.{key}": value.contiguous() for key, value in resnet18(num_classes=7).state_dict().items()}


def both(state, folder):
    """The same weights in both formats; of neither does the suffix say which it is."""
    folder.mkdir(exist_ok=True)
    save_file(state, folder / "a.ckpt")
    torch.save(state, folder / "b.ckpt")
    return folder / "a.ckpt", folder / "b.ckpt"


def brought(path, **changes):
    options = {"architecture": "resnet18", "num_classes": 7, "transform_input": None, "protocol": "paper"}
    return import_target(path, **{**options, **changes})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_both_formats_give_the_same_network(state, tmp_path, dtype):
    cast = {key: value.to(dtype) if value.is_floating_point() else value for key, value in state.items()}
    (model, facts), (other, same) = (brought(path) for path in both(cast, tmp_path))
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    images = torch.rand(3, 3, 64, 64)
    assert torch.equal(model(images), other(images)) and model(images).std() > 0
    assert (facts.wrapping, facts.prefix, facts.tensors) == (same.wrapping, same.prefix, same.tensors)
    assert facts.sha256 == hashlib.sha256((tmp_path / "a.ckpt").read_bytes()).hexdigest() != same.sha256


def written(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b'{"a": 1}',
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}},
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, header):
    with pytest.raises(InputError) as raised:
        read_tensor_file(written(tmp_path / "x.safetensors", header, bytes(8)), "checkpoint")
    assert "no readable weight file" in str(raised.value) and "\n" not in str(raised.value)


def test_a_type_that_is_no_real_number_is_named(state, tmp_path):
    whole = {"model.fc.weight": torch.ones(7, 512, dtype=torch.int8)}
    save_file(state | whole, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"fc.weight: .*got torch.int8"):
        brought(tmp_path / "x.safetensors")


def test_a_header_of_many_mebibytes_is_not_read(tmp_path):
    header = b"{" + b" " * (17 * 2**20) + b"}"
    with pytest.raises(InputError, match=r"expected a header of at most 16 MiB, got 17.0 MiB"):
        read_tensor_file(written(tmp_path / "x.safetensors", header), "checkpoint")


def test_half_precision_weights_of_ours_still_fit_and_others_are_named(tmp_path):
    torch.manual_seed(0)
    linear = torch.nn.Linear(3, 2)

    def make(config):
        return torch.nn.Linear(3, 2)

    write_weights(linear, tmp_path / "w.safetensors", "float16")
    again = read_weights(make, None, tmp_path / "w.safetensors")
    assert torch.equal(again.weight, linear.weight.half().float())
    save_file({name: value.double() for name, value in linear.state_dict().items()}, tmp_path / "d.safetensors")
    with pytest.raises(InputError, match=r"expected float32 or float16, got torch\.float64"):
        read_weights(make, None, tmp_path / "d.safetensors")
