import numpy as np
import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.openvino_graph import MOST_DEPTH, numbers, read_graph
from tests.tiny_openvino import Writer

KINDS = {"Parameter", "Add", "Result"}


def small():
    graph = Writer("small", 0)
    start = graph.add("Parameter", [], [np.zeros((1, 3), "<f4")], name="x")[0]
    graph.add("Result", [graph.both("Add", start, graph.const([[1.0, 2.0, 3.0]]))], [])
    return graph


def test_layers_constants_and_connections_are_read():
    written = small()
    graph = read_graph(written.xml(), written.constants, KINDS, "g")
    parameter, constant, total, result = graph.nodes
    assert [node.kind for node in graph.nodes] == ["Parameter", "Const", "Add", "Result"]
    assert constant.value.tolist() == [[1, 2, 3]] and parameter.value is None
    assert [operand.node for operand in total.inputs] == [parameter, constant]
    assert result.inputs[0].node is total and result.inputs[0].output == 0


BOMB = b'<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "aaaa">]><net name="&a;" version="10"><layers/></net>'
HARM = {
    "a document type": (lambda xml: BOMB, "without a document type"),
    "another version": (lambda xml: xml.replace(b'version="10"', b'version="11"'), "version 10, got 'net 11'"),
    "an unknown kind": (lambda xml: xml.replace(b'type="Add"', b'type="If"'), "a kind among Const, Add.* got 'If'"),
    "no XML": (lambda xml: xml[:-9], "expected XML, got"),
    "another operation set": (lambda xml: xml.replace(b"opset1", b"experimental", 1), "expected opset1"),
    "bytes beyond the file": (lambda xml: xml.replace(b'offset="0"', b'offset="8"'), "within the 12 bytes"),
    "a size that is not the shape's": (lambda xml: xml.replace(b'size="12"', b'size="8"'), "as its shape says"),
    "a negative size": (lambda xml: xml.replace(b'offset="0"', b'offset="-4"'), "whole numbers from 0 on"),
    "a huge shape": (lambda xml: xml.replace(b'shape="1, 3"', b'shape="2147483647, 3"'), "as its shape says"),
    "another type": (lambda xml: xml.replace(b'element_type="f32"', b'element_type="u8"'), "numbers of type f32"),
    "a number twice": (lambda xml: xml.replace(b'layer id="1"', b'layer id="0"'), "every number once"),
    "a connection to nowhere": (lambda xml: xml.replace(b'from-layer="1"', b'from-layer="9"'), "each connection once"),
    "a circle": (lambda xml: xml.replace(b'from-layer="1" from-port="0"', b'from-layer="2" from-port="2"'), "circle"),
    "a deep tree": (lambda xml: b"<net>" * (MOST_DEPTH + 1), "within one another"),
}


@pytest.mark.parametrize("harm", HARM)
def test_another_graph_is_refused_in_one_line(harm):
    written, (change, expected) = small(), HARM[harm]
    changed = change(written.xml())
    assert changed != written.xml()
    with pytest.raises(InputError, match=expected) as refusal:
        read_graph(changed, written.constants, KINDS, "graph.xml")
    assert str(refusal.value).startswith("graph.xml: ") and "\n" not in str(refusal.value)


def test_constants_that_are_not_finite_are_refused():
    written = small()
    with pytest.raises(InputError, match="finite"):
        read_graph(written.xml(), np.array([1, np.nan, 2], "<f4").tobytes(), KINDS, "g")


def test_a_number_of_another_script_is_none():
    with pytest.raises(InputError):
        numbers("\u0663", "g")
