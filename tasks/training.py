"""Training any classifier of a sweep: one loop, as a plain call with one worker, under Ray Train with several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from core.data.augmentation import Augmentation
from core.data.images import ImageSet
from core.defenses.label_smoothing import smoothed_cross_entropy
from core.defenses.schedules import AlphaSchedule, alpha_at
from core.models.classifiers import Classifier, build_classifier
from core.models.training import EpochRecord, TrainingRecipe, train_classifier
from tasks.context import Config, TaskContext
from tasks.files import load_checkpoint, load_tensors, save_checkpoint, save_rows, save_tensors

CHECKPOINT = "checkpoint.pt"
RECIPE_KEYS = (
    "architecture", "image_size", "epochs", "batch_size", "optimizer", "lr", "betas", "momentum", "weight_decay",
    "lr_schedule", "lr_milestones", "lr_factor", "lr_min", "precision",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Worker:
    """This process among those that train together. wrap puts the model into DistributedDataParallel."""

    rank: int = 0
    world_size: int = 1
    wrap: Callable[[nn.Module], nn.Module] | None = None


def recipe_from(config: Config) -> TrainingRecipe:
    """The training settings within a stage's configuration."""
    settings = {key: config[key] for key in RECIPE_KEYS if key in config}
    for key in ("betas", "lr_milestones"):
        if key in settings:
            settings[key] = tuple(settings[key])
    augmentation = {k: tuple(v) if isinstance(v, list) else v for k, v in config["augmentation"].items()}
    return TrainingRecipe(**settings, augmentation=Augmentation(**augmentation))


def smoothing_of_epoch(defense: Config, epochs: int) -> Callable[[int], float]:
    """Zero-based epoch -> effective alpha, from a resolved `defense` configuration."""
    parameters = dict(defense["schedule"])
    if "points" in parameters:
        parameters["points"] = tuple(tuple(point) for point in parameters["points"])
    schedule = AlphaSchedule(**parameters)
    return lambda epoch: alpha_at(schedule, alpha=defense["alpha"], epoch=epoch, epochs=epochs)


def train(
    config: Config, data: ImageSet, test: ImageSet | None, context: TaskContext, *, worker: Worker | None = None,
    resume: dict[str, Any] | None = None, checkpoint: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Classifier, list[EpochRecord]]:  # fmt: skip
    """Train the configured classifier; resumes from `resume` and hands a state to `checkpoint` each K epochs."""
    worker = worker or Worker()
    recipe = recipe_from(config)
    alpha_of = smoothing_of_epoch(config["defense"], recipe.epochs)
    model = build_classifier(
        recipe.architecture,
        data.num_classes,
        pretrained=config["pretrained"],
        protocol=config["protocol"],
        seed=config["seed"],
        transform_input=config.get("transform_input", False),
    )

    def loss_of_epoch(epoch: int) -> Callable[[Any, Tensor], Tensor]:
        alpha = alpha_of(epoch)
        return lambda logits, labels: smoothed_cross_entropy(logits, labels, alpha)

    def after_epoch(record: EpochRecord, state: Callable[[], dict[str, Any]]) -> None:
        done = record.epoch + 1
        if checkpoint and done % config.get("checkpoint_every", 10) == 0 and done < recipe.epochs:
            checkpoint(state())
        if worker.rank == 0:
            context.progress(done / recipe.epochs, f"epoch {done}/{recipe.epochs}")

    records = train_classifier(
        model,
        data,
        recipe,
        loss_of_epoch=loss_of_epoch,
        seed=config["seed"],
        device=context.device,
        rank=worker.rank,
        world_size=worker.world_size,
        wrap=worker.wrap,
        resume=resume,
        on_epoch=after_epoch,
        evaluate=test,
        evaluate_every=max(1, recipe.epochs // 10),
        facts_of_epoch=lambda epoch: {"alpha": alpha_of(epoch)},
    )
    return model, records


def train_alone(
    config: Config, data: ImageSet, test: ImageSet | None, context: TaskContext
) -> tuple[Classifier, list[EpochRecord]]:
    """One process; goes on from the last checkpoint in the work folder."""
    path = context.work / CHECKPOINT
    return train(
        config, data, test, context, resume=load_checkpoint(path), checkpoint=lambda state: save_checkpoint(path, state)
    )


def save_classifier(out: Path, model: nn.Module, records: list[EpochRecord]) -> None:
    """weights.safetensors (tensors in their usual memory order) and history.parquet, one row per epoch."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_tensors(out / "weights.safetensors", state)
    plain = ("epoch", "lr", "loss", "train_acc", "test_acc", "seconds")
    rows = [
        {**{key: getattr(r, key) for key in plain}, "alpha": r.extra["alpha"], "logit_gap": r.extra["top_logit_gap"]}
        for r in records
    ]
    save_rows(out / "history.parquet", pd.DataFrame(rows).astype({"test_acc": "float64"}))


def load_classifier(folder: Path, config: Config, device: str) -> Classifier:
    """The trained classifier of a `target` artifact, frozen and in eval mode."""
    weights = load_tensors(folder / "weights.safetensors")
    num_classes = len(weights["head.bias"])
    model = build_classifier(
        config["architecture"], num_classes, seed=config["seed"], transform_input=config.get("transform_input", False)
    )
    model.load_state_dict(weights)
    return model.to(torch.device(device)).eval().requires_grad_(False)
