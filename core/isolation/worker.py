"""The isolated process: it loads a program, and answers until no more is asked; and how the two sides speak.

A message is a header in JSON, then at most one tensor's bytes. Nothing is pickled, so that what the isolated process
sends cannot be more than numbers. A tensor arrives with the strides that it had: kernels choose their order of
summation by them.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any, BinaryIO

import torch
from torch import Tensor

from smoothsweep.core.checks import present
from smoothsweep.core.isolation.sandbox import give_up_calls
from smoothsweep.core.text import first_sentence

MOST_HEADER = 64 * 2**10
MOST_BYTES = 8 * 2**30
MOST_AXES = 8
_NUMBERS = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NUMBERS.split()}
_LENGTH = struct.Struct("<I")

LAYOUTS = ("nchw", "nhwc", "grey nchw", "grey nhwc")
"""How a program is shown images [n, 3, S, S]: as they are, with the channels last, or as one channel of either kind."""
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model that was loaded in a process of its own.

    Attributes:
        answer: Images on the device -> a tensor.
        facts: What the loader found out, as plain values for the parent.
    """

    answer: Callable[[Tensor], Tensor]
    facts: dict[str, Any]


Loader = Callable[[BinaryIO, dict[str, Any], torch.device], Loaded]


def numerics_here(device: torch.device) -> dict[str, Any]:
    """The settings of torch in this thread that reach a number: a program is asked under those of its caller."""
    on, cudnn = torch.is_autocast_enabled(device.type), torch.backends.cudnn
    return {
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": cudnn.allow_tf32,
        "cudnn_benchmark": cudnn.benchmark,
        "cudnn_deterministic": cudnn.deterministic,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": str(torch.get_autocast_dtype(device.type)).removeprefix("torch.") if on else None,
    }


@contextmanager
def numerics_applied(wanted: Mapping[str, Any], device: torch.device) -> Generator[None]:
    """Set what `numerics_here` found, from now on; autocast within the block alone."""
    cudnn = torch.backends.cudnn
    if torch.get_num_threads() != wanted["threads"]:
        torch.set_num_threads(wanted["threads"])
    torch.set_float32_matmul_precision(wanted["precision"])
    torch.backends.cuda.matmul.allow_tf32, cudnn.allow_tf32 = wanted["allow_tf32"], wanted["cudnn_tf32"]
    cudnn.benchmark, cudnn.deterministic = wanted["cudnn_benchmark"], wanted["cudnn_deterministic"]
    if torch.are_deterministic_algorithms_enabled() != wanted["deterministic"]:
        torch.use_deterministic_algorithms(wanted["deterministic"])
    dtype = getattr(torch, wanted["autocast"]) if wanted["autocast"] else None
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        yield


def main(orders: dict[str, Any]) -> None:
    """Give up what computing does not need, load the program, and answer until the other side closes the connection.

    orders: what `core.isolation.process` passes on the command line; files have been given up by them.
    """
    server = Server(socket.socket(fileno=orders["socket"]), torch.device(orders["device"]))
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.devnull  # libraries that only ask where it is are not to look for one
    torch.set_num_threads(orders["threads"])
    if server.device.type == "cuda":
        load_libraries(server.device)
    module, _, name = orders["loader"].partition(":")
    for needed in (*orders["preload"], module):
        import_module(needed)
    torch.manual_seed(0)
    give_up_calls(orders)
    with os.fdopen(orders["program"], "rb") as program:
        server.load(lambda: getattr(sys.modules[module], name)(program, orders["settings"], server.device))
    server.serve()


class Server:
    """Answers one request after the other."""

    def __init__(self, peer: socket.socket, device: torch.device) -> None:
        self.device = device
        self._peer = peer
        self._graphs: dict[int, tuple[Tensor, Tensor]] = {}
        self._answer: Callable[[Tensor], Tensor] | None = None

    def load(self, load: Callable[[], Loaded]) -> None:
        """Load the program, and say what was found, or why not."""
        send(self._peer, {"ready": True})  # what was printed up to here, no program printed
        try:
            loaded = load()
        except Exception as error:  # whatever a reader raises of a file from elsewhere
            send(self._peer, _failure(error))
            os._exit(0)
        self._answer = loaded.answer
        _flush()
        send(self._peer, {"facts": loaded.facts})

    def serve(self) -> None:
        """Answer until the other side has gone."""
        while True:
            try:
                request, tensor = receive(self._peer)
            except (EOFError, OSError):
                os._exit(0)  # no destructor of a program's is waited for
            for forgotten in request["forget"]:
                self._graphs.pop(forgotten, None)
            try:
                with numerics_applied(request["numerics"], self.device):
                    answer = self._forward if request["do"] == "answer" else self._back
                    header, tensor_back = answer(request, present(tensor, "tensor"))
            except Exception as error:  # whatever a program raises
                header, tensor_back = _failure(error), None
            _flush()
            send(self._peer, header, tensor_back)

    def _forward(self, request: dict[str, Any], images: Tensor) -> tuple[dict[str, Any], Tensor]:
        images = images.to(self.device).requires_grad_(request["gradient"])
        with torch.set_grad_enabled(request["grad_mode"]):
            answer = present(self._answer, "program")(arranged(images, *request["shown"]))
        if not isinstance(answer, Tensor):
            raise TypeError(f"expected one tensor, got {type(answer).__name__}")
        leads_back = answer.requires_grad and request["gradient"]
        if leads_back:
            self._graphs[request["id"]] = (images, answer)
        return {"leads_back": leads_back}, answer

    def _back(self, request: dict[str, Any], gradient: Tensor) -> tuple[dict[str, Any], Tensor | None]:
        images, answer = self._graphs[request["id"]]
        if not request["keep"]:
            del self._graphs[request["id"]]
        back = torch.autograd.grad(
            answer, images, gradient.to(self.device), retain_graph=request["keep"], allow_unused=True
        )[0]
        return {"reached": back is not None}, back


