"""A tiny MobileStyleGAN as OpenVINO's graphs of version 10, of the same node kinds as the package random-face.

Every layer is computed with NumPy while it is written, so that the graph comes with what it must yield: a second way
that shares nothing with the network that is tested. OpenVINO 2026.4.1 agrees with it to 5e-7 of the largest value.
"""

from __future__ import annotations

import numpy as np

TYPES = {np.dtype("<f4"): ("f32", "FP32"), np.dtype("<i8"): ("i64", "I64")}
HAAR = 0.5**0.5


class Writer:
    """A graph while it is written: layers, connections, the bytes of the constants."""

    def __init__(self, name, seed):
        self.name, self.rng = name, np.random.default_rng(seed)
        self.layers, self.edges, self.constants = [], [], b""

    def add(self, kind, inputs, values, *, version="opset1", name=None, **attributes):
        """A layer that yields `values`, a list of arrays; returns its outputs as (layer, port, value)."""
        key = len(self.layers)
        for port, (layer, output, _) in enumerate(inputs):
            self.edges.append(f'<edge from-layer="{layer}" from-port="{output}" to-layer="{key}" to-port="{port}"/>')
        ports = [self._port(number, value) for number, (_, _, value) in enumerate(inputs)]
        outputs = [self._port(len(inputs) + number, value) for number, value in enumerate(values)]
        data = "".join(f' {name}="{value}"' for name, value in attributes.items())
        self.layers.append(
            f'<layer id="{key}" name="{name or f"{kind}_{key}"}" type="{kind}" version="{version}">'
            + (f"<data{data}/>" if attributes else "")
            + (f"<input>{''.join(ports)}</input>" if ports else "")
            + (f"<output>{''.join(outputs)}</output>" if outputs else "")
            + "</layer>"
        )
        return [(key, len(inputs) + number, value) for number, value in enumerate(values)]

    @staticmethod
    def _port(number, value):
        dims = "".join(f"<dim>{size}</dim>" for size in value.shape)
        return f'<port id="{number}" precision="{TYPES[value.dtype][1]}">{dims}</port>'

    def const(self, value, kind="<f4"):
        value = np.asarray(value, dtype=kind)
        self.constants += b"\0" * (-len(self.constants) % 8)
        attributes = {
            "element_type": TYPES[value.dtype][0],
            "shape": ", ".join(map(str, value.shape)),
            "offset": len(self.constants),
            "size": value.nbytes,
        }
        self.constants += value.tobytes()
        return self.add("Const", [], [value], **attributes)[0]

    def draw(self, *shape, scale=1.0):
        return self.const(scale * self.rng.standard_normal(shape))

    def xml(self):
        """The text of the graph."""
        layers, edges = "".join(self.layers), "".join(self.edges)
        head = f'<?xml version="1.0"?><net name="{self.name}" version="10">'
        return f"{head}<layers>{layers}</layers><edges>{edges}</edges></net>".encode()

    # Layers with the NumPy that they mean.

    def both(self, kind, first, second):
        value = first[2] + second[2] if kind == "Add" else first[2] * second[2]
        return self.add(kind, [first, second], [value.astype("<f4")], auto_broadcast="numpy")[0]

    def power(self, x, exponent):
        value = (x[2] ** np.float32(exponent)).astype("<f4")
        return self.add("Power", [x, self.const([[exponent]])], [value], auto_broadcast="numpy")[0]

    def leaky(self, x):
        value = np.where(x[2] < 0, x[2] * np.float32(0.2), x[2])
        return self.add("PReLU", [x, self.const([0.2])], [value])[0]

    def dense(self, x, weight):
        value = x[2] @ weight[2].T
        return self.add("MatMul", [x, weight], [value], transpose_a="false", transpose_b="true")[0]

    def size_of(self, x, axis):
        """The length along an axis, int64 [1], as the exported graphs spell it."""
        shape = self.add("ShapeOf", [x], [np.array(x[2].shape, "<i8")], version="opset3", output_type="i64")[0]
        picks = [shape, self.const(axis, "<i8"), self.const(0, "<i8")]
        length = self.add("Gather", picks, [np.array(x[2].shape[axis], "<i8")], version="opset7", batch_dims=0)[0]
        return self.add("Unsqueeze", [length, self.const([0], "<i8")], [length[2].reshape(1)])[0]

    def reshape(self, x, sizes):
        """sizes: numbers, or what `size_of` gave."""
        parts = [size if isinstance(size, tuple) else self.const([size], "<i8") for size in sizes]
        shape = self.add("Concat", parts, [np.concatenate([part[2] for part in parts])], axis=0)[0]
        value = x[2].reshape(shape[2])
        return self.add("Reshape", [x, shape], [value], special_zero="true")[0]

    def conv(self, x, weight, padding):
        value = sum(
            np.einsum("nchw,oc->nohw", patch, weight[2][:, :, i, j])
            for i, j, patch in _shifted(x[2], weight[2].shape[-1], padding)
        )
        return self.add("Convolution", [x, weight], [value.astype("<f4")], **_still(padding))[0]

    def depthwise(self, x, weight):
        value = sum(patch * weight[2][None, :, 0, 0, i, j, None, None] for i, j, patch in _shifted(x[2], 3, 1))
        return self.add("GroupConvolution", [x, weight], [value.astype("<f4")], **_still(1))[0]

    def upsample(self, x, axis, sign):
        taps = np.array([HAAR, sign * HAAR], "<f4")
        value = np.stack([x[2] * taps[0], x[2] * taps[1]], axis=axis + 1)
        shape = list(x[2].shape)
        shape[axis] *= 2
        size = (2, 1) if axis == 2 else (1, 2)
        kernel = self.const(np.broadcast_to(taps.reshape(1, 1, 1, *size), (x[2].shape[1], 1, 1, *size)))
        attributes = _still(0) | {"strides": f"{size[0]}, {size[1]}", "output_padding": "0, 0"}
        return self.add("GroupConvolutionBackpropData", [x, kernel], [value.reshape(shape)], **attributes)[0]

    def split(self, x, axis, sizes):
        parts = np.split(x[2], np.cumsum(sizes)[:-1], axis=axis)
        inputs = [x, self.const(axis, "<i8"), self.const(sizes, "<i8")]
        return self.add("VariadicSplit", inputs, [np.ascontiguousarray(part) for part in parts])

    def inverse_wavelet(self, x):
        count = x[2].shape[1] // 4
        low, details = self.split(x, 1, [count, 3 * count])
        details = self.reshape(details, [self.size_of(x, 0), count, 3, self.size_of(x, 2), self.size_of(x, 3)])
        bands = [
            self.add("Squeeze", [band, self.const([2], "<i8")], [band[2][:, :, 0]])[0]
            for band in self.split(details, 2, [1, 1, 1])
        ]
        rows, columns, both = bands
        left = self.both("Add", self.upsample(low, 2, 1), self.upsample(rows, 2, -1))
        right = self.both("Add", self.upsample(columns, 2, 1), self.upsample(both, 2, -1))
        return self.both("Add", self.upsample(left, 3, 1), self.upsample(right, 3, -1))

    def style(self, w, channels, gain=None):
        total = self.dense(w, self.draw(channels, w[2].shape[1], scale=0.3))
        total = self.both("Add", total, self.const(1 + 0.3 * self.rng.standard_normal((1, channels))))
        shaped = self.reshape(total, [self.size_of(w, 0), -1, 1, 1])
        return shaped if gain is None else self.both("Multiply", shaped, self.const(np.full((1, 1, 1, 1), gain)))

    def styled(self, w, x, outputs, *, full=False):
        inputs, side = x[2].shape[1], x[2].shape[2]
        x = self.both("Multiply", self.style(w, inputs, 0.7), x)
        if full:
            x = self.conv(x, self.draw(outputs, inputs, 3, 3, scale=0.2), 1)
        else:
            x = self.depthwise(x, self.draw(inputs, 1, 1, 3, 3, scale=0.5))
            x = self.conv(x, self.draw(outputs, inputs, 1, 1, scale=0.5), 0)
        x = self.both("Add", x, self.draw(1, 1, side, side, scale=0.3))
        return self.leaky(self.both("Add", x, self.draw(1, outputs, 1, 1, scale=0.3)))


