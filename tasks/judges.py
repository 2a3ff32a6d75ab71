"""The judges of reconstructions: the paper's evaluation model, and an embedder that never saw the private classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet, to_unit
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import (
    accuracy_report,
    class_means,
    result_slots,
    top1_accuracy,
    top5_of_last_slot,
    topk_hits,
)
from smoothsweep.core.metrics.fidelity import knn_distance, nearest_real
from smoothsweep.core.metrics.recognition import fit_head, head_logits
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import load_embedder, own_weights
from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.core.models.inference import embed_images
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.fidelity import fid_features, load_network
from smoothsweep.tasks.files import load_images, load_tensors, save_rows, save_tensors
from smoothsweep.tasks.lowres_fid import published_features
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.official_reports import Verdicts, reported, saved_pictures
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import load_classifier

BATCH = 256
HEAD_SEED = 0


def embed_real_images(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of all real images, made once per sweep."""
    embed = embedding_of(config, inputs, context)
    tensors = {}
    for part in config.get("parts", ("train", "test")):
        data: ImageSet = load_images(inputs["data"], part)
        tensors[f"{part}_features"] = embed(data.images)
        tensors[f"{part}_labels"] = data.labels
    save_tensors(out / "features.safetensors", tensors)
    return {"feature_dim": tensors["train_features"].shape[1]}


def accuracy_of_head(folder: Path, *, most: int) -> float | None:
    """Accuracy on real test images of the head that judges by the features in `folder`, an artifact of
    `embed_real_images`; None where images times features times classes exceed `most`."""
    real = load_tensors(folder / "features.safetensors")
    features, labels = real["train_features"], real["train_labels"]
    if features.numel() * (int(labels.max()) + 1) > most:
        return None
    head = fit_head(features, labels, seed=HEAD_SEED)
    return top1_accuracy(head_logits(head, real["test_features"]), real["test_labels"])


