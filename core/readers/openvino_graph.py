"""OpenVINO's intermediate representation, version 10: an XML graph and a file of constants, read as data.

Nothing of the graph is run. No document type is accepted and so no entity, and no size is believed before it is
checked.
Source of the format: openvinotoolkit/openvino, docs on "Operation sets" and "IR" (opset1, version 10).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted

VERSION = "10"
MOST_XML, MOST_CONSTANTS = 4 * 2**20, 256 * 2**20
MOST_ELEMENTS, MOST_DEPTH, MOST_LAYERS, MOST_AXES = 100_000, 16, 5_000, 8
OPERATION_SETS = frozenset(f"opset{number}" for number in range(1, 8))  # the kinds below are the same in all
TYPES = {"f32": "<f4", "i64": "<i8", "i32": "<i4"}
_LARGEST = 2**31


@dataclass(frozen=True, eq=False)
class Node:
    """One layer of the graph.

    Attributes:
        inputs: Its operands in the order of their ports.
        value: Value of a constant, else None.
    """

    kind: str
    name: str
    attributes: Mapping[str, str]
    value: np.ndarray | None
    inputs: list[Operand] = field(default_factory=list)


@dataclass(frozen=True)
class Operand:
    """What a layer reads: the output number `output` of `node`."""

    node: Node
    output: int


@dataclass(frozen=True)
class Graph:
    """The layers in the order of the file. where: how a message about it begins."""

    name: str
    nodes: tuple[Node, ...]
    where: str


def read_graph(xml: bytes, constants: bytes, kinds: Collection[str], where: str) -> Graph:
    """The graph. kinds: of layers that may occur, besides Const. where: how a message begins.

    Raises InputError, one line, for another version, a layer of another kind, a document type, a size beyond the
    bounds, a constant outside the file, a connection that leads nowhere, or a circle.
    """
    if len(constants) > MOST_CONSTANTS:
        raise InputError(f"{where}: expected at most {MOST_CONSTANTS} bytes of constants, got {len(constants)}")
    root = _parsed(xml, where)
    if root.tag != "net" or root.get("version") != VERSION:
        got = quoted(f"{root.tag} {root.get('version')}")
        raise InputError(f"{where}: expected OpenVINO's net of version {VERSION}, got {got}")
    layers = root.findall("./layers/layer")
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise InputError(f"{where}: expected 1 to {MOST_LAYERS} layers, got {len(layers)}")
    nodes, ports = {}, {}
    for layer in layers:
        key = _number(layer, "id", where)
        if key in nodes:
            raise InputError(f"{where}: layer {key}: expected every number once")
        nodes[key] = _node(layer, constants, kinds, where)
        ports[key] = [_number(port, "id", where) for port in layer.findall("./output/port")]
    _connect(root.findall("./edges/edge"), nodes, ports, where)
    return Graph(name=root.get("name", ""), nodes=tuple(nodes.values()), where=where)


def _parsed(xml: bytes, where: str) -> Element:
    """The elements. expat itself, so that a document type is refused before it can declare anything."""
    if len(xml) > MOST_XML:
        raise InputError(f"{where}: expected at most {MOST_XML} bytes of XML, got {len(xml)}")
    builder, parser = TreeBuilder(), expat.ParserCreate()
    count, depth = 0, 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count, depth
        count, depth = count + 1, depth + 1
        if count > MOST_ELEMENTS or depth > MOST_DEPTH:
            raise InputError(f"{where}: expected at most {MOST_ELEMENTS} elements, {MOST_DEPTH} within one another")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse(*_: object) -> NoReturn:
        raise InputError(f"{where}: expected XML without a document type, got one")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(xml, True)
        return builder.close()
    except (expat.ExpatError, AssertionError, ValueError, LookupError) as error:
        raise InputError(f"{where}: expected XML, got: {' '.join(str(error).split())[:200]}") from None


def _node(layer: Element, constants: bytes, kinds: Collection[str], where: str) -> Node:
    kind, name = layer.get("type", ""), layer.get("name", "")
    if kind != "Const" and kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise InputError(f"{where}: layer {quoted(name)}: expected a kind among Const, {known}, got {quoted(kind)}")
    if layer.get("version") not in OPERATION_SETS:
        raise InputError(
            f"{where}: layer {quoted(name)}: expected opset1 to opset7, got {quoted(layer.get('version'))}"
        )
    data = layer.find("data")
    attributes = {} if data is None else dict(data.attrib)
    value = _constant(attributes, constants, f"{where}: constant {quoted(name)}") if kind == "Const" else None
    return Node(kind=kind, name=name, attributes=attributes, value=value)


def _constant(attributes: Mapping[str, str], constants: bytes, where: str) -> np.ndarray:
    element = attributes.get("element_type", "")
    if element not in TYPES:
        raise InputError(f"{where}: expected numbers of type {', '.join(TYPES)}, got {quoted(element)}")
    shape = numbers(attributes.get("shape", ""), where)
    offset, size = (numbers(attributes.get(key, ""), where) for key in ("offset", "size"))
    kind = np.dtype(TYPES[element])
    if len(shape) > MOST_AXES or len(offset) != 1 or len(size) != 1 or size[0] != math.prod(shape) * kind.itemsize:
        raise InputError(f"{where}: expected as many bytes as its shape says, got {quoted(str(dict(attributes)))}")
    if offset[0] + size[0] > len(constants):
        raise InputError(f"{where}: expected it within the {len(constants)} bytes of the file, got {offset[0]}")
    value = np.frombuffer(constants, kind, math.prod(shape), offset[0]).reshape(shape)
    if kind.kind == "f" and not np.isfinite(value).all():
        raise InputError(f"{where}: expected finite numbers")
    return value


def numbers(text: str, where: str) -> tuple[int, ...]:
    """Whole numbers from 0 on, separated by commas; none of an empty text. Raises InputError."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 and int(part) < _LARGEST for part in parts):
        raise InputError(f"{where}: expected whole numbers from 0 on, got {quoted(text)}")
    return tuple(map(int, parts))


def _number(element: Element, key: str, where: str) -> int:
    values = numbers(element.get(key, ""), f"{where}: {element.tag}: {key}")
    if len(values) != 1:
        raise InputError(f"{where}: {element.tag}: {key}: expected one number, got {quoted(element.get(key, ''))}")
    return values[0]


def _connect(edges: list[Element], nodes: dict[int, Node], ports: dict[int, list[int]], where: str) -> None:
    """Fill in the inputs of every node, by the order of their ports."""
    read: dict[int, dict[int, Operand]] = {key: {} for key in nodes}
    before: dict[int, set[int]] = {key: set() for key in nodes}
    for edge in edges:
        source, output, target, port = (
            _number(edge, key, where) for key in ("from-layer", "from-port", "to-layer", "to-port")
        )
        if source not in nodes or target not in nodes or output not in ports[source] or port in read[target]:
            raise InputError(f"{where}: expected each connection once, between two layers, got {source} to {target}")
        read[target][port] = Operand(nodes[source], ports[source].index(output))
        before[target].add(source)
    try:
        tuple(TopologicalSorter(before).static_order())
    except CycleError:
        raise InputError(f"{where}: expected a graph without a circle") from None
    for key, operands in read.items():
        nodes[key].inputs.extend(operands[port] for port in sorted(operands))
