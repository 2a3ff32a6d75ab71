"""All trials of a sweep: those of its file, or those that its search has proposed."""

from __future__ import annotations

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.proposals import later_trials, proposed_trials, reaudit_trials
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.expand import expand, said
from smoothsweep.sweeps.loaded import LoadedSweep


def trials_of(loaded: LoadedSweep, store: Store | None = None) -> list[Trial]:
    """Every trial of the sweep: all cells under the first seed, then all under the next.

    Of a search, the trials of what it has proposed so far, which the store knows; of a sweep with looks those of the
    first look, and of the later ones what the store knows. A re-audit that the store knows of comes last.
    """
    if loaded.sweep.search:
        trials = proposed_trials(loaded, store) if store else []
    else:
        looks, cells = loaded.sweep.looks, expand(loaded)
        seeds = looks.of_look(0) if looks else loaded.sweep.every_seed
        trials = [Trial(cell=cell, seed=seed) for seed in seeds for cell in cells]
        _refuse_repeats(loaded, trials[: len(cells)])
        if looks and store:
            trials += later_trials(loaded, store)
    return [*trials, *(reaudit_trials(loaded, store) if store else [])]


def _refuse_repeats(loaded: LoadedSweep, trials: list[Trial]) -> None:
    """Raise InputError for two cells that are the same work: settings that differ in what changes nothing."""
    seen: dict[str, Trial] = {}
    for trial in trials:
        if (other := seen.setdefault(trial.id, trial)) is not trial:
            raise InputError(
                f"{loaded.source}: expected trials that differ, got the same work with {said(other.cell.values)} and "
                f"with {said(trial.cell.values)}; list the combinations that differ under cells"
            )
