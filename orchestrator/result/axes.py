"""The axes that a sweep varies, with labels for readers, and its trials grouped by attack and recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.text import minuses, printable
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.format import defense_key
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import axis_keys, axis_names, axis_value, settings_words
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep, as_inversion

ATTACK, PRIOR = "attack", "prior"
RECIPE, DEFENSE = "recipe", "recipe.defense"
ATTACK_WORDS = {"poincare": "Poincaré", "cross_entropy": "cross entropy"}
OF_ITS_OWNER = ("at", "count", "end", "size", "start", "views")
"""Last parts of keys that need the part before them to be understood."""
OF_ATTACKER = ("attack", "prior", "public", "classes")


def sweep_axes(loaded: LoadedSweep, trials: Sequence[Trial]) -> tuple[Axis, ...]:
    """The axes of the sweep's grid, cells or search, with labels for all values that occur in its trials."""
    keys = axis_keys(loaded)
    names = axis_names(keys)
    words: dict[str, str] = {**ATTACK_WORDS, **_mappings(names, trials)}
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
    return _with_defense_names(axes, [names[key] for key in keys if key.startswith(f"{DEFENSE}.")], trials)


def _with_defense_names(axes: tuple[Axis, ...], names: Sequence[str], trials: Sequence[Trial]) -> tuple[Axis, ...]:
    """The axes; those of `names`, each a parameter of the defense, with the label of the whole defense of each trial.

    Recipes are then called the same whether a sweep lists whole defenses or varies their parameters, as a search does.
    """
    parameters = [axis for axis in axes if axis.key in names]
    labels = {defense_key(parameters, trial.cell.axes): trial.recipe_label for trial in trials} if parameters else {}
    return tuple(replace(axis, defenses=labels) if axis in parameters else axis for axis in axes)


def baseline_axes(loaded: LoadedSweep) -> dict[str, Any]:
    """Axis -> its value in the reference recipe."""
    names, search = axis_names(axis_keys(loaded)), loaded.sweep.search
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


def _mappings(names: dict[str, str], trials: Sequence[Trial]) -> dict[str, str]:
    """Axis value that is a mapping in the sweep file (a poison, a schedule, another trial) -> its label."""
    values = ((trial.cell.axes[name], trial.cell.values.get(key)) for trial in trials for key, name in names.items())
    return {str(text): minuses(settings_words(value)) for text, value in values if isinstance(value, dict)}


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
