"""Give seeds where they are needed: to every recipe at the first look, then to recipes that are still open.

Proposals depend only on the finished trials in the store, so that a killed sweep continues to the same result.
"""

from __future__ import annotations

from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.axes import baseline_axes, sweep_axes
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.estimates import Settings
from smoothsweep.orchestrator.result.rows import per_class_rows, results_table
from smoothsweep.orchestrator.result.summary import cells_of
from smoothsweep.orchestrator.search.agenda import Agenda
from smoothsweep.orchestrator.search.shared.outcomes import Outcome, status_of
from smoothsweep.orchestrator.search.shared.setup import Wait
from smoothsweep.sweeps.loaded import LoadedSweep

RESAMPLES = 10  # few, since no decision depends on these bootstrap intervals


class LookAgenda(Agenda):
    """The trials of a sweep with looks, look after look."""

    def preview(self) -> list[Trial]:
        """The baseline's trials of the first look. Writes nothing."""
        recipe, _ = self.make.recipes[0]
        return self.make(Proposal(number=0, values=recipe, look=0))

    @property
    def ended_by(self) -> str | None:
        """Why there is nothing more to propose: "looks"; None as long as there is."""
        return "looks" if self.through else None

    def _take_aim(self, loaded: LoadedSweep) -> None:
        self.loaded, self._open_after = loaded, {}

    def _outcome(self, trials: list[Trial]) -> Outcome:
        return Outcome(status=status_of(trials, self.store, self._failures))

    def _proposal(self) -> Proposal | Wait | None:
        for look in range(len(self.make.looks.looks)):
            of_this_look = [proposal for proposal in self.proposals if proposal.look == look]
            for recipe in self._wanted(look):
                if not any(proposal.values == recipe for proposal in of_this_look):
                    return Proposal(number=len(self.proposals), values=recipe, origin="look", look=look)
            if not all(proposal.number in self.outcomes for proposal in of_this_look):
                return Wait()
        return None

    def _wanted(self, look: int) -> list[dict[str, Any]]:
        """The recipes that get seeds for a look, once all trials of the one before have ended."""
        if look == 0:
            return [recipe for recipe, _ in self.make.recipes]
        if look not in self._open_after:
            self._open_after[look] = self._still_open(look)
        return self._open_after[look]

    def _still_open(self, looks_begun: int) -> list[dict[str, Any]]:
        """The baseline and the recipes still open after `looks_begun` looks; empty where none is open."""
        trials = [
            trial
            for proposal in self.proposals
            if present(proposal.look, "look") < looks_begun
            for trial in self.make(proposal)
        ]
        table = results_table(trials, self.store, {})
        per_class = per_class_rows(trials, self.store)
        cells, primary = cells_of(
            ReportData(
                title=self.loaded.sweep.name,
                results=table,
                axes=sweep_axes(self.loaded, trials),
                protocol=self.loaded.sweep.protocol,
                per_class=per_class if len(per_class) else None,
                baseline=baseline_axes(self.loaded),
                looks=self.make.looks,
            ),
            Settings(resamples=RESAMPLES),
        )
        if primary is None:
            return []
        stops = cells.stops(primary)
        open_ = {recipe for recipe, stop in stops.items() if stop.answer == "open" and stop.look == looks_begun}
        rows = zip(cells.frame["recipe"], cells.frame["trials"], strict=True)
        ids = {trial for recipe, mine in rows if recipe in open_ for trial in mine}
        first, *others = self.make.recipes
        wanted = [
            recipe
            for recipe, _ in others
            if any(trial.id in ids for trial in self.make(Proposal(number=0, values=recipe, look=0)))
        ]
        return [first[0], *wanted] if wanted else []
