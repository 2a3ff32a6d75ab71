"""The encoding of a protocol buffer by hand: every kind of value, every bound, every field that the format has.

Source: https://protobuf.dev/programming-guides/encoding; a second reader is protobuf's own.
"""

import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import onnx_graph
from smoothsweep.core.external.onnx_graph import _MESSAGES, _Bad, _fields, _varint, check_onnx
from tests.core.external.padded_onnx import field, varint


@given(value=st.integers(0, 2**64 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_number_is_read_wherever_it_stands(value, before, after):
    content = before + varint(value) + after
    read, end = _varint(content, len(before), len(content))
    assert (read, end) == (value, len(content) - len(after))


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\x80",
        b"\xff\xff",
        b"\x80\x00",
        b"\x81\x00",
        b"\x80\x80\x00",
        b"\xff" * 9 + b"\x02",
        b"\xff" * 10 + b"\x01",
        b"\x80" * 9 + b"\x02",
        b"\xff" * 9 + b"\x7f",
    ],
)
def test_a_number_that_is_cut_too_large_or_longer_than_needed_is_none(written):
    with pytest.raises(_Bad, match="a number that is written in an unusual way"):
        _varint(written, 0, len(written))


def test_a_number_ends_where_its_message_ends():
    assert _varint(b"\x00", 0, 1) == (0, 1) and _varint(b"\x00\x01", 0, 2) == (0, 1)
    assert _varint(b"\xff" * 9 + b"\x01", 0, 10) == (2**64 - 1, 10)
    with pytest.raises(_Bad):
        _varint(b"\x80\x01", 0, 1)


def fixed(number, kind, content):
    return varint(number << 3 | kind) + content


def test_every_kind_of_value_is_passed_over_and_the_next_field_found():
    """A number, eight bytes, a text, four bytes, an empty text, and again a number."""
    parts = [
        (1, 0, field(1, 300)),
        (2, 1, fixed(2, 1, b"\xff" * 8)),
        (3, 2, field(3, b"text")),
        (4, 5, fixed(4, 5, b"\xff" * 4)),
        (5, 2, field(5, b"")),
        (2**29 - 1, 0, field(2**29 - 1, 7)),
    ]
    content = b"".join(part for *_, part in parts)
    found = list(_fields(b"zz" + content + b"zz", 2, 2 + len(content)))
    assert [(one.number, one.kind) for one in found] == [(number, kind) for number, kind, _ in parts]
    assert (found[0].value, found[-1].value) == (300, 7)
    assert [(b"zz" + content)[slice(*one.span)] for one in found if one.kind == 2] == [b"text", b""]


@pytest.mark.parametrize(
    "content",
    [
        field(3, b"text")[:-1],
        fixed(2, 1, b"\0" * 7),
        fixed(2, 5, b"\0" * 3),
        fixed(1, 3, b""),
        fixed(1, 4, b""),
        fixed(1, 6, b"\0"),
        fixed(1, 7, b"\0"),
        field(0, 1),
        field(0, b""),
        varint(2**29 << 3) + b"\0",
    ],
)
def test_what_is_cut_or_of_no_kind_is_no_protocol_buffer(content):
    with pytest.raises(_Bad, match=r"bytes that are no protocol buffer, at \d+"):
        list(_fields(content, 0, len(content)))


def nested(depth):
    """A graph in an attribute of a node of a graph, and so on: `depth` messages within the model."""
    kinds = [1, 5, 6]  # node, attribute, graph; read from the inside out
    content = field(4, b"If") if depth % 3 == 2 else b""
    for level in range(depth, 1, -1):
        content = field(kinds[(level - 2) % 3], content) + (field(4, b"If") if (level - 2) % 3 == 1 else b"")
    return field(7, content)


@pytest.mark.parametrize(("depth", "fine"), [(31, True), (32, True), (33, False), (34, False)])
def test_messages_lie_at_most_32_deep(depth, fine):
    written = nested(depth)
    if fine:
        return check_onnx(written, "x")
    with pytest.raises(InputError, match=r"^x, got messages that are nested too deeply"):
        check_onnx(written, "x")


