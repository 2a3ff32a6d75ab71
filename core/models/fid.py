"""The Inception networks of FID: weights, and images as each protocol and publication shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.data.images import resize, stretched
from smoothsweep.core.models.checkpoints import fitting_state, plain_tensors, read_tensor_file
from smoothsweep.core.models.inference import IMAGENET_MEAN, IMAGENET_STD
from smoothsweep.core.models.weight_files import WEIGHT_FILES, verify_weight_file

SIZE = 299
USUAL = "fid_inception"
"""The network of the usual FID, beside those of `PUBLISHED_FIDS`; torch-fidelity's file of weights is the same."""


def fid_input(images: Tensor, protocol: str) -> Tensor:
    """Images [N, 3, H, W], float32 in [-1, 1] or uint8, as `FidInception` gets them: float32 [N, 3, 299, 299].

    paper: antialiased bilinear resize of the floats, then 2x - 1. The published evaluation hands images in [-1, 1] to a
        network that maps [0, 1] to [-1, 1] by itself, so the network works on [-3, 1]; real and generated images alike.
        Values are comparable with the publication's only. Source: Plug-and-Play-Attacks, metrics/fid_score.py.
    clean: rounded to bytes as a saved picture is (values outside [-1, 1] clipped), TensorFlow 1's bilinear resize of
        the image at its own size, (x - 128) / 128. Source: torch-fidelity, feature_extractor_inceptionv3.py.

    Raises ValueError for images in `clean` that are not finite.
    """
    if protocol == "paper":
        return 2 * resize(images.float() / 127.5 - 1 if images.dtype == torch.uint8 else images, SIZE) - 1
    if images.dtype != torch.uint8:
        if not images.isfinite().all():  # rounding to bytes would hide it
            raise ValueError("expected finite images, got NaN or infinity")
        images = images.add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
    return (tf1_bilinear(images.float(), SIZE) - 128) / 128


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


# The two networks and inputs behind the FIDs that the low-resolution attacks publish. They are not one metric.
#
# LOMMA's (sutd-visual-computing-group/Re-thinking_MI, metrics/fid.py) and PLG-MI's (LetheSec/PLG-MI-Attack,
# evaluation.py, models/inception.py): other weights, other scaling, other images. Neither compares with the other's, or
# with the usual one.


@dataclass(frozen=True, kw_only=True)
class FidNetwork:
    """A published FID network, and how its code shows it images.

    Attributes:
        weights: The published file, an entry of `WEIGHT_FILES`.
        shown: Images uint8, or floats in [-1, 1], [N, 3, H, W] -> what the network gets, float32 [N, 3, 299, 299].
        made: As `shown` for reconstructions, where they are treated otherwise.
        attacked_only: Whether the real images are those of the attacked classes or all.
        whole_batches: Features of a batch where both sets keep whole batches alone, None where they keep all.
    """

    weights: str
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
    mean, std = (large.new_tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    return large * (std / 0.5) + (mean - 0.5) / 0.5


def plg_input_of_reconstructions(images: Tensor) -> Tensor:
    """As `plg_input`, of reconstructions, which were saved as stretched pictures before."""
    return plg_input(stretched(_unit(images)))


PUBLISHED_FIDS: dict[str, FidNetwork] = {
    "fid_lomma": FidNetwork(
        weights=USUAL,
        shown=lomma_input,
        made=lomma_input,
        attacked_only=True,
        whole_batches=None,
    ),
    "fid_plg": FidNetwork(
        weights="inception_v3",
        shown=plg_input,
        made=plg_input_of_reconstructions,
        attacked_only=False,
        whole_batches=100,
    ),
}
"""FID networks by the name of the judge. Real images of LOMMA's are `celeba_target_300ids.npy`, those of the classes it
attacks; of PLG-MI's the folder `celeba_private_domain`, all private people."""


def load_inception(name: str, path: Path, *, sha256: str | None = None) -> nn.Module:
    """The network of `USUAL`, or of a row of `PUBLISHED_FIDS`: [N, 3, 299, 299] -> [N, 2048].

    In evaluation mode, frozen, on the CPU. sha256: the checksum that the file must have, in full or its beginning; None
    means the published file's. Raises InputError for a file that is missing, damaged, another one, or does not fit.
    """
    from torchvision.models import Inception3  # which only this needs

    from smoothsweep.core.models.fid_network import FidInception

    weights = USUAL if name == USUAL else PUBLISHED_FIDS[name].weights
    network: Any = FidInception() if weights == USUAL else Inception3(init_weights=False, transform_input=False)
    entry, where = WEIGHT_FILES[weights], f"weights {weights}"
    if sha256 is not None:
        entry = dataclasses.replace(entry, sha256=sha256.lower(), mebibytes=None)
    verify_weight_file(path, entry)
    state = plain_tensors(read_tensor_file(path, where, published=True), f"{where}: {path}")
    network.load_state_dict(fitting_state(state, network.state_dict(), f"{where}: {path}"))
    if weights != USUAL:  # torchvision's network of ImageNet, without its classification layer
        network.fc, network.AuxLogits = nn.Identity(), None
    return network.eval().requires_grad_(False)


def _unit(images: Tensor) -> Tensor:
    """Images in [0, 1], whatever their range was."""
    return images.float() / 255 if images.dtype == torch.uint8 else (images.float() + 1) / 2
