"""The stages of judges that have a `measure`, and of those that look at the target itself or train a surrogate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.analysis.embeddings import feature_distances, map_features, mapped_rows
from smoothsweep.core.analysis.gradients import RANGES, band_over_classes, follow_gradients, summarise_curves
from smoothsweep.core.analysis.robustness import chosen_images, measure_robustness
from smoothsweep.core.attacks.shared.view import View
from smoothsweep.core.data.images import ImageSet, to_unit
from smoothsweep.core.declared import build
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, JudgeInputs
from smoothsweep.core.judges.gradients import LOSSES, Gradients
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.robustness import Robustness
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.membership.candidates import answers_to, candidates_of, with_shadows
from smoothsweep.core.metrics.accuracy import class_means, result_slots, score_surrogate
from smoothsweep.core.models.inference import evaluate_logits, fit_images
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.core.seeds import derive_seed
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.classes import class_file, class_names_of, classes_of_stage
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_columns, save_rows
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.settings import embedding_settings
from smoothsweep.tasks.target import all_images
from smoothsweep.tasks.training import (
    Training,
    defense_from,
    load_classifier,
    load_target,
    save_classifier,
    train_alone,
)
from smoothsweep.tasks.unfinished import finished_class, load_class, save_class


def measure(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """What the judge of this configuration measures; writes its tables, and its word on every reconstruction.

    config: judge, its name; settings; protocol; image_size, of the target; content, of its weights. Raises ValueError
    where it leaves other columns than it declares.
    """
    name, kind = config["judge"], JUDGES[config["judge"]]
    settings = {**config["settings"], **{hint: config[hint] for hint in kind.hints if hint in config}}
    judge: Judge = build(kind, settings, what="judge", prefix=f"judges.{name}.")
    measurement = judge.measure(_judge_inputs(judge, config, inputs, context))
    columns = {metric.key for metric in judge.columns}
    if measurement.metrics.keys() != columns:
        others = ", ".join(sorted(measurement.metrics.keys() ^ columns))
        raise ValueError(f"judge {name}: expected a number for each of its columns, and no other: {others}")
    for file, table in measurement.tables.items():
        save_columns(out / f"{file}.parquet", table)
    if measurement.hits is not None:
        made = reconstructed_images(inputs[RECONSTRUCTIONS], judge.reconstruction_size)
        _save_hits(judge, measurement.hits, made["labels"], out)
    return dict(measurement.metrics)


def _judge_inputs(judge: Judge, config: Config, inputs: Inputs, context: TaskContext) -> JudgeInputs:
    def reconstructions(size: int | None) -> tuple[Tensor, Tensor]:
        made = reconstructed_images(inputs[RECONSTRUCTIONS], size)
        images = made["images"]
        return to_unit(images) if images.dtype == torch.uint8 else images.float(), made["labels"]

    def target() -> View:
        noise = derive_seed(0, config["judge"], "noise")
        return OpenTarget(inputs["target"], config, context.device).view(judge.sees, noise=noise)

    return JudgeInputs(
        protocol=config["protocol"],
        device=context.device,
        reconstructions=reconstructions,
        real=lambda part: load_images(inputs["data"], part),
        target=target,
        prior=lambda: load_prior(inputs["prior"]).to(context.device),
        weights=lambda read: planned(config).read(read),
        progress=context.progress,
    )


def _save_hits(judge: Judge, hits: Tensor, labels: Tensor, out: Path) -> None:
    """per_image.parquet (class, rank within it, hit) and per_class.parquet, of the column that has a ceiling."""
    key = next(metric.key for metric in judge.columns if metric.ceiling is not None)
    save_columns(out / "per_image.parquet", {"class": labels, "rank": result_slots(labels), "hit": hits})
    classes, shares = class_means(hits, labels)
    save_columns(out / "per_class.parquet", {"class": classes, key: shares})


def judge_features(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes map.parquet (row, class, t-SNE and PCA of the classes that are mapped) and distances.parquet (row, class,
    distances of every training image, scaled by the largest); returns the medians of the distances.
    """
    settings = embedding_settings(config)
    real = load_tensors(inputs["features"] / "features.safetensors")
    features, labels = real["train_features"].float(), real["train_labels"]
    rows = mapped_rows(labels, settings.classes)
    settings.check_samples(len(rows))
    spread = feature_distances(features, labels)
    context.progress(0.3, "distances are done")
    tsne, pca = map_features(features[rows], settings)
    points = {
        "row": rows,
        "class": labels[rows],
        "tsne_x": tsne[:, 0],
        "tsne_y": tsne[:, 1],
        "pca_x": pca[:, 0],
        "pca_y": pca[:, 1],
    }
    save_columns(out / "map.parquet", points)
    save_columns(out / "distances.parquet", {**spread, "class": labels})
    medians = {name: float(pd.Series(distances.numpy()).median()) for name, distances in spread.items()}
    return {f"features_{name}": None if pd.isna(median) else median for name, median in medians.items()}


PLAIN = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def extract_knowledge(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the surrogate's weights and history, and images.parquet: how many images of each attacked class it is
    asked about. Returns xi_train and xi_test over these classes."""
    parts = {part: load_images(inputs["data"], part) for part in ("train", "test")}
    made = reconstructed_images(inputs[RECONSTRUCTIONS], config["image_size"])
    stolen = ImageSet(images=made["images"], labels=made["labels"], names=parts["train"].names)
    surrogate, records = train_alone(Training.of({**config, "defense": PLAIN}), stolen, None, context)
    save_classifier(out, surrogate, records)
    logits = {
        name: evaluate_logits(surrogate, part.images, image_size=config["image_size"], device=context.device)
        for name, part in parts.items()
    }
    attacked = stolen.labels.unique()
    counts = {name: [int((part.labels == label).sum()) for label in attacked] for name, part in parts.items()}
    save_rows(out / "images.parquet", pd.DataFrame({"class": attacked.numpy(), **counts}))
    return {**score_surrogate(logits, {name: part.labels for name, part in parts.items()}, attacked=attacked)}


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
    shadows = [load_tensors(inputs[name] / "answers.safetensors") for name in sorted(inputs) if "shadow" in name]
    answered = [(shadow["phi"].numpy(), shadow["inside"].numpy()) for shadow in shadows if scores]
    measured = candidates.measure(with_shadows(evidence, answered), queries)
    save_rows(
        out / "scores.parquet", pd.DataFrame({"class": measured.labels, "member": measured.member, **measured.scores})
    )
    by_class = measured.by_class()
    classes = sorted(next(iter(by_class.values())))
    columns = {f"membership_{name}": [values.get(label) for label in classes] for name, values in by_class.items()}
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes, **columns}))
    return {**measured.metrics(), "membership_shift": candidates.shift, "membership_copies": float(candidates.copies)}


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
    save_columns(out / "answers.parquet", columns)
    return report.metrics()


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
        # means over the latents, [steps]
        curves = {f"{name}_{loss}": rows.nanmean(1) for loss in LOSSES for name, rows in paths[loss].items()}
        save_class(path, curves)


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