@pytest.mark.parametrize(("most", "fine"), [(6, True), (5, False)])
def test_fields_are_counted_over_all_messages(monkeypatch, most, fine):
    """One of the model and one graph, whose name, node, operator and output are four more."""
    monkeypatch.setattr(onnx_graph, "MOST_FIELDS", most)
    written = field(1, 8) + field(7, field(2, b"g") + field(1, field(4, b"Relu") + field(2, b"y")))
    if fine:
        return check_onnx(written, "x")
    with pytest.raises(InputError, match=r"^x, got more than 5 fields"):
        check_onnx(written, "x")


PROTO = {
    "model": onnx.ModelProto,
    "graph": onnx.GraphProto,
    "node": onnx.NodeProto,
    "attribute": onnx.AttributeProto,
    "tensor": onnx.TensorProto,
    "sparse": onnx.SparseTensorProto,
    "function": onnx.FunctionProto,
}
LOOKED_INTO = {proto.DESCRIPTOR.full_name: name for name, proto in PROTO.items()}
NOT_COMPUTING = {("model", 20)}
"""What onnx's own format has and is refused: a training of the model."""


@pytest.mark.parametrize("message", PROTO)
def test_the_table_is_onnx_s_own(message):
    """Every field that this onnx has is listed, and looked into where it holds a message that numbers or nodes can lie
    in; a field that it lacks is one of a newer format."""
    named = PROTO[message].DESCRIPTOR.fields_by_number
    for number, one in named.items():
        inner = LOOKED_INTO.get(one.message_type.full_name, "") if one.type == FieldDescriptor.TYPE_MESSAGE else ""
        assert ((message, number) in NOT_COMPUTING) or _MESSAGES[message].get(number) == inner, one.name
    assert not {one for one in NOT_COMPUTING if one[0] == message} & {(message, n) for n in _MESSAGES[message]}


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (field(13, b""), "weights that lie in other files"),
        (field(14, 1), "weights that lie in other files"),
        (field(14, 2), "weights that lie in other files"),
        (field(14, b""), "a tensor without a plain location"),
        (field(99, 1), "a field 99 of a tensor"),
        (field(14, 0), ""),
        (field(9, b"\0" * 4), ""),
        (b"", ""),
    ],
)
def test_where_the_numbers_of_a_tensor_lie(tensor, line):
    """Also of the second tensor, beside one that is fine."""
    for tensors in ([tensor], [field(1, 3), tensor], [tensor, field(1, 3)]):
        written = field(7, b"".join(field(5, one) for one in tensors))
        if line:
            with pytest.raises(InputError, match=f"^x, got {line}"):
                check_onnx(written, "x")
        else:
            check_onnx(written, "x")


def test_a_message_is_no_number_and_a_number_no_message():
    with pytest.raises(InputError, match=r"^x, got a field 7 of a model that is no message"):
        check_onnx(field(7, 3), "x")
    check_onnx(field(1, b"8"), "x")  # a value that is not looked into may be of any kind


def graph(*operators):
    nodes = b"".join(field(1, field(4, name) + (field(7, domain) if domain else b"")) for name, domain in operators)
    return field(7, nodes)


@pytest.mark.parametrize(
    ("operators", "functions", "named"),
    [
        ([(b"Relu", b""), (b"Evil", b"")], [], "'Evil'"),
        ([(b"Relu", b""), (b"F", b"own")], [], "'own.F'"),
        ([(b"F", b"own"), (b"G", b"own")], [(b"F", b"own")], "'own.G'"),
        ([(b"F", b"own")], [(b"F", b"other")], "'own.F'"),
        ([(b"F", b"own")], [(b"G", b"own"), (b"F", b"own")], None),
        ([(b"F", b"")], [(b"F", b"")], None),
        ([(b"FusedConv", b"com.microsoft"), (b"Conv", b"ai.onnx")], [], None),
        ([(b"FusedConv", b"")], [], "'FusedConv'"),
        ([(b"Conv", b"com.microsoft")], [], "'com.microsoft.Conv'"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_operators_are_listed_by_domain_or_defined_before_or_after(operators, functions, named, first):
    defined = b"".join(field(25, field(1, name) + (field(10, domain) if domain else b"")) for name, domain in functions)
    written = defined + graph(*operators) if first else graph(*operators) + defined
    if named is None:
        return check_onnx(written, "x")
    with pytest.raises(InputError, match=r"^x of operators that are listed as arithmetic, got ") as refused:
        check_onnx(written, "x")
    assert named.strip("'") in str(refused.value)