def _still(padding):
    padded = f"{padding}, {padding}"
    return {
        "strides": "1, 1",
        "dilations": "1, 1",
        "pads_begin": padded,
        "pads_end": padded,
        "auto_pad": "explicit",
    }


def _shifted(x, kernel, padding):
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    for i in range(kernel):
        for j in range(kernel):
            yield i, j, padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]


def tiny_mapping(seed=0, *, z_dim=8, w_dim=8, layers=2):
    """Its writer, z [1, z_dim] and w [1, w_dim]."""
    graph = Writer("MappingNetwork", seed)
    z = graph.rng.standard_normal((1, z_dim)).astype("<f4")
    start = graph.add("Parameter", [], [z], name="var", shape=f"1, {z_dim}", element_type="f32")[0]
    squares = graph.power(start, 2)
    mean = graph.add(
        "ReduceMean",
        [squares, graph.const([1], "<i8")],
        [squares[2].mean(axis=1, keepdims=True)],
        keep_dims="true",
    )[0]
    root = graph.power(graph.both("Add", mean, graph.const([[1e-8]])), 0.5)
    x = graph.both("Multiply", start, graph.both("Multiply", graph.const([[1.0]]), graph.power(root, -1)))
    for _ in range(layers):
        x = graph.dense(x, graph.draw(w_dim, x[2].shape[1], scale=0.5))
        x = graph.both("Add", x, graph.reshape(graph.draw(w_dim, scale=0.3), [1, graph.size_of(x, 1)]))
        x = graph.both("Multiply", graph.leaky(x), graph.const([[2**0.5]]))
    graph.add("Result", [x], [])
    return graph, z, x[2]


