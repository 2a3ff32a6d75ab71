"""Broken and hostile files: refused in one line, nothing executed, memory and time bounded."""

import codecs
import pickle
import struct
import sys
import time
import tracemalloc
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_pickle import Layer, marker_source, official_modules, official_networks, write_official_pickle

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.opcodes import _STEPS
from smoothsweep.core.pickles.storages import MAGIC, VERSION, StorageRecord, TensorRecord
from smoothsweep.core.priors.card import StyleGAN2Config
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.layout import discriminator_shapes, generator_shapes
from smoothsweep.core.priors.official.records import MAX_LAYERS, copy_tensors, flatten
from smoothsweep.core.priors.official.standins import NetworkRecord

CONFIG = StyleGAN2Config(resolution=8, z_dim=3, w_dim=2, mapping_layers=1, channel_base=16, channel_max=2)
MEBIBYTE = 2**20
EXECUTION = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "marshal.loads",
    "ctypes.dlopen",
    "socket.connect",
)
_watched: list[list[str]] = []


def _audit(event, arguments):
    if _watched and event in EXECUTION:
        _watched[-1].append(f"{event} {arguments}"[:200])


codecs.lookup("ascii")  # Python loads its code at the first use, which would look like something executed
sys.addaudithook(_audit)


@contextmanager
def nothing_executed():
    """Fails if Python executes, compiles or imports anything, or starts a process, meanwhile."""
    events = []
    _watched.append(events)
    try:
        yield
    finally:
        _watched.remove(events)
    assert not events


@contextmanager
def memory_below(most):
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak / MEBIBYTE:.1f} MiB"


@cache
def valid(protocol):
    """A valid file of each protocol, some 60 kB."""
    with official_modules():
        return pickle.dumps(official_networks(CONFIG, source=marker_source("executed"))[0], protocol)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "network.pkl"


@pytest.fixture(scope="module", autouse=True)
def warm(file):
    """What torch and our networks import at their first use is imported before anybody watches."""
    file.write_bytes(valid(4))
    import_prior(file)


def outcome(file, content):
    """The imported networks, or None if the file was refused in one line."""
    file.write_bytes(content)
    with nothing_executed():
        try:
            return import_prior(file)
        except InputError as error:
            assert "\n" not in str(error) and str(error).isprintable() and len(str(error)) < 800
            return None


def refused(file, content):
    file.write_bytes(content)
    with nothing_executed(), pytest.raises(InputError) as caught:
        import_prior(file)
    return str(caught.value)


def complete(imported):
    for network, shapes in (
        (imported.generator, generator_shapes(imported.generator.config)),
        (imported.discriminator, discriminator_shapes(imported.generator.config)),
    ):
        state = network.state_dict()
        assert {name: tuple(value.shape) for name, value in state.items()}.items() <= shapes.items()
        assert all(value.isfinite().all() for value in state.values())
    return True


relaxed = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
place = st.floats(0, 1, exclude_max=True)


