"""The results table: one row per trial, read from the artifacts and nothing else; and the labels of what varies.

Balanced accuracies and numbers of images behind rates are computed from the tables that stages write, so that stores
of earlier versions have them too.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any

import pandas as pd

from smoothsweep.core.attacks.surrogates import SURROGATES
from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.base import RECONSTRUCTIONS, ClassifierJudge
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.metrics.intervals import check_judge
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.text import minuses, printable, typable
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import Axis, StageLink
from smoothsweep.orchestrator.result.estimates import images_column
from smoothsweep.orchestrator.result.format import defense_key, is_null
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.stages.graph import unavailable_reasons
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion, axis_value, settings_words
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import ToySweep

BY_CLASS = "per_class.parquet"
TARGET = "test_acc_balanced"
JUDGES_CLASSIFIERS = {
    name: kind.balanced for name, kind in JUDGES.items() if issubclass(kind, ClassifierJudge) and kind.balanced
}
"""Judge that is a classifier (also the name of its stage's input) -> the column of its balanced accuracy."""


def balanced_accuracies(trial: Trial, store: Store) -> dict[str, float]:
    """Column -> balanced accuracy in [0, 1] of the target and of judging classifiers, where artifacts hold it."""
    named = {stage.name: stage for stage in trial.stages}
    classifiers = {TARGET: named.get("target") or named.get("imported")}
    for name, column in JUDGES_CLASSIFIERS.items():
        judge = named.get(stage_of(name))
        classifiers[column] = judge.inputs.get(name) if judge is not None and store.has(judge) else None
    accuracies = {column: _balanced(stage, store) for column, stage in classifiers.items() if stage is not None}
    return {column: value for column, value in accuracies.items() if value is not None}


MOST_TO_FIT = 300_000_000
"""Images times features times classes up to which the driver fits a judge's head: seconds. It must not stand still."""


def answers_to_photographs(trial: Trial, store: Store, fitted: Stage | None = None) -> dict[str, float | None]:
    """Column -> what the trial's judges are known by now to say of real photographs, before any reconstruction.

    fitted: the features of real images on which to fit a judge's head, which its own stage does later.
    """
    known: dict[str, float | None] = {}
    for stage in trial.stages:
        if store.has(stage):
            known |= store.metrics(stage)
    known |= balanced_accuracies(trial, store)
    judges = {stage.name: stage for stage in trial.stages}
    for name, column in JUDGES_CLASSIFIERS.items():
        judge = judges.get(stage_of(name))
        if judge is not None and store.has(classifier := judge.inputs[name]):
            known[column.removesuffix("_balanced")] = store.metrics(classifier)["test_acc"]
            known[column] = _balanced(classifier, store)
    for name, kind in JUDGES.items():
        judge = judges.get(stage_of(name))
        if judge is None or fitted is None or kind.accompanies or not issubclass(kind, ByFeatures):
            continue
        if judge.inputs["real"] == fitted:
            from smoothsweep.tasks.judges import accuracy_of_head

            known[f"{name}_real_acc"] = accuracy_of_head(store.path(fitted), most=MOST_TO_FIT)
    return known


def surrogate_lines(trials: Sequence[Trial], store: Store, people: int | None) -> tuple[str, ...]:
    """A sentence on each attack whose surrogate has not learnt the target's answers, so that it finds nothing of it."""
    lines = []
    for trial in trials:
        for stage in with_ancestors(trial.stages):
            if stage.name == SURROGATES and people and store.has(stage):
                agreement = store.metrics(stage)["agreement"] or 0.0
                if check_judge(agreement, images=None, chance=1 / people).why:
                    attack = as_inversion(trial.settings).inverted_by.words
                    lines.append(
                        f"What {attack} finds says nothing of the target: its surrogate gives the target's answer to "
                        f"{100 * agreement:.1f} % of its pictures, and chance is {100 / people:.1f} %. Give it more "
                        "queries or steps."
                    )
    return tuple(dict.fromkeys(lines))


def mean_over_classes(path: Path) -> float:
    """The mean of the column test_acc over classes with test images (macro-averaged recall). path: a Parquet file."""
    shares = read_rows(path, ["test_acc"])["test_acc"]
    return fsum(shares) / len(shares)


def _balanced(stage: Stage, store: Store) -> float | None:
    path = store.file(stage, BY_CLASS) if store.has(stage) else None
    return None if path is None else mean_over_classes(path)


COUNTED = {stage_of(name): kind for name, kind in JUDGES.items() if kind.answers}
"""Stage of a judge whose table counts the images behind its rates -> the judge."""


def image_counts(trial: Trial, store: Store) -> dict[str, int]:
    """`images_column` of a rate -> number of images behind it, for finished stages."""
    counts: dict[str, int] = {}
    for stage in filter(store.has, trial.stages):
        kind, data = COUNTED.get(stage.name), stage.inputs.get("data")
        known = store.manifest(data)["metrics"] if data is not None and store.has(data) else {}
        path = None if kind is None else store.file(stage, kind.answers)
        if kind is not None and path is not None:
            counts |= kind.counts(read_rows(path), {role: source.config for role, source in stage.inputs.items()})
        if stage.name in ("target", "imported") and known.get("num_train"):
            counts["train_acc"] = int(known["num_train"])
    return {images_column(key): count for key, count in counts.items() if key in BY_KEY}


UNFINISHED = "the stage that measures it has not finished"


def results_table(trials: list[Trial], store: Store, failures: dict[str, str]) -> pd.DataFrame:
    """One row per trial in sweep order. status: done, failed (with its cause) or missing."""
    store.prepare(stage for trial in trials for stage in trial.stages)
    rows = [trial_row(trial, store, failures.get(trial.id)) for trial in trials]
    return one_type_a_column(pd.DataFrame(rows))


def one_type_a_column(table: pd.DataFrame) -> pd.DataFrame:
    """The table with columns that Parquet can hold: numbers, truth values or text, each with nulls.

    An axis of several kinds of values (an accuracy to stop at, or another trial's) becomes text.
    """

    def kind(value: Any) -> str:
        return "truth" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"

    for name in table.columns:
        kinds = {kind(value) for value in table[name] if not is_null(value)}
        if pd.api.types.is_object_dtype(table[name]) and len(kinds) > 1:
            table[name] = [None if is_null(value) else str(value) for value in table[name]]
    return table


def trial_row(trial: Trial, store: Store, failure: str | None = None) -> dict[str, Any]:
    """The row of one trial in the results; metrics of unfinished stages are None."""
    manifests = {s.name: store.manifest(s) for s in trial.stages if store.has(s)}
    done = len(manifests) == len(trial.stages)
    metrics = {key: value for manifest in manifests.values() for key, value in manifest["metrics"].items()}
    metrics |= balanced_accuracies(trial, store)
    columns = TOY_COLUMNS if isinstance(trial.settings, ToySweep) else tuple(BY_KEY)
    return {
        "trial": trial.id,
        "seed": trial.seed,
        "phase": trial.phase,
        "protocol": trial.settings.protocol,
        "status": "done" if done else "failed" if failure else "missing",
        "failure": None if done else failure,
        **trial.cell.axes,
        **recipe_fields(trial),
        **{column: metrics.get(column) for column in columns},
        **({} if isinstance(trial.settings, ToySweep) else image_counts(trial, store)),
        "reasons": json.dumps(missing_reasons(trial, metrics, columns, set(manifests)), sort_keys=True),
        **{column: manifests.get(column.removeprefix("seconds_"), {}).get("seconds") for column in TIME_COLUMNS},
    }


OF_RECIPE = tuple(
    f"recipe_{name}"
    for name in ("architecture", "defense", "defense_parameters", "alpha", "schedule", "epochs", "workers", "poison")
)


def recipe_fields(trial: Trial) -> dict[str, Any]:
    """The recipe's own columns, beside the axes of the grid, and those of attack and prior, null without an inversion.

    recipe_defense_parameters: the defense's own, as JSON text; the smoothing has its columns. Of an imported target
    there is what was stated at its import.
    """
    settings = trial.settings
    if isinstance(settings, ToySweep):
        return {"recipe_alpha": settings.alpha}
    recipe, attack = settings.recipe, settings.attack
    if isinstance(recipe, ImportedClassifier):
        stated = recipe.stated_defense or {}
        told = (recipe.architecture, stated.get("kind"), None, stated.get("alpha"), None, None, None, None)
    else:
        defense = recipe.defense
        told = (
            recipe.architecture,
            defense.kind,
            json.dumps(defense.parameters, sort_keys=True) if defense.parameters else None,
            defense.final_alpha,
            defense.resolved(settings.protocol)["schedule"]["kind"],
            recipe.epochs,
            recipe.workers,
            recipe.poison.kind if recipe.poison is not None else None,
        )
    return {
        **dict(zip(OF_RECIPE, told, strict=True)),
        "prior": present(settings.prior, "prior").kind if settings.reads_prior else None,
        "attack": attack.label if attack is not None else None,
        "attack_access": attack.built.access if attack is not None else None,
        "attack_control": attack is not None and attack.built.control,
        "attack_published": attack is None or attack.built.published,
    }


def missing_reasons(trial: Trial, metrics: dict[str, Any], columns: tuple[str, ...], done: set[str]) -> dict[str, str]:
    """Column -> why it is null, for those that are. done: names of the stages that have finished."""
    if isinstance(trial.settings, ToySweep):
        return {column: UNFINISHED for column in columns if metrics.get(column) is None}
    planned, unheard = {stage.name for stage in trial.stages}, unavailable_reasons(trial.settings)

    def why(metric: Metric) -> str:
        stage = "imported" if metric.stage == "target" and "imported" in planned else metric.stage
        if stage in unheard:
            return unheard[stage]
        if metric.judge and stage not in planned:
            return f"the sweep has no {metric.judge} judge"
        if stage == "attack" and stage not in planned:
            return "the sweep inverts nothing (attack: null)"
        if stage is None or stage in done or stage not in planned:
            return metric.null or "there was too little to compute it from"
        return UNFINISHED

    return {column: why(BY_KEY[column]) for column in columns if metrics.get(column) is None}


def per_class_rows(trials: list[Trial], store: Store) -> pd.DataFrame:
    """Rows per trial and class: share of its reconstructions that each judge takes for the class, and of how many."""
    frames = []
    for trial in trials:
        for stage in trial.stages:
            path = store.file(stage, "per_class.parquet") if stage.name.startswith("judge_") else None
            if path is not None and store.has(stage):
                rows = read_rows(path).assign(trial=trial.id)
                frames.append(_with_counts(rows, store.file(stage, "per_image.parquet")))
    if not frames:
        return pd.DataFrame(columns=["trial", "class"])
    merged = pd.concat(frames, ignore_index=True)
    return merged.groupby(["trial", "class"], as_index=False, sort=True).first()


def _with_counts(rows: pd.DataFrame, images: Path | None) -> pd.DataFrame:
    """Hit rates by class with the column of how many images each is of, from what the judge said of every image."""
    judged = [key for key in CLASS_METRICS if key in rows]
    if images is None or not judged:
        return rows
    answers = read_rows(images)
    answers = answers[answers["hit"].notna()]
    if "kind" in answers:
        answers = answers[answers["kind"] == RECONSTRUCTIONS]
    return rows.assign(**{images_column(judged[0]): rows["class"].map(answers["class"].value_counts())})


def least_of_data(trials: Sequence[Trial], store: Store, number: str) -> int | None:
    """The lowest value over trials of a number of the private data (`num_test`, `num_classes`); None before reading."""
    stages = [stage for trial in trials for stage in with_ancestors(trial.stages) if stage.name == "data"]
    counts = [store.manifest(stage)["metrics"].get(number) for stage in dict.fromkeys(stages) if store.has(stage)]
    return min((int(count) for count in counts if not is_null(count)), default=None)


def relative_links(trial: Trial, store: Store, folder: Path, *, workers: float = 1.0) -> tuple[StageLink, ...]:
    """Links from `folder` to every finished stage of a trial. workers: number of devices that its training held."""
    return tuple(
        StageLink(
            stage=stage.name,
            path=Path(os.path.relpath(store.manifest_file(stage.name, stage.fingerprint), folder)).as_posix(),
            seconds=float(store.manifest(stage)["seconds"]),
            devices=workers if stage.name == "target" else 1.0,
        )
        for stage in with_ancestors(trial.stages)
        if store.has(stage)
    )


def write_results(
    trials: list[Trial], store: Store, failures: dict[str, str], folder: Path, axes: Sequence[Axis] | None = None
) -> pd.DataFrame:
    """The table of results, written to `folder` as results.parquet, which is replaced as a whole.

    axes: of the sweep, which name recipes; the file then has a column `recipe` that joins it with verdicts.parquet. The
    file has the columns of `measured`, the table that is returned has all.
    """
    table = results_table(trials, store, failures)
    write_rows(measured(table if axes is None else with_recipes(table, axes)), folder / "results.parquet")
    return table


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """The table without metrics and times that no trial has; `reasons` says of each metric why it is missing."""
    empty = [name for name in (*BY_KEY, *TIME_COLUMNS) if name in table.columns and table[name].isna().all()]
    return table.drop(columns=empty)


RECIPE, RECIPE_SETTINGS = "recipe", "recipe_settings"


def with_recipes(table: pd.DataFrame, axes: Sequence[Axis]) -> pd.DataFrame:
    """The table with a column `recipe`, the report's name of each row's recipe.

    A sweep of whole recipes has an axis of that name: its settings are then called `recipe_settings`.
    """
    named = [recipe_label(axes, row) for row in table.to_dict("records")]
    others = table.rename(columns={RECIPE: RECIPE_SETTINGS})
    others.insert(list(others.columns).index("seed") + 1, RECIPE, named)
    return others


def write_rows(table: pd.DataFrame, path: Path) -> None:
    """A table as Parquet, replaced as a whole. Names in it can be typed: with plain minus signs and spaces."""
    buffer = io.BytesIO()
    table.map(_typable).to_parquet(buffer, index=False, compression="zstd")
    write_file(path, buffer.getvalue(), parents=True)


def _typable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_typable(each) for each in value]
    return typable(value) if isinstance(value, str) else value


