"""What is said of a search: its space, cost and progress, and whether its cheap attacks rank recipes reliably."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.agreement import rank_agreement
from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.core.prose import sections
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.result.data import (
    Objective,
    Progress,
    ProposalRow,
    SearchView,
    paired_with_full,
    progress,
)
from smoothsweep.orchestrator.result.display import PLACE
from smoothsweep.orchestrator.result.estimates import SEED
from smoothsweep.orchestrator.result.format import ABSENT, count, duration, is_null, listing, number, significant
from smoothsweep.sweeps.search import STRATEGIES

BEST = 3
"""Number of recipes that count as the best."""


def search_sentences(view: SearchView) -> dict[str, tuple[str, ...]]:
    """The sentences of each part of the section on a search, see search.txt."""
    gone, status = progress(view), Counter(proposal.status for proposal in view.proposals)
    reference = gone.reference if gone else ()
    known = {
        "view": view,
        "gone": gone,
        "did": with_plugin_name(STRATEGIES[view.strategy].words, "search", view.strategy),
        "met": len({proposal.key for proposal in view.proposals}),
        "aims": [f"{aim_words(one)} {'up' if one.way == 'max' else 'down'}" for one in view.objectives],
        "troubles": [f"{status[name]}{NBSP}{name}" for name in ("open", "failed") if status[name]],
        "ends": [
            f"{value_words(aim, end)} {aim_words(aim)}" for aim, end in zip(view.objectives, reference, strict=False)
        ],
        "fewest": min((one.recipes for one in view.importances), default=0),
        "parameters": max((len(one.shares) for one in view.importances), default=0),
        "audited": sum(proposal.audited for proposal in view.full),
        "rungs": list(_rungs(view)),
        "two": lambda value: minus(f"{value:.2f}"),
        "NBSP": NBSP,
        **{one.__name__: one for one in (count, duration, listing, significant)},
    }
    return sections(PLACE, "search.txt", known)


def _rungs(view: SearchView) -> Iterator[dict[str, Any]]:
    """Each rung of successive halving, and by every leak how it ranks recipes beside the full attack."""
    leaks = [one for one in view.objectives if one.spec and one.spec.group == "leak"]
    for rung, members in view.on_rungs:
        judges = []
        for objective in leaks:
            sign, pairs = -1 if objective.way == "max" else 1, paired_with_full(view, rung, objective.column)
            ranks = None
            if len(pairs) > 1:
                cheap, dear = ([sign * value for value in side] for side in zip(*pairs, strict=True))
                ranks = rank_agreement(cheap, dear, k=min(BEST, len(cheap)), seed=SEED)
            judges.append({"label": objective.label, "pairs": len(pairs), "ranks": ranks})
        yield {
            "number": rung + 1,
            "how": view.rungs[rung] if rung < len(view.rungs) else "",
            "met": len(members),
            "through": sum(proposal.kept is True for proposal in members),
            "judges": judges,
        }


def aim_words(objective: Objective) -> str:
    """The name of an objective, such as `leak by independent judge` for a hit rate."""
    spec = objective.spec
    rate = spec is not None and spec.group == "leak" and spec.unit == "percent"
    return f"leak by {objective.label}" if rate else objective.label


def value_words(objective: Objective, value: float | None) -> str:
    """A value of an objective with its unit; a dash where it was not measured."""
    if objective.spec is not None:
        return number(objective.spec, value)
    return ABSENT if is_null(value) else significant(float(present(value, "value")))


def proposal_words(view: SearchView, proposal: ProposalRow) -> str:
    """A proposal's name and its objectives, a line each."""
    name = proposal.name or ", ".join(f"{key} {value}" for key, value in proposal.values.items())
    objectives = [f"{o.label}: {value_words(o, proposal.objectives.get(o.column))}" for o in view.objectives]
    return "\n".join([f"{name} (proposal {proposal.number})", *objectives])


def marks(proposal: ProposalRow, gone: Progress | None) -> list[str]:
    """Words on what became of a proposal, such as whether it was dropped or is on the frontier."""
    done = proposal.status == "done"
    decided = "" if proposal.kept is None else "went on" if proposal.kept else "dropped"
    words = (
        "" if done else proposal.status,
        "frontier" if gone is not None and proposal.number in gone.best else "",
        "misses a constraint" if done and not proposal.feasible else "",
        decided,
        "audit" if proposal.audited else "",
        count(proposal.seeds, "seed") + " only" if proposal.seeds else "",
    )
    return [word for word in words if word]
