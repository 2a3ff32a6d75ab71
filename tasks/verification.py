"""Verification beside an embedder judge: strangers, photographs projected into the prior, accepts and ranks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from torch import Tensor

from smoothsweep.core.analysis.projected_photographs import projected_photographs, stranger_rows
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import class_means, result_slots
from smoothsweep.core.metrics.metric import FIRST
from smoothsweep.core.metrics.recognition import Photographs, RecognitionReport, fit_head, judge_projections, recognise
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, load_tensors, save_rows, save_tensors
from smoothsweep.tasks.judges import HEAD_SEED, embedding_of
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.weight_checks import few_strangers_error

FEATURES = "features.safetensors"


def embed_strangers(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes features.safetensors: a judge's features of public images, made once per sweep.

    config: network and its weights, most (images that are taken, drawn by a fixed seed), least (refuse fewer).
    """
    images = load_tensors(inputs["public"] / "images.safetensors")["images"]
    if len(images) < config.get("least", 0):
        raise few_strangers_error(len(images), config["least"])
    features = embedding_of(config, {}, context)(images[stranger_rows(len(images), config["most"])])
    save_tensors(out / FEATURES, {"features": features})
    return {"num_strangers": len(features)}


def project_photographs(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes images.safetensors: real test images (`photographs`), what the prior makes of them, and their labels.

    config: images, how many at most, as many of each class as of any other; seed, which ones; crop, of the prior's
    images, where attacks have one.
    """
    made = projected_photographs(
        load_prior(inputs["prior"]).to(context.device).eval(),
        load_images(inputs["data"], "test"),
        most=config["images"],
        crop=config.get("crop"),
        seed=config["seed"],
        device=context.device,
        on_progress=context.progress,
    )
    tensors = {"images": made.drawn, "photographs": made.photographs, "labels": made.labels}
    save_tensors(out / "images.safetensors", tensors)
    return {"num_projected": len(made.labels), "projection_error": made.error}


def verify(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """How many reconstructions a recogniser accepts as their person, and their ranks; writes its word on each.

    config: network and its weights; prefix, of the columns.
    """
    made = reconstructed_images(inputs[RECONSTRUCTIONS], KINDS[config["network"]].size or None)
    strangers = load_tensors(inputs["strangers"] / FEATURES)["features"]
    labels, prefix = made["labels"], config["prefix"]
    report = recognise(embedding_of(config, inputs, context)(made["images"]), labels, _photographs(inputs), strangers)
    _save(out, labels, report, prefix)
    rates = {f"{prefix}verified_{name}": share for name, share in report.rates.items()}
    real = {f"{prefix}verified_{name}_real": share for name, share in report.real.items()}
    ranks = {f"{prefix}gallery_rank": report.rank, f"{prefix}gallery_rank_real": report.rank_real}
    return {**rates, **real, f"{prefix}verified_{FIRST}_others": report.others, **ranks}


def reach(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """What the judge says of private photographs that were projected into the prior.

    config: network and its weights; prefix and closed, of the columns.
    """
    made, real = load_tensors(inputs["projected"] / "images.safetensors"), _photographs(inputs)
    strangers, labels = load_tensors(inputs["strangers"] / FEATURES)["features"], made["labels"]
    head = fit_head(real.train, real.train_labels, seed=HEAD_SEED)
    verdicts = judge_projections(embedding_of(config, inputs, context)(made["images"]), labels, real, strangers, head)
    rows = {"class": labels.numpy(), "matched": verdicts.matched.numpy()}
    if verdicts.verified is not None:
        rows["verified"] = verdicts.verified.numpy()
    save_rows(out / "photographs.parquet", pd.DataFrame(rows))
    return {
        f"{config['closed']}_reach": verdicts.closed,
        f"{config['prefix']}verified_{FIRST}_reach": verdicts.accepted,
        f"{config['prefix']}reach_images": float(len(labels)),
    }


def _photographs(inputs: Inputs) -> Photographs:
    """The judge's features of the real images."""
    real = load_tensors(inputs["real"] / FEATURES)
    return Photographs(
        train=real["train_features"],
        train_labels=real["train_labels"],
        test=real["test_features"],
        test_labels=real["test_labels"],
    )


def _save(out: Path, labels: Tensor, report: RecognitionReport, prefix: str) -> None:
    """per_image.parquet (class, rank within it, cosine, hit at 1 %) and per_class.parquet, of each rate."""
    images = {"class": labels.numpy(), "rank": result_slots(labels).numpy(), "cosine": report.scores.numpy()}
    if not report.hits:
        save_rows(out / "per_image.parquet", pd.DataFrame(images))
        return
    save_rows(out / "per_image.parquet", pd.DataFrame({**images, "hit": report.hits[FIRST].numpy()}))
    classes = class_means(labels, labels)[0]
    rates = {
        f"{prefix}verified_{name}": class_means(accepts, labels)[1].numpy() for name, accepts in report.hits.items()
    }
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), **rates}))
