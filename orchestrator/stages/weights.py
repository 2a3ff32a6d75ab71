"""Weights that are not on this machine: what stays unmeasured, and what `run` does not start."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from smoothsweep.core.checks import present
from smoothsweep.core.judges.base import STAGING
from smoothsweep.orchestrator.stages.unheard import Unheard, staged_file, unheard_judges
from smoothsweep.sweeps.expand import Cell
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, inversion
from smoothsweep.sweeps.recipes import every_choice
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.sweeps.toy import ToySweep
from smoothsweep.sweeps.training import Training

STAGE_THEM = f"`{STAGING} SWEEP.yaml` fetches them, or says where to put them by hand"


class Trial(Protocol):
    """What is asked of a trial here (`orchestrator.planning.trial.Trial`)."""

    @property
    def cell(self) -> Cell: ...


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Weights without which `run` does not start. needed_for: what reads them. message: the line that says so."""

    weights: str | None
    needed_for: str
    message: str
    remedy: str = STAGING


def started_from(settings: InversionSweep) -> list[str]:
    """Architectures whose training starts from ImageNet weights; those that an attack trains too."""
    models = (settings.recipe, *settings.judges.classifiers.values(), *settings.judges.recipes)
    trained = [model for model in models if isinstance(model, Training) and not isinstance(model, ImportedClassifier)]
    by_attack = settings.attack.built.pretrained if settings.attack is not None else ()
    return [*(model.architecture for model in trained if model.pretrained), *by_attack]


def unmeasured(settings: Iterable[InversionSweep | ToySweep]) -> list[Unheard]:
    """Every judge that any of these settings asks for and that cannot be heard here, each once."""
    return list(
        dict.fromkeys(judge for one in settings if isinstance(one, InversionSweep) for judge in unheard_judges(one))
    )


def missing_weights(settings: Iterable[InversionSweep | ToySweep]) -> list[Stop]:
    """ImageNet weights that a training of these settings would not find on this machine.

    None where RAY_ADDRESS names a cluster: the workers' machines have folders of their own.
    """
    if os.environ.get("RAY_ADDRESS"):
        return []
    names = (name for one in settings if isinstance(one, InversionSweep) for name in started_from(one))
    return [
        Stop(
            weights=name,
            needed_for=f"pretrained {name}",
            message=f"pretrained {name}: expected its ImageNet weights here, got none; {STAGE_THEM}",
        )
        for name in dict.fromkeys(names)
        if staged_file(name) is None
    ]


def unheard_objectives(loaded: LoadedSweep) -> list[Stop]:
    """What a search aims at or is bound by, and whose judge cannot be heard: it would look at empty columns."""
    search = present(loaded.sweep.search, "search")
    unheard = {column: judge for judge in unheard_judges(inversion(loaded.sweep)) for column in judge.columns}
    return [
        Stop(
            weights=unheard[column].weights,
            needed_for=f"search: {column}",
            message=f"{loaded.source}: search: {column}: expected a judge that measures it: "
            f"{unheard[column].reason}: {unheard[column].remedy}",
            remedy=unheard[column].remedy,
        )
        for column in (*search.objectives, *search.constraints)
        if column in unheard
    ]


def settings_met(loaded: LoadedSweep, trials: Iterable[Trial]) -> list[InversionSweep]:
    """The settings of these trials, and of a search those of recipes that hold every choice of its space."""
    if isinstance(loaded.sweep, ToySweep):
        return []
    cells = {id(trial.cell): trial.cell.settings for trial in trials}  # of all its seeds
    choices = every_choice(loaded) if loaded.sweep.search else []
    return [inversion(settings) for settings in (*cells.values(), *(cell.settings for cell in choices))]


def stops_of(loaded: LoadedSweep, settings: Iterable[InversionSweep], *, elsewhere: bool = False) -> list[Stop]:
    """Everything that `run` refuses to start without. elsewhere: the work is done by a cluster that was named."""
    stops = [] if elsewhere else missing_weights(settings)
    if not isinstance(loaded.sweep, ToySweep) and loaded.sweep.search:
        stops += unheard_objectives(loaded)
    return stops


def weights_summary(loaded: LoadedSweep, trials: Iterable[Trial]) -> dict[str, list[dict[str, Any]]]:
    """As JSON values: `unmeasured`, judges that measure nothing here; `stops`, what `run` would refuse to start for."""
    met = settings_met(loaded, trials)
    return {
        "unmeasured": [
            {
                "judge": judge.judge,
                "columns": list(judge.columns),
                "weights": judge.weights,
                "reason": judge.reason,
                "remedy": judge.remedy,
            }
            for judge in unmeasured(met)
        ],
        "stops": [asdict(stop) for stop in stops_of(loaded, met)],
    }


def unmeasured_line(settings: Iterable[InversionSweep]) -> list[str]:
    """What a run has not measured for want of weights, as one line; none where every judge was heard."""
    if not (unheard := unmeasured(settings)):
        return []
    said = "; ".join(
        f"{judge.judge} ({len(judge.columns)} columns): {judge.reason}: {judge.remedy}" for judge in unheard
    )
    return [f"not measured: {said}"]
