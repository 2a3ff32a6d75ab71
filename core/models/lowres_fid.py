"""The two networks and inputs behind the FIDs that the low-resolution attacks publish. They are not one metric.

LOMMA's (sutd-visual-computing-group/Re-thinking_MI, metrics/fid.py) and PLG-MI's (LetheSec/PLG-MI-Attack,
evaluation.py, models/inception.py): other weights, other scaling, other images. Neither compares with the other's, or
with the usual one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.data.images import stretched
from smoothsweep.core.models.fid_inception import SIZE, load_fid_inception, tf1_bilinear
from smoothsweep.core.models.pretrained import fitting_state, plain_tensors, read_tensor_file
from smoothsweep.core.models.weight_files import WEIGHT_FILES, verify_weight_file

_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class PublishedFid:
    """A published FID network, and how its code shows it images.

    Attributes:
        weights: The published file, an entry of `WEIGHT_FILES`.
        load: (path, sha256) -> the network.
        shown: Images uint8, or floats in [-1, 1], [N, 3, H, W] -> what the network gets, float32 [N, 3, 299, 299].
        made: As `shown` for reconstructions, where they are treated otherwise.
        attacked_only: Whether the real images are those of the attacked classes or all.
        whole_batches: Features of a batch where both sets keep whole batches alone, None where they keep all.
    """

    weights: str
    load: Callable[..., nn.Module]
    shown: Callable[[Tensor], Tensor]
    made: Callable[[Tensor], Tensor]
    attacked_only: bool
    whole_batches: int | None


def lomma_bytes(unit: Tensor) -> Tensor:
    """[0, 1] -> uint8 in [127, 255]: 255 (x / 2 + 1 / 2), cut off. The formula is meant for [-1, 1].

    The published images, real and reconstructed, are in [0, 1], so the network sees the bright half alone. Values
    beyond the range, which a byte there would wrap around, are clipped.
    """
    return (unit * 0.5 + 0.5).mul(255).clamp(0, 255).to(torch.uint8)


def lomma_input(images: Tensor) -> Tensor:
    """uint8, or floats in [-1, 1], [N, 3, H, W] -> as LOMMA's Inception gets them, float32 [N, 3, 299, 299].

    That is StyleGAN2-ADA's copy of TensorFlow's network of 2015, which resizes as TensorFlow 1 does.
    """
    return (tf1_bilinear(lomma_bytes(_unit(images)).float(), SIZE) - 128) / 128


def plg_input(images: Tensor) -> Tensor:
    """uint8, or floats in [-1, 1], [N, 3, H, W] -> as PLG-MI's Inception gets them, float32 [N, 3, 299, 299].

    Bilinear without antialiasing; then each channel times std / 0.5, plus (mean - 0.5) / 0.5 of ImageNet. That map
    belongs behind images in [-1, 1] and gets [0, 1]: the network sees -0.19 to 0.43 instead of -1 to 1.
    """
    large = functional.interpolate(_unit(images), size=(SIZE, SIZE), mode="bilinear", align_corners=False)
    mean, std = (large.new_tensor(values).view(3, 1, 1) for values in (_IMAGENET_MEAN, _IMAGENET_STD))
    return large * (std / 0.5) + (mean - 0.5) / 0.5


def plg_input_of_reconstructions(images: Tensor) -> Tensor:
    """As `plg_input`, of reconstructions, which were saved as stretched pictures before."""
    return plg_input(stretched(_unit(images)))


def load_imagenet_inception(path: Path, *, sha256: str | None = None) -> nn.Module:
    """torchvision's Inception of ImageNet without its classification layer: [N, 3, 299, 299] -> [N, 2048].

    In evaluation mode, frozen, on the CPU; it maps no inputs. sha256: what the file must have, None for that of
    torchvision's published one. Raises InputError for a file that is missing, damaged, another one, or does not fit.
    """
    from torchvision.models import Inception3

    entry = WEIGHT_FILES["inception_v3"]
    if sha256 is not None:
        entry = dataclasses.replace(entry, sha256=sha256.lower(), mebibytes=None)
    verify_weight_file(path, entry)
    where = f"weights {entry.name}: {path}"
    network: Any = Inception3(init_weights=False, transform_input=False)
    state = plain_tensors(read_tensor_file(path, f"weights {entry.name}", published=True), where)
    network.load_state_dict(fitting_state(state, network.state_dict(), where))
    network.fc = nn.Identity()
    network.AuxLogits = None
    return network.eval().requires_grad_(False)


PUBLISHED_FIDS: dict[str, PublishedFid] = {
    "fid_lomma": PublishedFid(
        weights="fid_inception",
        load=load_fid_inception,
        shown=lomma_input,
        made=lomma_input,
        attacked_only=True,
        whole_batches=None,
    ),
    "fid_plg": PublishedFid(
        weights="inception_v3",
        load=load_imagenet_inception,
        shown=plg_input,
        made=plg_input_of_reconstructions,
        attacked_only=False,
        whole_batches=100,
    ),
}
"""FID networks by the name of the judge. Real images of LOMMA's are `celeba_target_300ids.npy`, those of the classes it
attacks; of PLG-MI's the folder `celeba_private_domain`, all private people."""


def _unit(images: Tensor) -> Tensor:
    """Images in [0, 1], whatever their range was."""
    return images.float() / 255 if images.dtype == torch.uint8 else (images.float() + 1) / 2