ATTACK, PRIOR = "attack", "prior"
RECIPE, DEFENSE = "recipe", "recipe.defense"
ATTACK_WORDS = {"poincare": "Poincaré", "cross_entropy": "cross entropy"}
OF_ITS_OWNER = ("at", "count", "end", "size", "start", "views")
"""Last parts of keys that need the part before them to be understood."""
OF_ATTACKER = ("attack", "prior", "public", "classes")


def sweep_axes(loaded: LoadedSweep, trials: Sequence[Trial]) -> tuple[Axis, ...]:
    """The axes of the sweep's grid, cells or search, with labels for all values that occur in its trials."""
    names, keys = loaded.names, list(loaded.names)
    stated = ((trial.cell.axes[name], trial.cell.values.get(key)) for trial in trials for key, name in names.items())
    # A value that is a mapping in the sweep file: a poison, a schedule, another trial.
    words = {**ATTACK_WORDS, **{str(t): minuses(settings_words(one)) for t, one in stated if isinstance(one, dict)}}
    words |= {**_attack_words(keys, names, trials), **_prior_words(keys, names, trials)}
    if DEFENSE in keys:
        stated_defenses = ((trial.cell.axes[names[DEFENSE]], trial.stated_defense) for trial in trials)
        words.update({text: recipe_words(defense).label for text, defense in stated_defenses if defense})
    differing = _differing(loaded) if RECIPE in keys else ()
    if RECIPE in keys:
        words.update({trial.cell.axes[names[RECIPE]]: _whole_recipe(trial, differing) for trial in trials})
    axes = tuple(
        Axis(
            key=names[key],
            label=_label(key, names[key]),
            values=words,
            role="attack" if key.split(".")[0] in OF_ATTACKER else "recipe",
            defense=key.startswith(DEFENSE) or (key == RECIPE and not differing),
            bare=key in (ATTACK, PRIOR, RECIPE, DEFENSE) or key.endswith(".kind"),
        )
        for key in keys
    )
    # Recipes are called the same whether a sweep lists whole defenses or varies their parameters, as a search does.
    parameters = [axis for axis in axes if axis.key in {names[key] for key in keys if key.startswith(f"{DEFENSE}.")}]
    labels = {defense_key(parameters, trial.cell.axes): trial.recipe_label for trial in trials} if parameters else {}
    return tuple(replace(axis, defenses=labels) if axis in parameters else axis for axis in axes)


