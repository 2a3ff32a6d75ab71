"""The judge of the reconstructions as a set of pictures: FID, KID, precision, recall, density, coverage."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.fidelity import fid, kid, prdc_per_class
from smoothsweep.core.models.fid import fid_input, load_fid_inception
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.reconstructions import reconstructed_images

SIZE, BATCH = 299, 32
KID_SEED = 0


def judge_by_fidelity(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors of reconstructions; returns distances to training images of attacked classes.

    One FID over all classes together; precision and its kin per class, then averaged (paper's code, sections 5.2, 5.3
    of its fact sheet). Protocol `paper` keeps the official definitions, `clean` the usual ones.
    """
    reconstructions = reconstructed_images(inputs[RECONSTRUCTIONS], SIZE)
    real = load_tensors(inputs["real"] / "features.safetensors")
    fake = fid_features(
        load_network(config, context.device), reconstructions["images"], config["protocol"], context.device
    )
    save_tensors(out / "features.safetensors", {"features": fake, "labels": reconstructions["labels"]})
    attacked = torch.isin(real["train_labels"], reconstructions["labels"].unique())
    real_features, real_labels = real["train_features"][attacked], real["train_labels"][attacked]
    kernel = kid(real_features, fake, seed=KID_SEED)
    neighbours = prdc_per_class(
        real_features,
        real_labels,
        fake,
        reconstructions["labels"],
        k=config["neighbours"],
        definition="official" if config["protocol"] == "paper" else "standard",
    )
    return {
        "fid": fid(real_features, fake),
        "kid": kernel.mean,
        "kid_std": kernel.std,
        **vars(neighbours.mean),
        "classes_too_small": len(neighbours.excluded),
    }


def load_network(config: Config, device: str) -> nn.Module:
    """The Inception network of 2015, from the file that the configuration names."""
    network = planned(config).read(lambda path: load_fid_inception(path, sha256=config.get("sha256")))
    return network.to(device)


@torch.no_grad()
def fid_features(network: nn.Module, images: Tensor, protocol: str, device: str) -> Tensor:
    """Features float32 [N, 2048] on the CPU of images uint8, or floats in [-1, 1], [N, 3, H, W]."""
    parts = []
    for batch in images.split(BATCH):
        batch = batch if batch.dtype == torch.uint8 else batch.float()
        parts.append(network(fid_input(batch.to(device), protocol)).float().cpu())
    return torch.cat(parts)
