"""The FIDs that the low-resolution attacks publish: LOMMA's and PLG-MI's, each a judge of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import resize, resize_uint8
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.fidelity import fid, whole_batches
from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.reconstructions import decoded_reconstructions

BATCH = 32


def judge_by_published_fid(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """FID of the reconstructions that the evaluator takes for their class; None with fewer than two of them.

    config: network, a row of `PUBLISHED_FIDS`; side, in pixels, at which images are compared; path, sha256 of the
    weights. inputs: reconstructions; verdicts, of the evaluator; real, features of the private images. Writes
    features.safetensors, those of the recognised reconstructions.
    """
    name = config["network"]
    entry, reconstructions = PUBLISHED_FIDS[name], decoded_reconstructions(inputs[RECONSTRUCTIONS])
    hits = torch.from_numpy(read_rows(inputs["verdicts"] / "per_image.parquet")["hit"].to_numpy(copy=True))
    images, labels = reconstructions["images"][hits], reconstructions["labels"][hits]
    metrics: Metrics = {name: None, f"{name}_images": len(labels)}
    features = torch.zeros(0, 0)
    if len(labels):
        features = features_of(load_network(config, context.device), images, entry.made, config, context.device)
    save_tensors(out / "features.safetensors", {"features": features, "labels": labels})
    if len(labels) >= 2:
        real = load_tensors(inputs["real"] / "features.safetensors")
        of_attacked = torch.isin(real["train_labels"], reconstructions["labels"].unique())
        reals = real["train_features"][of_attacked] if entry.attacked_only else real["train_features"]
        size = entry.whole_batches
        metrics[name] = fid(whole_batches(reals, size), whole_batches(features, size))
    return metrics


def published_features(config: Config, device: str) -> Callable[[Tensor], Tensor]:
    """Real images (uint8) -> the features that the judge compares with."""
    network = load_network(config, device)
    return lambda images: features_of(network, images, PUBLISHED_FIDS[config["network"]].shown, config, device)


def load_network(config: Config, device: str) -> nn.Module:
    """The judge's network, from the file that the configuration names."""
    entry = PUBLISHED_FIDS[config["network"]]
    return planned(config).read(lambda path: entry.load(path, sha256=config.get("sha256"))).to(device)


@torch.no_grad()
def features_of(
    network: nn.Module, images: Tensor, shown: Callable[[Tensor], Tensor], config: Config, device: str
) -> Tensor:
    """Features float32 [N, D] on the CPU of images uint8, or floats in [-1, 1], [N, 3, H, W]."""
    parts = []
    for batch in images.split(BATCH):
        batch = (resize_uint8 if batch.dtype == torch.uint8 else resize)(batch.to(device), config["side"])
        parts.append(network(shown(batch)).float().cpu())
    return torch.cat(parts)