def baseline_axes(loaded: LoadedSweep) -> dict[str, Any]:
    """Axis -> its value in the reference recipe."""
    names, search = loaded.names, loaded.sweep.search
    stated = loaded.sweep.baseline
    # A dimension of the search space that the baseline does not name is null in the baseline's rows.
    absent = dict.fromkeys(key for key in (search.space if search and stated else ()) if key not in stated)
    return {names[key]: axis_value(value) for key, value in {**stated, **absent}.items() if key in names}


def _label(key: str, name: str) -> str:
    """`pool size` for attack.pool.size, which `size` alone would not say; empty where the column's name is enough."""
    *_, owner, last = ["", *key.split(".")]
    return f"{owner} {last}".replace("_", " ") if name == last and last in OF_ITS_OWNER else ""


def _differing(loaded: LoadedSweep) -> tuple[str, ...]:
    """Keys other than the defense in which the recipes listed in full in a sweep differ; imported ones do not count."""
    sweep = loaded.sweep
    listed = [*sweep.grid.get(RECIPE, ()), *(cell[RECIPE] for cell in sweep.cells if RECIPE in cell)]
    trained = [recipe for recipe in listed if isinstance(recipe, dict) and "imported" not in recipe]
    keys = dict.fromkeys(key for recipe in trained for key in recipe if key != "defense")
    return tuple(key for key in keys if any(recipe.get(key) != trained[0].get(key) for recipe in trained))


