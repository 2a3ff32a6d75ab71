"""The runs of a sweep in MLflow: what they are called and hold, where it is from, how they are found again.

Params are the same for every recipe of every sweep; what a recipe does not have is left out, never written as None.
Numbers stand alone (`recipe_alpha`, `recipe_schedule_start`), because parallel coordinates need axes, not texts.
Metrics carry the names of the columns of results.parquet.
"""

from __future__ import annotations

import json
import math
import platform
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.checks import present
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.plugins import named
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.same_code import TREE
from smoothsweep.orchestrator.page.pictures import contact_sheet_png
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import cache_folder, locked
from smoothsweep.sweeps.expand import LoadedSweep
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import MAX_BYTES, as_yaml
from smoothsweep.sweeps.schema import InversionSweep

OF_TRAINING = ("image_size", "batch_size", "optimizer", "lr", "lr_schedule", "weight_decay", "precision")
TEXT_AT_MOST = 6000  # characters of a param's value; MLflow's limit
SHOWN_FIRST = ("embedder_acc1", "attack_acc1", "test_acc")  # MLflow plots the first metric of a run unasked
STRUCTURED = ("defense", "schedule")  # axes whose values have params of their own
KINDS = ("recipe_schedule", "recipe_defense")  # params that say an axis `kind`


def recipe_params(trial: Trial, row: dict[str, Any]) -> dict[str, str]:
    """Name -> value of everything that makes this trial what it is but its seed."""
    settings = trial.settings
    stated = {"protocol": settings.protocol, "prior": row.get("prior")}
    stated |= {k: v for k, v in row.items() if k.startswith("recipe_") and k != "recipe_defense_parameters"}
    if isinstance(settings, InversionSweep):
        if not isinstance(settings.recipe, ImportedClassifier):
            stated |= _training_params(settings)
        if settings.attack is not None:
            for key, value in settings.inverted_by.model_dump(mode="json", exclude_none=True).items():
                parts = {f"_{name}": part for name, part in value.items()} if isinstance(value, dict) else {"": value}
                stated |= {f"attack_{key}{name}": part for name, part in parts.items()}
            stated["attack_classes"] = "all" if settings.classes == "all" else len(settings.classes)
    params = {name: _text(value) for name, value in stated.items() if value is not None}
    axes = {name: _text(value) for name, value in trial.cell.axes.items() if value is not None}
    return {**{name: text for name, text in axes.items() if not _is_said(name, text, params)}, **params}


def _training_params(settings: InversionSweep) -> dict[str, Any]:
    """How the target is trained: optimizer, schedule of alpha, the defense's own parameters."""
    recipe, defense = settings.recipe, present(settings.recipe.defense, "defense")
    resolved, poison = defense.resolved(settings.protocol), {}
    if recipe.poison is not None:
        poison = recipe.poison.model_dump(mode="json", exclude_none=True, exclude={"kind"})
    held = {"schedule": resolved["schedule"], defense.kind: resolved.get("parameters", {}), "poison": poison}
    params = {f"recipe_{key}": getattr(recipe, key) for key in OF_TRAINING}
    params |= {f"recipe_{holder}_{key}": value for holder, values in held.items() for key, value in values.items()}
    params["recipe_schedule"] = params.pop("recipe_schedule_kind")
    return params


def _is_said(name: str, text: str, params: dict[str, str]) -> bool:
    """Whether an axis of the grid repeats a param: `alpha` beside `recipe_alpha`."""
    if name in STRUCTURED:
        return f"recipe_{name}" in params
    kinds = KINDS if name.endswith("kind") else ()
    same = (key for key, value in params.items() if value == text)
    return any(key == name or key.endswith(f"_{name}") or key in kinds for key in same)


def run_words(trial: Trial, loaded: LoadedSweep) -> str:
    """What tells the trial's cell from others, as the report calls it: `alpha -0.2 · attack loss Poincaré`."""
    if not isinstance(trial.settings, InversionSweep):
        words = [f"{name} {value}" for name, value in trial.cell.axes.items() if value is not None]
    else:
        axes, values = sweep_axes(loaded, [trial]), trial.cell.axes
        words = [label(axes, values) for label in (recipe_label, attack_label)]
    return ascii_text(" · ".join(filter(None, words))) or "the recipe"


def run_name(trial: Trial, loaded: LoadedSweep) -> str:
    """The name of a trial's run."""
    phase = [trial.phase] if trial.phase != "sweep" else []
    return " · ".join([run_words(trial, loaded), f"seed {trial.seed}", *phase])


def metrics_of(row: dict[str, Any]) -> dict[str, float]:
    """Name -> value of what was measured."""
    columns = dict.fromkeys((*SHOWN_FIRST, *BY_KEY, *TOY_COLUMNS, *TIME_COLUMNS))
    return {c: float(row[c]) for c in columns if row.get(c) is not None and math.isfinite(row[c])}


