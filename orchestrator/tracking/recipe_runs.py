"""The run of each recipe: written anew where its trials have changed, grown where seeds have been added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.generations import bring_back
from smoothsweep.orchestrator.tracking.runs.points import digest_of, write
from smoothsweep.orchestrator.tracking.runs.recipes import RecipeMeans, phase_of, recipe_id, recipe_means
from smoothsweep.orchestrator.tracking.runs.runs import CONTENT, POINTS, Runs, StoredRun
from smoothsweep.orchestrator.tracking.trials import table_json
from smoothsweep.sweeps.loaded import LoadedSweep

NOTE = "mlflow.note.content"  # what MLflow's pages show as the description, in Markdown
TABLE_OF_SEEDS = '[{"path": "seeds.json", "type": "table"}]'


class RecipeRuns:
    """Writes the means of recipes into their runs.

    Args:
        client: MLflow's.
        runs: What is known of the experiment's runs; kept up to date.
        store: The trials' results.
        loaded: The sweep, for its words; None for trials alone.
    """

    def __init__(self, client: Any, runs: Runs, *, store: Store, loaded: LoadedSweep | None) -> None:
        self._client, self._runs, self._store, self._loaded = client, runs, store, loaded

    def record_all(self, trials: Iterable[Trial], parent: str, progress: Callable[[], None]) -> list[RecipeMeans]:
        """The means of every recipe over its finished trials, all of them written. progress: called after each."""
        groups: dict[str, list[Trial]] = {}
        for trial in trials:
            if phase_of(trial) != "proxy":
                groups.setdefault(recipe_id(trial), []).append(trial)
        means = []
        for members in groups.values():
            means.append(self.record(list({t.seed: t for t in members}.values()), parent))
            progress()
        return means

    def record(self, trials: Sequence[Trial], parent: str) -> RecipeMeans:
        """Write the means of one recipe over its finished trials (at least one), unless its run has just these."""
        fingerprint = recipe_id(trials[0])
        bring_back(self._client, self._runs, "recipe", fingerprint)
        means = recipe_means(trials, self._store, self._loaded)
        if self.holds(means):
            return means
        run = self._runs.get("recipe", fingerprint)
        if run is not None and not self._may_grow(run, means):
            self._runs.drop("recipe", fingerprint)
            run = None
        tags = {"smoothsweep.phase": phase_of(trials[0]), NOTE: means.note, "mlflow.loggedArtifacts": TABLE_OF_SEEDS}
        if run is None:
            tags["mlflow.parentRunId"] = parent
            run = self._runs.create("recipe", fingerprint, f"{means.label} · mean", tags, means.at - means.worked)
        self._write(run, means, tags)
        return means

    def holds(self, means: RecipeMeans) -> bool:
        """Whether the recipe's run is finished with just these means."""
        run = self._runs.get("recipe", recipe_id(means.trial))
        return run is not None and run.status == "FINISHED" and run.content == means.content

    def _may_grow(self, run: StoredRun, means: RecipeMeans) -> bool:
        """Whether new means may join the old ones: their step is the number of seeds, and no step holds two points."""
        if run.content == means.content:
            return run.points == digest_of(means.points)  # half-written: the identical rows again
        return run.seeds < len(means.seeds)

    def _write(self, run: StoredRun, means: RecipeMeans, tags: dict[str, str]) -> None:
        tags |= {CONTENT: means.content, POINTS: digest_of(means.points)}
        tags |= {"smoothsweep.seeds": ", ".join(map(str, means.seeds))}
        write(self._client, run.run_id, params=means.params, tags=tags, points=means.points)
        table = table_json(list(means.rows[0]), [list(row.values()) for row in means.rows])
        self._client.log_text(run.run_id, table, "seeds.json")
        self._client.set_terminated(run.run_id, "FINISHED", end_time=run.started + means.worked)
        self._runs.note("recipe", recipe_id(means.trial), replace(run, status="FINISHED", content=means.content))