def _whole_recipe(trial: Trial, differing: Sequence[str]) -> str:
    """The label of a recipe that is listed in full, with the settings that distinguish it from the others."""
    if isinstance(as_inversion(trial.settings).recipe, ImportedClassifier):
        return trial.recipe_label
    listed = trial.cell.values[RECIPE]
    others = [f"{key.replace('_', ' ')} {listed[key]}" for key in differing if key in listed]
    return ", ".join([trial.recipe_label, *map(printable, others)])


def by_attack(trials: Sequence[Trial], axes: Sequence[Axis]) -> dict[str, dict[str, list[Trial]]]:
    """Label of an attack -> label of a recipe -> its trials, one for each seed, in the order of the trials.

    Where the sweep varies no attack, its label is "".
    """
    groups: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        values = trial.cell.axes
        recipes = groups.setdefault(attack_label(axes, values), {})
        recipes.setdefault(recipe_label(axes, values), []).append(trial)
    return groups


def first_finished(trials: Sequence[Trial], axes: Sequence[Axis], store: Store, name: str) -> dict[str, Stage]:
    """Recipe -> the stage of this name of its first finished seed; recipes without any are left out."""
    stages: dict[str, Stage] = {}
    for trial in trials:
        stage = next((stage for stage in trial.stages if stage.name == name), None)
        if stage is not None and store.has(stage):
            stages.setdefault(recipe_label(axes, trial.cell.axes), stage)
    return stages


