"""What the report says of a recipe, on its runs: tags to filter and colour by, numbers to sort by.

A verdict is younger than the runs it is about: it needs the whole sweep. It is written when the report is, and again
where a run does not say it yet (MLflow was away, the run was made anew, further seeds have changed it).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of
from smoothsweep.orchestrator.tracking.runs import VERDICT_DIGEST, VERDICT_NUMBERS, StoredRun, write

VERDICT = "smoothsweep.verdict"  # of the recipe, whatever the run's attack: a word of `wording.WORDING`, or baseline
HIDING = "smoothsweep.hiding"  # the same word under the tag's earlier name; of the sweep, every recipe's
LOOK = "smoothsweep.look"  # of a sweep with looks: at which look the recipe was decided, or that it is not
STRONGEST = "leak_strongest"
"""The leak of a recipe under the attack that works best against it, the same on its runs under every attack."""
ORDER = "leak_order"
"""1 for the run that a table shows first: recipes from the smallest leak to the largest, each with its strongest attack
before the others. MLflow's pages sort by one column alone."""
PLACES = (STRONGEST, ORDER)
NUMBERS = (STRONGEST, "reduction", "reduction_low", "reduction_high", "hidden", "hidden_low", "hidden_high")

EARLIER_STEPS = 1000
"""Beyond every step of a verdict that an earlier version wrote without the tag of its numbers."""


@dataclass(frozen=True, kw_only=True)
class RunVerdict:
    """A verdict as one run of MLflow holds it.

    Attributes:
        tags: Name -> value.
        numbers: Metric -> value, in the unit of the leak.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        return sha256(json.dumps([dict(self.tags), dict(self.numbers)], sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a report says, for the runs of its sweep.

    Attributes:
        of_trials: Trial -> the verdict on its recipe under its attack, the same for all seeds.
        whole: Tags of the sweep's own run.
        note: What the sweep's run is described by, in Markdown: the report's first sentence and its table.
        leak: The metric that decides; None where no leak was measured.
        ranked: A trial of every accurate enough recipe under the attack that works best against it, least leak first.
        front: Those that no other recipe beats in both accuracy and leak, most accurate first.
        is_marked: Whether the report marks the first of them as leaking least.
    """

    of_trials: Mapping[str, RunVerdict] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    leak: str | None = None
    ranked: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    is_marked: bool = False

    @property
    def least(self) -> str:
        """A trial of the recipe that leaks least; empty where none is accurate enough."""
        return self.ranked[0] if self.ranked else ""


def verdicts_of(result: SweepResult, note: str = "") -> Verdicts:
    """What the result says of every trial that it counts. note: see `Verdicts`."""
    facts, of_trials, strongest = result.facts, {}, {}
    leak = facts["leak"]
    if leak is None:
        return Verdicts(note=note)
    recipes = {row["recipe"]: row for row in rows_of(result.recipes)}
    for row in rows_of(result.attacks[~result.attacks["control"].astype(bool)]):
        recipe = recipes[row["recipe"]]
        known = {name: recipe[name] for name in NUMBERS if name in recipe}
        known[ORDER] = row["place"]
        if row["attack"] == recipe["attack"]:
            strongest[row["recipe"]] = row["trials"][0]
        known[STRONGEST] = recipe[leak] if recipe["attack"] is not None else None
        own = row["verdict"] if facts["by_setting"] else None
        word = "baseline" if row["is_baseline"] else recipe["verdict"] or own
        tags = {VERDICT: word, HIDING: recipe["verdict"], LOOK: recipe["look"]}
        verdict = RunVerdict(
            tags={key: value for key, value in tags.items() if value},
            numbers={
                name: float(value) for name, value in known.items() if not is_null(value) and math.isfinite(value)
            },
        )
        of_trials.update(dict.fromkeys(row["trials"] if verdict.tags or verdict.numbers else (), verdict))
    words = "; ".join(
        f"{ascii_text(name)}: {recipe['verdict']}" for name, recipe in recipes.items() if recipe["verdict"]
    )
    sign = metric_of(str(leak)).sign
    ranked = sorted((name for name in strongest if recipes[name]["is_accurate"]), key=lambda n: sign * recipes[n][leak])
    return Verdicts(
        of_trials=of_trials,
        whole={HIDING: words} if words else {},
        note=note,
        leak=str(leak),
        ranked=tuple(strongest[name] for name in ranked),
        front=tuple(strongest[name] for name in facts["front"] if name in ranked),
        is_marked=facts["best_mark"] is not None,
    )


def write_verdict(client: Any, run: StoredRun, verdict: RunVerdict, *, at: int) -> str:
    """Replace the verdict that a run of MLflow holds. at: milliseconds since 1970.

    A number that has changed is a further point of its metric: no step holds two. What the run holds is read from a
    tag of ours, never from its metrics. Returns that tag's new value.
    """
    from mlflow.entities import Metric

    held: dict[str, list[Any]] = json.loads(run.numbers or "{}")
    first = EARLIER_STEPS if run.verdict and not run.numbers else 0
    points = []
    for name, value in verdict.numbers.items():
        step, before = held.get(name, (first - 1, None))
        if value != before:
            held[name] = [step + 1, value]
            points.append(Metric(name, value, at, step + 1))
    numbers = json.dumps(held, sort_keys=True)
    blank = dict.fromkeys((VERDICT, HIDING, LOOK), "") if run.verdict else {}
    tags = {**blank, **verdict.tags, VERDICT_DIGEST: verdict.fingerprint, VERDICT_NUMBERS: numbers}
    write(client, run.run_id, params={}, tags=tags, points=points)
    return numbers
