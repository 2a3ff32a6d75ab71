"""ONNX models, by onnxruntime: scores or labels; gradients where onnx2torch can make a torch network of them.

A model is a graph of standard operators with its weights in the one file. It is looked through first
(`core.external.onnx_graph`), and runs in a process that can do nothing but compute (`core.isolation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.onnx_graph import check_onnx
from smoothsweep.core.readers.files import read_whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.serving import Loaded

WHAT = "an ONNX model"
NEEDED = "expected onnxruntime to run it, which is not installed: pip install 'smoothsweep[onnx]'"
MOST_BYTES = 2 * 2**30  # of a protocol buffer
WITHOUT_CONVERTER = "gradients come back through an ONNX model only where onnx2torch is installed"
LEAST_OPSET = 9  # the first that onnx2torch knows
AGREEMENT = 1e-3  # relative to the largest answer: between onnxruntime and the network that onnx2torch made


class ONNX(ForeignModel):
    """A file of the Open Neural Network Exchange."""

    words = WHAT
    short = "ONNX"
    file = "model.onnx"
    computes_alone = True

    @classmethod
    def is_named(cls, path: Path) -> bool:
        """Nothing in it says what it is."""
        return path.suffix == ".onnx"

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The model, checked, in an isolated process."""
        return open_onnx(path, settings, device)


def open_onnx(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """The model on the device where onnxruntime has it, else on the CPU. Raises InputError, one line.

    settings: `access`, unless it is not known yet; below gradients onnx2torch is not asked.
    """
    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.process import in_memory
    from smoothsweep.core.isolation.program import IsolatedProgram

    if find_spec("onnxruntime") is None:
        raise InputError(f"{path}: {NEEDED}")
    wanted = settings.get("access", "gradients") == "gradients"
    convert = wanted and find_spec("onnx2torch") is not None
    content = _content(path)
    converting = {"convert": convert, "compare": "access" not in settings}
    with in_memory() as program:
        program.write(content)
        program.seek(0)
        isolated = IsolatedProgram(
            program,
            loader=f"{__name__}:load",
            settings=converting,
            device=device,
            where=str(path),
            what=WHAT,
            preload=(__name__, "onnxruntime", *(("onnx2torch",) if convert else ())),
            packages=("onnx", "onnxruntime", "onnx2torch"),
        )
    facts = isolated.facts
    if facts["inputs"] != 1:
        raise InputError(f"{path}: expected one input of images, got {facts['inputs']}")
    if facts["outputs"] != 1 or len(facts["shape"]) != 4:
        raise InputError(
            f"{path}: expected one input of images [N, 3, S, S] and one output, got {facts['outputs']} "
            f"and an input {facts['shape']}"
        )
    if not facts["differentiable"] and settings.get("access") == "gradients":
        raise InputError(f"{path}: expected onnx2torch, by which gradients came back when it was brought in, got none")
    return OpenedModel(
        answer=isolated,
        rows=settings.get("rows") or facts["shape"][0],
        side=facts["shape"][2],
        differentiable=facts["differentiable"],
        remark=facts["remark"] or ("" if find_spec("onnx2torch") else WITHOUT_CONVERTER),
    )


def load(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """Load, in the isolated process, the model as a session, or as a network that answers as the session does."""
    import numpy as np
    import torch

    from smoothsweep.core.isolation.serving import Loaded

    content = program.read()
    session = _session(content, device)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    fixed = [side if isinstance(side, int) and side > 0 else None for side in shape]
    facts = {"inputs": len(inputs), "outputs": len(outputs), "shape": fixed, "differentiable": False, "remark": ""}

    def run(images: Tensor) -> Tensor:
        outputs = session.run(None, {inputs[0].name: images.detach().cpu().numpy().astype(np.float32, copy=False)})[0]
        return torch.from_numpy(np.ascontiguousarray(outputs))

    if len(inputs) != 1 or len(outputs) != 1 or len(shape) != 4:
        return Loaded(answer=run, facts=facts)
    network = _network(content, device) if settings["convert"] else None
    if network is None and settings["convert"]:
        facts["remark"] = _why_not(content)
    if network is not None and settings["compare"] and not _agree(network, run, fixed, device):
        network = None
    return Loaded(answer=network or run, facts={**facts, "differentiable": network is not None})


def _content(path: Path) -> bytes:
    try:
        content = read_whole(path, most_bytes=MOST_BYTES)
    except OSError as error:
        raise InputError(f"{path}: expected {WHAT}, got: {error.strerror}") from None
    check_onnx(content, f"{path}: expected {WHAT}")
    return content


def _session(content: bytes, device: torch.device) -> Any:
    import onnxruntime
    import torch

    onnxruntime.set_default_logger_severity(3)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    there = [name for name in wanted if name in onnxruntime.get_available_providers()]
    return onnxruntime.InferenceSession(content, options, providers=[*there, "CPUExecutionProvider"])


def _network(content: bytes, device: torch.device) -> nn.Module | None:
    """A torch network of the same graph, None for operators that onnx2torch does not know."""
    import onnx
    from onnx2torch import convert

    try:
        return convert(onnx.load_model_from_string(content)).to(device).eval().requires_grad_(False)
    except Exception:  # whatever a graph makes the converter stumble on: scores remain
        return None


def _why_not(content: bytes) -> str:
    """What onnx2torch lacks to make a network of the graph, and by which opset it would not."""
    import onnx

    model = onnx.load_model_from_string(content)
    stated = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    operators = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
    lacking = _lacking(operators, stated)
    if not lacking:
        return ""
    known = next((opset for opset in range(stated - 1, LEAST_OPSET - 1, -1) if not _lacking(operators, opset)), None)
    reason = f"onnx2torch, by which gradients come back, has no {', '.join(lacking)} of opset {stated}"
    return f"{reason}: export the model with opset {known}" if known else reason


def _lacking(operators: set[str], opset: int) -> list[str]:
    """The standard operators among these that onnx2torch does not know in the version that they have in an opset."""
    import onnx
    from onnx2torch.node_converters.registry import get_converter

    missing = []
    for name in sorted(operators):
        try:
            get_converter(operation_type=name, version=onnx.defs.get_schema(name, opset, "").since_version, domain="")
        except (NotImplementedError, onnx.defs.SchemaError):  # how the two say that they do not know it: the answer
            missing.append(name)
    return missing


def _agree(network: nn.Module, run: Any, fixed: list[int | None], device: torch.device) -> bool:
    """Whether the network that was made answers as onnxruntime does: gradients of another function are of no use."""
    import torch

    side = fixed[2] or 64
    images = torch.rand(fixed[0] or 2, 3, side, side, generator=torch.Generator().manual_seed(1), device="cpu")
    try:
        with torch.no_grad():
            wanted, got = run(images).float(), network(images.to(device)).float().cpu()
    except Exception:  # a side that the graph does not take, an operator on another device: scores remain
        return False
    return wanted.shape == got.shape and bool((wanted - got).abs().max() <= AGREEMENT * wanted.abs().max().clamp_min(1))
