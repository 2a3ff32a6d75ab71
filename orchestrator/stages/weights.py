"""Weights that are not on this machine: what stays unmeasured, and what `run` does not start."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from smoothsweep.core.judges.base import STAGING
from smoothsweep.orchestrator.stages.judge_availability import UnavailableJudge, staged_file, unavailable_judges
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