def _attack_words(keys: list[str], names: dict[str, str], trials: Sequence[Trial]) -> dict[str, str]:
    """Axis value of an attack that is listed in full -> its label in tables.

    Equal labels are numbered, unless another of the attacker's axes, such as the prior, distinguishes the attacks.
    """
    if ATTACK not in keys:
        return {}
    attacker_keys = [names[key] for key in keys if key != ATTACK and key.split(".")[0] in OF_ATTACKER]
    labels: dict[str, str] = {}
    met: dict[str, set[tuple[str, ...]]] = {}
    for trial in trials:
        if (attack := as_inversion(trial.settings).attack) is not None:
            text = str(trial.cell.axes[names[ATTACK]])
            labels[text] = attack.words
            met.setdefault(text, set()).add(tuple(str(trial.cell.axes[name]) for name in attacker_keys))
    words: dict[str, str] = {}
    for text, label in labels.items():
        alike = sum(labels[other] == label and bool(met[other] & met[text]) for other in words)
        words[text] = f"{label} #{alike + 1}" if alike else label
    return words


def _prior_words(keys: list[str], names: dict[str, str], trials: Sequence[Trial]) -> dict[str, str]:
    """Axis value of a prior that is listed in full -> its label, with the settings that distinguish it in its kind."""
    if PRIOR not in keys:
        return {}
    by_text: dict[str, tuple[str, dict[str, Any]]] = {}
    for trial in trials:
        if (prior := as_inversion(trial.settings).prior) is not None:
            by_text[str(trial.cell.axes[names[PRIOR]])] = prior.words, trial.cell.values[PRIOR]
    words: dict[str, str] = {}
    for text, (name, stated) in by_text.items():
        alike = [other for _, other in by_text.values() if other["kind"] == stated["kind"]]
        keys_of = dict.fromkeys(key for other in alike for key in other)
        telling = [key for key in keys_of if any(other.get(key) != alike[0].get(key) for other in alike)]
        others = {key: stated[key] for key in telling if key in stated}
        words[text] = f"{name} ({minuses(settings_words(others))})" if others else name
    return words
