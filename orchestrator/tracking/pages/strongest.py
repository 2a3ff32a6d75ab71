"""Each recipe under the attack that works best against it, of the recipes that have met every attack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.findings.display import incomplete_sentences
from smoothsweep.orchestrator.reading.numbers.cells import complete_cases
from smoothsweep.orchestrator.reading.numbers.format import is_null
from smoothsweep.orchestrator.tracking.runs.recipes import RecipeMeans, target_of
from smoothsweep.sweeps.schema import InversionSweep

OF_ATTACKER = {"attack", "prior", "public", "classes"}


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """What a recipe and an attack are, and how sentences call them."""

    target: str
    attack: str
    recipe_words: str
    attack_words: str


def strongest(
    recipes: Sequence[RecipeMeans], leak: str, planned: Sequence[Trial] = ()
) -> tuple[list[RecipeMeans], tuple[str, ...]]:
    """Choose every complete recipe's means under its strongest attack, and say what the other recipes lack.

    Args:
        recipes: Means of the recipes that the leak was measured for.
        leak: The metric that decides.
        planned: The trials of the sweep, so that a recipe is named which has finished none of them.
    """
    cells = {recipe.label: _cell(recipe.trial) for recipe in recipes if not recipe.trial.is_control}
    known = [*cells.values(), *(_cell(trial) for trial in planned if trial.phase == "sweep" and not trial.is_control)]
    met: dict[str, dict[str, Mapping[int, float]]] = {cell.target: {} for cell in known}
    for means in recipes:
        if means.label in cells:
            leaks = {int(row["seed"]): float(row[leak]) for row in means.rows if not is_null(row.get(leak))}
            met[cells[means.label].target][cells[means.label].attack] = leaks
    cases = complete_cases(met)

    def badness(recipe: RecipeMeans) -> float:
        leaks = met[cells[recipe.label].target][cells[recipe.label].attack]
        return BY_KEY[leak].sign * sum(leaks[seed] for seed in cases.seeds)

    mine = {
        recipe: [means for means in recipes if means.label in cells and means.target == recipe]
        for recipe in cases.recipes
    }
    words = {cell.target: cell.recipe_words for cell in known} | {cell.attack: cell.attack_words for cell in known}
    attacks = dict.fromkeys(cell.attack for cell in known)
    sentences = incomplete_sentences(cases, planned=tuple(attacks), words=words)
    return [max(under, key=badness) for under in mine.values()], sentences


def _cell(trial: Trial) -> _Cell:
    settings = trial.settings
    attacked = isinstance(settings, InversionSweep) and settings.attack is not None
    attack = settings.model_dump(mode="json", include=OF_ATTACKER) if attacked else {}
    return _Cell(
        target=target_of(trial),
        attack=json.dumps(attack, sort_keys=True),
        recipe_words=trial.recipe_label if attacked else trial.label,
        attack_words=settings.attack.words if attacked else "",
    )
