"""What the report says of a recipe, on its runs: tags to filter and colour by, numbers to sort by.

A verdict is younger than the runs it is about: it needs the whole sweep. It is written when the report is, and again
where a run does not say it yet (MLflow was away, the run was made anew, further seeds have changed it).
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.orchestrator.result.display import cell_verdict
from smoothsweep.orchestrator.result.display import leak_verdict as told_of
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.leaks import HidingVerdicts
from smoothsweep.orchestrator.result.more_seeds import look_words
from smoothsweep.orchestrator.result.summary import Summary, decide
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
EARLIER = {"reduction": "removed", "reduction_low": "removed_low", "reduction_high": "removed_high"}
"""Metric -> its earlier name, which is written beside it: charts and queries of earlier runs keep working."""

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


def verdicts_of(summary: Summary, hiding: HidingVerdicts, note: str = "") -> Verdicts:
    """What the report's table and its verdicts say, for every trial that they count. note: see `Verdicts`."""
    of_trials: dict[str, RunVerdict] = {}
    if summary.primary is None:
        return Verdicts(note=note)
    worst, last = summary.worst(summary.primary), summary.stops(summary.primary)
    places, choice = _places(summary, worst), decide(summary)
    for index, row in summary.cells.items():
        comparison = hiding.verdicts.get(row["recipe"])
        look = ascii_text(look_words(summary, last[row["recipe"]])) if row["recipe"] in last else ""
        numbers = {} if comparison is None else _numbers(comparison)
        if row["recipe"] in worst:
            numbers[STRONGEST] = float(summary.frame.loc[worst[row["recipe"]], summary.primary])
        if (place := places.get(index)) is not None:
            numbers[ORDER] = place
        reading = told_of(summary.spec, comparison) or cell_verdict(summary, summary.spec, row)
        word = "baseline" if row["is_baseline"] else reading.words if reading else ""
        tags = {VERDICT: word, HIDING: comparison.word if comparison else "", LOOK: look}
        verdict = RunVerdict(
            tags={key: value for key, value in tags.items() if value},
            numbers=numbers,
        )
        of_trials.update(dict.fromkeys(row["trials"] if not row["control"] and verdict.tags else (), verdict))
    words = "; ".join(f"{ascii_text(recipe)}: {verdict.word}" for recipe, verdict in hiding.verdicts.items())
    allowed = {recipe: row for recipe, row in choice.rows.items() if recipe not in choice.below}
    trial_of = {recipe: str(summary.cells[row]["trials"][0]) for recipe, row in allowed.items()}
    return Verdicts(
        of_trials=of_trials,
        whole={HIDING: words} if words else {},
        note=note,
        leak=summary.primary,
        ranked=tuple(trial_of[recipe] for recipe in sorted(allowed, key=lambda recipe: summary.leak(allowed[recipe]))),
        front=tuple(trial_of[recipe] for recipe in choice.front if recipe in trial_of),
        is_marked=choice.marked is not None,
    )


def _places(summary: Summary, worst: Mapping[str, int]) -> dict[Hashable, float]:
    """Row of the summary's frame -> its place in a table. worst: recipe -> its row under the strongest attack."""
    rows = [int(index) for index in summary.frame.index[~summary.frame["control"]]]
    recipe_of = summary.frame["recipe"]

    def key(row: int) -> tuple[float, int, bool, float]:
        strongest, leak = worst[recipe_of[row]], summary.leak(row)
        return summary.leak(strongest), strongest, row != strongest, math.inf if math.isnan(leak) else -leak

    ordered = sorted((row for row in rows if recipe_of[row] in worst), key=key)
    return {row: float(place) for place, row in enumerate(ordered, start=1)}


def _numbers(verdict: LeakComparison) -> dict[str, float]:
    """The numbers of a verdict by the names of their metrics, the earlier names too."""
    part = verdict.hidden.part if verdict.hidden else None
    numbers = {"reduction": verdict.reduction, "reduction_low": verdict.low, "reduction_high": verdict.high}
    numbers |= {earlier: numbers[name] for name, earlier in EARLIER.items()}
    if part is not None:
        numbers |= {"hidden": part.value, "hidden_low": part.low, "hidden_high": part.high}
    known = {name: float(present(value, "value")) for name, value in numbers.items() if not is_null(value)}
    return {name: value for name, value in known.items() if math.isfinite(value)}


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
