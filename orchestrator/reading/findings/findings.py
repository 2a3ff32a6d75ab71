"""What the numbers say, in sentences a decision can rest on: the answer, how sure it is, and what to beware of."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from core.metrics.table import CLASS_METRICS, metric_of
from core.metrics.verdicts import CANNOT_TELL, HIGHER, LEAST_SEEDS, LOWER
from core.words import NBSP
from orchestrator.reading.defenses.families import CHEAP
from orchestrator.reading.findings.fresh import fresh_answer
from orchestrator.reading.findings.portfolio import by_access, control_line
from orchestrator.reading.findings.sureness import TOO_SMALL, flattery, gap_words, named, standing, sureness
from orchestrator.reading.numbers.decision import Decision, decide
from orchestrator.reading.numbers.format import count, difference, estimate, listing, number, points
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary


@dataclass(frozen=True, kw_only=True)
class Findings:
    """answer: what leaks least, then how sure that is. more: what else a reader should know. cautions: its limits."""

    answer: tuple[str, ...]
    more: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


def find(data: ReportData, summary: Summary) -> Findings:
    """The findings of a sweep."""
    cautions = _trial_cautions(data)
    choice = decide(summary)
    if not choice.rows:
        return Findings(answer=(f"No leak has been measured yet: {_progress(data)}.",))
    if choice.best is None:
        return Findings(answer=(_none_accurate(summary, choice),), cautions=cautions)
    if len(choice.rows) > 1 and choice.seeds < LEAST_SEEDS:
        answer = _untold(summary, choice)
    elif choice.reference is None or len(choice.rows) == 1:
        answer = _alone(summary, choice)
    elif choice.best == choice.reference:
        answer = _baseline_best(summary, choice)
    else:
        answer = _against(summary, choice)
    again = fresh_answer(data, summary)
    levels = by_access(summary, choice.best)
    more = (*levels, *_cheaper(summary, choice), *_catalyst(summary, choice), *_judges(summary, choice))
    limits = (*control_line(summary), *cautions, *(() if again else flattery(summary)), *_cautions(summary, choice))
    return Findings(answer=(*answer, *again), more=more, cautions=limits)


def by_judge(metric: str) -> str:
    """`by the independent judge`."""
    return f"by {'the ' if metric in CLASS_METRICS else ''}{metric_of(metric).label}"


def start(sentence: str) -> str:
    """With a capital, as sentences begin."""
    return sentence[:1].upper() + sentence[1:]


def _estimate(summary: Summary, metric: str, row: int) -> str:
    values = summary.frame.loc[row]
    return estimate(metric_of(metric), values[metric], values[f"{metric}_low"], values[f"{metric}_high"])


def _recipe(summary: Summary, row: int) -> str:
    return named(summary.frame.loc[row, "recipe"])


def _strongest(summary: Summary) -> str:
    return " under the strongest attack tried" if len(summary.attacks) > 1 else ""


def _recognised(metric: str) -> str:
    return " of its reconstructions are recognised" if metric in CLASS_METRICS else ""


def _among(summary: Summary) -> str:
    if summary.min_test_acc is None:
        return ""
    return f"among the recipes with at least {number(metric_of('test_acc'), summary.min_test_acc)} test accuracy, "


def _none_accurate(summary: Summary, choice: Decision) -> str:
    acc = metric_of("test_acc")
    top = max(choice.rows.values(), key=lambda row: summary.frame["test_acc"].fillna(-1)[row])
    return (
        f"No recipe reaches the {number(acc, summary.min_test_acc)} test accuracy asked for. The most accurate, "
        f"{_recipe(summary, top)}, has {number(acc, summary.frame.loc[top, 'test_acc'])} and leaks "
        f"{_estimate(summary, summary.primary, top)} {by_judge(summary.primary)}."
    )


def _alone(summary: Summary, choice: Decision) -> tuple[str, ...]:
    metric = summary.primary
    acc = number(metric_of("test_acc"), summary.frame.loc[choice.best, "test_acc"])
    leak = f"{_estimate(summary, metric, choice.best)}{_recognised(metric)}, at {acc} test accuracy"
    name = _recipe(summary, choice.best)
    if len(choice.rows) == 1:
        return (
            f"{start(name)} is the only recipe measured so far: {by_judge(metric)}, {leak}.",
            "There is nothing yet to compare it with.",
        )
    return (
        f"{start(_among(summary) + name)} leaks least {by_judge(metric)}{_strongest(summary)}: {leak}.",
        "No baseline was measured beside it, so how much this gains cannot be said.",
        *standing(summary),
    )


def _untold(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """The numbers of recipes with one seed each, of which none can be told from another."""
    metric, best, reference = summary.primary, choice.best, choice.reference
    beside = ""
    if reference not in (None, best):
        beside = f", against {_estimate(summary, metric, reference)} at {_recipe(summary, reference)}"
        beside += _price(summary, best, reference)
    first = f"{_among(summary)}one seed cannot tell which recipe leaks least {by_judge(metric)}{_strongest(summary)}."
    return (
        start(first),
        f"The smallest number is that of {_recipe(summary, best)}: {_estimate(summary, metric, best)}"
        f"{_recognised(metric)}{beside}. Another training run may turn any of these differences round: add seeds.",
    )


def _baseline_best(summary: Summary, choice: Decision) -> tuple[str, ...]:
    metric, sign = summary.primary, metric_of(summary.primary).sign
    among, name = _among(summary), _recipe(summary, choice.reference)
    nothing = f"{among}none leaks less than {name}" if among else f"no recipe tried leaks less than {name}"
    leak = f"{_estimate(summary, metric, choice.reference)}{_recognised(metric)}"
    first = f"{nothing}{_strongest(summary)}: {by_judge(metric)}, {leak}."
    others = [row for row in choice.rows.values() if row != choice.reference]
    nearest = min(others, key=lambda row: sign * summary.frame.loc[row, metric])
    gap = summary.versus(metric, summary.frame.loc[nearest, "recipe"], summary.frame.loc[choice.reference, "recipe"])
    shown = f" ({gap_words(summary, gap)})" if gap.n else ""
    second = f"{_recipe(summary, nearest)} has {_estimate(summary, metric, nearest)}{shown}; {sureness(summary, gap)}"
    return start(first), start(second), *standing(summary)


def _against(summary: Summary, choice: Decision) -> tuple[str, ...]:
    metric, best, reference = summary.primary, choice.best, choice.reference
    name, baseline = _recipe(summary, best), _recipe(summary, reference)
    gap = summary.versus(metric, summary.frame.loc[best, "recipe"], summary.frame.loc[reference, "recipe"])
    shown = f" ({gap_words(summary, gap)})" if gap.n else ""
    values = (
        f"{_estimate(summary, metric, best)}{_recognised(metric)}, against "
        f"{_estimate(summary, metric, reference)} at {baseline}{shown}{_price(summary, best, reference)}."
    )
    judged = f"{by_judge(metric)}{_strongest(summary)}"
    if choice.clear:
        first = f"{_among(summary)}{name} leaks least {judged}: {values}"
    else:
        first = (
            f"{_among(summary)}no recipe leaks clearly less than {baseline} {judged}. The lowest is {name}: {values}"
        )
    return (
        start(first), start(sureness(summary, gap)), *standing(summary), *_accuracy_sureness(summary, best, reference)
    )  # fmt: skip


def _price(summary: Summary, best: int, reference: int) -> str:
    """`, for 1.2 points of test accuracy (86.2 % against 87.4 %)`."""
    acc = metric_of("test_acc")
    mine, theirs = (summary.frame.loc[row, "test_acc"] for row in (best, reference))
    if pd.isna(mine) or pd.isna(theirs):
        return "; what it costs in test accuracy was not measured"
    gap = mine - theirs
    if abs(gap) < 0.0005:
        return f", at the same test accuracy ({number(acc, mine)})"
    values = f"({number(acc, mine)} against {number(acc, theirs)})"
    if gap < 0:
        return f", for {points(acc, gap)} of test accuracy {values}"
    return f", and gains {points(acc, gap)} of test accuracy {values}"


def _accuracy_sureness(summary: Summary, best: int, reference: int) -> tuple[str, ...]:
    gap = summary.compare("test_acc", best, reference)
    if gap.n == 0 or gap.low == gap.high == 0:
        return ()
    shown = difference(metric_of("test_acc"), gap.difference, gap.low, gap.high)
    if gap.verdict == CANNOT_TELL:
        return (f"The difference in accuracy, {shown}, cannot be told from zero: {TOO_SMALL}.",)
    return (f"The difference in accuracy is clear too: {shown}.",)


def _cheaper(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """Where the answer costs much accuracy and no floor was asked for: the best that costs little."""
    metric, frame, reference = summary.primary, summary.frame, choice.reference
    if reference is None or summary.min_test_acc is not None or choice.seeds < LEAST_SEEDS:
        return ()
    floor = frame.loc[reference, "test_acc"] - CHEAP
    near = [row for row in choice.rows.values() if frame.loc[row, "test_acc"] >= floor]
    best = min(near, key=lambda row: metric_of(metric).sign * frame.loc[row, metric], default=reference)
    if frame.loc[choice.best, "test_acc"] >= floor or best == reference:
        return ()
    return (
        f"Within {points(metric_of('test_acc'), CHEAP)} of the accuracy of {_recipe(summary, reference)}, "
        f"{_recipe(summary, best)} leaks least: {_estimate(summary, metric, best)}.",
    )


def _catalyst(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """The recipe that clearly leaks more than the baseline, if there is one."""
    metric, sign = summary.primary, metric_of(summary.primary).sign
    if choice.reference is None:
        return ()
    worst = max(choice.rows.values(), key=lambda row: sign * summary.frame.loc[row, metric])
    gap = summary.versus(metric, summary.frame.loc[worst, "recipe"], summary.frame.loc[choice.reference, "recipe"])
    if worst in (choice.best, choice.reference) or gap.verdict != (HIGHER if sign > 0 else LOWER):
        return ()
    shown = difference(metric_of(metric), gap.difference, gap.low, gap.high)
    against = _recipe(summary, choice.reference)
    name = start(_recipe(summary, worst))
    return (f"{name} leaks most: {_estimate(summary, metric, worst)}, {shown} compared with {against}.",)


def _judges(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """Where the other judge contradicts the one that decides: a value far away, or another verdict."""
    metric, frame, best, reference = summary.primary, summary.frame, choice.best, choice.reference
    others = [key for key in CLASS_METRICS if key != metric and key in summary.measured]
    if metric not in CLASS_METRICS or not others or pd.isna(frame.loc[best, others[0]]):
        return ()
    other, compared = others[0], reference not in (None, best)
    verdicts = {summary.compare(key, best, reference).verdict for key in (other, metric)} if compared else {""}
    if abs(frame.loc[best, other] - frame.loc[best, metric]) < 0.2 and len(verdicts) == 1:
        return ()
    beside = ""
    if compared and not pd.isna(frame.loc[reference, other]):
        beside = f" ({_estimate(summary, other, reference)} at {_recipe(summary, reference)})"
    return (
        f"The judges disagree: at {_recipe(summary, best)} the {metric_of(other).label} accepts "
        f"{_estimate(summary, other, best)}{beside}, the {metric_of(metric).label} {_estimate(summary, metric, best)}.",
    )


def _cautions(summary: Summary, choice: Decision) -> tuple[str, ...]:
    found, best, reference = [], choice.best, choice.reference
    if len(summary.attacks) > 1:
        rows = [row for row in (best, reference) if row is not None]
        named = {_recipe(summary, row): str(summary.frame.loc[row, "attack"]) for row in rows}
        pairs = [f"{recipe}: {attack}" for recipe, attack in named.items()]
        met = next(iter(named.values())) if len(set(named.values())) == 1 else "; ".join(pairs)
        found.append(f"Each recipe counts with the attack that worked best against it ({met}).")
    if reference not in (None, best):
        mine, theirs = (summary.frame.loc[row, "gradient_cosine"] for row in (best, reference))
        if theirs - mine >= 0.1:
            found.append(
                f"The attack's gradients are less stable at {_recipe(summary, best)} (cosine {mine:.2f} against "
                f"{theirs:.2f}): part of the defense may be masked gradients. Confirm with an attack that needs none."
            )
    return tuple(found)


def _trial_cautions(data: ReportData) -> tuple[str, ...]:
    status = data.results["status"].value_counts()
    words = (("failed", "failed"), ("missing", "not run yet"))
    absent = [f"{status[name]}{NBSP}{word}" for name, word in words if name in status]
    if not absent:
        return ()
    return (f"Of {count(len(data.results), 'trial')}, {listing(absent)}: the numbers rest on the others.",)


def _progress(data: ReportData) -> str:
    status = data.results["status"].value_counts()
    parts = [f"{status.get(name, 0)}{NBSP}{name}" for name in ("done", "failed", "missing")]
    return f"of {count(len(data.results), 'trial')}, {listing(parts)}"


def limits(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """What stands behind every number of the page, and what no number of it can say."""
    seeds = count(data.results["seed"].nunique(), "seed")
    classes = f" and {count(data.judged_classes, 'class', 'classes')}" if data.judged_classes else ""
    tried = [attack for attack in summary.attacks if attack]
    attacks = f"the attacks tried ({listing(tried)})" if 1 < len(tried) <= 3 else (
        f"the {len(tried)} attacks tried" if tried[1:] else "the one attack tried")  # fmt: skip
    return (
        f"Everything here rests on {seeds}{classes} and on {attacks}: a stronger attack may find more, and a recipe "
        "that leaks little may only hide what it holds.",
    )
