"""Graphs that name what is not listed, and ONNX whose weights lie elsewhere, in every way that it can be written."""

import json

import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.exported import GRAPH, check_exported
from smoothsweep.core.external.onnx_file import open_onnx
from smoothsweep.core.external.onnx_graph import OPERATORS, check_onnx
from smoothsweep.core.external.operators import ATEN
from smoothsweep.core.readers.archives import members_of
from tests.made_onnx import as_onnx
from tests.made_programs import Shades, exported

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, 4)).eval()


@pytest.fixture(scope="module")
def program(network, tmp_path_factory):
    return exported(network, tmp_path_factory.mktemp("exported") / "program.pt2")


class Changed:
    """An archive's members with another graph."""

    def __init__(self, members, change):
        self._members, graph = members, json.loads(members.read(GRAPH))
        change(graph["graph_module"]["graph"]["nodes"])
        self._graph = json.dumps(graph).encode()

    def __contains__(self, name):
        return name in self._members

    def __iter__(self):
        return iter(self._members)

    def read(self, name):
        return self._graph if name == GRAPH else self._members.read(name)


def checked(program, change):
    with members_of(program, "a program") as members:
        return check_exported(Changed(members, change), program)


def targets():
    """Every operation that this torch can name in a graph."""
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        yield space, name, f"torch.ops.{space}.{name}.{schema.overload_name or 'default'}"


def test_every_operation_of_this_torch_passes_only_where_it_is_listed(program):
    """With its own overload, in the first node and in the last one."""
    with members_of(program, "a program") as members:
        graph = members.read(GRAPH)
    tried = {True: 0, False: 0}
    for space, name, target in targets():
        listed = space == "aten" and name in ATEN
        tried[listed] += 1
        for index in (0, -1):
            members = Members(graph, index, target)
            if listed and name.isidentifier():
                members.check(program)
            elif not listed:
                with pytest.raises(InputError, match=r"expected operations of torch\.ops\.aten that are listed"):
                    members.check(program)
    assert tried[True] > 1000 and tried[False] > 1000


class Members:
    """One node's target, looked at by what looks at texts."""

    def __init__(self, graph, index, target):
        self.tree = {"nodes": [{"target": "torch.ops.aten.relu.default"}, {"target": "torch.ops.aten.add.Tensor"}]}
        self.tree["nodes"][index]["target"] = target

    def check(self, where):
        from smoothsweep.core.external.exported import _check

        _check(self.tree, str(where))


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten._print.default",
        "torch.ops.aten.manual_seed.default",
        "torch.ops.aten.set_grad_enabled.default",
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.set_data.default",
        "torch.ops.aten.add",
        "torch.ops.aten.add.Tensor\n",
        " torch.ops.aten.add.Tensor",
        "torch.ops.aten.add.Tensor.x",
        "torch.ops.ATEN.add.Tensor",
        "torch.ops.aten.__init__.default",
        "torch.ops.higher_order.cond",
        "torch.manual_seed",
        "torch.ops.aten._set_grad_enabled.default",
        "torch._C._set_grad_enabled",
        "builtins.eval",
        "os.system",
        "",
        "_operator.attrgetter",
        "torch.ops.aten.add.Tensor;import os",
        "\uff54orch.ops.aten.add.Tensor",
    ],
)
@pytest.mark.parametrize("index", [0, -1])
def test_other_targets_are_refused_in_the_archive(program, target, index):
    with pytest.raises(InputError, match="listed as arithmetic"):
        checked(program, lambda nodes: nodes[index].update(target=target))


def test_the_archive_unchanged_passes(program):
    assert checked(program, lambda nodes: None)


# ONNX. An encoder of our own, which may write every number longer than it is.


def varint(value, padding=0):
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F)
        value >>= 7
    groups += [value, *[0] * padding]
    return bytes([*(one | 0x80 for one in groups[:-1]), groups[-1]])


def field(number, content, *, key=0, length=0):
    """A field of bytes (or of a number), its key and length padded by so many bytes."""
    if isinstance(content, int):
        return varint(number << 3, key) + varint(content, length)
    return varint(number << 3 | 2, key) + varint(len(content), length) + content


def tensor(*, outside, where, key=0, length=0, inner=0):
    """A float tensor of three numbers; outside: they lie in the file `where`."""
    dims, kind, name = field(1, 3), field(2, 1), field(8, b"w")
    if not outside:
        return dims + kind + name + field(9, b"\0" * 12)
    entry = field(1, b"location", key=inner, length=inner) + field(2, where.encode())
    return dims + kind + name + field(13, entry, key=key, length=length) + field(14, 1, key=key)


def model(place, content, *, key=0, length=0, twice=False):
    """A model with a tensor's bytes in a place."""

    def put(number, inside):
        return field(number, inside, key=key, length=length)

    def node(attribute=b"", name=b"Constant"):
        return field(2, b"y") + field(4, name) + attribute

    def graph(inside):
        return inside + field(2, b"g")

    attribute = {
        "attribute": put(5, content),
        "attribute_list": put(10, content),
        "sparse_attribute": put(22, put(1, content)),
        "sparse_attributes": put(23, put(2, content)),
        "subgraph": put(6, graph(put(5, content))),
        "subgraphs": put(11, graph(put(15, put(1, content)))),
        "node_of_subgraph": put(6, graph(put(1, node(put(5, field(1, b"value") + put(5, content)))))),
    }
    if place in attribute:
        inside = graph(put(1, node(put(5, field(1, b"value") + attribute[place]))))
    elif place == "initializer":
        inside = graph(put(5, content))
    elif place == "sparse_values":
        inside = graph(put(15, put(1, content)))
    elif place == "sparse_indices":
        inside = graph(put(15, put(2, content)))
    else:
        inside = graph(b"")
    functions = b""
    if place == "function":
        functions = put(25, field(1, b"F") + put(7, node(put(5, field(1, b"value") + put(5, content)))))
    elif place == "function_default":
        functions = put(25, field(1, b"F") + put(11, field(1, b"a") + put(5, content)))
    whole = field(1, 8) + (field(7, graph(b"")) if twice else b"") + put(7, inside) + functions
    return whole + field(8, field(2, 13))


PLACES = (
    "initializer",
    "sparse_values",
    "sparse_indices",
    "attribute",
    "attribute_list",
    "sparse_attribute",
    "sparse_attributes",
    "subgraph",
    "subgraphs",
    "node_of_subgraph",
    "function",
    "function_default",
)


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
