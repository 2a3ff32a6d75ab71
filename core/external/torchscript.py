"""TorchScript programs, run by torch's own interpreter, in a process that can do nothing but compute.

`torch.jit.load` reads `data.pkl` by a reader in C++ that makes numbers, containers, tensors and the program's own
classes, and calls no Python. Loading alone may run some of the program (`__setstate__`), so its code is checked first
(`core.external.script_code`), and what passes runs in a process of its own (`core.isolation`). Source:
`pytorch/pytorch`, torch/csrc/jit/serialization/import.cpp and unpickler.cpp.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.readers.archives import Members, members_of

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.serving import Loaded

WHAT = "a TorchScript program"
MOST_PICKLE = 16 * 2**20  # bytes of data.pkl: names and shapes, no weights
_CODE = re.compile(r"code/[\w/.]+\.py")
_TENSORS = re.compile(r"(data|constants)/(\d+)")
_ALWAYS = ("version", "byteorder")
_OWN_CLASSES = "torch.classes"


class TorchScript(ForeignModel):
    """What `torch.jit.save` writes."""

    words = WHAT
    short = "TorchScript"
    file = "program.torchscript"
    computes_alone = True

    @classmethod
    def is_archive(cls, members: Sequence[str]) -> bool:
        """It holds constants and code."""
        return "constants.pkl" in members and any(name.startswith("code/") for name in members)

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The program, checked, in an isolated process."""
        return open_torchscript(path, settings, device)


def check_torchscript(members: Members, where: str) -> dict[str, bytes | None]:
    """The members that torch is given, the code written anew; None for tensors, which are taken as they are.

    Raises InputError, one line, for a program that could do more than compute, and for what is none.
    """
    from smoothsweep.core.external.script_code import checked_code

    kept: dict[str, bytes | None] = {name: members.read(name) for name in _ALWAYS if name in members}
    for folder in ("data", "constants"):
        name = f"{folder}.pkl"
        if name not in members:
            raise InputError(f"{where}: expected {WHAT}, got an archive without its {name}")
        kept[name] = pickled = members.read(name)
        named = _texts(pickled, f"{where}: {name}")
        tensors = {member: _TENSORS.fullmatch(member) for member in members}
        kept |= {name: None for name, dtype in tensors.items() if dtype and dtype[1] == folder and dtype[2] in named}
    code = {name: members.read(name) for name in members if _CODE.fullmatch(name)}
    return kept | checked_code(code, where)


def _texts(pickled: bytes, where: str) -> set[str]:
    """Every text in a pickle, which is not unpickled. Raises InputError for objects of a library's own."""
    if len(pickled) > MOST_PICKLE:
        raise InputError(f"{where}: expected names and shapes of at most {MOST_PICKLE} bytes, got {len(pickled)}")
    try:
        texts = {value for _, value, _ in pickletools.genops(pickled) if isinstance(value, str)}
    except Exception as error:  # pickletools raises what its codecs raise
        raise InputError(f"{where}: expected a pickle, got: {' '.join(str(error).split())[:100]}") from None
    if any(_OWN_CLASSES in text.replace(" ", ".") for text in texts):
        raise InputError(f"{where}: expected tensors and plain values, got an object of a library's own")
    return texts


def open_torchscript(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """The program on the device, in evaluation mode. Raises InputError, one line."""
    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.process import in_memory
    from smoothsweep.core.isolation.program import IsolatedProgram

    with in_memory() as program:
        with members_of(path, WHAT) as members:
            members.write(check_torchscript(members, str(path)), program)
        isolated = IsolatedProgram(
            program,
            loader=f"{__name__}:load",
            settings={},
            device=device,
            where=str(path),
            what=WHAT,
            preload=(__name__,),
        )
    return OpenedModel(answer=isolated, rows=settings.get("rows"))


def load(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """Load, in the isolated process, the program that was checked."""
    import torch

    from smoothsweep.core.isolation.serving import Loaded, whole

    script = torch.jit.load(whole(program), map_location=device).eval()
    for parameter in script.parameters():
        parameter.requires_grad_(False)
    return Loaded(answer=script, facts={})
