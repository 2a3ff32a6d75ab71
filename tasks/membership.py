"""The stage that attacks a target's membership: training images are members, test images of the same people are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.declared import build
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.candidates import answers_to, candidates_of, with_shadows
from smoothsweep.core.membership.measuring import Measured
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.external import load_target
from smoothsweep.tasks.files import load_images, load_tensors, save_rows
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.parts_of_images import all_images
from smoothsweep.tasks.training import defense_from


def judge_membership(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Numbers of every membership attack; writes scores.parquet and per_class.parquet.

    config: settings (`Membership`). scores.parquet: per image its class, whether it is a member, and the score under
    every attack, missing where the image was not asked about. per_class.parquet: AUC within each class.
    """
    settings = build(Membership, dict(config["settings"]), what="judges.membership", prefix="judges.membership.")
    images = all_images(inputs["data"])
    member = np.arange(len(images)) < len(load_images(inputs["data"], "train"))
    candidates = candidates_of(images, member, seed=settings.seed, where="judges.membership", others="test images")
    trained = config_of(inputs["target"])
    model: Any = load_target(inputs["target"], trained, context.device)
    if not isinstance(model, ExternalModel):
        defense_from(trained).seed_noise(model, settings.seed)
    scores = not (isinstance(model, ExternalModel) and model.access == "labels")
    options: dict[str, Any] = {"image_size": trained["image_size"], "device": context.device}
    evidence, queries = answers_to(model, candidates, settings.label_queries, scores=scores, **options)
    context.progress(0.8, "membership scores")
    measured = candidates.measure(with_shadows(evidence, _shadows(inputs) if scores else []), queries)
    _save(measured, out)
    return {**measured.metrics(), "membership_shift": candidates.shift, "membership_copies": float(candidates.copies)}


def _shadows(inputs: Inputs) -> list[tuple[np.ndarray, np.ndarray]]:
    """What each shadow model answers to all images, and which of them it was trained on."""
    answers = [load_tensors(inputs[name] / "answers.safetensors") for name in sorted(inputs) if "shadow" in name]
    return [(answer["phi"].numpy(), answer["inside"].numpy()) for answer in answers]


def _save(measured: Measured, out: Path) -> None:
    rows = {"class": measured.labels, "member": measured.member, **measured.scores}
    save_rows(out / "scores.parquet", pd.DataFrame(rows))
    by_class = measured.by_class()
    classes = sorted(next(iter(by_class.values())))
    columns = {f"membership_{name}": [values.get(label) for label in classes] for name, values in by_class.items()}
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes, **columns}))
