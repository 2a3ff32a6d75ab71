"""What the report says for the runs of its sweep, and the means of every recipe; targets as registered models.

What is said of a recipe stands on its runs: tags to filter and colour by, numbers to sort by. A verdict needs the whole
sweep, so that it is younger than the runs. It is written when the report is, and again where a run does not say it yet
(MLflow was away, the run was made anew, further seeds have changed it).

A sweep is one registered model, with a version per recipe worth taking, its leak beside it.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY, METRICS, metric_of
from smoothsweep.core.same_code import TREE
from smoothsweep.orchestrator.page.tables import markdown_table, tables_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs import (
    already_gone,
    finished_at,
    metrics_of,
    pages,
    recipe_params,
    run_words,
    work_ms,
)
from smoothsweep.orchestrator.tracking.server import scratch
from smoothsweep.sweeps.expand import LoadedSweep

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
