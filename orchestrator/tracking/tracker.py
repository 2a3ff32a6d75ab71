"""One sweep's way into MLflow: its parent run, its trials, its recipes, its report and its models.

Where they come from (data sets, sweep file, commit, environment), and where a user who opens MLflow should arrive: the
newest sweep, its trials side by side.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.checks import present
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.plugins import named
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.text import note
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking import server
from smoothsweep.orchestrator.tracking.recipes import (
    MEANS,
    RecipeMeans,
    candidates,
    recipe_id,
    recipe_means,
    register,
    table_json,
    trial_status,
    trial_tags,
    write_trial_files,
)
from smoothsweep.orchestrator.tracking.runs import (
    CONTENT,
    KIND,
    ORDER,
    PHASE,
    PLACES,
    POINTS,
    PROPOSAL,
    SEEDS,
    VERDICT_DIGEST,
    Runs,
    RunVerdict,
    Verdicts,
    already_gone,
    digest_of,
    finished_at,
    proposal_tags,
    recipe_params,
    run_name,
    strategy_tags,
    trial_points,
    work_ms,
    write,
    write_verdict,
)
from smoothsweep.orchestrator.tracking.server import artifact_folder, connect, follow, scratch
from smoothsweep.sweeps.expand import LoadedSweep
from smoothsweep.sweeps.load import MAX_BYTES, as_yaml

MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # the pages open on runs and their comparison
AT_MOST = 20  # experiments that are looked into


@dataclass(frozen=True, kw_only=True)
class SweepPages:
    """One sweep's pages. table, charts: their address from the server's root on."""

    sweep: str
    table: str
    charts: str


def list_sweep_pages(uri: str) -> list[SweepPages]:
    """The sweeps of a tracking store, the one that was worked on last first. InputError if there is no MLflow."""
    client = connect(uri)
    pages = []
    for experiment in client.search_experiments(max_results=AT_MOST, order_by=["last_update_time DESC"]):
        newest = {"max_results": 1, "order_by": ["attributes.start_time DESC"]}
        if runs := client.search_runs([experiment.experiment_id], f"tags.`{KIND}` = 'sweep'", **newest):
            pages.append((runs[0].info.start_time, experiment))
    return [
        SweepPages(sweep=page.name, table=route(page.experiment_id), charts=route(page.experiment_id, charts=True))
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


DIGEST = 32  # hex digits of the stage's fingerprint; MLflow takes at most 36 characters


def dataset_inputs(trial: Trial, store: Store) -> list[Any]:
    """Data sets of the trial's finished stages, each in its context: training, public, attack.

    The digest is the stage's fingerprint, so equal digests are equal images; the source is where they lie.
    """
    stages = with_ancestors(trial.stages)
    private = [stage.inputs["data"] for stage in trial.stages if stage.name in ("target", "imported")]
    public = [stage for stage in stages if stage.name == "public"]
    pools = [stage for stage in stages if stage.name == "pool"]
    datasets = []
    for context, members in (("training", private), ("public", public), ("attack", pools)):
        datasets += [_input(stage, store, context) for stage in dict.fromkeys(members) if store.has(stage)]
    return datasets


def _input(stage: Stage, store: Store, context: str) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    manifest = store.manifest(stage)
    facts = {key: int(value) if float(value).is_integer() else value for key, value in manifest["metrics"].items()}
    dataset = Dataset(
        name=_name(stage),
        digest=stage.fingerprint[:DIGEST],
        source_type="local",
        source=json.dumps({"uri": str(store.place(stage))}),
        schema=json.dumps(_schema(stage)),
        profile=json.dumps({**facts, "seconds": manifest["seconds"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _name(stage: Stage) -> str:
    """`synthetic, private`, `synthetic, public`, `candidate pool of eigenfaces`."""
    if stage.name == "pool":
        return f"candidate pool of {stage.inputs['prior'].config['kind']}"
    return f"{stage.config.get('kind', stage.name)}, {'private' if stage.name == 'data' else 'public'}"


def _schema(stage: Stage) -> dict[str, Any]:
    """Images as MLflow describes tensors; labels where there are any."""
    side = stage.config.get("image_size" if stage.name == "pool" else "size", -1)
    images = {"type": "tensor", "tensor-spec": {"dtype": "uint8", "shape": [-1, 3, side, side]}}
    if stage.name != "data":
        return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": None}}
    labels = {"type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1]}}
    return {"mlflow_tensorspec": {"features": json.dumps([images]), "targets": json.dumps([labels])}}


SHOWN = ("torch", "torchvision", "ray", "mlflow", "optuna", "numpy")


def commit() -> str | None:
    """The full commit of this source tree, None where there is no git."""
    if not (TREE / ".git").exists() or not shutil.which("git"):
        return None
    git = subprocess.run(["git", "-C", str(TREE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return git.stdout.strip() if git.returncode == 0 else None


def provenance_tags() -> dict[str, str]:
    """Commit and the versions that matter, as tags of the sweep's run."""
    tags = {"smoothsweep.python": platform.python_version(), "smoothsweep.platform": platform.platform()}
    here = {name.lower(): version for name, version in _installed().items()}
    tags.update({f"smoothsweep.{name}": here[name] for name in SHOWN if name in here})
    head = commit()
    return {**tags, **({"mlflow.source.git.commit": head} if head else {})}


