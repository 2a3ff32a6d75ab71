"""One sweep's way into MLflow: its parent run, its trials, its recipes, its report and its models; and to its pages.

Of MLflow the driver alone writes, and everything once: in one experiment per sweep name there is one parent run for the
sweep, one child run per trial, and one child run per recipe that holds the means over its seeds. Every run is found
again by a fingerprint among its tags, and every point is written with the time its stage finished: written a second
time (after a kill, say) it is the identical row, which MLflow drops. Only this folder imports mlflow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import note
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.result.sweep_result import SweepResult
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking import server
from smoothsweep.orchestrator.tracking.runs import (
    LOOK,
    MEANS,
    ORDER,
    PHASE,
    PLACES,
    STRATEGY,
    VERDICT,
    VERDICT_DIGEST,
    VERDICT_NUMBERS,
    RecipeMeans,
    RunVerdict,
    Verdicts,
    candidates,
    finished_at,
    provenance_tags,
    recipe_id,
    recipe_means,
    recipe_params,
    register,
    run_name,
    table_json,
    trial_points,
    trial_tags,
    verdicts_of,
    work_ms,
    write_provenance,
    write_trial_files,
)
from smoothsweep.orchestrator.tracking.server import (
    CONTENT,
    KIND,
    PARENT,
    SEEDS,
    Runs,
    artifact_folder,
    connect,
    follow,
    scratch,
)
from smoothsweep.sweeps.expand import LoadedSweep

MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # the pages open on runs and their comparison
AT_MOST = 20  # experiments that are looked into


def list_sweep_pages(uri: str) -> list[tuple[str, str, str]]:
    """The sweeps of a tracking store, each with the address of its table and of its charts from the server's root on;
    the one that was worked on last first. InputError if there is no MLflow."""
    client = connect(uri)
    pages = []
    for experiment in client.search_experiments(max_results=AT_MOST, order_by=["last_update_time DESC"]):
        newest = {"max_results": 1, "order_by": ["attributes.start_time DESC"]}
        if runs := client.search_runs([experiment.experiment_id], f"tags.`{KIND}` = 'sweep'", **newest):
            pages.append((runs[0].info.start_time, experiment))
    return [
        (page.name, route(page.experiment_id), route(page.experiment_id, charts=True))
        for _, page in sorted(pages, key=lambda pair: -pair[0])
    ]


def route(experiment_id: str, *, charts: bool = False) -> str:
    """Where the trials lie on any MLflow server, from its root on: as a table, the least leak first, or as charts."""
    query = {
        "searchFilter": f"tags.`{KIND}` = 'trial'",
        "orderByKey": f"metrics.`{ORDER}`",
        "orderByAsc": "true",
        "workflowType": "machine_learning",
        "compareRunsMode": "CHART" if charts else "TABLE",
    }
    return f"/#/experiments/{experiment_id}/runs?{urlencode(query)}"


NOTE = "mlflow.note.content"  # what MLflow's pages show as the description, in Markdown
TABLE_OF_SEEDS = '[{"path": "seeds.json", "type": "table"}]'
HOW_TO_COMPARE = (
    "To compare, filter by ``tags.`smoothsweep.kind` = 'recipe'`` (single seeds: `'trial'`), select runs, and press "
    "Compare; `smoothsweep ui` opens them so."
)
PASSES = 5  # over the means at a sweep's end, while other drivers write them too


class Tracker:
    """Writes one sweep into MLflow. Construction connects; InputError if there is no MLflow at the URI.

    Everything it does may be done again, by it or by another process, and then adds nothing.
    loaded: the sweep, whose file and environment are recorded. progress: called as the end of a sweep gets written.
    """

    def __init__(self, uri: str, *, store: Store, experiment: str, loaded: LoadedSweep) -> None:
        self.store, self.uri, self.experiment = store, uri, experiment
        self.progress: Callable[[], None] = lambda: None
        self._loaded, search = loaded, loaded.sweep.search
        self._strategy = search.strategy if search else "grid"
        self._client = server.connect(uri, ours=uri == server.local_uri(store))
        follow(uri, store.root)
        self._experiment_id = self._open_experiment()
        self._runs = Runs(self._client, self._experiment_id)

    @property
    def page(self) -> str:
        """Where the sweep is compared, from the root of MLflow's pages on; empty where the URI is no such pages."""
        return route(self._experiment_id) if urlsplit(self.uri).scheme in ("http", "https") else ""

    def answers(self) -> bool:
        """Whether the tracking store can be reached now."""
        return server.answers(self._client)

    def refresh(self) -> None:
        """Read anew what the server has: after a request that failed, which may have arrived all the same."""
        self._runs.read()

    def sweep_run(self, name: str, tags: dict[str, str]) -> str:
        """The parent run of this sweep: found by its tag, else created. Returns its id."""
        tags = {"mlflow.source.name": "smoothsweep", STRATEGY: self._strategy, **provenance_tags(), **tags}
        with self._runs.alone("sweep", name), scratch() as folder:
            run = self._runs.get("sweep", name) or self._runs.create("sweep", name, name, tags)
            if run.status != "RUNNING":
                self._client.update_run(run.run_id, status="RUNNING")
            self._runs.write(run, tags)
            write_provenance(self._loaded, folder)
            self._client.log_artifacts(run.run_id, str(folder))
        return run.run_id

    def record(self, trial: Trial, parent: str, failure: str | None = None) -> None:
        """Write everything known of the trial into its run. Calling it again changes nothing."""
        self.store.check_there()  # MLflow would make its folders anew
        if not self._is_finished(trial):
            with self._runs.alone("trial", trial.id):
                if not self._is_finished(trial):
                    self._record_trial(trial, parent, failure)

    def _is_finished(self, trial: Trial) -> bool:
        run = self._runs.get("trial", trial.id)
        return run is not None and run.status == "FINISHED"

    def _record_trial(self, trial: Trial, parent: str, failure: str | None) -> None:
        """Write it into a new run. One that is there goes: the trial had failed, or its recorder was killed; MLflow
        writes over nothing."""
        self._runs.drop("trial", trial.id)
        row, name = trial_row(trial, self.store, failure), run_name(trial, self._loaded)
        worked, at = work_ms(trial, self.store), finished_at(trial, self.store)
        run = self._runs.create("trial", trial.id, name, {PARENT: parent}, at - worked if at else None)
        tags = {**trial_tags(trial, row, self.store), STRATEGY: self._strategy}
        params = {"seed": str(trial.seed), **recipe_params(trial, row)}
        self._runs.write(run, tags, params, trial_points(trial, row, self.store))
        with scratch() as folder:
            write_trial_files(trial, row, self.store, folder)
            self._client.log_artifacts(run.run_id, str(folder))
        stopped = (row["failure"] or "stopped").startswith("stopped")  # on purpose: open, not failed
        status = "FINISHED" if row["status"] == "done" else "KILLED" if stopped else "FAILED"
        self._runs.end(run, status, at=run.started + worked if at else None)

    def close_sweep(
        self,
        parent: str,
        trials: Sequence[Trial],
        *,
        files: Sequence[Path] = (),
        failed: int = 0,
        result: SweepResult | None = None,
        wall_s: float = 0.0,
        models: str = "none",
    ) -> list[str]:
        """Means, report, answer, models; then end the sweep's run. Returns remarks on models that cannot be exported.

        Args:
            trials: Every one of the sweep, of which so many `failed`.
            files: Of the report.
            result: None where trials are no recipes of classifiers.
            wall_s: How long the sweep was run, all its runs together; 0 where it was not measured.
        """
        self.store.check_there()
        self._runs.read()  # another driver may have written the same trials
        verdicts = Verdicts() if result is None else verdicts_of(result)
        self._tell_phases(trials)
        recipes = self._record_means(trials, verdicts.means, parent)
        of_sweep = [means for means in recipes if means.trial.phase == "sweep"]
        least = [one for one in of_sweep for row in one.rows if row["trial"] in verdicts.ranked[:1]]
        self._write_verdicts(trials, verdicts, least, whole=not failed)
        for path in files:
            self._client.log_artifact(parent, str(path), "figures" if path.parent.name == "figures" else None)
            self.progress()
        best = least[0] if least and verdicts.is_marked else None
        text = "\n\n".join(filter(None, (verdicts.note, note(self._loaded.intro))))
        tags = {NOTE: text[:4900], "smoothsweep.recommended": best.label if best else ""}
        self._runs.write(present(self._runs.get("sweep", self.experiment), "run"), tags)
        experiment = {NOTE: f"{text[:4400]}\n\n{HOW_TO_COMPARE}"}
        if (leak := verdicts.leak) is not None:
            experiment |= _primary_metric(leak, higher=BY_KEY[leak].better == "high")
        for key, value in experiment.items():
            self._client.set_experiment_tag(self._experiment_id, key, value)
        self.progress()
        ids = {trial.id: run.run_id for trial in trials if (run := self._runs.get("trial", trial.id))}
        wanted = [one for one in candidates(of_sweep, verdicts, models) if one.trial.id in ids]
        problems = register(self._client, self.experiment, wanted, best, ids, self.store, self.progress)
        started = self._client.get_run(parent).info.start_time
        ended = started + int(1000 * wall_s) if wall_s else None  # pauses between runs are no work
        self._client.set_terminated(parent, "FAILED" if failed else "FINISHED", end_time=ended)
        return problems

    def _write_verdicts(
        self, trials: Iterable[Trial], verdicts: Verdicts, least: Sequence[RecipeMeans], *, whole: bool
    ) -> None:
        """What the report says of each recipe, on its run and on those of its trials, where they do not say it yet; on
        the sweep's own run that of the recipe that leaks least, with its numbers.

        Tags can be written over, numbers cannot: those of a sweep that is not whole wait until it is.
        """
        nothing = RunVerdict({}, {})
        for trial in trials:
            if trial.phase == "sweep" and (told := verdicts.of_trials.get(trial.id)):
                numbers, at = told.numbers if whole else {}, finished_at(trial, self.store)
                places = {name: value for name, value in numbers.items() if name in PLACES}
                self._write_verdict("trial", trial.id, told.tags, places, at)
                self._write_verdict("recipe", recipe_id(trial), told.tags, numbers, at)
                self.progress()
        told, numbers = nothing, {}
        for one in least[:1]:
            told = verdicts.of_trials.get(one.trial.id, nothing)
            numbers = {key: value for key, value in one.metrics.items() if key in ("test_acc", verdicts.leak)}
            numbers |= {key: value for key, value in told.numbers.items() if key != ORDER}
        at = max((finished_at(trial, self.store) for trial in trials), default=0)
        self._write_verdict("sweep", self.experiment, told.tags, numbers if whole else {}, at)

    def _write_verdict(
        self, kind: str, fingerprint: str, tags: Mapping[str, str], numbers: Mapping[str, float], at: int
    ) -> None:
        """Replace the verdict of a run that does not hold it yet. at: milliseconds since 1970.

        A number that has changed is a further point of its metric: no step holds two. What the run holds is read from a
        tag of ours, never from its metrics.
        """
        from mlflow.entities import Metric

        run = self._runs.get(kind, fingerprint)
        digest = sha256(json.dumps([tags, numbers], sort_keys=True).encode()).hexdigest()[:12]
        if run is None or run.tags.get(VERDICT_DIGEST) == digest:
            return
        held: dict[str, list[Any]] = json.loads(run.tags.get(VERDICT_NUMBERS) or "{}")
        points = []
        for name, value in numbers.items():
            step, before = held.get(name, (-1, None))
            if value != before:
                held[name] = [step + 1, value]
                points.append(Metric(name, value, at, step + 1))
        blank = dict.fromkeys((VERDICT, LOOK), "") if run.tags.get(VERDICT_DIGEST) else {}
        now = {VERDICT_DIGEST: digest, VERDICT_NUMBERS: json.dumps(held, sort_keys=True)}
        self._runs.write(run, {**blank, **tags, **now}, points=points)

    def _tell_phases(self, trials: Iterable[Trial]) -> None:
        """A trial of a recipe that met more seeds later is one of the sweep's, and its older run says otherwise."""
        for trial in trials:
            run = self._runs.get("trial", trial.id)
            if run is not None and run.tags.get(PHASE) != trial.phase:
                self._client.update_run(run.run_id, name=run_name(trial, self._loaded))
                self._runs.write(run, {PHASE: trial.phase})
                self.progress()

    def _record_means(
        self, trials: Iterable[Trial], told: Mapping[str, Mapping[str, float]], parent: str
    ) -> list[RecipeMeans]:
        """The means of every recipe over its finished trials, each in one run. Another driver may write them now, and
        one of two runs goes: then again."""
        done = [trial for trial in trials if all(self.store.has(stage) for stage in trial.stages)]
        recipes: dict[str, dict[int, Trial]] = {}
        for trial in done:
            if trial.phase != "proxy":
                recipes.setdefault(recipe_id(trial), {})[trial.seed] = trial
        groups = [list(by_seed.values()) for by_seed in recipes.values()]
        means = [recipe_means(group, self.store, self._loaded, told.get(group[0].id, {})) for group in groups]
        for _ in range(PASSES):
            for trial in done:
                self.record(trial, parent)
            for one in means:
                if not self._holds(one):
                    with self._runs.alone("recipe", one.id):
                        if not self._holds(one):
                            self._record_recipe(one, parent)
                self.progress()
            self._runs.read()
            if all(map(self._holds, means)):
                break
        return means

    def _holds(self, means: RecipeMeans) -> bool:
        """Whether the recipe's run is finished with just these means."""
        run = self._runs.get("recipe", means.id)
        return run is not None and run.status == "FINISHED" and run.tags.get(CONTENT) == means.content

    def _record_recipe(self, means: RecipeMeans, parent: str) -> None:
        """Write means into a new run, in the place of one that holds those of fewer seeds, or was not finished."""
        from mlflow.entities import Metric

        self._runs.drop("recipe", means.id)
        seeds, name = ", ".join(str(trial.seed) for trial in means.trials), f"{means.label} · mean"
        run = self._runs.create("recipe", means.id, name, {PARENT: parent}, means.at - means.worked)
        tags = {PHASE: means.trial.phase, NOTE: MEANS.format(seeds=seeds), "mlflow.loggedArtifacts": TABLE_OF_SEEDS}
        points = [Metric(name, value, means.at, len(means.trials)) for name, value in means.metrics.items()]
        self._runs.write(run, {**tags, CONTENT: means.content, SEEDS: seeds}, means.params, points)
        self._client.log_text(run.run_id, table_json(means.rows), "seeds.json")
        self._runs.end(run, "FINISHED", at=run.started + means.worked)

    def _open_experiment(self) -> str:
        name = self.experiment
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            if experiment.lifecycle_stage != "active":
                self._client.restore_experiment(experiment.experiment_id)
            return experiment.experiment_id
        folder = artifact_folder(self.store.root, name)
        location = folder.as_uri() if self.uri.startswith("sqlite:") else None
        tags = {**MODEL_TRAINING, **_primary_metric("test_acc", higher=True)}
        return self._client.create_experiment(name, artifact_location=location, tags=tags)


def _primary_metric(name: str, *, higher: bool) -> dict[str, str]:
    """Tags of an experiment: what MLflow's pages put first, and whether more of it is better."""
    key = "mlflow.experiment.primaryMetric"
    return {f"{key}.name": name, f"{key}.greaterIsBetter": str(higher).lower()}
