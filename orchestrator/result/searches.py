"""Sentences on a search: its space, cost and progress, and whether its cheap attacks rank recipes reliably."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.agreement import RankAgreement, rank_agreement
from smoothsweep.core.plugins import with_plugin_name
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.result.data import (
    Objective,
    Progress,
    ProposalRow,
    SearchView,
    paired_with_full,
)
from smoothsweep.orchestrator.result.format import (
    ABSENT,
    count,
    duration,
    is_null,
    listing,
    number,
    significant,
)
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.sweeps.search import STRATEGIES


def search_words(view: SearchView) -> list[str]:
    """Sentences on the strategy of a search, its objectives, its cost and its end."""
    up = {"max": "up", "min": "down"}
    aims = listing(f"{aim_words(objective)} {up[objective.way]}" for objective in view.objectives)
    met = len({proposal.key for proposal in view.proposals})
    planned_text = f" of at most {view.asked:,}" if view.asked and view.asked > met else ""
    constraints_text = f", with {listing(view.constraints)}" if view.constraints else ""
    did = with_plugin_name(STRATEGIES[view.strategy].words, "search", view.strategy)
    first = f"{did}: {count(met, 'recipe')}{planned_text}, to drive {aims}{constraints_text}."
    status = Counter(proposal.status for proposal in view.proposals)
    states = [f"{status[name]}{NBSP}{name}" for name in ("open", "failed") if status[name]]
    troubled = f" ({listing(states)})" if states else ""
    allowed = f" of {view.budget} allowed" if view.budget else ""
    second = (
        f"It took {duration(3600 * view.spent_device_hours)} of device time{allowed}, work reused from the store not "
        f"counted{troubled}. {ended(view)}"
    )
    return [first, second]


def aim_words(objective: Objective) -> str:
    """The name of an objective, such as `leak by independent judge` for a hit rate."""
    spec = objective.spec
    rate = spec is not None and spec.group == "leak" and spec.unit == "percent"
    return f"leak by {objective.label}" if rate else objective.label


def ended(view: SearchView) -> str:
    """What ended the search, as a sentence."""
    if view.stopped_by is None:
        return "It is not finished: the same command goes on where it is."
    if view.stopped_by == "recipes":
        return "It ended when it had tried as many recipes as it was given."
    if view.stopped_by == "exhausted":
        return "It ended when the space held no recipe that it had not tried."
    return f"It was ended: {view.stopped_by.removesuffix('.')}."


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


def progress_words(view: SearchView, gone: Progress) -> str:
    cost = "Device time is counted in the order of the proposals, the cheap attacks of others included."
    if len(view.objectives) == 1:
        return f"The best {view.objectives[0].label} so far among the recipes that meet the constraints. {cost}"
    ends = listing(
        f"{value_words(objective, end)} {aim_words(objective)}"
        for objective, end in zip(view.objectives, gone.reference, strict=True)
    )
    return (
        f"Hypervolume of what was found so far, measured from {ends}: it grows where a recipe beats what was known, "
        f"and ends at {significant(gone.values[-1])} with {count(len(gone.best), 'recipe')} on the frontier. {cost}"
    )


def coordinates_words(view: SearchView, objective: Objective) -> str:
    """Sentences on how to read the parallel-coordinates figure of the parameters."""
    full = sum(proposal.status == "done" for proposal in view.full)
    which = (
        f" {count(full, 'recipe')} attacked in full; those attacked by a cheap attack alone are left out."
        if (view.on_rungs)
        else f" {count(full, 'recipe')}."
    )
    return (
        f"Each line is a recipe, from its parameters on the left to what it reached on the right, coloured by "
        f"{aim_words(objective)}: blue is best, orange worst, in fifths of what occurred.{which}"
    )


def importance_words(view: SearchView) -> str:
    """Sentences on how the importances of parameters are computed, and on their limits."""
    few = min(importance.recipes for importance in view.importances)
    parameters = max(len(importance.shares) for importance in view.importances)
    caution = (
        " With so few recipes for so many parameters the order itself may be chance." if few < 10 * parameters else ""
    )
    return (
        "How the variance between the tried recipes divides among the parameters (Optuna's fANOVA, a random forest "
        f"fitted to {count(few, 'recipe')}; a parameter that a recipe lacks stands in the middle of its range). "
        "This describes what was tried: a search tries more recipes where they are good, so it is no estimate of an "
        f"effect and has no interval.{caution}"
    )


def agreement_words(view: SearchView, rung: int, objective: Objective, summary: Summary) -> str:
    """A sentence on whether a rung ranks recipes as the full attack does, with the interval of the agreement."""
    sign = -1 if objective.way == "max" else 1
    pairs = paired_with_full(view, rung, objective.column)
    audited = sum(proposal.audited for proposal in view.full)
    which = f"{count(len(pairs), 'recipe')} were attacked both by it and in full"
    if audited:
        which += f", {audited} of them though dropped, chosen by chance"
    if len(pairs) < 2:
        return f"{which}: too few to say whether it ranks them alike by {objective.label}."
    cheap, dear = ([sign * value for value in side] for side in zip(*pairs, strict=True))
    ranks = rank_agreement(cheap, dear, k=min(BEST, len(cheap)), **asdict(summary.settings))
    return f"{which}. {_ranked(ranks, objective.label)}"


BEST = 3
"""Number of recipes that count as the best."""


def _ranked(ranks: RankAgreement, judge: str) -> str:
    if ranks.kendall.value != ranks.kendall.value:
        return f"By {judge} one of the two finds them all equal, so that there is nothing to rank."
    meaning = {
        "agree": "it ranks recipes as the full attack does, and may choose among them",
        "disagree": "it ranks recipes against the full attack, so its choice misleads",
        "inconclusive": "whether it ranks recipes as the full attack does is inconclusive with so few",
    }[ranks.verdict]
    best = f"the best {ranks.k}" if ranks.k > 1 else "the best one"
    return (
        f"By {judge} {meaning}: {tau_words(ranks)} (1: the same order, 0: none), and of {best} by the full attack it "
        f"has {100 * ranks.top_overlap:.0f}{NBSP}% among its own."
    )


def tau_words(ranks: RankAgreement) -> str:
    """The agreement as text, such as `Kendall's tau 0.62 [0.40, 0.80]`; without interval where none is known."""
    value, low, high = (
        end if end is None else minus(f"{end:.2f}")
        for end in (ranks.kendall.value, ranks.kendall.low, ranks.kendall.high)
    )
    return f"Kendall's tau {value}" + ("" if low is None else f" [{low}, {high}]")


def rung_lines(view: SearchView, summary: Summary) -> list[str]:
    """Sentences on each rung of successive halving, and on whether it ranks recipes as the full attack does."""
    lines = []
    for rung, members in view.on_rungs:
        how = f" ({view.rungs[rung]})" if rung < len(view.rungs) else ""
        through = sum(proposal.kept is True for proposal in members)
        lines.append(f"Rung {rung + 1}{how}: {count(len(members), 'recipe')} attacked, {through} went on.")
        leaks = (one for one in view.objectives if one.spec and one.spec.group == "leak")
        lines += [agreement_words(view, rung, objective, summary) for objective in leaks]
    return lines


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
