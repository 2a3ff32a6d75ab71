"""The findings of a sweep: the numbers for findings.txt and limits.txt, which hold the words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, CLOSED_SET, metric_of
from smoothsweep.core.metrics.leak_comparisons import HIDES, LEAKS_MORE
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.defenses.families import CHEAP
from smoothsweep.orchestrator.reading.findings.display import incomplete_lines, setting_answer
from smoothsweep.orchestrator.reading.findings.fresh import fresh_answer
from smoothsweep.orchestrator.reading.findings.integrity import (
    control_line,
    integrity_lines,
    inverts_nothing,
    without_leak,
)
from smoothsweep.orchestrator.reading.findings.uncertainty import (
    flattery,
    gap_of,
    gap_words,
    standing,
    uncertainty_words,
)
from smoothsweep.orchestrator.reading.numbers.decision import Decision, decide
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named, number, points
from smoothsweep.orchestrator.reading.numbers.judges import untold
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import (
    WORDING,
    accuracy_gap,
    accuracy_kept,
    hits_in_words,
    margin_words,
)
from smoothsweep.orchestrator.reading.standing.judged import by_access, standing_sentences

ACCURACY = metric_of("test_acc")
PLACE = "smoothsweep.orchestrator.reading.findings"


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings of a sweep, one sentence per entry.

    Attributes:
        answer: The recipe that leaks least, then the uncertainty of that choice.
        more: Further findings.
        cautions: Limits of the findings.
        incomplete: Recipes that are not compared, and attacks that do not count, because trials are missing.
    """

    answer: tuple[str, ...]
    more: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()


def find(data: ReportData, summary: Summary) -> Findings:
    """The findings of a sweep."""
    found = _find(data, summary)
    lines = (*data.warnings, *incomplete_lines(summary))
    return replace(found, incomplete=tuple(line for line in lines if line not in found.answer))


def _find(data: ReportData, summary: Summary) -> Findings:
    choice = decide(summary)
    said = _said(data, summary, choice)
    cautions = (*said["trials"], *integrity_lines(data, summary))
    if summary.by_setting and summary.primary is not None:
        return Findings(answer=setting_answer(summary), cautions=(*control_line(summary), *cautions))
    if not choice.rows and inverts_nothing(data):
        return Findings(answer=(without_leak(data, summary),), cautions=cautions)
    if choice.best is None:
        return Findings(answer=said["answer"], cautions=cautions if summary.primary else ())
    again, levels = fresh_answer(data, summary), by_access(summary, choice.best)
    limits = (*control_line(summary), *cautions, *(() if again else flattery(summary)), *said["cautions"])
    more = (*levels, *standing_sentences(summary), *said["more"])
    return Findings(answer=(*said["answer"], *again), more=more, cautions=limits)


def _case(summary: Summary, choice: Decision) -> str:
    """Which answer of findings.txt a sweep has."""
    if not choice.rows:
        return "untold" if summary.primary is None and untold(summary.checks) else "too early"
    if choice.best is None:
        return "too inaccurate"
    if len(choice.rows) == 1:
        return "one recipe"
    if choice.seeds < LEAST_SEEDS:
        return "one seed"
    if choice.reference is None:
        return "no baseline"
    return "baseline best" if choice.best == choice.reference else "against"


def _said(data: ReportData, summary: Summary, choice: Decision) -> dict[str, tuple[str, ...]]:
    """The sections of findings.txt."""
    frame, best, reference = summary.frame, choice.best, choice.reference
    recipe = partial(_recipe, summary)
    rows = [row for row in (best, reference) if row is not None]
    others = [row for row in choice.rows.values() if row != reference]
    chosen = best is not None
    known = {
        "case": _case(summary, choice),
        "untold": untold(summary.checks),
        "summary": summary,
        "choice": choice,
        "frame": frame,
        "best": best,
        "reference": reference,
        "compared": chosen and reference not in (None, best),
        "trials": count(len(data.results), "trial"),
        "states": partial(_states, data),
        "top": max(choice.rows.values(), key=lambda row: frame["test_acc"].fillna(-1)[row], default=None),
        "nearest": min(others, key=summary.leak, default=None),
        "ties": [recipe(choice.rows[tie]) for tie in choice.ties],
        "hides": _hides(summary, choice),
        "cheaper": _cheaper(summary, choice) if chosen else None,
        "worst": _catalyst(summary, choice) if chosen else None,
        "other": _disagreeing(summary, choice) if chosen else None,
        "met": {recipe(row): str(frame.loc[row, "attack"]) for row in rows} if len(summary.attacks) > 1 else {},
        "recipe": recipe,
        "value_text": summary.value_text,
        "leak": partial(_leak, summary),
        "gap": lambda row: gap_of(summary, row, choice.baseline),
        "price": lambda: _price(summary, choice.chosen, choice.baseline),
        "accuracy": partial(number, ACCURACY),
        "judged": _judge(summary) if summary.primary else "",
        "of_attack": " under the strongest attack tried" if len(summary.attacks) > 1 else "",
        "among": _among(summary),
        "gap_words": partial(gap_words, summary),
        "uncertainty_words": partial(uncertainty_words, summary),
    }
    return sections(PLACE, "findings.txt", WORDS | known)


