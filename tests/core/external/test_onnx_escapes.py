"""ONNX whose weights lie elsewhere, in every way that it can be written, and operators that nobody lists."""

import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.onnx_file import open_onnx
from smoothsweep.core.external.onnx_graph import OPERATORS, check_onnx
from tests.core.external.padded_onnx import PLACES, field, model, tensor
from tests.made_onnx import as_onnx
from tests.made_programs import Shades

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, 4)).eval()


def outside_tensors(message):
    """How many tensors with numbers in other files onnx's own parser sees, wherever they are."""
    found = int(isinstance(message, onnx.TensorProto) and (message.data_location == 1 or bool(message.external_data)))
    for described, value in message.ListFields():
        if described.type == described.TYPE_MESSAGE:
            values = value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value]
            found += sum(outside_tensors(one) for one in values)
    return found


@given(
    place=st.sampled_from(PLACES),
    key=st.integers(0, 3),
    length=st.integers(0, 3),
    inner=st.integers(0, 3),
    outer=st.integers(0, 3),
    twice=st.booleans(),
    where=st.sampled_from(["weights", "../secret", "/etc/passwd", "*/_ORT_MEM_ADDR_/*"]),
)
def test_weights_in_other_files_are_refused_however_they_are_written(place, key, length, inner, outer, twice, where):
    content = tensor(outside=True, where=where, key=key, length=length, inner=inner)
    written = model(place, content, key=outer, length=outer, twice=twice)
    assert outside_tensors(onnx.ModelProto.FromString(written)) == 1  # onnx reads it, and sees them
    with pytest.raises(InputError, match=r"^x, got "):
        check_onnx(written, "x")


@pytest.mark.parametrize("place", PLACES)
def test_weights_in_the_file_itself_pass(place):
    written = model(place, tensor(outside=False, where=""))
    assert outside_tensors(onnx.ModelProto.FromString(written)) == 0
    check_onnx(written, "x")


def test_the_key_of_the_issue_is_refused(network, tmp_path):
    """The length of `location` written as two bytes, which a search in bytes does not find."""
    entry = field(1, b"location", length=1) + field(2, b"secret")
    assert b"\x0a\x88\x00location" in entry
    content = field(1, 3) + field(2, 1) + field(8, b"w") + field(13, entry) + field(14, 1)
    written = model("initializer", content)
    assert outside_tensors(onnx.ModelProto.FromString(written)) == 1
    (tmp_path / "evil.onnx").write_bytes(written)
    with pytest.raises(InputError, match="expected an ONNX model, got"):
        open_onnx(tmp_path / "evil.onnx", {}, CPU)


@given(
    name=st.sampled_from(sorted({one.name for one in onnx.defs.get_all_schemas_with_history()} | {"Evil", "", "relu"})),
    domain=st.sampled_from(
        ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "evil", "ai.onnx.training", "ai.onnx.preview.training"]
    ),
)
def test_operators_pass_only_where_they_are_listed_or_defined(name, domain):
    graph = field(1, field(4, name.encode()) + field(7, domain.encode())) + field(2, b"g")
    written = field(1, 8) + field(7, graph)
    if name in OPERATORS.get(domain, ()):
        check_onnx(written, "x")
    else:
        with pytest.raises(InputError, match="x of operators that are listed as arithmetic"):
            check_onnx(written, "x")
    check_onnx(written + field(25, field(1, name.encode()) + field(10, domain.encode())), "x")


@pytest.mark.parametrize(
    "node",
    [
        field(4, b"Relu") + field(4, b"Evil"),
        field(4, b"Relu") + field(7, b"") + field(7, b"evil"),
        field(4, 3),
    ],
)
def test_a_node_with_two_names_is_refused(node):
    with pytest.raises(InputError, match="a node with two names"):
        check_onnx(field(7, field(1, node)), "x")


@given(noise=st.binary(max_size=200))
def test_noise_is_one_line_or_nothing(noise):
    try:
        check_onnx(noise, "x")
    except InputError as error:
        assert "\n" not in str(error)


def test_a_model_as_onnx_writes_it_passes_and_nesting_without_end_does_not(network, tmp_path):
    check_onnx(as_onnx(network, tmp_path / "good.onnx").read_bytes(), "x")
    graph = field(2, b"g")
    for _ in range(60):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    with pytest.raises(InputError, match="nested too deeply"):
        check_onnx(field(7, graph), "x")
