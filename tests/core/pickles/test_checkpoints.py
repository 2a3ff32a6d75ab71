"""Our reader of torch's checkpoints against torch's own."""

from collections import OrderedDict

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.pickles import checkpoints
from smoothsweep.core.pickles.checkpoints import MAX_TENSORS
from smoothsweep.core.pickles.cursor import Refused
from tests.core.pickles.torch_files import LEGACY, ZIPPED, read, refused, same, saved

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
