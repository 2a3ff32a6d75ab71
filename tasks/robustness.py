"""The judge of adversarial robustness: it attacks the target's own answers to its test images, and needs no attack."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from smoothsweep.core.analysis.robustness import chosen_images, measure_robustness
from smoothsweep.core.declared import build
from smoothsweep.core.judges.robustness import Robustness
from smoothsweep.core.models.inference import fit_images
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, save_rows
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.training import defense_from, load_classifier


def judge_robustness(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Success of every attack over all test images and over those answered correctly; writes answers.parquet.

    config: settings (`Robustness`). A target whose answers are noisy is attacked with the noise on, as the
    protocol reads it. answers.parquet: per image its row of the test set, class, target, answer, whether the gradient
    of cross entropy is exactly zero, and the answer under every attack.
    """
    settings = build(Robustness, config["settings"], what="robustness", prefix="judges.robustness.")
    trained, test = config_of(inputs["target"]), load_images(inputs["data"], "test")
    model = load_classifier(inputs["target"], trained, context.device)
    defense_from(trained).seed_noise(model, settings.seed)
    rows = chosen_images(len(test), settings)
    pictures = fit_images(test.images[rows], trained["image_size"]).add(1).div(2).clamp(0, 1).contiguous()
    report = measure_robustness(
        model,
        pictures,
        test.labels[rows],
        classes=model.num_classes,
        settings=settings,
        device=context.device,
        progress=context.progress,
    )
    columns = {
        "row": rows,
        "class": report.labels,
        "target": report.targets,
        "answer": report.clean,
        "zero_gradient": report.zero_gradient,
        **report.answers,
    }
    save_rows(out / "answers.parquet", pd.DataFrame({name: values.numpy() for name, values in columns.items()}))
    return report.metrics()
