"""One trial: a recipe, an attack and its judges under one seed. Which stages it is made of, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.stages.graph import attack_stage, reconstruction_stage, target_stage
from smoothsweep.orchestrator.stages.images import data_stage
from smoothsweep.orchestrator.stages.judges import judge_stages, reconstruction_sizes, wants_decoded
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import Cell, settings_words
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import Sweep, as_inversion
from smoothsweep.sweeps.schema import InversionSweep, ToySweep

Run = Callable[[Stage], None]


@dataclass(frozen=True, kw_only=True)
class InversionStages:
    """The stages of one trial, in the order they are needed; attack and reconstructions are None without an attack.

    judges: name of the stage -> the last stage of every judge that is heard.
    """

    data: Stage
    target: Stage
    attack: Stage | None
    reconstructions: Stage | None
    judges: Mapping[str, Stage]

    @property
    def inverted(self) -> Stage:
        """The reconstructions of a trial that has an attack. Raises ValueError, naming them, of one that has none."""
        return present(self.reconstructions, "reconstructions")

    def has_pictures(self, store: Store) -> bool:
        """Whether the reconstructions are there, and the images that they are of."""
        return store.has(self.inverted) and store.has(self.data)

    def __iter__(self) -> Iterator[Stage]:
        made = (self.data, self.target, self.attack, self.reconstructions, *self.judges.values())
        return (stage for stage in made if stage is not None)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One row of the results. `id` is the fingerprint (12 hex digits) of the stages that make its numbers.

    phase: what the row is for: "sweep", "proxy" (the cheap attack of a rung, or a recipe that has met only some of the
    seeds) or "reaudit" (fresh seeds).
    """

    cell: Cell
    seed: int
    phase: str = "sweep"

    @property
    def settings(self) -> Sweep:
        return self.cell.settings

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages whose metrics make the row."""
        if isinstance(self.settings, ToySweep):
            return [Stage(name="toy", config={"alpha": self.settings.alpha})]
        return [*inversion_stages(self.settings, self.seed)]

    @cached_property
    def id(self) -> str:
        return sha256(" ".join(stage.fingerprint for stage in self.stages).encode()).hexdigest()[:12]

    @property
    def is_control(self) -> bool:
        """Whether its attack is none, but the line that a leak must exceed."""
        attack = self.settings.attack if isinstance(self.settings, InversionSweep) else None
        return attack is not None and attack.built.control

    @property
    def stated_defense(self) -> dict[str, Any] | None:
        """The defense as the sweep file, or the card of a target brought in, states it."""
        recipe = as_inversion(self.settings).recipe
        if isinstance(recipe, ImportedClassifier):
            return recipe.stated_defense
        return recipe.defense.model_dump(mode="json", exclude_none=True)

    @property
    def recipe_label(self) -> str:
        """`imported NAME`, or the words for the defense."""
        recipe = as_inversion(self.settings).recipe
        if isinstance(recipe, ImportedClassifier):
            return f"imported {printable(recipe.folder.name)}"
        return recipe_words(present(self.stated_defense, "stated defense")).label

    @property
    def label(self) -> str:
        """What tells it from the other trials, on one line; whole attacks, recipes and defenses in their own words."""
        stated = ((name, value) for name, value in self.cell.axes.items() if value is not None)
        values = dict.fromkeys(self._axis_text(name, value) for name, value in stated)  # a defense of several axes once
        return " · ".join([*values, f"seed {self.seed}", *([self.phase] if self.phase != "sweep" else [])])

    def _axis_text(self, name: str, value: Any) -> str:
        key = self.cell.keys.get(name)
        if key == "attack" and as_inversion(self.settings).attack is not None:
            return as_inversion(self.settings).inverted_by.words
        if key in ("recipe", "recipe.defense") or (key or "").startswith("recipe.defense."):
            return self.recipe_label
        if key == "prior" and as_inversion(self.settings).prior is not None:
            return present(as_inversion(self.settings).prior, "prior").words
        stated = self.cell.values.get(key)
        return f"{name} {settings_words(stated) if isinstance(stated, dict) else value}"


def run_trial(trial: Trial, run: Run) -> None:
    """Train the target, invert every class, judge the reconstructions, extract knowledge: the whole experiment.

    `run` makes a stage's artifact (inputs first) or finds it. The caller reads the row from the artifacts.
    """
    for stage in order_stages(trial.stages):
        run(stage)


def order_stages(stages: Sequence[Stage]) -> list[Stage]:
    """All stages of one trial in the order in which they are run; as given where nothing below says otherwise.

    First the data and the target, next the judges' classifiers that were imported: one whose card is wrong ends
    the trial before there is anything to judge. What needs no attack comes before the attack, which costs most. What
    asks a service outside comes last.
    """
    brought = dict.fromkeys(source for stage in stages for source in stage.inputs.values() if source.name == "imported")
    ordered = sorted(stages, key=lambda stage: (stage.task.asks_elsewhere, "attack" in _names_below(stage)))
    first = [stage for stage in stages if stage.name in ("data", "target", "imported")]
    return list(dict.fromkeys([*first, *brought, *ordered]))


def stages_to_start_early(stages: Sequence[Stage]) -> list[Stage]:
    """What the judges of an attack need and the attack does not, as the evaluator's training.

    It is asked for at once, so that no device waits while all open trials wait for one such stage. What asks a service
    outside is left to its place.
    """
    attacks = with_ancestors([stage for stage in stages if stage.name == "attack"])
    known = {stage.fingerprint for stage in [*attacks, *stages]}
    judges = [stage for stage in stages if "attack" in _names_below(stage)]
    needed = [source for judge in judges for source in judge.inputs.values() if source.fingerprint not in known]
    early = [
        stage for stage in needed if not {"attack", "imported"} & _names_below(stage) and not _asks_elsewhere(stage)
    ]
    return list({stage.fingerprint: stage for stage in early}.values())


def _asks_elsewhere(stage: Stage) -> bool:
    return any(source.task.asks_elsewhere for source in with_ancestors([stage]))


def _names_below(stage: Stage) -> set[str]:
    return {source.name for source in with_ancestors([stage])}


def inversion_stages(settings: InversionSweep, seed: int) -> InversionStages:
    """The stage graph of one trial. Whatever does not depend on the recipe or the seed is shared by construction."""
    target = target_stage(settings, seed)
    attack = attack_stage(settings, seed, target) if settings.attack is not None else None
    reconstructions = None
    if attack is not None:
        reconstructions = reconstruction_stage(
            settings, reconstruction_sizes(settings), attack, decoded=wants_decoded(settings)
        )
    return InversionStages(
        data=data_stage(settings, settings.recipe.image_size),
        target=target,
        attack=attack,
        reconstructions=reconstructions,
        judges=judge_stages(settings, target, reconstructions),
    )
