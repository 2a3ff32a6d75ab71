"""What seeds, classes and images of a sweep cost: a training is paid once per seed, an attack also by class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smoothsweep.core.metrics.power import Design
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan, SearchForecast
from smoothsweep.orchestrator.planning.power.sizes import Size
from smoothsweep.orchestrator.planning.reference import reference_s
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors

Held = Callable[[Stage], float]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Device-seconds of a whole sweep, whether or not parts of it are in the store.

    Attributes:
        now: The size that the costs are of.
        trained: How many classes its targets know; a training on more costs more in proportion.
        fixed: What all seeds share.
        of_seed: The trainings of one seed, and what else no class changes.
        of_classes: Attacks and judges of one seed.
        guessed: Whether some of it is from another machine.
    """

    now: Design
    trained: int
    fixed: float
    of_seed: float
    of_classes: float
    guessed: bool = False

    def seconds(self, design: Design) -> float:
        """Cost of a sweep of this size, in device-seconds; an attack's candidates are in proportion to images."""
        share = design.classes / self.now.classes
        if design.images is not None and self.now.images is not None:
            share *= design.images / self.now.images
        training = max(1.0, design.classes / self.trained) * self.of_seed
        return self.fixed + design.seeds * (training + share * self.of_classes)

    def times(self, design: Design) -> float:
        """The cost of a sweep of this size as a multiple of what the sweep costs now."""
        return self.seconds(design) / self.seconds(self.now)


def costs_of(plan: Plan, size: Size, history: History, held: Held) -> Costs | None:
    """The costs of the planned sweep; None where one of its stages was never measured and has no rate."""
    priced, now = _Priced(history, held), size.design
    if plan.forecast is not None and not plan.forecast.looks:  # the trials of a first look are those of every recipe
        shared, of_recipes = _stages_of(plan.forecast)
        many = now.recipes / max(1, len(of_recipes)) / now.seeds
        costs = priced.split(stage for stages in of_recipes for stage in stages)
        parts = priced.total(shared), many * costs[0], many * costs[1]
    else:
        trials = [trial for trial in plan.trials if trial.phase == "sweep"]
        first, fixed = _seed_and_shared(trials)
        parts = priced.total(fixed.values()), *priced.split(s for s in first if s.fingerprint not in fixed)
    if priced.unknown or sum(parts) <= 0:
        return None
    fixed, of_seed, of_classes = parts
    return Costs(
        now=now, trained=size.trained, fixed=fixed, of_seed=of_seed, of_classes=of_classes, guessed=priced.guessed
    )


class _Priced:
    """Adds up what stages cost, and notes whether that is known."""

    def __init__(self, history: History, held: Held) -> None:
        self._history, self._held = history, held
        self.unknown = self.guessed = False

    def total(self, stages: Iterable[Stage]) -> float:
        return sum(map(self._seconds, stages))

    def split(self, stages: Iterable[Stage]) -> tuple[float, float]:
        """(seconds of stages before an attack, of attacks and what reads them)."""
        seconds, attacks = [0.0, 0.0], dict[str, bool]()
        for stage in stages:
            seconds[_is_of_attack(stage, attacks)] += self._seconds(stage)
        return seconds[0], seconds[1]

    def _seconds(self, stage: Stage) -> float:
        expected = self._history.expected(stage)
        seconds = expected[0] if expected else reference_s(stage)
        self.guessed |= expected is None
        self.unknown |= seconds is None
        return self._held(stage) * (seconds or 0.0)


def _seed_and_shared(trials: list[Trial]) -> tuple[list[Stage], dict[str, Stage]]:
    """All stages of the first seed, and by fingerprint those of them that another seed needs, too."""
    seeds = list(dict.fromkeys(trial.seed for trial in trials))
    first, *others = (
        with_ancestors([stage for trial in trials if trial.seed == seed for stage in trial.stages])
        for seed in seeds[:2]
    )
    elsewhere = {stage.fingerprint for stages in others for stage in stages}
    return first, {stage.fingerprint: stage for stage in first if stage.fingerprint in elsewhere}


def _stages_of(forecast: SearchForecast) -> tuple[tuple[Stage, ...], list[list[Stage]]]:
    """What all recipes of a search share, and its stages of each sample recipe under all seeds, audited once."""
    samples = [samples for _, samples in forecast.steps[:-1]]
    return forecast.shared, [[s for stages in of_recipe for s in stages] for of_recipe in zip(*samples, strict=True)]


def _is_of_attack(stage: Stage, known: dict[str, bool]) -> bool:
    """Whether the stage is an attack or reads one."""
    is_of_attack = known.get(stage.fingerprint)
    if is_of_attack is None:
        is_of_attack = stage.name == "attack" or any(_is_of_attack(source, known) for source in stage.inputs.values())
        known[stage.fingerprint] = is_of_attack
    return is_of_attack
