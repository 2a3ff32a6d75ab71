"""The runs of a sweep in MLflow: what they are called and hold, of a trial and of a recipe's means, and where it is
from; what the report says of them; targets as registered models.

Params are the same for every recipe of every sweep; what a recipe does not have is left out, never written as None.
Numbers stand alone (`recipe_alpha`, `recipe_schedule_start`), because parallel coordinates need axes, not texts.
Metrics carry the names of the columns of results.parquet.

What is said of a recipe stands on its runs: tags to filter and colour by, numbers to sort by. A verdict needs the whole
sweep, so that it is younger than the runs. It is written when the report is, and again where a run does not say it yet
(MLflow was away, the run was made anew, further seeds have changed it).

A sweep is one registered model, with a version per recipe worth taking, its leak beside it.
"""

from __future__ import annotations

import json
import math
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.checks import present
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY, METRICS, TIME_COLUMNS, TOY_COLUMNS, metric_of
from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.plugins import named
from smoothsweep.core.readers.files import read_whole
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.same_code import TREE
from smoothsweep.orchestrator.page.pictures import contact_sheet_png
from smoothsweep.orchestrator.page.tables import markdown_table, tables_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.rows import sweep_axes, trial_row
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.server import already_gone, pages, scratch
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


VERDICT_DIGEST = "smoothsweep.told"  # fingerprint of the report's verdict that the run holds
VERDICT_NUMBERS = "smoothsweep.told_numbers"  # its numbers with their steps, as JSON
VERDICT = "smoothsweep.verdict"  # of the recipe, whatever the run's attack: a word of `wording.WORDING`, or baseline
LOOK = "smoothsweep.look"  # of a sweep with looks: at which look the recipe was decided, or that it is not
STRONGEST = "leak_strongest"
"""The leak of a recipe under the attack that works best against it, the same on its runs under every attack."""
ORDER = "leak_order"
"""1 for the run that a table shows first: recipes from the smallest leak to the largest, each with its strongest attack
before the others. MLflow's pages sort by one column alone."""
PLACES = (STRONGEST, ORDER)  # that runs of trials hold, too
NUMBERS = (STRONGEST, "reduction", "reduction_low", "reduction_high", "hidden", "hidden_low", "hidden_high")


class RunVerdict(NamedTuple):
    """A verdict as one run of MLflow holds it. numbers: metric -> value, in the unit of the leak."""

    tags: dict[str, str]
    numbers: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a result says, for the runs of its sweep.

    Attributes:
        of_trials: Trial -> the verdict on its recipe under its attack, the same for all seeds.
        means: Trial -> the means of its recipe under its attack over the seeds, with their intervals.
        note: What the sweep's run is described by, in Markdown: the report's first sentence and its table.
        leak: The metric that decides; None where no leak was measured.
        ranked: A trial of every accurate enough recipe under the attack that works best against it, least leak first.
        front: Those that no other recipe beats in both accuracy and leak, most accurate first.
        is_marked: Whether the report marks the first of them as leaking least.
    """

    of_trials: Mapping[str, RunVerdict] = field(default_factory=dict)
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    leak: str | None = None
    ranked: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    is_marked: bool = False


def verdicts_of(result: SweepResult) -> Verdicts:
    """What the result says of every trial that it counts."""
    note = ascii_text(f"{result.sentences['answer'][0]}\n\n{markdown_table(tables_of(result)[0])}")
    names = [name for name in BY_KEY if name in result.attacks]
    names += [f"{name}{end}" for name in names if BY_KEY[name].better for end in ("_low", "_high")]
    means = {
        trial: {**_finite({name: row[name] for name in names}), "n_seeds": float(row["n"])}
        for row in rows_of(result.attacks)
        for trial in row["trials"]
    }
    facts, of_trials, strongest = result.facts, {}, {}
    if (leak := facts["leak"]) is None:
        return Verdicts(note=note, means=means)
    recipes = {row["recipe"]: row for row in rows_of(result.recipes)}
    for row in rows_of(result.attacks[~result.attacks["control"].astype(bool)]):
        recipe = recipes[row["recipe"]]
        if row["attack"] == recipe["attack"]:
            strongest[row["recipe"]] = row["trials"][0]
        own = row["verdict"] if facts["by_setting"] else None
        tags = {VERDICT: "baseline" if row["is_baseline"] else recipe["verdict"] or own, LOOK: recipe["look"]}
        numbers = {name: recipe.get(name) for name in NUMBERS if name != STRONGEST}
        numbers |= {ORDER: row["place"], STRONGEST: None if recipe["attack"] is None else recipe[leak]}
        verdict = RunVerdict({key: value for key, value in tags.items() if value}, _finite(numbers))
        of_trials |= dict.fromkeys(row["trials"] if any(verdict) else (), verdict)
    sign = metric_of(str(leak)).sign
    ranked = sorted((name for name in strongest if recipes[name]["is_accurate"]), key=lambda n: sign * recipes[n][leak])
    return Verdicts(
        of_trials=of_trials,
        means=means,
        note=note,
        leak=str(leak),
        ranked=tuple(strongest[name] for name in ranked),
        front=tuple(strongest[name] for name in facts["front"] if name in ranked),
        is_marked=facts["best_mark"] is not None,
    )


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if not is_null(value) and math.isfinite(value)}


MEANS = (
    "Means over the seeds {seeds}. `_low` and `_high`: 95 % intervals, of rates Wilson's over seeds and, where "
    "hit rates by class are known, over classes, else Student's t over seeds."
)


@dataclass(frozen=True, kw_only=True)
class RecipeMeans:
    """What a recipe's run holds.

    Attributes:
        id: Fingerprint of the recipe, see `recipe_id`.
        trials, rows: Of the finished trials, in the order of their seeds.
        metrics: Name -> mean, with name_low and name_high where one direction is better, and n_seeds.
        content: Fingerprint of the trials the means are over.
        at: When the last of them finished, in milliseconds.
        worked: How long the trials' stages took, one after the other, in milliseconds.
    """

    id: str
    label: str
    trials: tuple[Trial, ...]
    rows: tuple[dict[str, Any], ...]
    params: dict[str, str]
    metrics: dict[str, float]
    content: str
    at: int
    worked: int

    @property
    def trial(self) -> Trial:
        """The first of them."""
        return self.trials[0]


def recipe_id(trial: Trial) -> str:
    """Fingerprint of the recipe, attack and judges included, whatever the seed: the trial's own under seed 0."""
    without_seed = Trial(cell=trial.cell, seed=0).id
    return without_seed if trial.phase == "sweep" else f"{without_seed}-{trial.phase}"


