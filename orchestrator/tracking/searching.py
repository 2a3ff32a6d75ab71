"""What a search says of a trial, as tags: its strategy, the number of the proposal, the rung."""

from __future__ import annotations

from typing import Any

from orchestrator.store import Store
from orchestrator.trial import Trial
from sweeps.load import LoadedSweep


def search_tags(loaded: LoadedSweep | None, store: Store, trial: Trial) -> dict[str, str]:
    """Tags of a trial that a search proposed; none for a grid."""
    record = _record(loaded, store)
    if record is None:
        return {}
    tags = {"smoothsweep.strategy": record.strategy}
    for proposal in record.proposals:
        if trial.id in proposal.trials:
            tags["smoothsweep.proposal"] = str(proposal.number)
            tags["smoothsweep.rung"] = "full" if proposal.rung is None else str(proposal.rung)
            return tags
    return tags


def _record(loaded: LoadedSweep | None, store: Store) -> Any:
    if loaded is None or getattr(loaded.sweep, "search", None) is None:
        return None
    from orchestrator.search.record import read_search

    return read_search(loaded, store)
