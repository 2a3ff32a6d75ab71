"""Broken and hostile files: refused in one line, nothing executed."""

import pickle
import struct

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_pickle import marker_source, write_official_pickle

from smoothsweep.core.pickles.opcodes import _STEPS
from smoothsweep.core.pickles.storages import MAGIC, VERSION
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.layout import discriminator_shapes, generator_shapes
from tests.core.priors.official.hostile_files import CONFIG, outcome, refused, valid

pytestmark = pytest.mark.usefixtures("warm")


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
