"""All trials of a sweep: those of its file, or those that its search has proposed."""

from __future__ import annotations

from smoothsweep.orchestrator.planning.proposals import ProposalLog, listed_trials
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.loaded import LoadedSweep


def trials_of(loaded: LoadedSweep, store: Store | None = None) -> list[Trial]:
    """Every trial of the sweep: all cells under the first seed, then all under the next.

    Of a search, the trials of what it has proposed so far, which the store knows; of a sweep with looks those of the
    first look, and of the later ones what the store knows. A re-audit that the store knows of comes last.
    """
    if store:
        return ProposalLog(loaded, store).trials()
    return [] if loaded.sweep.search else listed_trials(loaded, expand(loaded))
