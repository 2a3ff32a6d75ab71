"""TorchScript programs, run by torch's own interpreter; nothing of them is Python, and nothing reaches a file.

`torch.jit.load` reads `data.pkl` by a reader in C++ that makes numbers, containers, tensors and the program's own
classes, and calls no Python. The program's code is TorchScript: arithmetic on tensors, and a handful of operations
that touch more than memory. Loading alone may run some of it (`__setstate__`), so the text is looked through first:
whoever names one of those operations, or a library's own, is refused. Source: `pytorch/pytorch`,
torch/csrc/jit/serialization/import.cpp and unpickler.cpp; `torch._C._jit_get_all_schemas()`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from core.errors import InputError
from core.outside.archives import as_archive, read_members, text_of
from core.outside.model import Opened
from core.outside.running import answering, one_line

WHAT = "a TorchScript program"
_KEPT = re.compile(r"(data|constants)\.pkl|version|byteorder|(data|constants)/\d+|code/[\w/.]+\.py")
_REACHES_OUT = re.compile(rb"\b(from_file|save|rpc_async|rpc_sync|rpc_remote|torch\s*\.\s*classes)\b")
_LIBRARY = re.compile(r"\bops\s*\.\s*(?!prim\b|aten\b)(\w+)")
_OWN_CLASSES = b"torch.classes"


def check_torchscript(path: Path) -> dict[str, bytes]:
    """The members that a program needs, looked through. Raises InputError, one line, for a program that could reach a
    file, another machine or a library's own code, and for what is none."""
    members = {name: content for name, content in read_members(path, WHAT).items() if _KEPT.fullmatch(name)}
    if "data.pkl" not in members or "constants.pkl" not in members:
        raise InputError(f"{path}: expected {WHAT}, got an archive without its data")
    for name, content in members.items():
        if name.endswith(".pkl") and _OWN_CLASSES in content:
            raise InputError(f"{path}: {name}: expected tensors and plain values, got an object of a library's own")
        if name.startswith("code/"):
            _check_code(content, f"{path}: {name}")
    return members


def _check_code(content: bytes, where: str) -> None:
    text = text_of(content, where)
    if found := _REACHES_OUT.search(content):
        raise InputError(f"{where}: expected a program that computes, got one that names {found[1].decode()!r}, which "
                         "reaches files, other machines or objects of libraries")  # fmt: skip
    if found := _LIBRARY.search(text):
        raise InputError(f"{where}: expected operations of torch alone, got one of {found[1]!r}")


def open_torchscript(path: Path, settings: Mapping[str, Any], device: torch.device) -> Opened:
    """The program on the device, in evaluation mode. Raises InputError, one line."""
    archive = as_archive(check_torchscript(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have programs of torch.export
            program = torch.jit.load(archive, map_location=device).eval()
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"{path}: expected {WHAT}, got: {one_line(error)}") from None
    for parameter in program.parameters():
        parameter.requires_grad_(False)

    return Opened(answer=answering(program, str(path)), rows=settings.get("rows"))