def recipe_means(trials: Sequence[Trial], store: Store, loaded: LoadedSweep, told: Mapping[str, float]) -> RecipeMeans:
    """The means of one recipe over its finished trials, at least one of them.

    loaded: the sweep, for their words. told: what the result says of the recipe, left out where it is of other trials;
    of what it does not know, as times and trials of a second audit, the mean is without an interval.
    """
    trials = sorted(trials, key=lambda trial: trial.seed)
    rows = [trial_row(trial, store) for trial in trials]
    measured, told = [metrics_of(row) for row in rows], told if told.get("n_seeds") == len(trials) else {}
    metrics: dict[str, float] = {}
    for name in dict.fromkeys(name for row in measured for name in row):
        values = [row[name] for row in measured if name in row]
        metrics[name] = told.get(name, math.fsum(values) / len(values))
        metrics |= {key: told[key] for key in (f"{name}_low", f"{name}_high") if key in told}
    return RecipeMeans(
        id=recipe_id(trials[0]),
        label=run_words(trials[0], loaded),
        trials=tuple(trials),
        rows=tuple(rows),
        params=recipe_params(trials[0], rows[0]),
        metrics={**metrics, "n_seeds": float(len(trials))},
        content=sha256(" ".join(sorted(trial.id for trial in trials)).encode()).hexdigest()[:12],
        at=max(finished_at(trial, store) for trial in trials),
        worked=sum(work_ms(trial, store) for trial in trials),
    )


AT_MOST = 5  # models per sweep under `frontier`
EXPORT_S = 900  # for all of them
ALIAS = "recommended"
TAG_TRIAL = "smoothsweep.trial"


def candidates(recipes: Sequence[RecipeMeans], verdicts: Verdicts, which: str) -> list[RecipeMeans]:
    """The recipes to register, least leak first. which: `frontier` (not beaten in both; AT_MOST), `all`, `none`.

    Of every recipe the first seed's target; a target brought in is not registered: it is the user's already.
    """
    by_trial = {row["trial"]: means for means in recipes for row in means.rows}
    trials = {"all": verdicts.ranked, "frontier": verdicts.front[-AT_MOST:][::-1], "none": ()}[which]
    if which == "frontier" and verdicts.is_marked and verdicts.ranked[0] not in trials:
        trials = (verdicts.ranked[0], *trials)[:AT_MOST]
    chosen = [by_trial[trial] for trial in trials if trial in by_trial]
    return [one for one in chosen if any(stage.name == "target" for stage in one.trial.stages)]