def write_provenance(loaded: LoadedSweep, folder: Path) -> None:
    """sweep/ (the file as given; as run, overrides and defaults filled in) and environment/."""
    sweep, environment = folder / "sweep", folder / "environment"
    sweep.mkdir(parents=True)
    environment.mkdir(parents=True)
    sweep_file = Path(loaded.source)
    if sweep_file.is_file():
        write_file(sweep / "as_given.yaml", read_whole(sweep_file, most_bytes=MAX_BYTES), flush=False)
    for name, content in (("with_overrides", loaded.raw), ("resolved", loaded.sweep.model_dump(mode="json"))):
        write_file(sweep / f"{name}.yaml", as_yaml(content), flush=False)
    facts = {**provenance_tags(), "machine": platform.machine(), "cpus": allotted_cpus(), "host": platform.node()}
    write_file(environment / "environment.json", json.dumps(facts, indent=1), flush=False)
    packages = sorted((f"{name}=={version}" for name, version in _installed().items()), key=str.lower)
    write_file(environment / "packages.txt", "\n".join(packages) + "\n", flush=False)


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """Name -> version of every distribution, the first on the path of each name: each is a file to be parsed."""
    return dict(told for one in reversed(list(distributions())) if (told := named(one)) is not None)


NOTE = "mlflow.note.content"  # what MLflow's pages show as the description, in Markdown
TABLE_OF_SEEDS = '[{"path": "seeds.json", "type": "table"}]'
PRIMARY_METRIC = "mlflow.experiment.primaryMetric"
PRIMARY = {f"{PRIMARY_METRIC}.name": "test_acc", f"{PRIMARY_METRIC}.greaterIsBetter": "true"}
HOW_TO_COMPARE = (
    "To compare, filter by ``tags.`smoothsweep.kind` = 'recipe'`` (single seeds: `'trial'`), select runs, and press "
    "Compare; `smoothsweep ui` opens them so."
)
PASSES = 5  # over the means at a sweep's end, while other drivers write them too


@dataclass(frozen=True, kw_only=True)
class Closing:
    """What the end of a sweep writes: every trial that was given, the report's files and verdicts, how many trials
    failed. wall_s: how long the sweep was run, all its runs together; 0 where it was not measured."""

    trials: Sequence[Trial]
    files: Sequence[Path]
    failed: int
    verdicts: Verdicts = field(default_factory=Verdicts)
    wall_s: float = 0.0


