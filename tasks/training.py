"""Training any classifier of a sweep: one loop, as a plain call with one worker, under Ray Train with several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.registry import make_defense, restore_weights
from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.core.external.kinds import KINDS, agreed_to, is_external, needs_consent
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.models.classifiers import Classifier, build_classifier, usual_input
from smoothsweep.core.models.inference import Normalisation
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import Stamp, fit_held_out, training_generator, without_held_out
from smoothsweep.core.training.classifier import EpochRecord, train_classifier
from smoothsweep.tasks.context import Config, TaskContext
from smoothsweep.tasks.files import load_tensors, save_rows, save_tensors
from smoothsweep.tasks.settings import recipe_from, smoothing_of_epoch
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT = "checkpoint.pt"
ORDER = "order"
"""Beside an external model: the order of its outputs, a tensor of that name."""
STOP_KEY = "stop_at_test_acc"


@dataclass(frozen=True, kw_only=True)
class Worker:
    """This process among those that train together. wrap puts the model into DistributedDataParallel."""

    rank: int = 0
    world_size: int = 1
    wrap: Callable[[nn.Module], nn.Module] | None = None


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a stage's configuration says of a training, read once to build, train or measure its classifier.

    Attributes:
        config: The configuration, for what the network alone reads.
        recipe: Its settings.
        defense: Adjusts them, alters the batches and computes the loss.
        goal: Test accuracy that ends it; None where it goes through all epochs.
    """

    config: Config
    recipe: TrainingRecipe
    defense: Defense
    goal: float | None

    @classmethod
    def of(cls, config: Config) -> Training:
        """Read the training of a target, an evaluator, a shadow model or a surrogate. Raises InputError."""
        return cls(config=config, recipe=recipe_from(config), defense=defense_from(config), goal=config.get(STOP_KEY))

    def reached(self, record: EpochRecord) -> bool:
        """Whether it ends with this epoch, as accurate as was asked for."""
        return self.goal is not None and record.test_acc is not None and record.test_acc >= self.goal

    def check_goal(self, records: list[EpochRecord]) -> None:
        """Raise AccuracyNotReached if a test accuracy was asked for that no epoch had."""
        if self.goal is None or (records[-1].test_acc or 0.0) >= self.goal:
            return
        best = max(records, key=lambda record: record.test_acc or 0.0)
        raise AccuracyNotReached(
            f"{STOP_KEY}: expected a test accuracy of {self.goal:.4f} within {len(records)} epochs, "
            f"got {best.test_acc or 0.0:.4f} at best (epoch {best.epoch + 1})"
        )


def defense_from(config: Config) -> Defense:
    """The defense of a stage's configuration; a classifier brought in has none unless its card says so."""
    settings = config.get("defense", {"kind": "label_smoothing"})
    return make_defense(settings["kind"], **settings.get("parameters", {}))


def new_classifier(training: Training, num_classes: int) -> Classifier:
    """The configured classifier before training, prepared for its defense and read as the protocol says."""
    config, defense = training.config, training.defense
    model = build_classifier(
        config["architecture"],
        num_classes,
        pretrained=config["pretrained"],
        protocol=config["protocol"],
        seed=config["seed"],
        transform_input=config.get("transform_input", False),
    )
    defense.prepare(model, generator=training_generator(config["seed"], "preparation"))
    defense.read(model, None, protocol=config["protocol"], seed=0)
    return model


def restored_classifier(
    config: Config, weights: Mapping[str, Tensor], *, where: str, readout: str | None = None, seed: int = 0
) -> Classifier:
    """The configured classifier with these weights; arguments as in `load_classifier`."""
    defense, normalisation = defense_from(config), normalisation_from(config)
    model = build_classifier(
        config["architecture"],
        len(weights["head.bias"]),
        protocol=config["protocol"],
        seed=config["seed"],
        transform_input=config.get("transform_input", False),
    )
    restore_weights(model, defense, weights, where=where)
    model.wants(normalisation)
    defense.read(model, readout, protocol=config["protocol"], seed=seed)
    return model


def normalisation_from(config: Config) -> Normalisation:
    """What the configured classifier wants its images to be: as it says, else what its architecture wants."""
    if "normalisation" not in config:
        return usual_input(config["architecture"])
    stated = config["normalisation"]
    mean, std = tuple(stated["mean"]), tuple(stated["std"])
    return Normalisation(mean=mean, std=std, channels=stated.get("channels", "rgb"))