def register(
    client: Any,
    name: str,
    wanted: Sequence[RecipeMeans],
    recommended: RecipeMeans | None,
    runs: Mapping[str, str],
    store: Store,
    progress: Callable[[], None],
) -> list[str]:
    """Export and register what the registry does not have yet; move the alias. Returns what could not be exported.

    runs: trial id -> the run that a model belongs to. progress: called as long as it goes on. Calling it again adds
    nothing.
    """
    if not wanted:
        return []
    versions = _registered(client, name)
    missing = [recipe for recipe in wanted if recipe.trial.id not in versions]
    problems: list[str] = []
    if missing:
        with scratch() as folder:
            for recipe, out, error in _exported(missing, store, folder, progress):
                if error:
                    problems.append(f"{recipe.label}: {error}")
                else:
                    run_id = runs[recipe.trial.id]
                    client.log_artifacts(run_id, str(out), "model")
                    client.create_model_version(
                        name,
                        source=f"runs:/{run_id}/model",
                        run_id=run_id,
                        tags=_tags(recipe),
                        description=recipe.label,
                        await_creation_for=0,
                    )
        versions = _registered(client, name)  # of two drivers, the last one to write sees both versions
    for recipe in wanted:
        version = versions.get(recipe.trial.id)
        if version is not None and recipe not in missing:  # further seeds have changed the means
            for key, value in _tags(recipe).items():
                client.set_model_version_tag(name, version, key, value)
    best = recommended and versions.get(recommended.trial.id)
    if best:
        client.set_registered_model_alias(name, ALIAS, best)
    return problems


def _registered(client: Any, name: str) -> dict[str, str]:
    """Trial id -> version of what the registry has under this name, which is made if need be.

    Two drivers may both have entered a trial: the first version is kept, and the others are deleted unless a user
    has given them an alias.
    """
    from mlflow.exceptions import MlflowException

    if not client.search_registered_models(f"name = '{name}'", max_results=1):
        description = f"Targets of the sweep {name}: images [N, 3, S, S] in [-1, 1] to logits [N, classes]."
        try:
            client.create_registered_model(name, tags={"smoothsweep.sweep": name}, description=description)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # by another driver, meanwhile
                raise
    versions: dict[str, list[int]] = {}
    for version in pages(client.search_model_versions, f"name = '{name}'", max_results=200):
        if TAG_TRIAL in version.tags:
            versions.setdefault(version.tags[TAG_TRIAL], []).append(int(version.version))
    doubles = [number for numbers in versions.values() for number in sorted(numbers)[1:]]
    if doubles:
        aliases = client.get_registered_model(name).aliases  # alias -> version
        kept = {int(number) for alias, number in aliases.items() if alias != ALIAS}
        for number in sorted(set(doubles) - kept):
            with already_gone():
                client.delete_model_version(name, str(number))
    return {trial_id: str(min(numbers)) for trial_id, numbers in versions.items()}


def _exported(
    missing: Sequence[RecipeMeans], store: Store, folder: Path, progress: Callable[[], None]
) -> list[tuple[RecipeMeans, Path, str | None]]:
    """Every recipe with the folder of its model, or why there is none."""
    specs, outs = [], []
    for number, recipe in enumerate(missing):
        stage = next(stage for stage in recipe.trial.stages if stage.name == "target")
        outs.append(folder / f"model-{number}")
        specs.append({"artifact": str(store.path(stage)), "config": dict(stage.config), "out": str(outs[-1])})
    write_file(folder / "specs.json", json.dumps(specs), flush=False)
    command = [sys.executable, "-m", "smoothsweep.orchestrator.tracking.exporting", str(folder / "specs.json")]
    log, late = folder / "exported.jsonl", time.monotonic() + EXPORT_S
    # Its stdin stays open as long as we live: without us it ends.
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, cwd=TREE, stderr=subprocess.DEVNULL) as process,
    ):
        while process.poll() is None and time.monotonic() < late:
            progress()
            time.sleep(0.1)
        process.kill()
    text, reason = log.read_text(), f"the exporting process ended early, or took more than {EXPORT_S} s"
    errors = {line["out"]: line["error"] for line in map(json.loads, text.splitlines())}
    return [(one, out, errors.get(str(out), reason)) for one, out in zip(missing, outs, strict=True)]


def _tags(recipe: RecipeMeans) -> dict[str, str]:
    """Who it is and what it leaks: the target's own numbers, and the recipe's means over seeds."""
    keys = [spec.key for spec in METRICS if spec.group in ("utility", "leak") and spec.better]
    numbers = {key: recipe.rows[0][key] for key in keys if not is_null(recipe.rows[0].get(key))}
    numbers |= {f"mean/{key}": recipe.metrics[key] for key in keys if key in recipe.metrics}
    return {
        TAG_TRIAL: recipe.trial.id,
        "smoothsweep.recipe": recipe.label,
        "seed": str(recipe.trial.seed),
        **{key: recipe.params[key] for key in recipe.params if key in KEPT_PARAMS},
        **{key: f"{value:.6g}" for key, value in numbers.items()},
        "n_seeds": str(len(recipe.trials)),
    }


KEPT_PARAMS = (
    *("protocol", "recipe_architecture", "recipe_image_size", "recipe_defense", "recipe_alpha"),
    *("recipe_schedule", "recipe_schedule_start", "recipe_schedule_end", "recipe_schedule_at"),
)
