"""The stage of a judge that has a `measure`: what it reads, and what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.attacks.shared.view import View
from smoothsweep.core.data.images import ImageSet, to_unit
from smoothsweep.core.declared import build
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge
from smoothsweep.core.judges.measuring import JudgeInputs
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.accuracy import class_means, result_slots
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.core.seeds import derive_seed
from smoothsweep.tasks.attacking import OpenTarget
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, save_rows
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.reconstructions import reconstructed_images


def measure(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """What the judge of this configuration measures; writes its tables, and its word on every reconstruction.

    config: judge, its name; settings; protocol; image_size, of the target; content, of its weights. Raises ValueError
    where it leaves other columns than it declares.
    """
    judge: Judge = build(JUDGES[config["judge"]], _settings(config), what="judge", prefix=f"judges.{config['judge']}.")
    measurement = judge.measure(_judge_inputs(judge, config, inputs, context))
    columns = {metric.key for metric in judge.columns}
    if measurement.metrics.keys() != columns:
        names = ", ".join(sorted(measurement.metrics.keys() ^ columns))
        raise ValueError(f"judge {config['judge']}: expected a number for each of its columns, and no other: {names}")
    for name, table in measurement.tables.items():
        save_rows(out / f"{name}.parquet", pd.DataFrame({key: column.numpy() for key, column in table.items()}))
    if measurement.hits is not None:
        _save_hits(
            judge,
            measurement.hits,
            reconstructed_images(inputs[RECONSTRUCTIONS], judge.reconstruction_size)["labels"],
            out,
        )
    return dict(measurement.metrics)


def _settings(config: Config) -> dict[str, Any]:
    """The judge's settings, and what its numbers do not depend on."""
    hints = JUDGES[config["judge"]].hints
    return {**config["settings"], **{name: config[name] for name in hints if name in config}}


def _judge_inputs(judge: Judge, config: Config, inputs: Inputs, context: TaskContext) -> JudgeInputs:
    def reconstructions(size: int | None) -> tuple[Tensor, Tensor]:
        made = reconstructed_images(inputs[RECONSTRUCTIONS], size)
        images = made["images"]
        return to_unit(images) if images.dtype == torch.uint8 else images.float(), made["labels"]

    def real(part: str) -> ImageSet:
        return load_images(inputs["data"], part)

    def target() -> View:
        return OpenTarget(inputs["target"], config, context.device).view(
            judge.sees, noise=derive_seed(0, config["judge"], "noise")
        )

    return JudgeInputs(
        protocol=config["protocol"],
        device=context.device,
        reconstructions=reconstructions,
        real=real,
        target=target,
        prior=lambda: load_prior(inputs["prior"]).to(context.device),
        weights=lambda read: planned(config).read(read),
        progress=context.progress,
    )


def _save_hits(judge: Judge, hits: Tensor, labels: Tensor, out: Path) -> None:
    """per_image.parquet (class, rank within it, hit) and per_class.parquet, of the column that has a ceiling."""
    key = next(metric.key for metric in judge.columns if metric.ceiling is not None)
    rows = {"class": labels, "rank": result_slots(labels), "hit": hits}
    save_rows(out / "per_image.parquet", pd.DataFrame({name: values.numpy() for name, values in rows.items()}))
    classes, shares = class_means(hits, labels)
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), key: shares.numpy()}))
