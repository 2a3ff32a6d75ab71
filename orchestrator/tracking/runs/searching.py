"""What a search says of its trials, as tags to filter runs by: the strategy, the number of the proposal, the rung."""

from __future__ import annotations

from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.loaded import LoadedSweep

STRATEGY, PROPOSAL, RUNG = "smoothsweep.strategy", "smoothsweep.proposal", "smoothsweep.rung"
PHASE = "smoothsweep.phase"


def strategy_tags(loaded: LoadedSweep | None) -> dict[str, str]:
    """How trials are chosen: grid, unless the sweep searches."""
    if loaded is None:
        return {}
    search = loaded.sweep.search
    return {STRATEGY: search.strategy if search else "grid"}


def proposal_tags(loaded: LoadedSweep | None, store: Store) -> dict[str, dict[str, str]]:
    """Trial id -> tags of the proposal that it belongs to. Reads the whole search: for the end of a sweep.

    A trial of a recipe that met more seeds later belongs to the last proposal of it; its run may be older, and say
    otherwise.
    """
    if loaded is None or loaded.sweep.search is None:
        return {}
    from smoothsweep.orchestrator.search.record import read_search

    record = read_search(loaded, store)
    tags: dict[str, dict[str, str]] = {}
    for proposal in record.proposals if record else ():
        rung = "full" if proposal.rung is None else str(proposal.rung)
        rung = rung if proposal.seeds is None else f"full, {proposal.seeds} of {len(loaded.sweep.every_seed)} seeds"
        for trial_id in proposal.trials:
            earlier = trial_id in tags and proposal.origin == "replication"
            phase = {PHASE: "sweep" if proposal.seeds is None else "proxy"} if earlier else {}
            if trial_id not in tags or earlier:
                tags[trial_id] = {PROPOSAL: str(proposal.number), RUNG: rung, **phase}
    return tags