class Tracker:
    """Writes one sweep into MLflow. Construction connects; InputError if there is no MLflow at the URI.

    Everything it does may be done again, by it or by another process, and then adds nothing.
    loaded: the sweep, whose file and environment are recorded.
    """

    def __init__(self, uri: str, *, store: Store, experiment: str, loaded: LoadedSweep) -> None:
        self.store, self.uri, self.experiment = store, uri, experiment
        self._loaded = loaded
        self._client = server.connect(uri, ours=uri == server.local_uri(store))
        self._remarks = follow(uri, store.root)
        self._experiment_id = self._open_experiment()
        self._runs = Runs(self._client, self._experiment_id)

    @property
    def page(self) -> str:
        """Where the sweep is compared, from the root of MLflow's pages on; empty where the URI is no such pages."""
        return route(self._experiment_id) if urlsplit(self.uri).scheme in ("http", "https") else ""

    def answers(self) -> bool:
        """Whether the tracking store can be reached now."""
        return server.answers(self.uri, self._client)

    def refresh(self) -> None:
        """Read anew what the server has: after a request that failed, which may have arrived all the same."""
        self._runs.read()

    def sweep_run(self, name: str, tags: dict[str, str]) -> str:
        """The parent run of this sweep: found by its tag, else created. Returns its id."""
        run = self._runs.get("sweep", name)
        tags = {"mlflow.source.name": "smoothsweep", **strategy_tags(self._loaded), **provenance_tags(), **tags}
        if run is None:
            run = self._runs.create("sweep", name, name, tags)
        elif run.status != "RUNNING":
            self._client.update_run(run.run_id, status="RUNNING")
        write(self._client, run.run_id, params={}, tags=tags, points=[])
        with scratch() as folder:
            write_provenance(self._loaded, folder)
            self._client.log_artifacts(run.run_id, str(folder))
        return run.run_id

    def record(self, trial: Trial, parent: str, failure: str | None = None) -> None:
        """Write everything known of the trial into its run. Calling it again changes nothing."""
        self.store.check_there()  # MLflow would make its folders anew
        self._runs.bring_back("trial", trial.id)
        run = self._runs.get("trial", trial.id)
        if run is not None and run.status == "FINISHED":
            return
        row = trial_row(trial, self.store, failure)
        points = trial_points(trial, row, self.store)
        params = {"seed": str(trial.seed), **recipe_params(trial, row)}
        worked, at = work_ms(trial, self.store), finished_at(trial, self.store)
        other = run is not None and any(run.params.get(key, value) != value for key, value in params.items())
        if run is not None and (other or run.tag(POINTS) != digest_of(points)):
            self._runs.drop("trial", trial.id)  # measured again since, or called otherwise; MLflow writes over nothing
            run = None
        name, started = run_name(trial, self._loaded), at - worked if at else None
        run = run or self._runs.create("trial", trial.id, name, {"mlflow.parentRunId": parent}, started)
        tags = {**trial_tags(trial, row, self.store), **strategy_tags(self._loaded), POINTS: digest_of(points)}
        write(self._client, run.run_id, params=params, tags=tags, points=points)
        inputs = dataset_inputs(trial, self.store)
        if inputs:
            self._client.log_inputs(run.run_id, datasets=inputs)
        with scratch() as folder:
            write_trial_files(trial, row, self.store, folder)
            self._client.log_artifacts(run.run_id, str(folder))
        if run.status in ("FAILED", "KILLED") and not row["failure"]:
            with already_gone():  # a driver that was killed left none, or another has removed it
                self._client.delete_tag(run.run_id, "smoothsweep.failure")
        status = trial_status(row)
        self._client.set_terminated(run.run_id, status, end_time=run.started + worked if at else None)
        self._runs.note("trial", trial.id, replace(run, status=status))

    def close_sweep(
        self, parent: str, closing: Closing, *, models: str = "none", progress: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Means, report, answer, models; then end the sweep's run. progress: called as things get written.

        Returns remarks for the user: artifacts that lie elsewhere, models that could not be exported.
        """
        self.store.check_there()
        self._runs.read()  # another driver may have written the same trials
        self._tag_proposals(closing.trials, progress)
        recipes = self._record_means(closing, parent, progress)
        present = {"trial": {t.id for t in closing.trials}, "recipe": {recipe_id(t) for t in closing.trials}}
        if retired := self._runs.retire(present):
            gone = "runs of trials that the sweep no longer has, by other settings, code or data, are no longer shown"
            self._remarks.append(f"MLflow: {retired} {gone}")
        self._write_verdicts(closing, progress)
        for path in closing.files:
            self._client.log_artifact(parent, str(path), "figures" if path.parent.name == "figures" else None)
            progress()
        verdicts = closing.verdicts
        of_sweep = [means for means in recipes if means.trial.phase == "sweep"]
        least = next((one for one in of_sweep if verdicts.least in {row["trial"] for row in one.rows}), None)
        text = "\n\n".join(filter(None, (verdicts.note, note(self._loaded.intro))))
        tags = {NOTE: text[:4900], "smoothsweep.recommended": least.label if least and verdicts.is_marked else ""}
        write(self._client, parent, params={}, tags=tags, points=[])
        self._write_sweep_verdict(closing, least)
        experiment = {NOTE: f"{text[:4400]}\n\n{HOW_TO_COMPARE}"}
        if (leak := verdicts.leak) is not None:
            greater = str(BY_KEY[leak].better == "high").lower()
            experiment |= {f"{PRIMARY_METRIC}.name": leak, f"{PRIMARY_METRIC}.greaterIsBetter": greater}
        for key, value in experiment.items():
            self._client.set_experiment_tag(self._experiment_id, key, value)
        if closing.trials and (inputs := dataset_inputs(closing.trials[0], self.store)):
            self._client.log_inputs(parent, datasets=inputs)
        progress()
        remarks = [*self._remarks, *self._register(of_sweep, verdicts, least, models, progress)]
        started = self._client.get_run(parent).info.start_time
        ended = started + int(1000 * closing.wall_s) if closing.wall_s else None  # pauses between runs are no work
        self._client.set_terminated(parent, "FAILED" if closing.failed else "FINISHED", end_time=ended)
        return remarks

    def _write_verdicts(self, closing: Closing, progress: Callable[[], None]) -> None:
        """What the report says of each recipe, on its run and on those of its trials, where they do not say it yet.

        Tags can be written over, numbers cannot: those of a sweep that is not whole wait until it is.
        """
        of_trials = closing.verdicts.of_trials
        for trial in closing.trials:
            verdict = of_trials.get(trial.id) if trial.phase == "sweep" else None
            if verdict is None:
                continue
            verdict = replace(verdict, numbers={}) if closing.failed else verdict
            order = {name: value for name, value in verdict.numbers.items() if name in PLACES}
            self._write_verdict("trial", trial.id, replace(verdict, numbers=order), finished_at(trial, self.store))
            self._write_verdict("recipe", recipe_id(trial), verdict, finished_at(trial, self.store))
            progress()

    def _write_sweep_verdict(self, closing: Closing, least: RecipeMeans | None) -> None:
        """Write on the sweep's own run the numbers of the recipe that the answer names, and every recipe's word."""
        at = max((finished_at(trial, self.store) for trial in closing.trials), default=0)
        of_sweep = RunVerdict(tags=closing.verdicts.whole)
        if least is not None:
            metrics = {key: v for key, v in least.metrics.items() if key in ("test_acc", closing.verdicts.leak)}
            verdict = closing.verdicts.of_trials.get(least.trial.id, RunVerdict())
            numbers = {key: value for key, value in verdict.numbers.items() if key != ORDER}
            numbers = {} if closing.failed else {**metrics, **numbers}
            of_sweep = RunVerdict(tags={**verdict.tags, **of_sweep.tags}, numbers=numbers)
        self._write_verdict("sweep", self.experiment, of_sweep, at)

    def _write_verdict(self, kind: str, fingerprint: str, verdict: RunVerdict, at: int) -> None:
        """Write the verdict to a run that does not hold it yet."""
        run = self._runs.get(kind, fingerprint)
        if run is not None and run.tag(VERDICT_DIGEST) != verdict.fingerprint:
            self._runs.note(kind, fingerprint, run, write_verdict(self._client, run, verdict, at=at))

    def _tag_proposals(self, trials: Iterable[Trial], progress: Callable[[], None]) -> None:
        """Which proposal of the search each trial belongs to, where its run does not say it yet."""
        by_id = {trial.id: trial for trial in trials}
        for trial_id, tags in proposal_tags(self._loaded, self.store).items():
            run = self._runs.get("trial", trial_id)
            if run is not None and run.tag(PROPOSAL) != tags[PROPOSAL]:
                if PHASE in tags and trial_id in by_id:
                    self._client.update_run(run.run_id, name=run_name(by_id[trial_id], self._loaded))
                write(self._client, run.run_id, params={}, tags=tags, points=[])
                self._runs.note("trial", trial_id, run, tags)
                progress()

    def _record_means(self, closing: Closing, parent: str, progress: Callable[[], None]) -> list[RecipeMeans]:
        """The means of every recipe, each in one run. Another driver may write them now, and one of two runs goes."""
        done = [trial for trial in closing.trials if all(self.store.has(stage) for stage in trial.stages)]
        means: list[RecipeMeans] = []
        for _ in range(PASSES):
            for trial in done:
                self.record(trial, parent)
            means = self._record_recipes(done, closing.verdicts.means, parent, progress)
            self._runs.read()
            if all(self._holds(one) for one in means):
                break
        return means

    def _record_recipes(
        self,
        trials: Iterable[Trial],
        told: Mapping[str, Mapping[str, float]],
        parent: str,
        progress: Callable[[], None],
    ) -> list[RecipeMeans]:
        """The means of every recipe over its finished trials, all of them written. progress: called after each."""
        recipes: dict[str, dict[int, Trial]] = {}
        for trial in trials:
            if trial.phase != "proxy":
                recipes.setdefault(recipe_id(trial), {})[trial.seed] = trial
        means = []
        for fingerprint, by_seed in recipes.items():
            self._runs.bring_back("recipe", fingerprint)
            known = told.get(next(iter(by_seed.values())).id, {})
            means.append(recipe_means(list(by_seed.values()), self.store, self._loaded, known))
            if not self._holds(means[-1]):
                self._record_recipe(fingerprint, means[-1], parent)
            progress()
        return means

    def _holds(self, means: RecipeMeans) -> bool:
        """Whether the recipe's run is finished with just these means."""
        run = self._runs.get("recipe", recipe_id(means.trial))
        return run is not None and run.status == "FINISHED" and run.tag(CONTENT) == means.content

    def _record_recipe(self, fingerprint: str, means: RecipeMeans, parent: str) -> None:
        """Write means where the recipe's run does not have them.

        New ones join the old ones, or a run begins anew: their step is the number of seeds, and no step holds two
        points. Those of a half-written run are the identical rows again.
        """
        run, seeds = self._runs.get("recipe", fingerprint), ", ".join(map(str, means.seeds))
        digest = digest_of(means.points)
        tags = {
            "smoothsweep.phase": means.trial.phase,
            NOTE: MEANS.format(seeds=seeds),
            "mlflow.loggedArtifacts": TABLE_OF_SEEDS,
        }
        if run is not None:
            same = run.tag(CONTENT) == means.content
            if run.tag(POINTS) != digest if same else len(run.tag(SEEDS).split()) >= len(means.seeds):
                self._runs.drop("recipe", fingerprint)
                run = None
        if run is None:
            of = {**tags, "mlflow.parentRunId": parent}
            run = self._runs.create("recipe", fingerprint, f"{means.label} · mean", of, means.at - means.worked)
        tags |= {CONTENT: means.content, POINTS: digest, SEEDS: seeds}
        write(self._client, run.run_id, params=means.params, tags=tags, points=means.points)
        self._client.log_text(run.run_id, table_json(means.rows), "seeds.json")
        self._client.set_terminated(run.run_id, "FINISHED", end_time=run.started + means.worked)
        self._runs.note("recipe", fingerprint, replace(run, status="FINISHED"), {CONTENT: means.content})

    def _register(
        self,
        recipes: Sequence[RecipeMeans],
        verdicts: Verdicts,
        least: RecipeMeans | None,
        which: str,
        progress: Callable[[], None],
    ) -> list[str]:
        def run_of(trial_id: str) -> str:
            return present(self._runs.get("trial", trial_id), "run").run_id

        wanted = [one for one in candidates(recipes, verdicts, which) if self._runs.get("trial", one.trial.id)]
        if not wanted:
            return []
        return register(
            self._client,
            self.experiment,
            wanted,
            recipes,
            recommended=least if verdicts.is_marked else None,
            run_of=run_of,
            store=self.store,
            progress=progress,
        )

    def _open_experiment(self) -> str:
        name = self.experiment
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            if experiment.lifecycle_stage != "active":
                self._client.restore_experiment(experiment.experiment_id)
            return experiment.experiment_id
        folder = artifact_folder(self.store.root, name)
        location = folder.as_uri() if self.uri.startswith("sqlite:") else None
        return self._client.create_experiment(name, artifact_location=location, tags={**MODEL_TRAINING, **PRIMARY})
