"""Forecast what an audit's further trainings and attacks will cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.text import duration
from smoothsweep.core.training.classifier import train_classifier
from smoothsweep.orchestrator.commands.audit.portfolio import AuditTraining
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion, check
from smoothsweep.tasks.parts_of_images import PART
from smoothsweep.tasks.settings import recipe_from

START_S = 20.0
"""Seconds of a round before its first stage runs and after its last."""

TIMED = 3
"""Timed batches, of which the quickest counts."""

SHADOW_S = 5.0
"""Seconds of a shadow model besides its training: starting the process, reading images, answering."""


def wall_seconds(device_s: float) -> float:
    """Seconds that so many device-seconds take on this machine, whose devices work in parallel."""
    devices = torch.cuda.device_count() if torch.cuda.is_available() else allotted_cpus()
    return device_s / devices


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Device-seconds of a sweep.

    Attributes:
        training: Targets and shadow models missing in the store.
        rest: Attacks and judges missing in the store.
        done: Everything that the store holds.
    """

    training: float
    rest: float
    done: float = 0.0

    def without(self, other: Cost) -> Cost:
        """The cost beyond that of another sweep."""
        return Cost(training=self.training - other.training, rest=self.rest - other.rest)

    @property
    def device_s(self) -> float:
        """Device-seconds of everything missing in the store."""
        return self.training + self.rest


def training_seconds(
    recipe: TrainingRecipe, *, images: int, classes: int, side: int, transform_input: bool = False
) -> float:
    """Seconds of a plain training of `recipe` on so many images of `side` pixels, on this machine's device.

    side: of the images, in pixels. Trains on one batch of noise, once to warm up and `TIMED` times, of which the
    quickest counts; on a CPU in one thread, as a stage does. The estimate leaves out measuring the test accuracy.
    """
    count = min(recipe.batch_size, images)
    noise = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    names = tuple(map(str, range(classes)))
    data = ImageSet(images=noise, labels=torch.arange(count) % classes, names=names)
    model = build_classifier(recipe.architecture, classes, protocol="clean", transform_input=transform_input)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        records = train_classifier(model, data, replace(recipe, epochs=1 + TIMED), seed=0, device=device)
    finally:
        torch.set_num_threads(threads)
    return min(record.seconds for record in records[1:]) * images / count * recipe.epochs


timed_once = lru_cache(training_seconds)


def as_loaded(tree: dict[str, Any]) -> LoadedSweep:
    """Check a parsed sweep file. Raises InputError."""
    return LoadedSweep(sweep=check(tree, "audit"), raw=tree, intro="", source="audit")


def has_membership(tree: dict[str, Any], store: Store) -> bool:
    """Whether the store holds the judge of membership for the first recipe of a parsed sweep file."""
    trial = trials_of(as_loaded(tree))[0]
    stage = inversion_stages(as_inversion(trial.settings), trial.seed).judges.get(stage_of("membership"))
    return stage is not None and store.has(stage)


def forecast(tree: dict[str, Any], store: Store, *, timed: Callable[..., float] = timed_once) -> Cost:
    """Forecast the cost of the stages of a parsed sweep file that the store, which must hold the data, lacks.

    A stage like a measured one is expected to take as long. A few steps of a training that was never measured are
    `timed`, once for all trainings that differ in their defense alone. An attack or a judge that was never measured is
    expected to take the mean of the measured ones.
    """
    plan = make_plan(trials_of(as_loaded(tree)), store)
    training = rest = 0.0
    for stage in plan.missing:
        if stage.name in ("target", "shadow"):
            training += _of_training(stage, store, plan.history, timed)
        else:
            measured = plan.history.expected(stage)
            rest += measured[0] if measured else plan.history.usual(stage.name) or 0.0
    done = sum(float(store.manifest(stage)["seconds"]) for stage in plan.stages if stage.fingerprint in plan.cached)
    return Cost(training=training, rest=rest, done=done)


def _of_training(stage: Stage, store: Store, history: History, timed: Callable[..., float]) -> float:
    if measured := history.expected(stage):
        return measured[0]
    data = store.metrics(stage.inputs["data"])
    train, test = (int(present(data[name], name)) for name in ("num_train", "num_test"))
    part = stage.config.get(PART)
    shadow_s = 0.0 if part is None else SHADOW_S
    return shadow_s + timed(
        recipe_from(stage.config),
        images=train if part is None else round(part["share"] * (train + test)),
        classes=int(present(data["num_classes"], "num_classes")),
        side=stage.inputs["data"].config["size"],
        transform_input=bool(stage.config.get("transform_input")),
    )


def cost_words(one: AuditTraining, cost: Cost) -> str:
    """A phrase on the network of a training, and what training and attacking it cost."""
    network = f"{one.settings['architecture']}, {one.settings['epochs']} epochs"
    attacks = f"{duration(cost.rest)} to attack it and judge the reconstructions"
    return f"{network}, about {duration(cost.training)} of a device to train it and {attacks}"
