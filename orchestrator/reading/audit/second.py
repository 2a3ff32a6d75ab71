"""A second embedder's judgement of an audit's reconstructions: another network, trained on other photographs."""

from __future__ import annotations

from dataclasses import replace

from smoothsweep.orchestrator.reading.audit.result import Audit
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.standing.judged import APART, Standing, standings


def with_second(audit: Audit, summary: Summary, name: str) -> Audit:
    """The audit with the standings of the same attack by the embedder `name`, from the summary of its judging; as it is
    where that has not judged this attack."""
    frame = summary.frame
    if summary.primary is None or summary.primary not in frame:
        return audit
    rows = frame[(frame["attack"] == audit.strongest.attack) & frame[summary.primary].notna()]
    rows = rows[rows["recipe"] == summary.recipes[0]] if len(rows) > 1 else rows
    control = [one.attack for one in audit.controls[:1]]
    beside = frame[frame["attack"].isin(control)].index
    if not len(rows):
        return audit
    found = standings(summary, int(rows.index[0]), int(beside[0]) if len(beside) else None, audit.classes)
    return replace(
        audit, second=tuple(replace(one, words=f"{one.words}, by {name}") for one in found), second_name=name
    )


def judged_rows(audit: Audit) -> tuple[Standing, ...]:
    """The standings by both embedders; beside a second one those of the first have its name, too."""
    both = {one.metric for one in audit.second} if audit.judge_name else set()
    named = [
        replace(one, words=f"{one.words}, by {audit.judge_name}") if one.metric in both else one
        for one in audit.standing
    ]
    return (*named, *audit.second)


def second_lines(audit: Audit) -> tuple[str, ...]:
    """A sentence for what is verified, or else matched: both judges' numbers, and whether they agree."""
    pairs = [(one, other) for one in audit.standing for other in audit.second if one.metric == other.metric]
    asked = [pair for pair in pairs if pair[0].spec.reach is not None]
    if not asked:
        return ()
    one, other = next((pair for pair in asked if pair[0].spec.verifies), asked[0])
    apart = abs((one.leak.value or 0.0) - (other.leak.value or 0.0)) >= APART
    first = f"the first ({audit.judge_name})" if audit.judge_name else "the first"
    said = f"A second embedder ({audit.second_name}): {other.shown('leak')} {_verb(other)}, {first} {one.shown('leak')}"
    return (f"{said}. {'The two disagree: the truth may be either.' if apart else 'The two agree.'}",)


def _verb(one: Standing) -> str:
    return "recognised" if one.spec.verifies else "matched"
