"""Verification beside an embedder judge: strangers, photographs projected into the prior, accepts and ranks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.seeds import generator
from smoothsweep.core.data.transforms import centre_crop, resize, to_uint8, to_unit
from smoothsweep.core.judges.verification import FIRST, RATES
from smoothsweep.core.metrics.accuracy import class_means, result_slots, top1_accuracy
from smoothsweep.core.metrics.open_set import fit_class_means, fit_head, head_logits
from smoothsweep.core.metrics.verification import (
    accept_threshold,
    accepted,
    all_scores,
    gallery_ranks,
    strangers_needed,
    template_scores,
)
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, load_tensors, save_rows, save_tensors
from smoothsweep.tasks.judges import HEAD_SEED, embedding_of
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.weight_checks import few_strangers

FEATURES = "features.safetensors"


def embed_strangers(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of public images, made once per sweep.

    config: network and its weights, most (images that are taken, drawn by a fixed seed), least (refuse fewer).
    """
    images = load_tensors(inputs["public"] / "images.safetensors")["images"]
    if len(images) < config.get("least", 0):
        raise few_strangers(len(images), config["least"])
    order = torch.randperm(len(images), generator=generator(0, "strangers"))[: config["most"]]
    features = embedding_of(config, {}, context)(images[order.sort().values])
    save_tensors(out / FEATURES, {"features": features})
    return {"num_strangers": len(features)}


