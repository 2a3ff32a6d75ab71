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
from smoothsweep.orchestrator.reading.findings.display import cell_verdict, too_inaccurate
from smoothsweep.orchestrator.reading.findings.display import leak_verdict as told_of
from smoothsweep.orchestrator.reading.leak.hiding import HidingVerdicts
from smoothsweep.orchestrator.reading.leak.looks import look_words
from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.format import ascii_text, is_null
from smoothsweep.orchestrator.reading.numbers.judges import Checks
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.tracking.runs.points import write
from smoothsweep.orchestrator.tracking.runs.runs import VERDICT_DIGEST, VERDICT_NUMBERS, StoredRun

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
        numbers: Metric -> value, in the unit of the leak. For the table of the sweep's note: size, the reduction with
            its interval; needed, what would settle it; mark, "least leak" where the report marks the recipe so.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    size: str = ""
    needed: str = ""
    mark: str = ""

    @property
    def fingerprint(self) -> str:
        return sha256(json.dumps([dict(self.tags), dict(self.numbers)], sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a report says, for the runs of its sweep.

    Attributes:
        of_trials: Trial -> the verdict on its recipe under its attack, the same for all seeds.
        whole: Tags of the sweep's own run.
        answer: The sentence that the report begins with.
        checks: What the judges say of real photographs.
    """

    of_trials: Mapping[str, RunVerdict] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    checks: Checks = field(default_factory=dict)


def verdicts_of(summary: Summary, hiding: HidingVerdicts, answer: str = "") -> Verdicts:
    """What the report's table and its verdicts say, for every trial that they count. answer: its first sentence."""
    of_trials: dict[str, RunVerdict] = {}
    if summary.primary is None:
        return Verdicts(answer=answer, checks=summary.checks)
    worst, last = summary.worst(summary.primary), summary.stops(summary.primary)
    places, choice = _places(summary, worst), decide(summary)
    marked = None if choice.marked is None else summary.frame.loc[choice.marked, "recipe"]
    inaccurate = ascii_text(too_inaccurate(summary))
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
            size=ascii_text(reading.size) if comparison and reading else "",
            needed=ascii_text(reading.needed) if reading else "",
            mark=choice.mark if row["recipe"] == marked else inaccurate if row["recipe"] in choice.below else "",
        )
        of_trials.update(dict.fromkeys(row["trials"] if not row["control"] and verdict.tags else (), verdict))
    words = "; ".join(f"{ascii_text(recipe)}: {verdict.word}" for recipe, verdict in hiding.verdicts.items())
    whole = {HIDING: words} if words else {}
    return Verdicts(of_trials=of_trials, whole=whole, answer=answer, checks=summary.checks)


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
