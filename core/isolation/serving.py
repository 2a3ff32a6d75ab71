"""What the isolated process does when it is asked: answers of a program, and gradients of earlier answers."""

from __future__ import annotations

import ctypes
import io
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch
from torch import Tensor

from smoothsweep.core.checks import present
from smoothsweep.core.isolation import wire
from smoothsweep.core.isolation.numerics import Numerics


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


class Server:
    """Answers one request after the other."""

    def __init__(self, peer: socket.socket, orders: dict[str, Any]) -> None:
        """Readies torch, before anything is given up that a device's driver needs."""
        self._peer, self._settings, self._device = peer, orders["settings"], torch.device(orders["device"])
        self._graphs: dict[int, tuple[Tensor, Tensor]] = {}
        self._answer: Callable[[Tensor], Tensor] | None = None
        warnings.simplefilter("ignore")
        tempfile.tempdir = os.devnull  # libraries that only ask where it is are not to look for one
        torch.set_num_threads(orders["threads"])
        if self._device.type == "cuda":
            load_libraries(self._device)
        for module in orders["preload"]:
            __import__(module)
        torch.manual_seed(0)

    def load(self, loader: Loader, program: BinaryIO) -> None:
        """Load the program, and say what was found, or why not."""
        wire.send(self._peer, {"ready": True})  # what was printed up to here, no program printed
        try:
            loaded = loader(program, self._settings, self._device)
        except Exception as error:  # whatever a reader raises of a file from elsewhere
            wire.send(self._peer, _failure(error))
            os._exit(0)
        self._answer = loaded.answer
        _flush()
        wire.send(self._peer, {"facts": loaded.facts})

    def serve(self) -> None:
        """Answer until the other side has gone."""
        while True:
            try:
                request, tensor = wire.receive(self._peer)
            except (EOFError, OSError):
                os._exit(0)  # no destructor of a program's is waited for
            for forgotten in request["forget"]:
                self._graphs.pop(forgotten, None)
            try:
                with Numerics(**request["numerics"]).applied(self._device):
                    answer = self._forward if request["do"] == "answer" else self._back
                    header, tensor_back = answer(request, present(tensor, "tensor"))
            except Exception as error:  # whatever a program raises
                header, tensor_back = _failure(error), None
            _flush()
            wire.send(self._peer, header, tensor_back)

    def _forward(self, request: dict[str, Any], images: Tensor) -> tuple[dict[str, Any], Tensor]:
        images = images.to(self._device).requires_grad_(request["gradient"])
        with torch.set_grad_enabled(request["grad_mode"]):
            answer = present(self._answer, "program")(images)
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
            answer, images, gradient.to(self._device), retain_graph=request["keep"], allow_unused=True
        )[0]
        return {"reached": back is not None}, back


def load_libraries(device: torch.device) -> float:
    """Have a device's driver load what convolutions and products need, by one of each; their sum."""
    square = torch.ones(1, 1, 8, 8, device=device)
    return float(torch.nn.functional.conv2d(square, square).sum() + (square[0, 0] @ square[0, 0]).sum())


def _flush() -> None:
    """Let out what was printed, so that the parent hears of it before the answer."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _failure(error: Exception) -> dict[str, Any]:
    """The last line of what went wrong, which is where torch says it, and the first."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
    return {
        "error": lines[-1][:1000],
        "first": lines[0][:1000],
        "memory": "device" if isinstance(error, torch.OutOfMemoryError) else "host" if memory else "",
    }


def whole(program: BinaryIO) -> io.BytesIO:
    """The program's bytes, in memory."""
    return io.BytesIO(program.read())
