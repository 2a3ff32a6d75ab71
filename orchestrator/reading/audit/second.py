"""The judgement of an audit's reconstructions by a second embedder, trained on other photographs."""

from __future__ import annotations

from dataclasses import replace

from smoothsweep.orchestrator.reading.audit.result import Audit
from smoothsweep.orchestrator.reading.numbers.judges import untold
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.standing.judged import APART, Standing, standings


def with_second(audit: Audit, summary: Summary, name: str) -> Audit:
    """Add to an audit how the second embedder `name` judges the strongest attack.

    summary: of the sweep in which it judges. The audit is returned unchanged where that holds no such attack.
    """
    frame = summary.frame
    if summary.primary is None or summary.primary not in frame:
        told = tuple(f"By {name}: {line.rstrip('.')}" for line in untold(summary.checks))
        return replace(audit, told=(*audit.told, *told))
    rows = frame[(frame["attack"] == audit.strongest.attack) & frame[summary.primary].notna()]
    rows = rows[rows["recipe"] == summary.recipes[0]] if len(rows) > 1 else rows
    control = [one.attack for one in audit.controls[:1]]
    control_rows = frame[frame["attack"].isin(control)].index
    if not len(rows):
        return audit
    second = standings(summary, int(rows.index[0]), int(control_rows[0]) if len(control_rows) else None, audit.classes)
    return replace(
        audit, second=tuple(replace(one, words=f"{one.words}, by {name}") for one in second), second_name=name
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
    """A sentence with the numbers of both embedders and whether they agree; empty without a second one."""
    pairs = [(one, other) for one in audit.standing for other in audit.second if one.metric == other.metric]
    verifying = [pair for pair in pairs if pair[0].spec.reach is not None]
    if not verifying:
        return ()
    one, other = next((pair for pair in verifying if pair[0].spec.verifies), verifying[0])
    apart = abs((one.leak.value or 0.0) - (other.leak.value or 0.0)) >= APART
    first = f"the first ({audit.judge_name})" if audit.judge_name else "the first"
    second = f"A second embedder ({audit.second_name}): {other.value_text('leak')} {_verb(other)}"
    verdict = f"{second}, {first} {one.value_text('leak')}"
    return (f"{verdict}. {'The two disagree: the truth may be either.' if apart else 'The two agree.'}",)


def _verb(one: Standing) -> str:
    return "recognised" if one.spec.verifies else "matched"