WORDS = {
    one.__name__: one
    for one in (
        accuracy_gap,
        accuracy_kept,
        count,
        inverts_nothing,
        listing,
        margin_words,
        metric_of,
        points,
        standing,
    )
} | {"ACCURACY": ACCURACY, "CHEAP": CHEAP, "HIDES": HIDES, "WORDING": WORDING}


def _recipe(summary: Summary, row: int) -> str:
    return named(summary.frame.loc[row, "recipe"])


def _judge(summary: Summary) -> str:
    """A phrase that names the judge, such as `by the independent judge`."""
    return f"by {'the ' if summary.primary in CLASS_METRICS else ''}{summary.spec.label}"


def _leak(summary: Summary, row: int) -> str:
    return f"{summary.value_text(row)}{hits_in_words(summary.spec, summary.people)}"


def _among(summary: Summary) -> str:
    if summary.min_test_acc is None:
        return ""
    return f"among the recipes with at least {number(ACCURACY, summary.min_test_acc)} test accuracy, "


def _hides(summary: Summary, choice: Decision) -> bool:
    """Whether the chosen recipe hides its leak from published attacks."""
    gap = None if None in (choice.best, choice.reference) else gap_of(summary, choice.chosen, choice.baseline)
    return gap is not None and gap.word == HIDES


def _price(summary: Summary, best: int, reference: int) -> str:
    """A phrase such as `, at a test accuracy of 86.2 % against 87.4 %`, which claims no equality."""
    mine, theirs = (summary.frame.loc[row, "test_acc"] for row in (best, reference))
    if pd.isna(mine) or pd.isna(theirs):
        return "; what it costs in test accuracy was not measured"
    return f", at a test accuracy of {number(ACCURACY, mine)} against {number(ACCURACY, theirs)}"


def _cheaper(summary: Summary, choice: Decision) -> int | None:
    """The row of the best recipe that costs little accuracy, where the chosen one costs much and no floor is set."""
    accuracy, reference = summary.frame["test_acc"], choice.reference
    if reference is None or summary.min_test_acc is not None or choice.seeds < LEAST_SEEDS:
        return None
    floor = accuracy[reference] - CHEAP
    near = [row for row in choice.rows.values() if accuracy[row] >= floor]
    best = min(near, key=summary.leak, default=reference)
    return None if accuracy[choice.best] >= floor or best == reference else best


def _catalyst(summary: Summary, choice: Decision) -> int | None:
    """The row of the recipe that leaks most, where it leaks significantly more than the baseline."""
    if choice.reference is None:
        return None
    worst = max(choice.rows.values(), key=summary.leak)
    gap = gap_of(summary, worst, choice.reference)
    return None if worst in (choice.best, choice.reference) or gap is None or gap.word != LEAKS_MORE else worst


def _disagreeing(summary: Summary, choice: Decision) -> str | None:
    """Another judge with a very different value or another verdict; None where judges agree."""
    metric, frame, reference = summary.primary, summary.frame, choice.reference
    other = next(
        (key for key in CLOSED_SET if key != metric and key in summary.measured and summary.is_told(key)), None
    )
    if metric not in CLASS_METRICS or other is None or pd.isna(frame.loc[(best := choice.chosen), other]):
        return None
    names = [frame.loc[row, "recipe"] for row in (best, reference) if row is not None]
    gaps = (summary.reduction(key, *names) for key in (other, metric)) if reference not in (None, best) else ()
    verdicts = {None if gap is None else gap.word for gap in gaps} or {None}
    agree = abs(frame.loc[best, other] - frame.loc[best, metric]) < 0.2 and len(verdicts) == 1
    return None if agree else other


def _states(data: ReportData, words: dict[str, str], *, fewest: int) -> list[str]:
    """Phrases such as `3 failed`, for each state with at least `fewest` trials. words: state -> word."""
    status = data.results["status"].value_counts()
    return [f"{status.get(name, 0)}{NBSP}{word}" for name, word in words.items() if status.get(name, 0) >= fewest]


def limits(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """Sentences on how all numbers of a page are computed, and on what they cannot show."""
    seeds = count(data.results["seed"].nunique(), "seed")
    known = {"data": data, "seeds": seeds, "tried": [attack for attack in summary.attacks if attack]}
    return sections(PLACE, "limits.txt", WORDS | known)["limits"]
