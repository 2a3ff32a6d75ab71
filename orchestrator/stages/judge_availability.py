"""Judges that a sweep asks for and that cannot be heard here: what is missing, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.sweeps.schema import InversionSweep


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