def arranged(images: Tensor, layout: str, dtype: str) -> Tensor:
    """Images [n, 3, S, S] as a program of another layout, or for numbers of another type, takes them."""
    if layout.startswith("grey"):
        images = (images * images.new_tensor(LUMINANCE)[:, None, None]).sum(1, keepdim=True)
    if layout.endswith("nhwc"):
        images = images.permute(0, 2, 3, 1).contiguous()
    if dtype == "float32":
        return images
    if not (kind := DTYPES[dtype]).is_floating_point:
        images = images.round().clamp(torch.iinfo(kind).min, torch.iinfo(kind).max)
    return images.to(kind)


def load_libraries(device: torch.device) -> float:
    """Have a device's driver load what convolutions and products need, by one of each; their sum."""
    square = torch.ones(1, 1, 8, 8, device=device)
    return float(torch.nn.functional.conv2d(square, square).sum() + (square[0, 0] @ square[0, 0]).sum())


def _flush() -> None:
    """Let out what was printed, so that the parent hears of it before the answer."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _failure(error: Exception) -> dict[str, Any]:
    """What went wrong, and whose memory was too small, if any."""
    if isinstance(error, torch.OutOfMemoryError):
        return {"error": first_sentence(error), "memory": "device"}
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return {"error": "no memory left: SMOOTHSWEEP_PROGRAM_GIB sets another limit", "memory": "host"}
    return {"error": first_sentence(error), "memory": ""}


class WireError(ValueError):
    """The other side sent what is no message."""


def send(peer: socket.socket, header: dict[str, Any], tensor: Tensor | None = None) -> None:
    """Raises OSError where no process listens, TimeoutError after the socket's time."""
    body = None
    if tensor is not None:
        body, described = _packed(tensor)
        header = {**header, "tensor": described}
    text = json.dumps(header).encode()
    peer.sendall(_LENGTH.pack(len(text)) + text)
    if body is not None and body.numel():
        peer.sendall(_bytes(body))


def receive(peer: socket.socket, *, most_bytes: int = MOST_BYTES) -> tuple[dict[str, Any], Tensor | None]:
    """The next message; the tensor lies on the CPU. Raises EOFError at the end, WireError for what is no message."""
    [length] = _LENGTH.unpack(_exactly(peer, bytearray(_LENGTH.size)))
    if length > MOST_HEADER:
        raise WireError(f"a header of {length} bytes")
    try:
        header = json.loads(bytes(_exactly(peer, bytearray(length))))
    except (ValueError, RecursionError):
        raise WireError("a header that is no JSON") from None
    if not isinstance(header, dict):
        raise WireError("a header that is no object")
    described = header.pop("tensor", None)
    return header, None if described is None else _received(peer, described, most_bytes)


def _packed(tensor: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """The tensor's elements without repetition, as they lie in memory, and how to lay them out again."""
    tensor, expanded = tensor.detach(), list(tensor.shape)
    for axis, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if step == 0 and size > 1:
            tensor = tensor.narrow(axis, 0, 1)
    dense = torch.empty_like(tensor, device="cpu", memory_format=torch.preserve_format).copy_(tensor)
    described = {
        "dtype": str(dense.dtype).removeprefix("torch."),
        "size": list(dense.shape),
        "stride": list(dense.stride()),
        "expanded": expanded,
    }
    return dense.as_strided((dense.numel(),), (1,)), described


def _received(peer: socket.socket, described: Any, most_bytes: int) -> Tensor:
    try:
        dtype, size, stride = DTYPES[described["dtype"]], described["size"], described["stride"]
        shaped = described.get("expanded", size)
    except (KeyError, TypeError, AttributeError):
        raise WireError("a tensor without type, size and strides") from None
    for numbers in (size, stride, shaped):
        plain = isinstance(numbers, list) and len(numbers) <= MOST_AXES and len(numbers) == len(size)
        if not plain or not all(type(number) is int and 0 <= number < 2**40 for number in numbers):
            raise WireError("sizes or strides that are none")
    extent = 1 + sum((many - 1) * step for many, step in zip(size, stride, strict=True)) if prod(size) else 0
    repeats = all(many in (1, wide) for many, wide in zip(size, shaped, strict=True))
    if extent != prod(size) or not repeats or max(extent, prod(shaped)) * dtype.itemsize > most_bytes:
        raise WireError(f"a tensor of size {size} and strides {stride}")
    flat = torch.empty(extent, dtype=dtype)
    if extent:
        _exactly(peer, _bytes(flat))
    return flat.as_strided(size, stride).expand(shaped)


def _bytes(flat: Tensor) -> memoryview:
    return memoryview(flat.view(torch.uint8).numpy())


def _exactly(peer: socket.socket, into: bytearray | memoryview) -> bytearray | memoryview:
    view = memoryview(into)
    while len(view):
        count = peer.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return into
