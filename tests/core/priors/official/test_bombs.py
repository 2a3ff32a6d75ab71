"""Small files that claim much: refused in one line, with memory and time bounded."""

import struct
import time
import tracemalloc
from contextlib import contextmanager

import pytest
from official_pickle import Layer, write_official_pickle

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.storages import StorageRecord, TensorRecord
from smoothsweep.core.priors.official.records import MAX_LAYERS, copy_tensors, flatten
from smoothsweep.core.priors.official.standins import NetworkRecord
from tests.core.priors.official.hostile_files import CONFIG, refused, valid

pytestmark = pytest.mark.usefixtures("warm")
MEBIBYTE = 2**20


@contextmanager
def memory_below(most):
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak / MEBIBYTE:.1f} MiB"


def timed(file, content, *, most=32 * MEBIBYTE, seconds=60):
    started = time.process_time()
    with memory_below(most):
        message = refused(file, content)
    assert time.process_time() - started < seconds
    return message


NUMBER = b"\x80\x04"
BOMBS = {
    "a claim of 4 GiB": (b"B\xff\xff\xff\xff", "are claimed"),
    "a claim of 500 MiB": (b"B\x00\x00\x40\x1f", "are claimed and"),
    "a claim of 2^63 bytes": (b"\x8e" + struct.pack("<Q", 2**63), "are claimed"),
    "a claim of a long text": (b"X\xff\xff\xff\xff", "one holds at most"),
    "a frame of 2^63 bytes": (b"\x95" + struct.pack("<Q", 2**63), "are claimed"),
    "deep tuples": (b")" + b"\x85" * 120_000 + b".", "expected a dict with G, D, G_ema, got a tuple of 1"),
    "deeper tuples": (b")" + b"\x85" * 400_000 + b".", "more than 150000 opcodes"),
    "deep lists": (b"]" * 9990 + b"a" * 9989 + b".", "expected a dict with G, D, G_ema, got a list of 1"),
    "a list in itself": (b"]q\x00h\x00a.", "expected a dict with G, D, G_ema, got a list of 1"),
    "a full stack": (b"N" * 20_000, "the stack is deeper than 10000"),
    "marks": (b"(" * 20_000, "more than 10000 marks"),
    "a full memo": (b"N" + b"\x94" * 110_000, "the memo holds more than 100000 values"),
    "far places of the memo": (b"N" + b"r\xff\xff\xff\xffr\xfe\xff\xff\xff" * 1000 + b".", "expected a dict with G"),
    "dictionaries": (b"](" + b"}" * 9_000 + b"e" + (b"(" + b"}" * 9_000 + b"e") * 20, "more than 150000 opcodes"),
    "text by text": ((b"X\x00\x00\x40\x00" + "é".encode() * (2 * 2**20) + b"0") * 5, "not of a StyleGAN2-ADA"),
    "texts of 20 MiB": (b"]" + (b"X\x00\x00\x40\x00" + b"a" * (4 * 2**20) + b"a") * 5, "at most 16777216"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_cost_little(file, name):
    body, words = BOMBS[name]
    most = 64 * MEBIBYTE if "text" in name else 40 * MEBIBYTE
    assert words in timed(file, NUMBER + body, most=most)


def test_nested_sharing_is_not_unfolded(file):
    """Lists of ten times the same list: 10^12 leaves in a few hundred bytes, wherever they are put."""
    laughs = ["ha"]
    for _ in range(12):
        laughs = [laughs] * 10

    for edit in (
        lambda data: data.update(training_set_kwargs=laughs, G=laughs),
        lambda data: data["G_ema"].state["_init_kwargs"].update(z_dim=laughs),
        lambda data: data["G_ema"].state["_init_kwargs"]["synthesis_kwargs"].update(resample_filter=laughs),
        lambda data: data["D"].child("b4.fc").state.update(bias_gain=laughs),
        lambda data: data["D"].child("b4.fc").state["_parameters"].update(weight=laughs),
    ):
        write_official_pickle(file, CONFIG, edit=edit)
        assert "got a list of 10" in timed(file, file.read_bytes())


def test_layers_that_share_layers_are_not_unfolded(file):
    def edit(data):
        layer = data["G_ema"].child("synthesis.b8")
        for _ in range(6):
            layers = {f"x{n}": layer for n in range(30)}
            layer = Layer("SynthesisBlock", "", _parameters={}, _buffers={}, _modules=layers)
        data["G_ema"].child("synthesis").state["_modules"]["b8"] = layer

    write_official_pickle(file, CONFIG, edit=edit)
    assert f"at most {MAX_LAYERS} layers, 8 deep" in timed(file, file.read_bytes())


def test_a_layer_inside_itself_is_refused():
    state = {"_parameters": {}, "_buffers": {}, "_modules": {}}
    record = NetworkRecord(class_name="SynthesisNetwork", source="", state=state)
    state["_modules"]["again"] = record
    with pytest.raises(InputError, match="8 deep"):
        flatten(record, "G_ema")


def test_one_storage_for_every_tensor_is_no_way_to_claim_memory():
    data = memoryview(bytes(4 * 4096))
    storage = StorageRecord(dtype="<f4", length=4096, data=data)
    tensor = TensorRecord(storage=storage, offset=0, size=(64, 64), stride=(64, 1))
    record = NetworkRecord(
        class_name="SynthesisNetwork",
        source="",
        state={"_parameters": {f"w{n}": tensor for n in range(500)}, "_buffers": {}, "_modules": {}},
    )
    layers, shapes = flatten(record, "G"), {f"w{n}": (64, 64) for n in range(500)}
    with pytest.raises(InputError, match="claim more than the 20000 bytes of the file"):
        copy_tensors(layers, shapes, most_bytes=20_000, where="G")
    assert len(copy_tensors(layers, shapes, most_bytes=500 * 4 * 4096, where="G")) == 500


def test_endless_work_on_one_storage_is_refused(file):
    blob = valid(3)
    start = blob.index(b"ctorch.storage\n_load_from_bytes\n")
    content = b"\x80\x03" + b"ctorch.storage\n_load_from_bytes\nq\x00C\x01aq\x01]" + b"0"
    assert "POP: this opcode" in refused(file, content)
    length = struct.unpack("<I", blob[blob.index(b"B", start) + 1 :][:4])[0]
    bytes_of = blob[blob.index(b"B", start) :][: 5 + length]
    once = b"ctorch.storage\n_load_from_bytes\nq\x00" + bytes_of + b"q\x01\x85R"
    again = b"h\x00h\x01\x85R"
    message = timed(file, b"\x80\x03" + once + again * 3000 + b".")
    assert "there are more than 2000 storages" in message
