"""The judges of the loot: the paper's evaluation model, and an embedder that never saw the private classes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from core.data.images import ImageSet
from core.data.transforms import resize, to_unit
from core.metrics.accuracy import accuracy_report, class_means, result_slots, top1_accuracy, topk_hits
from core.metrics.distances import nearest_feature_distance
from core.metrics.open_set import fit_head, head_logits
from core.models.embedders import load_embedder
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import load_images, load_tensors, save_rows, save_tensors
from tasks.manifests import config_of
from tasks.training import load_classifier

BATCH = 256
HEAD_SEED = 0


def embed_real_images(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of all real images, made once per sweep."""
    network, image_size = _network(config, inputs, context.device)
    tensors = {}
    for part in ("train", "test"):
        data: ImageSet = load_images(inputs["data"], part)
        tensors[f"{part}_features"] = _features(network, data.images, image_size, context.device)
        tensors[f"{part}_labels"] = data.labels
    save_tensors(out / "features.safetensors", tensors)
    return {"feature_dim": tensors["train_features"].shape[1]}


def judge_by_evaluator(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 and feature distance in the evaluation model (paper section 4.1); writes verdicts."""
    recipe = config_of(inputs["evaluator"])
    evaluator = load_classifier(inputs["evaluator"], recipe, context.device)
    loot, real = load_tensors(inputs["loot"] / "images.safetensors"), _real(inputs)
    features = _features(evaluator, loot["images"], recipe["image_size"], context.device)
    logits = evaluator.head(features.to(context.device)).cpu()
    report = accuracy_report(logits, loot["labels"])
    _save_verdicts(out, "attack", logits, loot["labels"])
    distance = _distances(features, loot["labels"], real)
    real_logits = evaluator.head(real["test_features"].to(context.device)).cpu()
    return {
        "attack_acc1": report.top1,
        "attack_acc5": report.top5,
        "attack_acc1_std": report.std_over_classes,
        "attack_acc1_std_slots": report.std_over_slots,
        "attack_conf": report.target_confidence,
        "dist_eval": distance.square().mean().item(),
        "dist_eval_plain": distance.mean().item(),
        "evaluator_real_acc": top1_accuracy(real_logits, real["test_labels"]),
    }


def judge_by_embedder(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 of a linear head on an independent embedder, and distance to the nearest training face."""
    network, image_size = _network(config, inputs, context.device)
    loot, real = load_tensors(inputs["loot"] / "images.safetensors"), _real(inputs)
    head = fit_head(real["train_features"], real["train_labels"], seed=HEAD_SEED)
    features = _features(network, loot["images"], image_size, context.device)
    logits = head_logits(head, features)
    report = accuracy_report(logits, loot["labels"])
    _save_verdicts(out, "embedder", logits, loot["labels"])
    distance = _distances(features, loot["labels"], real)
    return {
        "embedder_acc1": report.top1,
        "embedder_acc5": report.top5,
        "embedder_acc1_std": report.std_over_classes,
        "dist_face": distance.square().mean().item(),
        "dist_face_plain": distance.mean().item(),
        "embedder_real_acc": top1_accuracy(head_logits(head, real["test_features"]), real["test_labels"]),
    }


def _network(config: Config, inputs: Inputs, device: str) -> tuple[nn.Module, int | None]:
    """The judge's feature network and the side its images are brought to (None: it does so itself)."""
    if config["network"] == "target":
        recipe = config_of(inputs["network"])
        return load_classifier(inputs["network"], recipe, device), recipe["image_size"]
    path = config.get("path")
    return load_embedder(config["network"], Path(path).expanduser() if path else None).to(device), None


@torch.no_grad()
def _features(network: nn.Module, images: Tensor, image_size: int | None, device: str) -> Tensor:
    """Features float32 [N, D] on the CPU of uint8 images or of floats in [-1, 1]."""
    embed = network.embed if hasattr(network, "embed") else network
    parts = []
    for batch in images.split(BATCH):
        batch = (to_unit(batch) if batch.dtype == torch.uint8 else batch).to(device)
        parts.append(embed(batch if image_size is None else resize(batch, image_size)).float().cpu())
    return torch.cat(parts)


def _real(inputs: Inputs) -> dict[str, Tensor]:
    return load_tensors(inputs["real"] / "features.safetensors")


def _distances(features: Tensor, labels: Tensor, real: dict[str, Tensor]) -> Tensor:
    """Distance of every reconstruction to the nearest training image of its class, float [N]."""
    return nearest_feature_distance(features, labels, real["train_features"], real["train_labels"], squared=False)


def _save_verdicts(out: Path, judge: str, logits: Tensor, labels: Tensor) -> None:
    """per_image.parquet (class, rank within it, predicted, hit) and per_class.parquet (share of hits)."""
    hits = topk_hits(logits, labels, 1)
    images = {"class": labels, "rank": result_slots(labels), "predicted": logits.argmax(1), "hit": hits}
    save_rows(out / "per_image.parquet", pd.DataFrame({name: values.numpy() for name, values in images.items()}))
    classes, top1 = class_means(hits, labels)
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), f"{judge}_acc1": top1.numpy()}))
