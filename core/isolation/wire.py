"""Messages between a process and the isolated one beside it: a header in JSON, then at most one tensor's bytes.

Nothing is pickled, so that what the isolated process sends cannot be more than numbers. A tensor arrives with the
strides that it had: kernels choose their order of summation by them.
"""

from __future__ import annotations

import json
import socket
import struct
from math import prod
from typing import Any

import torch
from torch import Tensor

MOST_HEADER = 64 * 2**10
MOST_BYTES = 8 * 2**30
MOST_AXES = 8
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
_LENGTH = struct.Struct("<I")


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
    flat = torch.empty(0, dtype=dtype)
    repeats = all(many in (1, wide) for many, wide in zip(size, shaped, strict=True))
    if extent != prod(size) or not repeats or max(extent, prod(shaped)) * flat.element_size() > most_bytes:
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
