"""ONNX models, by onnxruntime: scores or labels; gradients where onnx2torch can make a torch network of them.

A model is a graph of standard operators with its weights in the one file: onnxruntime runs no code of the file's own.
Weights in files beside it are refused: their paths would be the file's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.errors import InputError
from core.outside.model import Opened
from core.outside.running import answering, one_line

WHAT = "an ONNX model"
NEEDED = "expected onnxruntime to run it, which is not installed: pip install 'smoothsweep[onnx]'"
MOST_BYTES = 2 * 2**30  # of a protocol buffer
_BESIDE = b"\x0a\x08location"  # the key under which a tensor says in which file its numbers lie
AGREEMENT = 1e-3  # relative to the largest answer: between onnxruntime and the network that onnx2torch made


def open_onnx(path: Path, settings: Mapping[str, Any], device: torch.device) -> Opened:
    """The model on the device where onnxruntime has it, else on the CPU. Raises InputError, one line.

    settings: `access`, unless nobody knows it yet; below gradients onnx2torch is not asked.
    """
    if find_spec("onnxruntime") is None:
        raise InputError(f"{path}: {NEEDED}")
    content = _content(path)
    session = _session(content, path, device)
    [given], outputs = session.get_inputs(), session.get_outputs()
    if len(outputs) != 1 or len(given.shape) != 4:
        raise InputError(f"{path}: expected one input of images [N, 3, S, S] and one output, got {len(outputs)} and "
                         f"an input {given.shape}")  # fmt: skip
    name, fixed = given.name, [side if isinstance(side, int) and side > 0 else None for side in given.shape]

    def run(images: Tensor) -> Tensor:
        found = session.run(None, {name: images.detach().cpu().numpy().astype(np.float32, copy=False)})[0]
        return torch.from_numpy(np.ascontiguousarray(found))

    network = _network(content, path, device) if settings.get("access", "gradients") == "gradients" else None
    if network is None and settings.get("access") == "gradients":
        raise InputError(f"{path}: expected onnx2torch, by which gradients came back when it was brought in, got none")
    if network is not None and "access" not in settings and not _agree(network, run, fixed, device):
        network = None
    return Opened(answer=answering(network or run, str(path)), rows=settings.get("rows") or fixed[0], side=fixed[2],
                  differentiable=network is not None)  # fmt: skip


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: expected {WHAT} of at most {MOST_BYTES} bytes, got a larger file")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: expected {WHAT}, got: {error.strerror}") from None
    if _BESIDE in content:
        raise InputError(f"{path}: expected {WHAT} with its weights in the one file, got some that lie in others: save "
                         "it without external data")  # fmt: skip
    return content


def _session(content: bytes, path: Path, device: torch.device) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    there = [name for name in wanted if name in onnxruntime.get_available_providers()]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=[*there, "CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no base
        raise InputError(f"{path}: expected {WHAT}, got: {one_line(error)}") from None
    if len(session.get_inputs()) != 1:
        raise InputError(f"{path}: expected one input of images, got {len(session.get_inputs())}")
    return session


def _network(content: bytes, path: Path, device: torch.device) -> nn.Module | None:
    """A torch network of the same graph, None without onnx2torch or for operators that it does not know."""
    if find_spec("onnx2torch") is None:
        return None
    import onnx
    from onnx2torch import convert

    try:
        return convert(onnx.load_model_from_string(content)).to(device).eval().requires_grad_(False)
    except Exception:  # whatever a graph makes the converter stumble on: scores remain
        return None


def _agree(network: nn.Module, run: Any, fixed: list[int | None], device: torch.device) -> bool:
    """Whether the network that was made answers as onnxruntime does: gradients of another function help nobody."""
    side = fixed[2] or 64
    images = torch.rand(fixed[0] or 2, 3, side, side, generator=torch.Generator().manual_seed(1), device="cpu")
    try:
        with torch.no_grad():
            wanted, got = run(images).float(), network(images.to(device)).float().cpu()
    except Exception:  # a side that the graph does not take, an operator on another device: scores remain
        return False
    return wanted.shape == got.shape and bool((wanted - got).abs().max() <= AGREEMENT * wanted.abs().max().clamp_min(1))