def tiny_synthesis(w, seed=1, *, channels=(8, 12, 8)):
    """Its writer and the image [1, 3, R, R] of w [1, w_dim]; R = 4 * 2 ** len(channels)."""
    graph = Writer("SynthesisNetwork", seed)
    style = graph.add("Parameter", [], [w], name="style", shape=f"1, {w.shape[1]}", element_type="f32")[0]
    learned = graph.draw(1, channels[0], 4, 4)
    shape = graph.add(
        "ShapeOf", [learned], [np.array([1, channels[0], 4, 4], "<i8")], version="opset3", output_type="i64"
    )
    x = graph.add("Broadcast", [learned, shape[0]], [learned[2]], version="opset3", mode="bidirectional")[0]
    parts = [graph.size_of(style, 0), *(graph.const([1], "<i8") for _ in range(3))]
    repeats = graph.add("Concat", parts, [np.ones(4, "<i8")], axis=0)[0]
    x = graph.add("Tile", [x, repeats], [x[2]])[0]
    x = graph.styled(style, x, channels[0], full=True)
    for count in channels[1:]:
        x = graph.inverse_wavelet(graph.both("Multiply", graph.style(style, x[2].shape[1]), x))
        x = graph.styled(style, graph.styled(style, x, count), count)
    x = graph.both("Multiply", graph.style(style, x[2].shape[1], 0.1), x)
    x = graph.conv(x, graph.draw(12, x[2].shape[1], 1, 1, scale=0.5), 0)
    image = graph.inverse_wavelet(graph.both("Add", x, graph.draw(1, 12, 1, 1, scale=0.1)))
    graph.add("Result", [image], [])
    return graph, image[2]
