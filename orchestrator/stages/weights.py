"""Weights that are not on this machine: which judges cannot be heard, what stays unmeasured, and what `run` does not
start."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from smoothsweep.core.judges.base import STAGING, Judge
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.sweeps.expand import Cell
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.sweeps.search import Search
from smoothsweep.sweeps.training import Training

STAGE_THEM = f"`{STAGING} SWEEP.yaml` fetches them, or says where to put them by hand"


class Trial(Protocol):
    """What is asked of a trial here (`orchestrator.planning.trial.Trial`)."""

    @property
    def cell(self) -> Cell: ...


@dataclass(frozen=True, kw_only=True)
class StartRefusal:
    """Weights without which `run` does not start.

    Attributes:
        needed_for: What reads them.
        message: The line that says so.
    """

    weights: str | None
    needed_for: str
    message: str
    remedy: str = STAGING


@dataclass(frozen=True, kw_only=True)
class MissingWeights:
    """What a sweep cannot have here.

    Attributes:
        unmeasured: Judges that it asks for and that cannot be heard, each once.
        stops: Everything that `run` refuses to start without.
    """

    unmeasured: tuple[UnavailableJudge, ...] = ()
    stops: Sequence[StartRefusal] = ()

    @property
    def lines(self) -> list[str]:
        """What a run does not measure for want of weights, as one line; none where every judge is heard."""
        lines = [
            f"{judge.judge} ({len(judge.columns)} columns): {judge.reason}: {judge.remedy}" for judge in self.unmeasured
        ]
        return [f"not measured: {'; '.join(lines)}"] if lines else []


def pretrained_architectures(settings: InversionSweep) -> list[str]:
    """Architectures whose training starts from ImageNet weights; those that an attack trains too."""
    models = (settings.recipe, *settings.judges.classifiers.values(), *settings.judges.recipes)
    trained = [model for model in models if isinstance(model, Training) and not isinstance(model, ImportedClassifier)]
    by_attack = settings.attack.built.pretrained if settings.attack is not None else ()
    return [*(model.architecture for model in trained if model.pretrained), *by_attack]


def missing_imagenet_weights(settings: Iterable[InversionSweep]) -> list[StartRefusal]:
    """ImageNet weights that a training of these settings would not find on this machine.

    None where RAY_ADDRESS names a cluster: the workers' machines have folders of their own.
    """
    if os.environ.get("RAY_ADDRESS"):
        return []
    return [
        StartRefusal(
            weights=name,
            needed_for=f"pretrained {name}",
            message=f"pretrained {name}: expected its ImageNet weights here, got none; {STAGE_THEM}",
        )
        for name in dict.fromkeys(name for sweep in settings for name in pretrained_architectures(sweep))
        if staged_file(name) is None
    ]


def unmeasured_objectives(sweep: InversionSweep, search: Search, source: str) -> list[StartRefusal]:
    """What a search aims at or is bound by, and whose judge cannot be heard: it would look at empty columns.

    source: of the sweep file.
    """
    unheard = {column: judge for judge in unavailable_judges(sweep) for column in judge.columns}
    return [
        StartRefusal(
            weights=unheard[column].weights,
            needed_for=f"search: {column}",
            message=f"{source}: search: {column}: expected a judge that measures it: "
            f"{unheard[column].reason}: {unheard[column].remedy}",
            remedy=unheard[column].remedy,
        )
        for column in (*search.objectives, *search.constraints)
        if column in unheard
    ]


def find_missing_weights(loaded: LoadedSweep, trials: Iterable[Trial], *, elsewhere: bool = False) -> MissingWeights:
    """What these trials lack, and of a search also recipes that hold every choice of its space.

    elsewhere: the work is done by a cluster that was named.
    """
    sweep = loaded.sweep
    if isinstance(sweep, ToySweep):
        return MissingWeights()
    cells = {id(trial.cell): trial.cell.settings for trial in trials}  # of all its seeds
    met = [as_inversion(settings) for settings in (*cells.values(), *loaded.recipes.choices)]
    stops = [] if elsewhere else missing_imagenet_weights(met)
    if sweep.search:
        stops += unmeasured_objectives(sweep, sweep.search, loaded.source)
    return MissingWeights(
        unmeasured=tuple(dict.fromkeys(judge for sweep in met for judge in unavailable_judges(sweep))), stops=stops
    )


def weights_summary(loaded: LoadedSweep, trials: Iterable[Trial]) -> dict[str, list[dict[str, Any]]]:
    """Missing weights as JSON: `unmeasured`, judges that measure nothing here; `stops`, what `run` cannot start for."""
    lacks = find_missing_weights(loaded, trials)
    return {
        "unmeasured": [
            {
                "judge": judge.judge,
                "columns": list(judge.columns),
                "weights": judge.weights,
                "reason": judge.reason,
                "remedy": judge.remedy,
            }
            for judge in lacks.unmeasured
        ],
        "stops": [asdict(stop) for stop in lacks.stops],
    }


@dataclass(frozen=True, kw_only=True)
class UnavailableJudge:
    """A judge that the sweep asks for and that cannot measure anything here.

    Attributes:
        judge: Its key under `judges`.
        weights: The weight file it lacks, None where it lacks something else.
        reason: What is missing.
        remedy: What to do about it.
    """

    judge: str
    weights: str | None
    reason: str
    remedy: str

    @property
    def stage(self) -> str:
        """The name of the judge's stage."""
        return stage_of(self.judge)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the results that stay empty without it."""
        return tuple(metric.key for metric in METRICS if metric.stage == self.stage)


def requested_judges(settings: InversionSweep) -> dict[str, Judge]:
    """Name -> every judge that the sweep asks for, in the order of the table."""
    judges = dict(settings.judges.built)
    judges |= {name: kind() for name, kind in JUDGES.items() if _asks(settings, kind)}
    return {name: judges[name] for name in JUDGES if name in judges}


def _asks(settings: InversionSweep, kind: type[Judge]) -> bool:
    """Whether another key than its own asks for a judge that accompanies none."""
    return bool(kind.requested_by and not kind.accompanies and attrgetter(kind.requested_by)(settings))


def unavailable_judges(settings: InversionSweep) -> tuple[UnavailableJudge, ...]:
    """The judges that are asked for and cannot be heard: weights that would have to be staged and are not."""
    lacks = {name: judge.lack(staged_file) for name, judge in requested_judges(settings).items()}
    return tuple(UnavailableJudge(judge=name, **vars(lack)) for name, lack in lacks.items() if lack is not None)


def unavailable_reasons(settings: InversionSweep) -> dict[str, str]:
    """Judge's stage name -> why it cannot be heard, and what to do about it; of what accompanies such a judge too."""
    reasons = {judge.judge: f"{judge.reason}: {judge.remedy}" for judge in unavailable_judges(settings)}
    reasons |= {name: reasons[kind.accompanies] for name, kind in JUDGES.items() if kind.accompanies in reasons}
    return {stage_of(name): reason for name, reason in reasons.items()}


def available_judges(settings: InversionSweep) -> dict[str, Judge]:
    """Name -> every judge that is asked for and can be heard, with those that accompany it."""
    missing = {judge.judge for judge in unavailable_judges(settings)}
    heard = {name: judge for name, judge in requested_judges(settings).items() if name not in missing}
    needs = {
        name: kind.accompanying(heard[kind.accompanies]) for name, kind in JUDGES.items() if kind.accompanies in heard
    }
    heard |= {name: judge for name, judge in needs.items() if judge.wanted(settings)}
    return {name: heard[name] for name in JUDGES if name in heard}


@lru_cache
def staged_file(name: str) -> Path | None:
    """A published weight file where `smoothsweep weights stage` puts it, or None."""
    from smoothsweep.core.models.weight_files import (  # imports torch, which few sweeps need here
        find_weight_file,
        weight_folders,
    )

    return find_weight_file(name, weight_folders())
