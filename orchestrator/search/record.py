"""What is known of a search: for the report, for MLflow, for `status`. Pure reading of the sweep's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from smoothsweep.orchestrator.planning.proposals import Proposal, ProposalLog
from smoothsweep.orchestrator.planning.state import read_failures
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.search.agenda import search_aims
from smoothsweep.orchestrator.search.budget import spent
from smoothsweep.orchestrator.search.shared.outcomes import OPEN, Aims, Outcome, read_outcome
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import read_note
from smoothsweep.sweeps.expand import axis_keys, axis_names
from smoothsweep.sweeps.loaded import LoadedSweep

ENDED = "search/ended.json"


class _EndNote(BaseModel, extra="forbid"):
    stopped_by: str | None


@dataclass(frozen=True, kw_only=True)
class ProposalRecord:
    """One recipe that was tried.

    Attributes:
        rung: None for the full attack.
        status: Done, failed or open.
        objectives: Column -> mean over seeds of the worst case over attacks, None where unknown.
        seeds: How many of the sweep's seeds it was tried under, None for all.
        device_hours: Device-hours of its finished stages that no earlier proposal has.
        kept: Whether the recipe went on from its rung; None without a rung.
        audited: Dropped by a rung, met the full attack to check on it.
    """

    number: int
    values: dict[str, Any]
    axes: dict[str, Any]
    rung: int | None
    trials: tuple[str, ...]
    status: str
    objectives: dict[str, float | None]
    device_hours: float
    kept: bool | None
    audited: bool
    origin: str = "random"
    feasible: bool | None = None
    of: int | None = None
    seeds: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReauditRecord:
    """What is kept of a second audit with fresh seeds.

    Attributes:
        axes: Axes of each selected recipe, the attacker's left out.
        complete: All of its trials are done.
    """

    seeds: tuple[int, ...]
    axes: tuple[dict[str, Any], ...]
    trials: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """What is kept of a search.

    Attributes:
        stopped_by: "recipes" (as many as asked for), "exhausted" (nothing new in the space), "budget: ...", None while
            unfinished.
        spent_device_hours: Over the life of the sweep, the re-audit included.
    """

    strategy: str
    objectives: dict[str, str]
    constraints: dict[str, dict[str, float]]
    budget: dict[str, float] | None
    spent_device_hours: float
    stopped_by: str | None
    proposals: tuple[ProposalRecord, ...]
    reaudit: ReauditRecord | None


def read_search(loaded: LoadedSweep, store: Store) -> SearchRecord | None:
    """The search of the sweep as the store knows it; None for a sweep without one."""
    search = loaded.sweep.search
    if search is None:
        return None
    budget, proposed = loaded.sweep.budget, ProposalLog(loaded, store)
    return SearchRecord(
        strategy=search.strategy,
        objectives=dict(search.objectives),
        constraints={key: constraint.model_dump(exclude_none=True) for key, constraint in search.constraints.items()},
        budget=budget.model_dump(exclude_none=True) if budget else None,
        spent_device_hours=spent(store, loaded.sweep.name)[0] / 3600,
        stopped_by=read_end(proposed),
        proposals=tuple(_records(proposed)),
        reaudit=read_reaudit_record(proposed),
    )


def read_reaudit_record(proposed: ProposalLog) -> ReauditRecord | None:
    """The re-audit of a search or of a grid, once its recipes were selected; None before, and where none is asked."""
    recipes = proposed.reaudit()
    if recipes is None:
        return None
    trials = proposed.reaudit_trials()
    axes = axis_names(axis_keys(proposed.loaded))
    return ReauditRecord(
        seeds=proposed.loaded.reaudit.seeds,
        axes=tuple(
            {axes[key]: next(t.cell.axes[axes[key]] for t in trials if _is(t, recipe)) for key in axes if key in recipe}
            for recipe in recipes
        ),
        trials=tuple(trial.id for trial in trials),
        complete=all(proposed.store.has(stage) for trial in trials for stage in trial.stages),
    )


def write_end(proposed: ProposalLog, stopped_by: str | None) -> None:
    """Note why the search has ended, or that it has not."""
    proposed.store.write_note(proposed.name, ENDED, json.dumps({"stopped_by": stopped_by}).encode())


def read_end(proposed: ProposalLog) -> str | None:
    """Why the last run of the search ended; None while it is unfinished."""
    unread = "the search counts as unfinished until it is run again"
    note = read_note(proposed.store, proposed.name, ENDED, _EndNote, unread)
    return note.stopped_by if note is not None and proposed.proposals() else None


def _records(proposed: ProposalLog) -> list[ProposalRecord]:
    store, make, proposals = proposed.store, proposed.make, proposed.proposals()
    aims, failures = search_aims(proposed.loaded), read_failures(store, proposed.name)
    again = {proposal.of for proposal in proposals if proposal.origin == "survivor"}
    lowest = _complete_rungs(proposals)
    counted: set[str] = set()
    records = []
    for proposal in proposals:
        trials = make(proposal)
        outcome = read_outcome(trials, store, aims, failures)
        records.append(
            ProposalRecord(
                number=proposal.number,
                values=proposal.values,
                axes={name: trials[0].cell.axes[name] for key, name in make.make.names.items() if _of_recipe(key)},
                rung=proposal.rung,
                trials=tuple(trial.id for trial in trials),
                status=outcome.status,
                objectives=dict(outcome.objectives),
                device_hours=_device_hours(trials, store, counted),
                kept=_kept(proposal, again, lowest),
                audited=proposal.origin == "audit",
                origin=proposal.origin,
                feasible=_feasible(outcome, aims),
                of=proposal.of,
                seeds=proposal.seeds,
            )
        )
    return records


def _kept(proposal: Proposal, again: set[int | None], complete: Mapping[int, bool]) -> bool | None:
    """Whether the recipe went on from its rung: False if the rung is through and it did not; None before."""
    if proposal.rung is None:
        return None
    return True if proposal.number in again else False if complete.get(proposal.rung) else None


def _complete_rungs(proposals: Sequence[Proposal]) -> dict[int, bool]:
    """Rungs that some recipe has left."""
    by_number = {proposal.number: proposal for proposal in proposals}
    alive = [by_number[p.of] for p in proposals if p.of in by_number]
    return {recipe.rung: True for recipe in alive if recipe.rung is not None}


def _feasible(outcome: Outcome, aims: Aims) -> bool | None:
    return outcome.feasible if outcome.status != OPEN and set(outcome.violations) == set(aims.constraints) else None


def _device_hours(trials: Sequence[Trial], store: Store, counted: set[str]) -> float:
    """Device-hours of the trials' finished stages that are not counted yet."""
    stages: dict[str, Stage] = {s.fingerprint: s for t in trials for s in t.stages if s.fingerprint not in counted}
    seconds = 0.0
    for fingerprint, stage in stages.items():
        if store.has(stage):
            counted.add(fingerprint)
            seconds += store.manifest(stage)["seconds"]
    return seconds / 3600


def _of_recipe(key: str) -> bool:
    return key.split(".")[0] == "recipe"


def _is(trial: Trial, recipe: Mapping[str, Any]) -> bool:
    return all(trial.cell.values.get(key) == value for key, value in recipe.items())
