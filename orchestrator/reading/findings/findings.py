"""The findings of a sweep in sentences: the answer, its uncertainty, and cautions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, CLOSED_SET, metric_of
from smoothsweep.core.metrics.leak_comparisons import HIDES, LEAKS_MORE
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.defenses.families import CHEAP
from smoothsweep.orchestrator.reading.findings.fresh import fresh_answer
from smoothsweep.orchestrator.reading.findings.incomplete import incomplete_lines
from smoothsweep.orchestrator.reading.findings.integrity import (
    control_line,
    integrity_lines,
    inverts_nothing,
    without_leak,
)
from smoothsweep.orchestrator.reading.findings.settings import setting_answer
from smoothsweep.orchestrator.reading.findings.uncertainty import (
    flattery,
    gap_of,
    gap_words,
    standing,
    uncertainty_words,
)
from smoothsweep.orchestrator.reading.numbers.accuracy import accuracy_gap, accuracy_kept, margin_words
from smoothsweep.orchestrator.reading.numbers.decision import Decision, decide
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named, number, points, start
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import WORDING, hits_in_words
from smoothsweep.orchestrator.reading.standing.access import by_access
from smoothsweep.orchestrator.reading.standing.recipes import standing_sentences

ACCURACY = metric_of("test_acc")


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
    return replace(_find(data, summary), incomplete=incomplete_lines(summary))


def _find(data: ReportData, summary: Summary) -> Findings:
    cautions, choice = (*_trial_cautions(data), *integrity_lines(data, summary)), decide(summary)
    if summary.by_setting and summary.primary is not None:
        return Findings(answer=setting_answer(summary), cautions=(*control_line(summary), *cautions))
    if not choice.rows:
        if inverts_nothing(data):
            return Findings(answer=(without_leak(data, summary),), cautions=cautions)
        parts = _states(data, {"done": "done", "failed": "failed", "missing": "missing"}, fewest=0)
        trials = count(len(data.results), "trial")
        what = "No leak has been measured" if summary.primary is None else "No recipe has results of every attack"
        no_answer = f"{what} yet: of {trials}, {listing(parts)}."
        return Findings(answer=(no_answer,), cautions=cautions if summary.primary else ())
    if choice.best is None:
        return Findings(answer=(_none_accurate(summary, choice),), cautions=cautions)
    if len(choice.rows) > 1 and choice.seeds < LEAST_SEEDS:
        answer = _of_one_seed(summary, choice)
    elif choice.reference is None or len(choice.rows) == 1:
        answer = _alone(summary, choice)
    elif choice.best == choice.reference:
        answer = _baseline_best(summary, choice)
    else:
        answer = _against(summary, choice)
    again, levels = fresh_answer(data, summary), by_access(summary, choice.best)
    more = (
        *levels,
        *standing_sentences(summary),
        *_cheaper(summary, choice),
        *_catalyst(summary, choice),
        *_judges(summary, choice),
    )
    limits = (*control_line(summary), *cautions, *(() if again else flattery(summary)), *_cautions(summary, choice))
    return Findings(answer=(*answer, *again), more=more, cautions=limits)


def _recipe(summary: Summary, row: int) -> str:
    return named(summary.frame.loc[row, "recipe"])


def _judge(summary: Summary) -> str:
    """A phrase that names the judge, such as `by the independent judge`."""
    return f"by {'the ' if summary.primary in CLASS_METRICS else ''}{summary.spec.label}"


def _attack(summary: Summary) -> str:
    return " under the strongest attack tried" if len(summary.attacks) > 1 else ""


def _leak(summary: Summary, row: int) -> str:
    return f"{summary.value_text(row)}{hits_in_words(summary.spec, summary.people)}"


def _among(summary: Summary) -> str:
    if summary.min_test_acc is None:
        return ""
    return f"among the recipes with at least {number(ACCURACY, summary.min_test_acc)} test accuracy, "


def _none_accurate(summary: Summary, choice: Decision) -> str:
    top = max(choice.rows.values(), key=lambda row: summary.frame["test_acc"].fillna(-1)[row])
    return (
        f"No recipe reaches the {number(ACCURACY, summary.min_test_acc)} test accuracy asked for. The most accurate, "
        f"{_recipe(summary, top)}, has {number(ACCURACY, summary.frame.loc[top, 'test_acc'])} and leaks "
        f"{summary.value_text(top)} {_judge(summary)}."
    )


def _alone(summary: Summary, choice: Decision) -> tuple[str, ...]:
    accuracy = number(ACCURACY, summary.frame.loc[choice.chosen, "test_acc"])
    leak, name = f"{_leak(summary, choice.chosen)}, at {accuracy} test accuracy", _recipe(summary, choice.chosen)
    if len(choice.rows) == 1:
        first = f"{start(name)} is the only recipe measured so far: {_judge(summary)}, {leak}."
        return first, "There is nothing yet to compare it with."
    return (
        f"{start(_among(summary) + name)} leaks least {_judge(summary)}{_attack(summary)}: {leak}.",
        "No baseline was measured, so the reduction is unknown.",
        *standing(summary),
    )


def _of_one_seed(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """Sentences with the leaks of recipes that have one seed each, which prove no difference."""
    best, reference, of_attack = choice.chosen, choice.reference, _attack(summary)
    comparison = ""
    if reference not in (None, best):
        comparison = f", against {summary.value_text(reference)} at {_recipe(summary, reference)}"
        comparison += _price(summary, best, reference)
    return (
        start(f"{_among(summary)}with one seed, what leaks least {_judge(summary)}{of_attack} is inconclusive."),
        f"The smallest number is that of {_recipe(summary, best)}: {_leak(summary, best)}{comparison}. Another "
        "training run may reverse any of these differences: add seeds.",
    )


def _baseline_best(summary: Summary, choice: Decision) -> tuple[str, ...]:
    among, name, reference = _among(summary), _recipe(summary, choice.baseline), choice.baseline
    nothing = f"{among}none leaks less than {name}" if among else f"no recipe tried leaks less than {name}"
    first = f"{nothing}{_attack(summary)}: {_judge(summary)}, {_leak(summary, reference)}."
    others = [row for row in choice.rows.values() if row != choice.reference]
    nearest = min(others, key=summary.leak)
    gap = gap_of(summary, nearest, reference)
    second = f"{_recipe(summary, nearest)} has {summary.value_text(nearest)}{gap_words(summary, gap)}; "
    return start(first), start(second + uncertainty_words(summary, gap)), *standing(summary)


def _against(summary: Summary, choice: Decision) -> tuple[str, ...]:
    best, reference = choice.chosen, choice.baseline
    name, baseline, judged = _recipe(summary, best), _recipe(summary, reference), _judge(summary) + _attack(summary)
    gap = gap_of(summary, best, reference)
    price = gap_words(summary, gap) + _price(summary, best, reference)
    values = f"{_leak(summary, best)}, against {summary.value_text(reference)} at {baseline}{price}."
    if choice.clear:
        first = f"{name} leaks least {judged}: {values}"
    elif gap is not None and gap.word == HIDES:
        first = f"{name} leaks least {judged}, and {WORDING[HIDES].as_verb}: {values}"
    else:
        first = f"inconclusive: {name} has the lowest leak {judged}{_as_low(summary, choice)}: {values}"
    accuracy = _accuracy_uncertainty(summary, best, reference)
    return start(_among(summary) + first), start(uncertainty_words(summary, gap)), *standing(summary), *accuracy


def _as_low(summary: Summary, choice: Decision) -> str:
    """A phrase such as `, as does "-0.1, step"`, on recipes with exactly the same leak as the chosen one."""
    others = [_recipe(summary, choice.rows[recipe]) for recipe in choice.ties]
    return f", as {'does' if len(others) == 1 else 'do'} {listing(others)}" if others else ""


def _price(summary: Summary, best: int, reference: int) -> str:
    """A phrase such as `, at a test accuracy of 86.2 % against 87.4 %`, which claims no equality."""
    mine, theirs = (summary.frame.loc[row, "test_acc"] for row in (best, reference))
    if pd.isna(mine) or pd.isna(theirs):
        return "; what it costs in test accuracy was not measured"
    return f", at a test accuracy of {number(ACCURACY, mine)} against {number(ACCURACY, theirs)}"


def _accuracy_uncertainty(summary: Summary, best: int, reference: int) -> tuple[str, ...]:
    """A sentence that no accuracy is lost, where the whole interval shows it; else the interval alone."""
    gap = summary.compare("test_acc", best, reference)
    if gap.n == 0 or gap.low == gap.high == 0:
        return ()
    sentence = f"The difference in test accuracy is {accuracy_gap(gap)}"
    if accuracy_kept(gap, summary.accuracy_margin):
        return (f"{sentence}: a loss of {margin_words(summary.accuracy_margin)} or more is ruled out.",)
    return (f"{sentence}.",)


def _cheaper(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """A sentence on the best recipe that costs little accuracy, where the chosen one costs much and no floor is set."""
    accuracy, reference = summary.frame["test_acc"], choice.reference
    if reference is None or summary.min_test_acc is not None or choice.seeds < LEAST_SEEDS:
        return ()
    floor = accuracy[reference] - CHEAP
    near = [row for row in choice.rows.values() if accuracy[row] >= floor]
    best = min(near, key=summary.leak, default=reference)
    if accuracy[choice.best] >= floor or best == reference:
        return ()
    return (
        f"Of the recipes measured within {points(ACCURACY, CHEAP)} of the accuracy of {_recipe(summary, reference)}, "
        f"{_recipe(summary, best)} leaks least: {summary.value_text(best)}.",
    )


def _catalyst(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """A sentence on the recipe that leaks most, where it leaks significantly more than the baseline."""
    if choice.reference is None:
        return ()
    worst = max(choice.rows.values(), key=summary.leak)
    gap = gap_of(summary, worst, choice.reference)
    if worst in (choice.best, choice.reference) or gap is None or gap.word != LEAKS_MORE:
        return ()
    name, against = start(_recipe(summary, worst)), _recipe(summary, choice.reference)
    return (f"{name} leaks more than {against}: {summary.value_text(worst)}{gap_words(summary, gap)}.",)


def _judges(summary: Summary, choice: Decision) -> tuple[str, ...]:
    """A sentence on another judge with a very different value or another verdict; empty where judges agree."""
    metric, frame, reference = summary.primary, summary.frame, choice.reference
    other = next((key for key in CLOSED_SET if key != metric and key in summary.measured), None)
    if metric not in CLASS_METRICS or other is None or pd.isna(frame.loc[(best := choice.chosen), other]):
        return ()
    compared = reference not in (None, best)
    names = [frame.loc[row, "recipe"] for row in (best, reference) if row is not None]
    gaps = (summary.reduction(key, *names) for key in (other, metric)) if compared else ()
    verdicts = {None if gap is None else gap.word for gap in gaps} or {None}
    if abs(frame.loc[best, other] - frame.loc[best, metric]) < 0.2 and len(verdicts) == 1:
        return ()
    comparison = ""
    if compared and not pd.isna(frame.loc[reference, other]):
        comparison = f" ({summary.value_text(reference, other)} at {_recipe(summary, reference)})"
    return (
        f"The judges disagree: at {_recipe(summary, best)} the {metric_of(other).label} accepts "
        f"{summary.value_text(best, other)}{comparison}, the {summary.spec.label} {summary.value_text(best)}.",
    )


def _cautions(summary: Summary, choice: Decision) -> tuple[str, ...]:
    cautions, best, reference = [], choice.best, choice.reference
    if len(summary.attacks) > 1:
        rows = [row for row in (best, reference) if row is not None]
        met = {_recipe(summary, row): str(summary.frame.loc[row, "attack"]) for row in rows}
        pairs = "; ".join(f"{recipe}: {attack}" for recipe, attack in met.items())
        attacks = next(iter(met.values())) if len(set(met.values())) == 1 else pairs
        cautions.append(f"Each recipe counts with the attack that worked best against it ({attacks}).")
    if reference not in (None, best):
        mine, theirs = (summary.frame.loc[row, "gradient_cosine"] for row in (best, reference))
        if theirs - mine >= 0.1:
            where = f"{_recipe(summary, choice.chosen)} (cosine {mine:.2f} against {theirs:.2f})"
            doubt = "part of the defense may be masked gradients. Confirm with an attack that needs none."
            cautions.append(f"The attack's gradients are less stable at {where}: {doubt}")
    return tuple(cautions)


def _trial_cautions(data: ReportData) -> tuple[str, ...]:
    absent = _states(data, {"failed": "failed", "missing": "not run yet"}, fewest=1)
    trials = count(len(data.results), "trial")
    return (f"Of {trials}, {listing(absent)}: the numbers rest on the others.",) if absent else ()


def _states(data: ReportData, words: dict[str, str], *, fewest: int) -> list[str]:
    """Phrases such as `3 failed`, for each state with at least `fewest` trials. words: state -> word."""
    status = data.results["status"].value_counts()
    return [f"{status.get(name, 0)}{NBSP}{word}" for name, word in words.items() if status.get(name, 0) >= fewest]


def limits(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """Sentences on how all numbers of a page are computed, and on what they cannot show."""
    seeds = count(data.results["seed"].nunique(), "seed")
    classes = f" and {count(data.judged_classes, 'class', 'classes')}" if data.judged_classes else ""
    tried = [attack for attack in summary.attacks if attack]
    if inverts_nothing(data):
        return (f"Everything here rests on {seeds} and on the attacks tried: a stronger one may find more.",)
    attacks = f"the {len(tried)} attacks tried" if len(tried) > 1 else "the one attack tried"
    if 1 < len(tried) <= 3:
        attacks = f"the attacks tried ({listing(tried)})"
    return (
        f"Everything here rests on {seeds}{classes} and on {attacks}: a stronger attack may find more, and a recipe "
        "that leaks little may only hide what it holds.",
    )