def train(
    training: Training,
    data: ImageSet,
    test: ImageSet | None,
    context: TaskContext,
    *,
    worker: Worker | None = None,
    resume: dict[str, Any] | None = None,
    checkpoint: Callable[[dict[str, Any]], None],
    hurry: Callable[[], bool],
    stamp: Stamp | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    """Train the configured classifier; resumes from `resume` and hands a state to `checkpoint` each K epochs.

    hurry(): asked after every epoch, on every rank; whether a checkpoint is due though it is not its turn.
    Where a test accuracy is asked for, it ends with the first epoch that has it on `test`.
    What the defense learns from images that it held out, it learns last.
    """
    worker, config, recipe, defense = worker or Worker(), training.config, training.recipe, training.defense
    data, stamp, back = without_held_out(defense, data, stamp, config["seed"])
    model = new_classifier(training, data.num_classes)

    def after_epoch(record: EpochRecord, state: Callable[[], dict[str, Any]]) -> None:
        done = record.epoch + 1
        due = hurry() or done % config.get("checkpoint_every", 10) == 0
        if due and done < recipe.epochs:
            checkpoint(state())
        if worker.rank == 0:
            context.progress(1.0 if training.reached(record) else done / recipe.epochs, f"epoch {done}/{recipe.epochs}")

    records = train_classifier(
        model,
        data,
        recipe,
        seed=config["seed"],
        defense=defense,
        alpha_of_epoch=smoothing_of_epoch(config["defense"], recipe.epochs),
        device=context.device,
        rank=worker.rank,
        world_size=worker.world_size,
        wrap=worker.wrap,
        resume=resume,
        on_epoch=after_epoch,
        evaluate=test,
        evaluate_every=max(1, recipe.epochs // 10),
        stop_when=None if training.goal is None else training.reached,
        stamp=stamp,
    )
    fit_held_out(defense, model, back, image_size=recipe.image_size, device=context.device)
    return model, records


def train_alone(
    training: Training, data: ImageSet, test: ImageSet | None, context: TaskContext, stamp: Stamp | None = None
) -> tuple[Classifier, list[EpochRecord]]:
    """One process, from the last checkpoint in the work folder on. Raises MachineLeaving behind one that is due."""
    path = context.work / CHECKPOINT

    def keep(state: dict[str, Any]) -> None:
        save_checkpoint(path, state)
        context.leave_with_the_machine()

    return train(
        training,
        data,
        test,
        context,
        resume=load_checkpoint(path),
        checkpoint=keep,
        hurry=context.machine_leaves,
        stamp=stamp,
    )


def save_classifier(out: Path, model: nn.Module, records: list[EpochRecord]) -> None:
    """weights.safetensors (tensors in their usual memory order) and history.parquet."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_tensors(out / "weights.safetensors", state)
    save_history(out, records)


def save_history(out: Path, records: list[EpochRecord]) -> None:
    """history.parquet: one row per epoch, and one column for every fact that the defense reports."""
    plain = ("epoch", "lr", "loss", "train_acc", "test_acc", "seconds", "alpha", "logit_gap")
    rows = []
    for record in records:
        extra = {"logit_gap" if key == "top_logit_gap" else key: value for key, value in record.extra.items()}
        row = {**vars(record), **extra}
        rows.append({key: row[key] for key in (*plain, *(key for key in extra if key not in plain))})
    save_rows(out / "history.parquet", pd.DataFrame(rows).astype({"test_acc": "float64"}))


def load_classifier(
    folder: Path, config: Config, device: str, *, readout: str | None = None, seed: int = 0
) -> Classifier:
    """The trained classifier of a `target` artifact, frozen and in eval mode, its defense in place.

    readout: how a bottleneck (defense mid) is read: noisy, mean or expectation; None for what the protocol says, noisy
    under `paper` and mean under `clean`. seed: of its noise. Raises InputError for weights that were not trained with
    the configured defense, for a readout of a classifier without a bottleneck, and for a model that shows no layers.
    """
    if is_external(config["architecture"]):
        raise InputError(f"{folder}: expected a network with layers, got {KINDS[config['architecture']].words}")
    path = folder / "weights.safetensors"
    model = restored_classifier(config, load_tensors(path), where=str(path), readout=readout, seed=seed)
    return model.to(torch.device(device)).eval().requires_grad_(False)


def load_external(folder: Path, config: Config, device: str, *, where: str | None = None) -> ExternalModel:
    """The model of an `imported` artifact, opened on a device.

    Raises InputError, one line, also for code and endpoints that only a store from elsewhere names.
    """
    settings, kind = config["outside"], config["architecture"]
    if needs_consent(kind) and not agreed_to(folder / KINDS[kind].file):
        words = f"{KINDS[kind].words} that you have brought in on this machine (`smoothsweep import target`, `audit`)"
        raise InputError(f"{folder}: expected {words}, got one from elsewhere")
    return ExternalModel(
        KINDS[kind].open(folder / KINDS[kind].file, settings, torch.device(device)),
        answers=settings["answers"],
        access=settings["access"],
        num_classes=config["num_classes"],
        normalisation=normalisation_from(config),
        order=load_tensors(folder / f"{ORDER}.safetensors")[ORDER],
        leave_out=settings.get("leave_out", ()),
        where=where or str(folder),
    )


def load_target(folder: Path, config: Config, device: str, *, readout: str | None = None) -> Classifier | ExternalModel:
    """The model under attack: a classifier with its defense (`load_classifier`), or an external model."""
    if is_external(config["architecture"]):
        return load_external(folder, config, device)
    return load_classifier(folder, config, device, readout=readout)
