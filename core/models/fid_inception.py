"""The Inception network of FID: its weights, and images as it gets them, under each protocol.

The network is TensorFlow's of 2015 with 2,048 pooled features, as pytorch-fid ported it (`fid_network`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.pretrained import fitting_state, plain_tensors, read_tensor_file
from smoothsweep.core.models.weight_files import WEIGHT_FILES, verify_weight_file

if TYPE_CHECKING:
    from smoothsweep.core.models.fid_network import FidInception

SIZE = 299
FEATURES = 2048


def load_fid_inception(path: Path, *, sha256: str | None = None) -> FidInception:
    """The network with the weights of `path`: evaluation mode, frozen, on the CPU.

    sha256: the checksum that the file must have, in full or its beginning; None means the published file's
    (`pt_inception-2015-12-05-6726825d.pth`; torch-fidelity's file of weights is the same). Raises InputError for a
    file that is missing, damaged, another one, or does not fit.
    """
    from smoothsweep.core.models.fid_network import FidInception  # with torchvision, which only this needs

    entry = WEIGHT_FILES["fid_inception"]
    if sha256 is not None:
        entry = dataclasses.replace(entry, sha256=sha256.lower(), mebibytes=None)
    verify_weight_file(path, entry)
    where = f"weights {entry.name}: {path}"
    state = plain_tensors(read_tensor_file(path, f"weights {entry.name}", published=True), where)
    network = FidInception()
    network.load_state_dict(fitting_state(state, network.state_dict(), where))
    return network.eval().requires_grad_(False)


def _paper_input(images: Tensor) -> Tensor:
    if images.dtype == torch.uint8:
        images = images.float() / 127.5 - 1
    if images.shape[-2:] != (SIZE, SIZE):
        images = functional.interpolate(images, size=(SIZE, SIZE), mode="bilinear", antialias=True)
    return 2 * images - 1


def _clean_input(images: Tensor) -> Tensor:
    if images.dtype != torch.uint8:
        if not images.isfinite().all():  # rounding to bytes would hide it
            raise ValueError("expected finite images, got NaN or infinity")
        images = images.add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
    return (tf1_bilinear(images.float(), SIZE) - 128) / 128


FID_INPUTS: dict[str, Callable[[Tensor], Tensor]] = {"paper": _paper_input, "clean": _clean_input}


def fid_input(images: Tensor, protocol: str) -> Tensor:
    """Images [N, 3, H, W], float32 in [-1, 1] or uint8, as `FidInception` gets them: float32 [N, 3, 299, 299].

    paper: antialiased bilinear resize of the floats, then 2x - 1. The published evaluation hands images in [-1, 1] to a
        network that maps [0, 1] to [-1, 1] by itself, so the network works on [-3, 1]; real and generated images alike.
        Values are comparable with the publication's only. Source: Plug-and-Play-Attacks, metrics/fid_score.py.
    clean: rounded to bytes as a saved picture is (values outside [-1, 1] clipped), TensorFlow 1's bilinear resize of
        the image at its own size, (x - 128) / 128. Source: torch-fidelity, feature_extractor_inceptionv3.py.

    Raises InputError for another protocol; ValueError for images in `clean` that are not finite.
    """
    if protocol not in FID_INPUTS:
        raise InputError(f"protocol: expected one of {', '.join(FID_INPUTS)}, got {protocol!r}")
    return FID_INPUTS[protocol](images)


def tf1_bilinear(images: Tensor, size: int) -> Tensor:
    """Resize float32 [N, C, H, W] to [N, C, size, size] as `tf.image.resize_bilinear` of TensorFlow 1 does.

    Output pixel i interpolates at i * H / size: pixel corners coincide at the top left, nothing is antialiased.
    Source: torch-fidelity, interpolate_compat_tensorflow.py.
    """
    if images.shape[-2:] == (size, size):
        return images
    for dim in (-1, -2):
        length = images.shape[dim]
        at = torch.arange(size, dtype=torch.float32, device=images.device) * (length / size)
        low = at.long()
        part = (at - low).view(-1, *[1] * (-1 - dim))
        first = images.index_select(dim, low)
        images = first + (images.index_select(dim, (low + 1).clamp_max(length - 1)) - first) * part
    return images