@relaxed
@given(st.sampled_from([3, 4, 5]), st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bytes_give_complete_networks_or_one_line(file, protocol, changes):
    content = bytearray(valid(protocol))
    for where, value in changes:
        content[int(where * len(content))] = value
    imported = outcome(file, bytes(content))
    assert imported is None or complete(imported)


@relaxed
@given(st.sampled_from([3, 4, 5]), place, st.integers(0, 40), st.binary(max_size=12))
def test_inserted_and_removed_bytes_give_complete_networks_or_one_line(file, protocol, where, removed, inserted):
    content = valid(protocol)
    start = int(where * len(content))
    imported = outcome(file, content[:start] + inserted + content[start + removed :])
    assert imported is None or complete(imported)


@relaxed
@given(st.sampled_from([3, 4, 5]), place)
def test_truncated_files_are_refused(file, protocol, where):
    content = valid(protocol)
    refused(file, content[: int(where * len(content))])


@relaxed
@given(st.sampled_from([3, 4, 5]), place)
def test_one_wrong_bit_is_refused_or_changes_at_most_one_tensor(file, protocol, where):
    """The numbers themselves carry no checksum; but no wrong bit of the stream moves a tensor to another place."""
    content = bytearray(valid(protocol))
    index = int(where * len(content))
    content[index] ^= 0x01
    imported = outcome(file, bytes(content))
    if imported is not None:
        file.write_bytes(valid(protocol))
        reference = import_prior(file)
        changed = sum(
            not torch.equal(value, ours[name])
            for network in ("generator", "discriminator")
            for ours in [getattr(reference, network).state_dict()]
            for name, value in getattr(imported, network).state_dict().items()
        )
        assert changed <= 1


def _texts(*values):
    return [b"X" + struct.pack("<I", len(value)) + value.encode() for value in values]


FRAGMENTS = [
    *[bytes([code]) for code in range(256)],
    *_texts("a", "class", "state", "module_src", "os", "system", "f8", "<", "G_ema", "_modules"),
    b"K\x01",
    b"M\x01\x02",
    b"J\xff\xff\xff\xff",
    b"\x8a\x01\x05",
    b"G@\x00\x00\x00\x00\x00\x00\x00",
    b"C\x02ab",
    b"B\x01\x00\x00\x00a",
    b"q\x00",
    b"h\x00",
    b"q\x01",
    b"h\x01",
    b"r\x00\x00\x00\x00",
    b"j\x00\x00\x00\x00",
    b"cposix\nsystem\n",
    b"cbuiltins\neval\n",
    b"cbuiltins\nset\n",
    b"ccollections\nOrderedDict\n",
    b"cdnnlib.util\nEasyDict\n",
    b"cnumpy\ndtype\n",
    b"cnumpy.core.multiarray\nscalar\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch.storage\n_load_from_bytes\n",
    b"ctorch_utils.persistence\n_reconstruct_persistent_obj\n",
    b")R",
    b"}\x85R",
    b"]\x85R",
    b")\x81",
    b"}b",
    b"(iposix\nsystem\n",
    *[bytes([code]) for code in _STEPS] * 2,
]


@settings(deadline=None, max_examples=600)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40))
def test_any_sequence_of_opcodes_is_refused(file, fragments):
    assert outcome(file, b"\x80\x04" + b"".join(fragments) + b".") is None


class Evil:
    """Pickles as a call: the simplest attack on a reader that unpickles."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("where", ["top", "key", "state", "arguments", "parameters", "hook"])
def test_calls_hidden_anywhere_are_refused(file, tmp_path, protocol, where):
    marker = tmp_path / "marker"
    evil = Evil(exec, marker_source(marker))

    def edit(data):
        generator = data["G_ema"].state
        {
            "top": lambda: data.update(augment_pipe=evil),
            "key": lambda: data.update(G=evil),
            "state": lambda: generator.update(anything=evil),
            "arguments": lambda: generator["_init_kwargs"].update(z_dim=evil),
            "parameters": lambda: data["D"].child("b4.fc").state["_parameters"].update(weight=evil),
            "hook": lambda: generator["_forward_hooks"].update({1: evil}),
        }[where]()

    write_official_pickle(file, CONFIG, protocol=protocol, edit=edit)
    message = refused(file, file.read_bytes())
    assert "GLOBAL: the global 'builtins' 'exec' is not of a StyleGAN2-ADA file" in message and not marker.exists()


def test_a_pickle_inside_a_storage_is_not_run(file, tmp_path):
    marker = tmp_path / "marker"
    nested = pickle.dumps(Evil(exec, marker_source(marker)), 2)
    for blob in (nested, pickle.dumps(MAGIC, 2) + pickle.dumps(VERSION, 2) + nested):
        body = b"ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(blob)) + blob + b"\x85R."
        message = refused(file, b"\x80\x03" + body)
        assert "GLOBAL: the global '__builtin__' 'exec' is not of" in message and not marker.exists()


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