def _text(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        value = json.dumps(value)
    return str(value)[:TEXT_AT_MOST]


STRATEGY, PHASE = "smoothsweep.strategy", "smoothsweep.phase"
NO_CURVE = ("epoch", "seconds")  # every other column of a history is one, a defense's own facts included


def trial_points(trial: Trial, row: dict[str, Any], store: Store) -> list[Any]:
    """Every metric of the trial, each at the time when its last stage finished.

    Of a training effective alpha, losses, logit gap, accuracies by zero-based epoch; of the descents what was met along
    them, means over the classes, by zero-based step.
    """
    from mlflow.entities import Metric

    at = finished_at(trial, store)
    points = [Metric(name, value, at, 0) for name, value in metrics_of(row).items()]
    for stage in trial.stages:
        curves, gradients = stage.name == "target", stage.name == stage_that_draws("gradient_curves")
        if not (curves or gradients) or not store.has(stage):
            continue
        path = store.file(stage, "history.parquet" if curves else "gradients.parquet")
        if path is None:
            continue
        rows, at = read_rows(path), int(store.manifest(stage)["finished_at"] * 1000)
        if curves:
            rows = rows.melt("epoch", rows.columns.difference(NO_CURVE, sort=False))
            names, values, steps = "epoch/" + rows["variable"], rows["value"], rows["epoch"]
        else:
            names = "descent/gradients_" + rows["quantity"] + "_" + rows["loss"]
            values, steps = rows["mean"], rows["step"]
        points += [
            Metric(name, float(value), at, int(step))
            for name, value, step in zip(names, values, steps, strict=True)
            if value is not None and math.isfinite(value)
        ]
    return points


def finished_at(trial: Trial, store: Store) -> int:
    """When the last of its finished stages ended, in milliseconds; 0 before any has."""
    finished = [store.manifest(stage)["finished_at"] for stage in trial.stages if store.has(stage)]
    return int(max(finished, default=0) * 1000)


def work_ms(trial: Trial, store: Store) -> int:
    """How long its finished stages took, one after the other, in milliseconds; those that it shares with others too."""
    finished = [stage for stage in with_ancestors(trial.stages) if store.has(stage)]
    return int(1000 * sum(store.manifest(stage)["seconds"] for stage in finished))


TABLES = json.dumps([{"path": "result.json", "type": "table"}])  # what MLflow's pages show as a table


def trial_tags(trial: Trial, row: dict[str, Any], store: Store) -> dict[str, str]:
    """What runs are filtered by, beside their kind: phase, the code that made the numbers, why some are missing."""
    codes = dict.fromkeys(store.manifest(stage)["code_version"] for stage in trial.stages if store.has(stage))
    tags = {
        PHASE: trial.phase,
        "smoothsweep.reasons": row["reasons"],
        "smoothsweep.code": ", ".join(codes),
        "mlflow.loggedArtifacts": TABLES,
    }
    if row["failure"]:
        tags["smoothsweep.failure"] = row["failure"]
    return tags


def write_trial_files(trial: Trial, row: dict[str, Any], store: Store, folder: Path) -> None:
    """result.json (MLflow's table format), manifests.json, the rows by class, contact_sheet.png."""
    write_file(folder / "result.json", table_json([row]), flush=False)
    done = [stage for stage in trial.stages if store.has(stage)]
    manifests = {stage.name: store.manifest(stage) for stage in done}
    write_file(folder / "manifests.json", json.dumps(manifests, indent=1), flush=False)
    for stage in done:
        rows = store.file(stage, "per_class.parquet")
        if rows is not None:
            write_file(folder / f"{stage.name}_per_class.parquet", rows.read_bytes(), flush=False)
    sheet = contact_sheet_png(trial, store)
    if sheet is not None:
        write_file(folder / "contact_sheet.png", sheet, flush=False)


def table_json(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of the same columns as MLflow's pages read a table; what is not finite is null."""
    data = [[None if isinstance(v, float) and not math.isfinite(v) else v for v in row.values()] for row in rows]
    return json.dumps({"columns": list(rows[0]), "data": data})


SHOWN = ("torch", "torchvision", "ray", "mlflow", "optuna", "numpy")


def provenance_tags() -> dict[str, str]:
    """Commit and the versions that matter, as tags of the sweep's run."""
    tags = {"smoothsweep.python": platform.python_version(), "smoothsweep.platform": platform.platform()}
    here = {name.lower(): version for name, version in _installed().items()}
    tags.update({f"smoothsweep.{name}": here[name] for name in SHOWN if name in here})
    if (TREE / ".git").exists() and shutil.which("git"):
        git = subprocess.run(["git", "-C", str(TREE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        tags |= {"mlflow.source.git.commit": git.stdout.strip()} if git.returncode == 0 else {}
    return tags


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


KIND = "smoothsweep.kind"
KEYS = {"sweep": "smoothsweep.sweep", "trial": "smoothsweep.trial", "recipe": "smoothsweep.recipe"}
CONTENT = "smoothsweep.content"  # of a recipe's run: which trials its means are over
SEEDS = "smoothsweep.seeds"  # that the means are over
PARENT = "mlflow.parentRunId"
PAGE = 500
NOTHING: Mapping[str, str] = {}
PER_CALL, OTHERS_PER_CALL = 800, 100  # metrics, params and tags: MLflow takes 1,000 in all, 100 of each of the others


def pages(search: Callable[..., Any], *asked: Any, **options: Any) -> Iterator[Any]:
    """Everything that one of the client's searches finds, a page at a time."""
    token = None
    while True:
        page = search(*asked, page_token=token, **options)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def already_gone() -> Generator[None]:
    """Take what is to be deleted, and is not there, for deleted: by another driver, or before a kill."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


@dataclass(kw_only=True)
class StoredRun:
    """A run that exists, as the server had it when it was read, with the tags that were written since.

    Attributes:
        status: RUNNING, FINISHED, FAILED or KILLED.
        started: Time of its start, in milliseconds.
    """

    run_id: str
    status: str
    started: int
    tags: dict[str, str] = field(default_factory=dict)


class Runs:
    """kind ("sweep" | "trial" | "recipe") and fingerprint -> run. Read once; `read` again after a failure.

    A request that seemed lost may yet have created its run, and drivers on two machines may both have created one.
    Reading keeps one of them, a finished one before others and then the oldest, and deletes the rest.
    """

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id
        self._known: dict[tuple[str, str], StoredRun] = {}
        self.read()

    def get(self, kind: str, fingerprint: str) -> StoredRun | None:
        return self._known.get((kind, fingerprint))

    @contextmanager
    def alone(self, kind: str, fingerprint: str) -> Generator[None]:
        """One process of this machine at a time, which knows the run as the server has it: nobody creates it twice."""
        place = sha256(f"{self._experiment_id} {kind} {fingerprint}".encode()).hexdigest()[:16]
        with locked(cache_folder(), f"mlflow.{place}"):
            self._known.pop((kind, fingerprint), None)
            self.read(f"tags.`{KEYS[kind]}` = '{fingerprint}'")
            yield

    def read(self, only: str = "") -> None:
        """What the server has now: a few hundred bytes per run. only: MLflow's filter, where not all is read."""
        known: dict[tuple[str, str], StoredRun] = {}
        doubles: dict[str, str] = {}  # run that is one too many -> the one that is kept
        parents: dict[str, str] = {}  # run -> its parent
        oldest_first = {"filter_string": only, "max_results": PAGE, "order_by": ["attributes.start_time ASC"]}
        for run in pages(self._client.search_runs, [self._experiment_id], **oldest_first):
            info, data = run.info, run.data
            new = StoredRun(run_id=info.run_id, status=info.status, started=info.start_time, tags=dict(data.tags))
            parents[new.run_id] = new.tags.get(PARENT, "")
            for kind, key in KEYS.items():
                if key in new.tags and (old := known.setdefault((kind, new.tags[key]), new)) is not new:
                    kept, other = (new, old) if new.status == "FINISHED" != old.status else (old, new)
                    known[kind, new.tags[key]], doubles[other.run_id] = kept, kept.run_id
        for child, parent in parents.items():
            if child in doubles:
                with already_gone():
                    self._client.delete_run(child)
            elif parent in doubles:
                self._client.set_tag(child, PARENT, doubles[parent])
        self._known = {**self._known, **known} if only else known

    def create(
        self, kind: str, fingerprint: str, name: str, tags: dict[str, str], started: int | None = None
    ) -> StoredRun:
        """A new run with these tags, in one transaction. started: when its work began, in milliseconds; None: now."""
        tags = {KIND: kind, KEYS[kind]: fingerprint, "mlflow.runName": name, **tags}
        run = self._client.create_run(self._experiment_id, start_time=started, tags=tags)
        stored = StoredRun(run_id=run.info.run_id, status="RUNNING", started=run.info.start_time)
        self._known[kind, fingerprint] = stored
        return stored

    def write(
        self, run: StoredRun, tags: Mapping[str, str], params: Mapping[str, str] = NOTHING, points: Sequence[Any] = ()
    ) -> None:
        """Write into a run in as few calls as MLflow's limits allow, mostly one."""
        from mlflow.entities import Param, RunTag

        told = [RunTag(key, value[:4900]) for key, value in tags.items()], [Param(*each) for each in params.items()]
        parts = max(-(-len(points) // PER_CALL), *(-(-len(each) // OTHERS_PER_CALL) for each in told))
        for part in range(parts):
            some = slice(part * OTHERS_PER_CALL, (part + 1) * OTHERS_PER_CALL)
            metrics = points[part * PER_CALL : (part + 1) * PER_CALL]
            self._client.log_batch(run.run_id, metrics=metrics, params=told[1][some], tags=told[0][some])
        run.tags.update(tags)

    def end(self, run: StoredRun, status: str, *, at: int | None) -> None:
        """End a run. at: milliseconds since 1970, None for now."""
        self._client.set_terminated(run.run_id, status, end_time=at)
        run.status = status

    def drop(self, kind: str, fingerprint: str) -> None:
        """Delete a run, to start over."""
        stored = self._known.pop((kind, fingerprint), None)
        if stored is not None:
            with already_gone():
                self._client.delete_run(stored.run_id)