def judge_by_evaluator(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 and feature distance in the evaluation model (paper section 4.1); writes verdicts.

    config: protocol, by which the k-NN distance counts; report, where the attack's own evaluation has one.
    """
    recipe = config_of(inputs["evaluator"])
    evaluator, size = load_classifier(inputs["evaluator"], recipe, context.device), recipe["image_size"]
    embed = partial(embed_images, evaluator, image_size=size, device=context.device)
    reconstructions, real = reconstructed_images(inputs[RECONSTRUCTIONS], size), _real(inputs)
    features = embed(reconstructions["images"])
    logits = evaluator.head(features.to(context.device)).cpu()
    report = accuracy_report(logits, reconstructions["labels"])
    verdicts = Verdicts(logits=logits, labels=reconstructions["labels"], embed=embed)
    distance, nearest = _nearest(features, reconstructions["labels"], real)
    _save_verdicts(out, "attack", logits, reconstructions["labels"], distance, nearest)
    real_logits = evaluator.head(real["test_features"].to(context.device)).cpu()
    return {
        "attack_acc1": report.top1,
        "attack_acc5": report.top5,
        "attack_acc5_last": top5_of_last_slot(logits, reconstructions["labels"]),
        "attack_acc1_std": report.std_over_classes,
        "attack_acc1_std_slots": report.std_over_slots,
        "attack_conf": report.target_confidence,
        "dist_eval": distance.square().mean().item(),
        "dist_eval_plain": distance.mean().item(),
        **_knn(
            features,
            saved_pictures(config, inputs, verdicts, size),
            reconstructions["labels"],
            real,
            config["protocol"],
        ),
        **reported(config, inputs, verdicts, context.device),
        "evaluator_real_acc": top1_accuracy(real_logits, real["test_labels"]),
    }


def judge_by_embedder(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 of a linear head on an independent embedder, and distance to the nearest training face."""
    metrics, distance = _by_features("embedder", config, inputs, out, context)
    return {**metrics, "dist_face": distance.square().mean().item(), "dist_face_plain": distance.mean().item()}


def judge_by_general_features(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Acc@1, Acc@5 of a linear head in features that were learnt on pictures of anything."""
    return _by_features("general", config, inputs, out, context)[0]


def _by_features(judge: str, config: Config, inputs: Inputs, out: Path, context: TaskContext) -> tuple[Metrics, Tensor]:
    """Accuracies of a linear head on features learnt elsewhere; distances [M] to the nearest image of the class."""
    reconstructions, real = (
        reconstructed_images(inputs[RECONSTRUCTIONS], KINDS[config["network"]].size or None),
        _real(inputs),
    )
    head = fit_head(real["train_features"], real["train_labels"], seed=HEAD_SEED)
    features = embedding_of(config, inputs, context)(reconstructions["images"])
    logits = head_logits(head, features)
    report = accuracy_report(logits, reconstructions["labels"])
    distance, nearest = _nearest(features, reconstructions["labels"], real)
    _save_verdicts(out, judge, logits, reconstructions["labels"], distance, nearest)
    of_real, real_labels = head_logits(head, real["test_features"]), real["test_labels"]
    accuracies = {
        f"{judge}_acc1": report.top1,
        f"{judge}_acc5": report.top5,
        f"{judge}_acc1_std": report.std_over_classes,
        f"{judge}_real_acc": top1_accuracy(of_real, real_labels),
        f"{judge}_real_acc_balanced": class_means(topk_hits(of_real, real_labels, 1), real_labels)[1].mean().item(),
    }
    return accuracies, distance


def embedding_of(config: Config, inputs: Inputs, context: TaskContext) -> Callable[[Tensor], Tensor]:
    """Images (uint8, or floats in [-1, 1]) -> the features of the judge that the configuration names."""
    device = context.device
    if config["network"] == "target":
        recipe = config_of(inputs["network"])
        network = load_classifier(inputs["network"], recipe, device)
        return lambda images: embed_images(network, images, image_size=recipe["image_size"], device=device)
    if config["network"] == "fid_inception":
        network = load_network(config, device)
        return lambda images: fid_features(network, images, config["protocol"], device)
    if config["network"] in PUBLISHED_FIDS:
        return published_features(config, device)
    name = config["network"]
    weights = planned(config) if names_a_file(config) else PlannedFile(own_weights(name), config.get("content"))
    network = weights.read(lambda path: load_embedder(name, path)).to(device)
    return lambda images: _features(network, images, context)


@torch.no_grad()
def _features(embedder: nn.Module, images: Tensor, context: TaskContext) -> Tensor:
    """Features float32 [N, D] on the CPU of uint8 images or floats in [-1, 1]; the embedder resizes them itself."""
    parts = []
    for done, batch in enumerate(images.split(BATCH)):
        context.progress(done * BATCH / len(images), f"{done * BATCH} of {len(images)} images")
        batch = to_unit(batch) if batch.dtype == torch.uint8 else batch.float()
        parts.append(embedder(batch.to(context.device)).float().cpu())
    return torch.cat(parts)


def _real(inputs: Inputs) -> dict[str, Tensor]:
    return load_tensors(inputs["real"] / "features.safetensors")


def _nearest(features: Tensor, labels: Tensor, real: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Distance of every reconstruction to the nearest training image of its class, and that image's row."""
    return nearest_real(features, labels, real["train_features"], real["train_labels"], squared=False)


def _knn(
    features: Tensor, of_pictures: Tensor | None, labels: Tensor, real: dict[str, Tensor], protocol: str
) -> Metrics:
    """of_pictures: features of saved pictures, where the published distance is theirs, and a mean over all of them."""
    compared, official = (features, protocol == "paper") if of_pictures is None else (of_pictures, False)
    between = partial(knn_distance, compared, labels, real["train_features"], real["train_labels"], official=official)
    return {"dist_knn": between(squared=True), "dist_knn_plain": between(squared=False)}


def _save_verdicts(out: Path, judge: str, logits: Tensor, labels: Tensor, distance: Tensor, nearest: Tensor) -> None:
    """per_image.parquet (class, rank within it, predicted, hit, nearest training image) and per_class.parquet."""
    hits = topk_hits(logits, labels, 1)
    images = {
        "class": labels,
        "rank": result_slots(labels),
        "predicted": logits.argmax(1),
        "hit": hits,
        "nearest": nearest,
        "distance": distance,
    }
    save_rows(out / "per_image.parquet", pd.DataFrame({name: values.numpy() for name, values in images.items()}))
    classes, top1 = class_means(hits, labels)
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), f"{judge}_acc1": top1.numpy()}))
