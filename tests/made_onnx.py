"""The classifier of `tests.made_programs` as an ONNX model, made by onnx itself."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.foreign_classifier import SIDE
from tests.made_programs import Shades

ENDS = {"logits": [], "probabilities": [("Softmax", {"axis": 1})], "labels": [("ArgMax", {"axis": 1, "keepdims": 0})]}


def as_onnx(network: Shades, path: Path, *, answers: str = "logits", rows: int | str = "rows") -> Path:
    """rows: how many images it takes at once, a name for any."""
    weight, bias = (4 * part.detach().numpy().astype(np.float32) for part in (network.weight, network.bias))
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "one"], ["column"]),
        helper.make_node("Mul", ["column", "weight"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["logits"]),
    ]
    for operator, options in ENDS[answers]:
        nodes.append(helper.make_node(operator, ["logits"], [answers], **options))
    classes = len(bias)
    shape, kind = ([rows], TensorProto.INT64) if answers == "labels" else ([rows, classes], TensorProto.FLOAT)
    graph = helper.make_graph(
        nodes,
        "shades",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [rows, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(answers, kind, shape)],
        [
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(weight[None], "weight"),
            numpy_helper.from_array(bias[None], "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save_model(model, str(path))
    return path
