"""Our reader of torch's checkpoints against torch's own, and against everything else that a file can be."""

import io
import pickle
import zipfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles import checkpoints
from smoothsweep.core.pickles.checkpoints import MAX_TENSORS, StoredTensor, read_checkpoint
from smoothsweep.core.pickles.cursor import Refused
from smoothsweep.core.pickles.opcodes import _STEPS
from smoothsweep.core.pickles.storages import MAGIC

ZIPPED, LEGACY = True, False


def unknown(module, name):
    raise InputError(f"f: {module}.{name} is none of a tensor")


def read(content):
    return read_checkpoint(memoryview(content), name="f", unknown=unknown)


def saved(value, zipped=ZIPPED, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped, **options)
    return buffer.getvalue()


def refused(content):
    with pytest.raises((InputError, Refused)) as caught:
        read(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(ours, theirs):
    if isinstance(ours, StoredTensor):
        got = ours.tensor()
        return got.dtype == theirs.dtype and torch.equal(got, theirs.detach())
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list | tuple):
        return type(ours) in (list, tuple) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


dtypes = st.sampled_from(
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ]
)
shapes = st.lists(st.integers(0, 3), max_size=4)


@st.composite
def tensors(draw):
    made = torch.arange(draw(st.integers(1, 9)) + 81).to(draw(dtypes))
    shape = draw(shapes)
    count = torch.Size(shape).numel()
    tensor = made[draw(st.integers(0, 5)) :][:count].reshape(shape)
    if draw(st.booleans()) and tensor.ndim > 1:
        tensor = tensor.transpose(0, -1)
    return torch.nn.Parameter(tensor) if draw(st.booleans()) and tensor.is_floating_point() else tensor


plain = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=6)
contents = st.recursive(
    plain | tensors(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers(0, 99), inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(contents, st.booleans(), st.sampled_from([2, 3, 4]))
def test_what_torch_writes_is_what_we_read(content, zipped, protocol):
    written = saved(content, zipped, pickle_protocol=protocol)
    assert same(read(written), content)


def test_a_trainers_file_with_optimizer_and_shared_weights():
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    network[1].weight = network[0].weight
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    content = {"epoch": 3, "state_dict": network.state_dict(), "optimizer": optimizer.state_dict()}
    for zipped in (ZIPPED, LEGACY):
        assert same(read(saved(content, zipped)), content)


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


def archive_of(stream, **data):
    """An archive as torch writes it, around any stream."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", stream)
        archive.writestr("archive/byteorder", b"little")
        for key, content in data.items():
            archive.writestr(f"archive/data/{key[1:]}", content)
    return buffer.getvalue()


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


def test_repeated_elements_claim_no_memory():
    expanded = saved({"a": torch.zeros(1).expand(1000)})
    assert "exceeds 1 elements" in refused(expanded)
    views = {f"w{i}": view for i, view in enumerate([torch.zeros(1000)] * 3)}
    assert len(read(saved(views))) == 3  # one tensor, named three times
    base = torch.zeros(100_000)
    many = saved({f"w{i}": base[1:] for i in range(4)})
    assert "claim more than" in refused(many) and MAX_TENSORS > 10_000


@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    ],
)
def test_every_type_of_number_comes_back(zipped, dtype):
    """Several tensors of a file, each of other numbers, also as views of one storage."""
    base = torch.arange(24).to(dtype)
    content = {"a": base.clone()[3:9].reshape(2, 3), "b": base[5:], "c": base.reshape(4, 6).T, "d": base[:0]}
    assert same(read(saved(content, zipped)), content)


@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
def test_as_many_tensors_as_are_allowed_and_no_more(monkeypatch, zipped):
    monkeypatch.setattr(checkpoints, "MAX_TENSORS", 3)
    content = {str(i): torch.ones(2) * i for i in range(3)}
    assert same(read(saved(content, zipped)), content)
    assert "the tensors are more than 3" in refused(saved({**content, "3": torch.ones(2)}, zipped))


def test_shared_numbers_may_be_claimed_twice_and_no_more(monkeypatch):
    """The file's bytes are counted, of which most are numbers here."""
    base = torch.arange(4096.0)
    twice = {"a": base, "b": base.view(64, 64)}
    assert same(read(saved(twice)), twice)
    assert "claim more than" in refused(saved({**twice, "c": base[1:], "d": base[2:]}))


@pytest.mark.parametrize(
    ("pairs", "fine"),
    [
        ([("a", 1), ("b", 2)], True),
        ([["a", 1], ["b", 2]], True),
        ([], True),
        ([("a", 1, 2)], False),
        ([(1, 2)], False),
        ([("a", 1), "bc"], False),
        ((("a", 1),), False),
        ({"a": 1}, False),
    ],
)
def test_pairs_as_python_2_wrote_an_ordered_dict(pairs, fine):
    """Where the pairs are in several, each must be one."""
    if fine:
        assert checkpoints._ordered_dict((pairs,)) == dict(pairs)
    else:
        with pytest.raises(Refused):
            checkpoints._ordered_dict((pairs,))


def test_other_makers_take_what_torch_gives_them_and_nothing_else():
    assert checkpoints._ordered_dict(()) == {}
    assert checkpoints._size(((2, 3),)) == (2, 3) and checkpoints._size(((),)) == ()
    assert checkpoints._device(("cuda", 1)) == "cuda" and checkpoints._device(("cpu",)) == "cpu"
    wrong = [
        (checkpoints._ordered_dict, ([], 1)),
        (checkpoints._size, ()),
        (checkpoints._size, ([1],)),
        (checkpoints._size, ((1, "a"),)),
        (checkpoints._size, ((1,), (2,))),
        (checkpoints._device, ()),
        (checkpoints._device, (1,)),
        (checkpoints._device, ("a", 1, 2)),
        (checkpoints._parameter, (1, True, {})),
        (checkpoints._size, ((1, True),)),
    ]
    for make, arguments in wrong:
        with pytest.raises(Refused):
            make(arguments)


@pytest.mark.parametrize("zipped", [ZIPPED, LEGACY])
def test_what_torch_writes_beside_tensors_is_read_from_a_whole_file(zipped):
    types = {torch.zeros(1).to(kind).dtype for kind in (bool, int, float, torch.uint8, torch.int8, torch.int16)}
    types |= {torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.bfloat16}
    types |= {torch.complex64, torch.complex128}
    kinds = sorted(types, key=str)
    value = {"sizes": [torch.Size((2, 3)), torch.Size(())], "devices": [torch.device("cuda", 1)], "types": kinds}
    found = read(saved(value, zipped))
    assert found["sizes"] == [(2, 3), ()] and found["devices"] == ["cuda"]
    assert [f"torch.{one.name}" for one in found["types"]] == [str(kind) for kind in kinds]
