"""What a run's params and metrics are called, so that MLflow's pages compare them: one thing, one name, one number.

Params are the same for every recipe of every sweep; what a recipe does not have is left out, never written as None.
Numbers stand alone (`recipe_alpha`, `recipe_schedule_start`), because parallel coordinates need axes, not texts.
Metrics carry the names of the columns of results.parquet.
"""

from __future__ import annotations

import json
import math
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.axes import sweep_axes
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.schema import InversionSweep

OF_TRAINING = ("image_size", "batch_size", "optimizer", "lr", "lr_schedule", "weight_decay", "precision")
TEXT_AT_MOST = 6000  # characters of a param's value; MLflow's limit
SHOWN_FIRST = ("embedder_acc1", "attack_acc1", "test_acc")  # MLflow plots the first metric of a run unasked
STRUCTURED = ("defense", "schedule")  # axes whose values have params of their own
KINDS = ("recipe_schedule", "recipe_defense")  # params that say an axis `kind`


def trial_params(trial: Trial, row: dict[str, Any]) -> dict[str, str]:
    """Name -> value of everything that makes this trial what it is; its seed comes first."""
    return {"seed": str(trial.seed), **recipe_params(trial, row)}


def recipe_params(trial: Trial, row: dict[str, Any]) -> dict[str, str]:
    """As `trial_params`, without the seed."""
    settings = trial.settings
    recipe_settings = {"protocol": settings.protocol}
    recipe_settings.update(
        {k: v for k, v in row.items() if k.startswith("recipe_") and k != "recipe_defense_parameters"}
    )
    recipe_settings["prior"] = row.get("prior")
    if isinstance(settings, InversionSweep):
        if not isinstance(settings.recipe, ImportedClassifier):
            recipe_settings.update(_training_params(settings))
        if settings.attack is not None:
            recipe_settings.update(_attack_params(settings))
            recipe_settings["attack_classes"] = "all" if settings.classes == "all" else len(settings.classes)
    params = {name: _text(value) for name, value in recipe_settings.items() if value is not None}
    axes = {name: _text(value) for name, value in trial.cell.axes.items() if value is not None}
    return {**{name: text for name, text in axes.items() if not _is_said(name, text, params)}, **params}


def _training_params(settings: InversionSweep) -> dict[str, Any]:
    """How the target is trained: optimizer, schedule of alpha, the defense's own parameters."""
    recipe = settings.recipe
    params = {f"recipe_{key}": getattr(recipe, key) for key in OF_TRAINING}
    resolved = present(recipe.defense, "defense").resolved(settings.protocol)
    for key, value in resolved["schedule"].items():
        params["recipe_schedule" if key == "kind" else f"recipe_schedule_{key}"] = value
    for key, value in resolved.get("parameters", {}).items():
        params[f"recipe_{present(recipe.defense, 'defense').kind}_{key}"] = value
    if recipe.poison is not None:
        poison = recipe.poison.model_dump(mode="json", exclude_none=True, exclude={"kind"})
        params.update({f"recipe_poison_{key}": value for key, value in poison.items()})
    return params


def _attack_params(settings: InversionSweep) -> dict[str, Any]:
    """Every parameter of the attack, those of its stages and pool under the name of what holds them."""
    params = {}
    for key, value in settings.inverted_by.model_dump(mode="json", exclude_none=True).items():
        for name, part in value.items() if isinstance(value, dict) else ((None, value),):
            params[f"attack_{key}" if name is None else f"attack_{key}_{name}"] = part
    return params


def _is_said(name: str, text: str, params: dict[str, str]) -> bool:
    """Whether an axis of the grid repeats a param: `alpha` beside `recipe_alpha`."""
    if name in STRUCTURED:
        return f"recipe_{name}" in params
    kinds = KINDS if name.endswith("kind") else ()
    same = (key for key, value in params.items() if value == text)
    return any(key == name or key.endswith(f"_{name}") or key in kinds for key in same)


def run_words(trial: Trial, loaded: LoadedSweep | None) -> str:
    """What tells the trial's cell from others, as the report calls it: `alpha -0.2 · attack loss Poincaré`."""
    if loaded is None or not isinstance(trial.settings, InversionSweep):
        words = [f"{name} {value}" for name, value in trial.cell.axes.items() if value is not None]
    else:
        axes, values = sweep_axes(loaded, [trial]), trial.cell.axes
        words = [label(axes, values) for label in (recipe_label, attack_label)]
    return ascii_text(" · ".join(filter(None, words))) or "the recipe"


def run_name(trial: Trial, loaded: LoadedSweep | None) -> str:
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
