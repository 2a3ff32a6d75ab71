"""Judges that a sweep asks for and that cannot be heard here: what is missing, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from smoothsweep.core.checks import present
from smoothsweep.core.external.address import ADDRESS, named_address
from smoothsweep.core.metrics.columns.metric import Judge
from smoothsweep.core.metrics.table import METRICS
from smoothsweep.orchestrator.stages.memo import remembered
from smoothsweep.sweeps.judging import STAGED_EMBEDDERS, STAGED_FIDS, Embedder, General
from smoothsweep.sweeps.schema import InversionSweep

STAGED_FID = STAGED_FIDS["fidelity"]
STAGING = "smoothsweep weights stage"
"""The command that brings published weights here."""
EMBEDDING = ("embedder", "general")
"""Judges with a linear head on features learnt elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Unheard:
    """A judge that the sweep asks for and that cannot measure anything here.

    judge: its key under `judges`. weights: the weight file it lacks, None where it lacks something else. reason: what
    is missing. remedy: what to do about it.
    """

    judge: Judge
    weights: str | None
    reason: str
    remedy: str

    @property
    def stage(self) -> str:
        """The name of the judge's stage."""
        return f"judge_{self.judge}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the results that stay empty without it."""
        return tuple(metric.key for metric in METRICS if metric.stage == self.stage)


def _what_is_here(settings: InversionSweep) -> tuple[object, ...]:
    """What decides which judges can be heard: the sweep asks, and weights may come while we run."""
    here = [staged_file(file) is not None for file in _staged_for(settings)]
    return settings.judges, *here, named_address() if settings.judges.asked else None


@remembered(lambda settings: (settings.judges,))
def _staged_for(settings: InversionSweep) -> tuple[str, ...]:
    """The weight files that judges of the sweep need staged."""
    judges = settings.judges
    chosen = [getattr(judges, judge) for judge in EMBEDDING]
    embedders = [STAGED_EMBEDDERS.get(one.name) for one in chosen if one and not one.weights]
    asked = [(getattr(judges, name), file) for name, file in STAGED_FIDS.items()]
    return tuple(filter(None, [*embedders, *(file for judge, file in asked if judge and judge.weights is None)]))


@remembered(_what_is_here)
def unheard_judges(settings: InversionSweep) -> tuple[Unheard, ...]:
    """The judges that are asked for and cannot be heard: weights that would have to be staged and are not."""
    judges, found = settings.judges, []
    for judge in EMBEDDING:
        embedder: Embedder | General | None = getattr(judges, judge)
        staged = STAGED_EMBEDDERS.get(embedder.name) if embedder and not embedder.weights else None
        if staged and staged_file(staged) is None:
            found.append(_without_weights(judge, staged, present(embedder, "embedder").name))
    if judges.asked and named_address() is None:
        reason, remedy = "no vision-language model is named", f"set {ADDRESS}, and pictures are sent there"
        found.append(Unheard(judge="asked", weights=None, reason=reason, remedy=remedy))
    for name, file in STAGED_FIDS.items():
        judge = getattr(judges, name)
        if judge and judge.weights is None and staged_file(file) is None:
            found.append(_without_weights(cast("Judge", name), file, "the FID network" if file == STAGED_FID else file))
    return tuple(found)


def _without_weights(judge: Judge, file: str, what: str) -> Unheard:
    return Unheard(judge=judge, weights=file, reason=f"the weights of {what} are not here", remedy=STAGING)


def unavailable_judges(settings: InversionSweep) -> dict[str, str]:
    """Judge's stage name -> why it cannot be heard, and what to do about it."""
    return {judge.stage: f"{judge.reason}: {judge.remedy}" for judge in unheard_judges(settings)}


@remembered(_what_is_here)
def heard_judges(settings: InversionSweep) -> frozenset[str]:
    """Of the judges that may be asked for in vain, those that are asked for and can be heard."""
    missing = {judge.judge for judge in unheard_judges(settings)}
    names = (*EMBEDDING, *STAGED_FIDS, "asked")
    return frozenset(name for name in names if getattr(settings.judges, name) and name not in missing)


@lru_cache
def staged_file(name: str) -> Path | None:
    """A published weight file where `smoothsweep weights stage` puts it, or None."""
    from smoothsweep.core.models.weight_files import (  # brings torch, which few sweeps need here
        find_weight_file,
        weight_folders,
    )

    return find_weight_file(name, weight_folders())
