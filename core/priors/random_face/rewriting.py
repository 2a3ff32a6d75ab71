"""The two graphs of the package as a network of ours: every layer must stand where MobileStyleGAN has it.

Each function follows one construct of the graph from its output to its inputs and returns its constants. A graph that
is built otherwise is refused with the name of the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.mobilestylegan import EPSILON, GAIN, MobileStyleGAN
from smoothsweep.core.priors.mobilestylegan_fused import SLOPE
from smoothsweep.core.priors.random_face_settings import MobileStyleGANConfig
from smoothsweep.core.readers.openvino_graph import Graph, Node, Operand
from smoothsweep.core.text import quoted

MAPPING_KINDS = frozenset(
    ("Parameter", "Result", "Power", "ReduceMean", "Add", "Multiply", "MatMul", "PReLU", "ShapeOf", "Gather")
) | {"Unsqueeze", "Concat", "Reshape"}
SYNTHESIS_KINDS = (MAPPING_KINDS - {"Power", "ReduceMean"}) | {
    "Broadcast",
    "Tile",
    "Convolution",
    "GroupConvolution",
    "GroupConvolutionBackpropData",
    "VariadicSplit",
    "Squeeze",
}
MOST_STAGES = 9
_CLOSE = 1e-6
NOTHING: Mapping[str, str] = MappingProxyType({})
State = dict[str, Tensor]


def rewritten(mapping: Graph, synthesis: Graph) -> MobileStyleGAN:
    """The network with the numbers of the graphs; the mean of w is still to be measured. Raises InputError."""
    state = _mapping_state(mapping)
    synthesis_state, channels = _synthesis_state(synthesis)
    state |= synthesis_state
    layers = sum(name.endswith("weight") and name.startswith("mapping.") for name in state)
    w_dim, z_dim = state["mapping.layers.0.weight"].shape
    network = MobileStyleGAN(MobileStyleGANConfig(channels=channels, z_dim=z_dim, w_dim=w_dim, mapping_layers=layers))
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items() if name != "mapping.mean"}
    got = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(expected.keys() | got.keys()):
        if expected.get(name) != got.get(name):
            raise InputError(f"{synthesis.where}: {name}: expected shape {expected.get(name)}, got {got.get(name)}")
    network.load_state_dict(state | {"mapping.mean": torch.zeros(w_dim)})
    return network.eval()


class _Walk:
    """What one graph is asked for."""

    def __init__(self, graph: Graph) -> None:
        self.where = graph.where
        self.result = self.only(graph, "Result").inputs
        self.parameter = self.only(graph, "Parameter")

    def only(self, graph: Graph, kind: str) -> Node:
        nodes = [node for node in graph.nodes if node.kind == kind]
        if len(nodes) != 1:
            raise InputError(f"{self.where}: expected one layer of the kind {kind}, got {len(nodes)}")
        return nodes[0]

    def refuse(self, node: Node, expected: str) -> NoReturn:
        raise InputError(f"{self.where}: layer {quoted(node.name)}: expected {expected}, got {node.kind}")

    def of(self, operand: Operand, kind: str, inputs: int = 2, expected: Mapping[str, str] = NOTHING) -> list[Operand]:
        """The inputs of a layer of that kind, with these attributes."""
        node = operand.node
        if node.kind != kind or len(node.inputs) != inputs:
            self.refuse(node, f"a {kind} of {inputs} inputs")
        for key, value in expected.items():
            if node.attributes.get(key) != value:
                self.refuse(node, f"{key}={value}, not {quoted(str(node.attributes.get(key)))},")
        return node.inputs

    def constant(self, operand: Operand, *shape: int | None) -> np.ndarray:
        """The value of a constant of that shape; None: any length."""
        value = operand.node.value
        if value is None or value.ndim != len(shape):
            self.refuse(operand.node, f"a constant of {len(shape)} axes")
        if any(want is not None and want != got for want, got in zip(shape, value.shape, strict=True)):
            self.refuse(operand.node, f"a constant of shape {shape}, not {value.shape},")
        return value

    def with_constant(self, operand: Operand, kind: str) -> tuple[Operand, Operand]:
        """Inputs of a layer of which one of two is a constant: the other input, the constant."""
        first, second = self.of(operand, kind)
        return (second, first) if first.node.kind == "Const" else (first, second)

    def equals(self, operand: Operand, value: float) -> None:
        """Refuse a constant that is another number."""
        number, most = operand.node.value, _CLOSE * max(abs(value), 1)
        if number is None or number.size != 1 or abs(float(number.reshape(())) - value) > most:
            self.refuse(operand.node, f"the constant {value}")

    def leaky(self, operand: Operand) -> Operand:
        x, slope = self.of(operand, "PReLU")
        self.equals(slope, SLOPE)
        return x

    def dense(self, operand: Operand) -> tuple[Operand, np.ndarray]:
        x, weight = self.of(operand, "MatMul", expected={"transpose_a": "false", "transpose_b": "true"})
        return x, self.constant(weight, None, None)


def _mapping_state(graph: Graph) -> State:
    walk, layers = _Walk(graph), []
    operand = walk.result[0] if walk.result else walk.refuse(walk.parameter, "something before the result")
    while operand.node.kind == "Multiply" and any(item.node.kind == "Const" for item in operand.node.inputs):
        x, gain = walk.with_constant(operand, "Multiply")
        walk.equals(gain, GAIN)
        product, shaped = walk.of(walk.leaky(x), "Add")
        bias = walk.constant(walk.of(shaped, "Reshape")[0], None)
        operand, weight = walk.dense(product)
        layers.append({"weight": weight, "bias": bias})
    _unit_mean_square(walk, operand)
    layers.reverse()
    return {
        f"mapping.layers.{index}.{name}": _tensor(value)
        for index, layer in enumerate(layers)
        for name, value in layer.items()
    }


def _unit_mean_square(walk: _Walk, operand: Operand) -> None:
    """z / sqrt(mean of z squared + epsilon)."""
    z, inverse = walk.of(operand, "Multiply")
    power, exponent = walk.with_constant(inverse, "Multiply")
    walk.equals(exponent, 1)
    root, minus = walk.of(power, "Power")
    walk.equals(minus, -1)
    total, half = walk.of(root, "Power")
    walk.equals(half, 0.5)
    mean, epsilon = walk.with_constant(total, "Add")
    walk.equals(epsilon, EPSILON)
    squares, axis = walk.of(mean, "ReduceMean", expected={"keep_dims": "true"})
    walk.equals(axis, 1)
    again, two = walk.of(squares, "Power")
    walk.equals(two, 2)
    if z.node is not walk.parameter or again.node is not walk.parameter:
        walk.refuse(z.node, "the latent")


def _synthesis_state(graph: Graph) -> tuple[State, tuple[int, ...]]:
    walk, state, stages = _Walk(graph), {}, []
    if not walk.result:
        walk.refuse(walk.parameter, "something before the result")
    picture, bias = walk.with_constant(_before_wavelet(walk, walk.result[0]), "Add")
    x, weight = walk.of(picture, "Convolution", expected=_still("0, 0"))
    style, features = _modulated(walk, x)
    order = _subbands(3)
    state["to_image.weight"] = _tensor(walk.constant(weight, 12, None, 1, 1)[:, :, 0, 0][order])
    state["to_image.bias"] = _tensor(walk.constant(bias, 1, 12, 1, 1).reshape(-1)[order])
    state |= _named("to_image.style", style)
    while (second := _styled(walk, features))["separable"]:
        if len(stages) == MOST_STAGES:
            walk.refuse(features.node, f"at most {MOST_STAGES} stages")
        first = _styled(walk, second["input"])
        up, features = _modulated(walk, _before_wavelet(walk, first["input"]))
        stages.append((first, second, up))
    constant = _constant_input(walk, second["input"])
    channels = [constant.shape[1]]
    state |= {"first.constant": _tensor(constant), **_layer_state("first", second, ordered=bool(stages))}
    for index, (first, last, up) in enumerate(reversed(stages)):
        name, more = f"stages.{index}", index + 1 < len(stages)
        state |= _layer_state(f"{name}.conv1", first, ordered=False) | _layer_state(f"{name}.conv2", last, ordered=more)
        order = _subbands(len(up["bias"]) // 4)
        state |= _named(f"{name}.up", {key: value[order] for key, value in up.items()})
        channels.append(len(last["bias"]))
    return state, tuple(channels)


def _styled(walk: _Walk, operand: Operand) -> dict:
    """A styled convolution: its numbers, whether it is separable, and the features that it reads."""
    noisy, bias = walk.with_constant(walk.leaky(operand), "Add")
    convolved, noise = walk.with_constant(noisy, "Add")
    padding = "0, 0" if convolved.node.inputs and convolved.node.inputs[0].node.kind == "GroupConvolution" else "1, 1"
    x, pointwise = walk.of(convolved, "Convolution", expected=_still(padding))
    state = {"separable": padding == "0, 0", "noise": walk.constant(noise, 1, 1, None, None)}
    if state["separable"]:
        x, depthwise = walk.of(x, "GroupConvolution", expected=_still("1, 1"))
        state["depthwise"] = walk.constant(depthwise, None, 1, 1, 3, 3)[:, 0]
        state["pointwise"] = walk.constant(pointwise, None, None, 1, 1)[:, :, 0, 0]
    else:
        state["pointwise"] = walk.constant(pointwise, None, None, 3, 3)
    state["style"], state["input"] = _modulated(walk, x)
    state["bias"] = walk.constant(bias, 1, len(state["pointwise"]), 1, 1).reshape(-1)
    return state


def _still(padding: str) -> dict[str, str]:
    ones, padded = dict.fromkeys(("strides", "dilations"), "1, 1"), dict.fromkeys(("pads_begin", "pads_end"), padding)
    return {**ones, **padded, "auto_pad": "explicit"}


def _modulated(walk: _Walk, operand: Operand) -> tuple[dict[str, np.ndarray], Operand]:
    """Features times a scale for each channel: the affine map of w that gives the scales, the features."""
    first, second = walk.of(operand, "Multiply")
    for scale, x in ((first, second), (second, first)):
        if (style := _style(walk, scale)) is not None:
            return style, x
    walk.refuse(operand.node, "features times scales of channels")


def _style(walk: _Walk, operand: Operand) -> dict[str, np.ndarray] | None:
    """The affine map of w, with its gain; None of what is no such thing."""
    gain = np.float32(1)
    if operand.node.kind == "Multiply" and any(item.node.kind == "Const" for item in operand.node.inputs):
        operand, constant = walk.with_constant(operand, "Multiply")
        gain = walk.constant(constant, 1, 1, 1, 1).reshape(())
    if operand.node.kind != "Reshape":
        return None
    total, bias = walk.with_constant(walk.of(operand, "Reshape")[0], "Add")
    w, weight = walk.dense(total)
    if w.node is not walk.parameter:
        walk.refuse(w.node, "the style vector")
    return {"weight": weight * gain, "bias": walk.constant(bias, 1, len(weight))[0] * gain}


def _before_wavelet(walk: _Walk, operand: Operand) -> Operand:
    """What goes into an inverse Haar transform, whose four sub-bands are upsampled along rows, then columns."""
    bands: dict[tuple[bool, bool], Operand] = {}
    for half in walk.of(operand, "Add"):
        columns, below = _upsampled(walk, half, "1, 2")
        for part in walk.of(below, "Add"):
            rows, band = _upsampled(walk, part, "2, 1")
            bands[rows, columns] = band
    if len(bands) != 4:
        walk.refuse(operand.node, "four different sub-bands")
    split = bands.pop((False, False))
    details = [walk.of(bands[key], "Squeeze")[0] for key in ((True, False), (False, True), (True, True))]
    if [band.output for band in details] != [0, 1, 2] or len({band.node for band in details}) != 1:
        walk.refuse(details[0].node, "the details along rows, columns and both, in this order,")
    whole, axis, _ = walk.of(details[0], "VariadicSplit", 3)
    walk.equals(axis, 2)
    rest = walk.of(whole, "Reshape")[0]
    if rest.node is not split.node or (split.output, rest.output) != (0, 1):
        walk.refuse(rest.node, "averages and details of one tensor")
    x, axis, sizes = walk.of(split, "VariadicSplit", 3)
    walk.equals(axis, 1)
    first, others = walk.constant(sizes, 2)
    if others != 3 * first:
        walk.refuse(split.node, "three details for every average")
    return x


def _upsampled(walk: _Walk, operand: Operand, strides: str) -> tuple[bool, Operand]:
    """Whether the filter of a transposed convolution is the difference (else the average), and its input."""
    expected = {**_still("0, 0"), "strides": strides, "output_padding": "0, 0"}
    x, kernel = walk.of(operand, "GroupConvolutionBackpropData", expected=expected)
    size = (2, 1) if strides == "2, 1" else (1, 2)
    value = walk.constant(kernel, None, 1, 1, *size).reshape(-1, 2)
    sign = float(np.sign(value[0, 1])) if len(value) else 0.0
    if not np.allclose(value, [0.5**0.5, sign * 0.5**0.5], atol=_CLOSE):
        walk.refuse(operand.node, "a filter of the Haar wavelet")
    return sign < 0, x


def _constant_input(walk: _Walk, operand: Operand) -> np.ndarray:
    """The learned input, repeated for every image."""
    expanded = walk.of(operand, "Tile")[0]
    return walk.constant(walk.of(expanded, "Broadcast")[0], 1, None, 4, 4)


def _layer_state(name: str, layer: dict, *, ordered: bool) -> State:
    """ordered: its outputs are sub-bands, brought into the order of `fused.InverseWavelet`."""
    order = _subbands(len(layer["bias"]) // 4) if ordered else slice(None)
    numbers = {key: layer[key][order] for key in ("pointwise", "bias")}
    numbers["noise"] = layer["noise"][0].transpose(1, 2, 0)
    if layer["separable"]:
        numbers["depthwise"] = layer["depthwise"]
    return _named(name, numbers) | _named(f"{name}.style", layer["style"])


def _subbands(count: int) -> np.ndarray:
    """The graph's number of each channel: `count` averages, then all details along rows, along columns, along both.

    The graph has the three details of a channel side by side.
    """
    return np.concatenate([np.arange(count), *(count + 3 * np.arange(count) + band for band in range(3))])


def _named(prefix: str, numbers: dict[str, np.ndarray]) -> State:
    return {f"{prefix}.{key}": _tensor(value) for key, value in numbers.items()}


def _tensor(value: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(value, dtype=np.float32))