def project_photographs(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes images.safetensors: real test images (`photographs`), what the prior makes of them, and their labels.

    config: images, how many at most, as many of each class as of any other; seed, which ones; crop, of the prior's
    images, where attacks have one.
    """
    test = load_images(inputs["data"], "test")
    rows = balanced_rows(test.labels, config["images"], config["seed"])
    prior, crop = load_prior(inputs["prior"]).to(context.device).eval(), config.get("crop")
    side = prior.resolution if crop is None else crop
    wanted = resize(to_unit(test.images[rows]), side).to(context.device)
    w = prior.project(wanted, crop=crop, seed=config["seed"], on_progress=context.progress)
    with torch.no_grad():
        drawn = torch.cat([prior.synthesize(part) for part in w.split(64)])
    drawn = drawn if crop is None else centre_crop(drawn, crop)
    error = (drawn.clamp(-1, 1) - wanted).square().mean(dim=(1, 2, 3)).mean().item()
    tensors = {"images": to_uint8(drawn), "photographs": to_uint8(wanted), "labels": test.labels[rows]}
    save_tensors(out / "images.safetensors", {name: tensor.cpu() for name, tensor in tensors.items()})
    return {"num_projected": len(rows), "projection_error": error}


def balanced_rows(labels: Tensor, most: int, seed: int) -> Tensor:
    """Rows int64 [n], ascending: as many of each class as of any other, give or take one, at most `most` in all."""
    shuffled = torch.randperm(len(labels), generator=generator(seed, "projected"))
    turn = result_slots(labels[shuffled])
    among = torch.randperm(int(labels.max()) + 1, generator=generator(seed, "projected classes"))[labels[shuffled]]
    order = torch.argsort(turn * (int(labels.max()) + 1) + among)
    return shuffled[order][:most].sort().values


class _Calibrated(NamedTuple):
    """templates: [C, D]; thresholds: by the name of a rate, None where there are too few strangers."""

    templates: Tensor
    thresholds: dict[str, float | None]


def verify(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """How many reconstructions a recogniser accepts as their person, and their ranks; writes its word on each.

    config: network and its weights; prefix, of the columns.
    """
    made = reconstructed_images(inputs["loot"], KINDS[config["network"]].size or None)
    real, strangers = _features(inputs["real"]), _features(inputs["strangers"])["features"]
    calibrated = _calibrate(real, strangers)
    features, labels, prefix = embedding_of(config, inputs, context)(made["images"]), made["labels"], config["prefix"]
    tested, test_labels = real["test_features"], real["test_labels"]
    found: Metrics = {}
    hits = {}
    scores = template_scores(features, calibrated.templates, labels)
    of_real = template_scores(tested, calibrated.templates, test_labels)
    for name, threshold in calibrated.thresholds.items():
        key = f"{prefix}verified_{name}"
        found |= {key: None, f"{key}_real": None}
        if threshold is not None:
            hits[key] = accepted(scores, threshold)
            found |= {key: _rate(hits[key]), f"{key}_real": _rate(accepted(of_real, threshold))}
    others = f"{prefix}verified_{FIRST}_others"
    found[others] = _accepted_others(tested, test_labels, calibrated)
    found |= _ranks(features, labels, real, strangers, prefix)
    _save(out, labels, scores, hits)
    return found


def reach(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """What the judge says of private photographs that were projected into the prior.

    config: network and its weights; prefix and closed, of the columns.
    """
    made = load_tensors(inputs["projected"] / "images.safetensors")
    real, strangers = _features(inputs["real"]), _features(inputs["strangers"])["features"]
    features, labels = embedding_of(config, inputs, context)(made["images"]), made["labels"]
    head = fit_head(real["train_features"], real["train_labels"], seed=HEAD_SEED)
    calibrated, prefix = _calibrate(real, strangers), config["prefix"]
    threshold = calibrated.thresholds[FIRST]
    verified = (
        None if threshold is None else accepted(template_scores(features, calibrated.templates, labels), threshold)
    )
    rows = {"class": labels.numpy(), "matched": (head_logits(head, features).argmax(1) == labels).numpy()}
    if verified is not None:
        rows["verified"] = verified.numpy()
    save_rows(out / "photographs.parquet", pd.DataFrame(rows))
    return {
        f"{config['closed']}_reach": top1_accuracy(head_logits(head, features), labels),
        f"{prefix}verified_{FIRST}_reach": None if verified is None else _rate(verified),
        f"{prefix}reach_images": float(len(labels)),
    }


def _features(folder: Path) -> dict[str, Tensor]:
    return load_tensors(folder / FEATURES)


def _calibrate(real: dict[str, Tensor], strangers: Tensor) -> _Calibrated:
    """One threshold for all people, from the scores of every stranger against every template."""
    templates = fit_class_means(real["train_features"], real["train_labels"]).weight
    impostors = all_scores(strangers, templates).flatten() if len(strangers) else torch.empty(0)
    return _Calibrated(
        templates,
        {
            name: accept_threshold(impostors, rate) if len(strangers) >= strangers_needed(rate) else None
            for name, rate in RATES.items()
        },
    )


def _accepted_others(tested: Tensor, labels: Tensor, calibrated: _Calibrated) -> float | None:
    """Fraction of (test image, other person) pairs that are accepted; None without a threshold, or other people."""
    threshold, scores = calibrated.thresholds[FIRST], all_scores(tested, calibrated.templates)
    other = torch.ones_like(scores, dtype=torch.bool).scatter(1, labels[:, None], False)
    return None if threshold is None or not other.any() else _rate(accepted(scores[other], threshold))


def _ranks(features: Tensor, labels: Tensor, real: dict[str, Tensor], strangers: Tensor, prefix: str) -> Metrics:
    keys = (f"{prefix}gallery_rank", f"{prefix}gallery_rank_real")
    if len(strangers) < strangers_needed(min(RATES.values())):
        return dict.fromkeys(keys)
    own, own_labels = real["train_features"], real["train_labels"]
    pairs = ((features, labels), (real["test_features"], real["test_labels"]))
    return {
        key: gallery_ranks(images, people, own, own_labels, strangers).median().item()
        for key, (images, people) in zip(keys, pairs, strict=True)
    }


def _rate(hits: Tensor) -> float:
    return hits.double().mean().item()


def _save(out: Path, labels: Tensor, scores: Tensor, hits: dict[str, Tensor]) -> None:
    """per_image.parquet (class, rank within it, cosine, hit at 1 %) and per_class.parquet, of each rate."""
    images = {"class": labels.numpy(), "rank": result_slots(labels).numpy(), "cosine": scores.numpy()}
    if not hits:
        save_rows(out / "per_image.parquet", pd.DataFrame(images))
        return
    save_rows(out / "per_image.parquet", pd.DataFrame({**images, "hit": next(iter(hits.values())).numpy()}))
    classes = class_means(labels, labels)[0]
    rates = {key: class_means(one, labels)[1].numpy() for key, one in hits.items()}
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), **rates}))
