"""timm's networks by name: filled with a checkpoint's weights, and made a program of torch.export, which needs no timm.

timm is asked for the architecture alone: by the names that it lists, never for weights, and never for a name that leads
to a server. Source: `huggingface/pytorch-image-models`, timm/models/_factory.py.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.models.checkpoints import (
    choose_weights,
    fitting_state,
    most_of,
    plain_tensors,
    read_tensor_file,
    remarks_on,
)
from smoothsweep.core.models.official import ImportFacts
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.core.text import shortened, suggestion


def export_timm(
    architecture: str,
    checkpoint: Path,
    *,
    num_classes: int,
    image_size: int | None,
    out: Path,
    weights: str | None = None,
) -> ImportFacts:
    """Write the network with these weights to `out`, for any number of square images of one size; what the file was.

    architecture: `timm:NAME`. image_size: in pixels; None where the network has one size. The weights must fit in every
    name and shape; nothing in the checkpoint is executed. weights: the set that is taken where it holds several.

    Raises InputError, one line: timm is not installed, has no such network, or torch cannot export it; the checkpoint
    does not fit.
    """
    timm, name = _timm(architecture), architecture.partition(":")[2]
    if name not in timm.list_models():
        meant = suggestion(name, timm.list_models())
        raise InputError(
            f"--architecture: expected a network of timm {timm.__version__}, got {shortened(name)!r}{meant}"
        )
    where = f"checkpoint {checkpoint} as {architecture} of {num_classes} classes"
    content = read_tensor_file(checkpoint, "checkpoint")
    network, side = _made(timm, name, num_classes, image_size)
    own = network.state_dict()
    taken, others = choose_weights(content, [{key: key for key in own}], architecture, where, weights)
    state = plain_tensors(taken.state, where, most_bytes=most_of(network))
    network.load_state_dict(fitting_state(state, own, where, taken.keys))
    _export(network.eval(), side, out, architecture)
    return ImportFacts(
        architecture="torch_export",
        num_classes=num_classes,
        protocol="paper",
        transform_input=None,
        sha256=file_sha256(checkpoint),
        wrapping=f"{architecture} of timm {timm.__version__}",
        prefix=taken.prefix,
        tensors=len(state),
        epoch=None,
        remarks=tuple(remarks_on(taken, others)),
    )


def _timm(architecture: str) -> ModuleType:
    try:
        import timm  # ty: ignore[import-not-found]  # an extra, which may not be installed
    except ImportError:
        got = "got none: pip install 'smoothsweep[timm]'"
        raise InputError(f"--architecture {shortened(architecture)}: expected timm to be installed, {got}") from None
    return timm


def _made(timm: ModuleType, name: str, num_classes: int, image_size: int | None) -> tuple[nn.Module, int]:
    """The network before its weights, and the side of its images."""
    usual = timm.get_pretrained_cfg(name, allow_unregistered=True)
    fixed = bool(usual is not None and usual.fixed_input_size)
    if image_size is None and not fixed:
        raise InputError(f"--image-size: expected the side in pixels that this {name} was trained at, got none")
    side = image_size or usual.input_size[-1]
    sized: dict[str, Any] = {"img_size": side} if fixed else {}
    return timm.create_model(name, pretrained=False, num_classes=num_classes, **sized), side


def _export(network: nn.Module, side: int, out: Path, architecture: str) -> None:
    example = torch.zeros(2, 3, side, side)
    try:
        with torch.no_grad(), redirect_stderr(io.StringIO()):  # where torch writes what it has traced so far
            program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("images")},))
    except Exception as error:  # whatever torch or the network raises: it is code from outside
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{architecture}: expected a network that torch.export takes at {side} pixels, got: {reason}"
        ) from None
    written = io.BytesIO()
    torch.export.save(program, written)
    write_file(out, written.getvalue())
