"""The judge of gradient stability: it follows the gradients of the target, class by class, and needs no attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.analysis.gradients import RANGES, band_over_classes, follow_gradients, summarise_curves
from smoothsweep.core.declared import build
from smoothsweep.core.judges.gradients import LOSSES, Gradients
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.core.seeds import derive_seed
from smoothsweep.tasks.attacking import OpenTarget
from smoothsweep.tasks.class_names import class_names_of
from smoothsweep.tasks.classes import class_file, classes_of_stage
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import save_rows
from smoothsweep.tasks.unfinished import finished_class, load_class, save_class

CURVES = "gradients.parquet"


def follow_classes(config: Config, inputs: Inputs, classes: Sequence[int], context: TaskContext) -> None:
    """Follow the gradients of these classes under every loss; each leaves its curves as soon as it is done.

    config: settings (`Gradients`), image_size, protocol, classes, and how networks run.
    """
    settings = build(Gradients, config["settings"], what="gradients", prefix="judges.gradients.")
    prior, target = load_prior(inputs["prior"]).to(context.device), OpenTarget(inputs["target"], config, context.device)
    for target_class in classes:
        path = class_file(context.work, target_class)
        if load_class(path) is not None:
            continue
        context.leave_with_the_machine()
        context.progress(0.0, f"class {target_class}")
        view = target.view("gradients", noise=derive_seed(settings.seed, target_class, "noise"))
        paths = {
            loss: follow_gradients(
                prior,
                view.logits,
                target_class,
                settings,
                loss,
                protocol=config["protocol"],
                image_size=config["image_size"],
                execution=view.execution,
            )
            for loss in LOSSES
        }
        named = {f"{name}_{loss}": curve for loss in LOSSES for name, curve in paths[loss].curves.items()}
        save_class(path, named)


def collect_gradients(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes gradients.parquet (loss, quantity, step, mean, low, high, classes: the curves, with Student's t intervals
    over the classes) and per_class.parquet (means over the steps); returns their means over the classes.
    """
    classes = classes_of_stage(config, len(class_names_of(inputs)))
    follow_classes(config, inputs, classes, context)  # whatever a lost shard left undone
    parts = [finished_class(class_file(context.work, c)) for c in classes]
    curves = {name: [part[name] for part in parts] for name in parts[0]}
    save_rows(out / CURVES, _curves(curves))
    means = {f"gradients_{name}": [float(curve.nanmean()) for curve in held] for name, held in curves.items()}
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes, **means}))
    return {f"gradients_{name}": value for name, value in summarise_curves(curves).items()}


def _curves(curves: Mapping[str, Sequence[Tensor]]) -> pd.DataFrame:
    rows = [
        (loss, quantity, step, *band)
        for loss in LOSSES
        for quantity in RANGES
        for step, band in enumerate(band_over_classes(torch.stack(list(curves[f"{quantity}_{loss}"])), quantity))
    ]
    return pd.DataFrame(rows, columns=["loss", "quantity", "step", "mean", "low", "high", "classes"])
