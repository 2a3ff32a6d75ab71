"""The findings of a sweep: the numbers for findings.txt and limits.txt, which hold the words."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.comparisons import is_kept, selection_optimism
from smoothsweep.core.metrics.leak_comparisons import HIDES, LeakComparison
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import (
    ACCURACY,
    PLACE,
    WORDING,
    first_measured,
    hits_in_words,
    incomplete_lines,
    reduction_words,
    setting_answer,
    settling,
    shown_metrics,
)
from smoothsweep.orchestrator.result.estimates import LEVEL, SEED, limited, untold
from smoothsweep.orchestrator.result.format import count, difference, listing, named, number, points, significant, start
from smoothsweep.orchestrator.result.standing import fresh_answer
from smoothsweep.orchestrator.result.summary import Decision, Summary, decide

ASKED = "what an attacker can make the targets answer"


def inverts_nothing(data: ReportData) -> bool:
    """Whether no trial of the sweep has an attack (attack: null)."""
    return "attack" in data.results and len(data.results) > 0 and bool(data.results["attack"].isna().all())


def without_leak(data: ReportData, summary: Summary) -> str:
    """The answer of a sweep without inversion, which measures only targets."""
    done, spec = int((data.results["status"] == "done").sum()), first_measured(summary)
    tells = spec is not None and spec.group == "membership"
    what = "how well an attacker tells which images the targets were trained on" if tells else ASKED
    first = f"This sweep inverts nothing: it measures {what}"
    if spec is None:
        return f"{first} ({done}{NBSP}of {count(len(data.results), 'trial')} done)."
    values = summary.frame[spec.key].dropna()
    low, high = (
        f"{number(spec, values[row])} ({named(summary.frame.loc[row, 'recipe'])})"
        for row in (values.idxmin(), values.idxmax())
    )
    same = f"is {number(spec, values.min())} under every recipe"
    values_text = same if values.min() == values.max() else f"lies between {low} and {high}"
    return f"{first}. {start(spec.label)} {values_text}."


def collapsed_trainings(data: ReportData) -> tuple[str, ...]:
    """A sentence on collapsed trainings, in which the success of a backdoor is meaningless; empty without any."""
    if "backdoor_collapsed" not in data.results:
        return ()
    measured = data.results["backdoor_collapsed"].dropna()
    failed = int((measured > 0).sum())
    if not failed:
        return ()
    return (
        f"Of {count(len(measured), 'poisoned training')}, {failed}{NBSP}collapsed: the target gives nearly every clean "
        "image one class. A backdoor's success there says nothing, and neither do means over such seeds.",
    )


def control_line(summary: Summary) -> tuple[str, ...]:
    """One sentence on the largest leak that the judge finds in a control; empty without controls."""
    metric = summary.primary
    worst = summary.worst_of_control(metric) if metric else None
    if worst is None:
        return ()
    attack, row = worst
    return (
        f"What the judge credits to a control is no leak: {attack} reaches {summary.value_text(row)} "
        f"at {named(summary.frame.loc[row, 'recipe'])}.",
    )


NAMED = 3
"""The most runners-up that a sentence names."""


def gap_of(summary: Summary, row: int, reference: int) -> LeakComparison | None:
    """Compare the recipes of two rows by the metric that decides; None where they were not compared."""
    return summary.reduction(summary.deciding, *(summary.cells[at]["recipe"] for at in (row, reference)))


def gap_words(summary: Summary, gap: LeakComparison | None) -> str:
    """A remark such as ` (reduction +10.2 points [+4, +17])`; empty without a comparison."""
    return "" if gap is None else f" (reduction {reduction_words(summary.spec, gap)})"


def uncertainty_words(summary: Summary, gap: LeakComparison | None) -> str:
    """The end of a sentence on the uncertainty of a reduction."""
    if gap is None:
        return "the two have no seed in common, so their difference has no interval."
    classes = summary.evidence.classes if summary.evidence is not None else None
    sample = f"n = {count(gap.seeds, 'seed')}" + (f" and {count(classes, 'class', 'classes')}" if classes else "")
    rests_on = ""
    if gap.p is not None:  # a p-value is never 0, which no finite sample can prove
        corrected = f", corrected for {gap.comparisons:,} comparisons" if gap.comparisons > 1 else ""
        p = f"p{NBSP}<{NBSP}0.001" if gap.p < 0.001 else f"p{NBSP}={NBSP}{gap.p:.2g}"
        rests_on = f" ({p}{corrected})"
    if gap.seeds < LEAST_SEEDS:
        return f"at {sample} this is inconclusive: another training run may turn the difference round."
    if gap.low == gap.high == 0:
        return f"at {sample} there is no difference between the two."
    if gap.is_clear:
        return f"at {sample} it {WORDING[gap.word].as_verb}{rests_on}."
    if gap.word == HIDES:
        open_ = f"whether the strongest attack finds less is inconclusive{rests_on}"
        return f"at {sample} it {WORDING[HIDES].as_verb}; {open_}."
    return f"at {sample} this is inconclusive{rests_on}{': ' if settling(gap) else ''}{settling(gap)}."


def standing(summary: Summary) -> tuple[str, ...]:
    """Sentences on the probability that the choice is the best of all, and on recipes that may leak as little."""
    evidence = summary.evidence
    if evidence is None or evidence.recommendation.best is None or len(evidence.recommendation.allowed) < 2:
        return ()
    choice, shares = evidence.recommendation, evidence.recommendation.probability_best
    many, best = len(choice.allowed), named(evidence.recommendation.best)
    if shares is None:
        return (f"With one seed per recipe, how probable it is that {best} is the best of {many} is not known.",)
    capped = bool(choice.runners_up) and shares[present(choice.best, "best recipe")] >= LEVEL
    bound = "at most " if capped else ""
    sentence = (
        f"The probability that {best} is the best of the {many} is {bound}{share(shares[present(choice.best, 'best')])}"
    )
    if not choice.runners_up:
        every = "the other" if many == 2 else "each of the others"
        return (f"{sentence}; it leaks less than {every}.",)
    names = [f"{named(recipe)} ({share(shares[recipe])})" for recipe in choice.runners_up[:NAMED]]
    rest = len(choice.runners_up) - NAMED
    corrected = ", corrected for all pairs" if evidence.pairs > 1 else ""
    others = listing([*names, *([count(rest, "other")] if rest > 0 else [])])
    return (f"{sentence}; inconclusive against {others}{corrected}.",)


def share(probability: float) -> str:
    """A probability in whole per cents, never 0 or 100."""
    if probability < 0.01:
        return f"below 1{NBSP}%"
    return f"above 99{NBSP}%" if probability > 0.99 else f"{100 * probability:.0f}{NBSP}%"


def flattery(summary: Summary) -> tuple[str, ...]:
    """A caution that the lowest of several noisy leaks is biased, with the size of the bias."""
    evidence, spec = summary.compared, summary.spec
    allowed = evidence.recommendation.allowed
    if (many := len(allowed)) < 3:
        return ()
    bias = selection_optimism({recipe: evidence.values[recipe] for recipe in allowed}, seed=SEED)
    if math.isnan(bias):
        return (f"The smallest of {many} noisy numbers tends to be too small; by how much is not known.",)
    size = points(spec, bias) if spec.unit == "percent" else significant(bias)
    return (
        f"The smallest of {many} noisy numbers tends to be too small, here by about {size}. Only fresh seeds "
        "show what it really leaks.",
    )


def find(data: ReportData, summary: Summary) -> dict[str, tuple[str, ...]]:
    """The findings of a sweep: `answer` (the recipe that leaks least, and how sure that is), `cautions`, `incomplete`
    (recipes that are not compared and attacks that do not count, because trials are missing)."""
    choice = decide(summary)
    said = _said(data, summary, choice)
    answer, limits = said["answer"], ()
    cautions = (*said["trials"], *collapsed_trainings(data))
    if summary.by_setting and summary.primary is not None:
        answer, limits = setting_answer(summary), control_line(summary)
    elif not choice.rows and inverts_nothing(data):
        answer = (without_leak(data, summary),)
    elif choice.best is None:
        cautions = cautions if summary.primary else ()
    else:
        again, limits = fresh_answer(data, summary), control_line(summary)
        answer = (*answer, *again)
        cautions = (*cautions, *(() if again else flattery(summary)), *said["cautions"])
    lines = (*data.warnings, *incomplete_lines(summary))
    incomplete = tuple(line for line in lines if line not in answer)
    return {"answer": answer, "cautions": (*limits, *cautions), "incomplete": incomplete}


def _case(summary: Summary, choice: Decision) -> str:
    """Which answer there is to give, by the names that findings.txt has for them."""
    best, reference = choice.best, choice.reference
    if not choice.rows:
        return "untold" if summary.primary is None and untold(summary.checks) else "too early"
    if best is None:
        return "too inaccurate"
    if len(choice.rows) == 1:
        return "one recipe"
    if choice.seeds < LEAST_SEEDS:
        return "one seed"
    if reference is None:
        return "no baseline"
    return "baseline best" if best == reference else "against"


def _said(data: ReportData, summary: Summary, choice: Decision) -> dict[str, tuple[str, ...]]:
    """The sections of findings.txt."""
    frame, best, reference, floor = summary.frame, choice.best, choice.reference, summary.min_test_acc
    accuracy, status = partial(number, ACCURACY), data.results["status"].value_counts()
    rows = [row for row in (best, reference) if row is not None]
    others = [row for row in choice.rows.values() if row != reference]
    compared = best is not None and reference not in (None, best)
    gap, the = partial(gap_of, summary), "the " if summary.primary in CLASS_METRICS else ""

    def recipe(row: int) -> str:
        return named(summary.cells[row]["recipe"])

    def states(words: dict[str, str], *, fewest: int) -> list[str]:
        """`3 failed`, for each state with at least `fewest` trials. words: state -> word."""
        return [f"{status.get(name, 0)}{NBSP}{word}" for name, word in words.items() if status.get(name, 0) >= fewest]

    def price() -> str:
        """`, at a test accuracy of 86.2 % against 87.4 %`, which claims no equality."""
        mine, theirs = (frame.loc[row, "test_acc"] for row in (choice.chosen, choice.baseline))
        if pd.isna(mine) or pd.isna(theirs):
            return "; what it costs in test accuracy was not measured"
        return f", at a test accuracy of {accuracy(mine)} against {accuracy(theirs)}"

    hiding = gap(choice.chosen, choice.baseline) if None not in (best, reference) else None
    known = {
        "case": _case(summary, choice),
        "untold": untold(summary.checks),
        "summary": summary,
        "choice": choice,
        "frame": frame,
        "best": best,
        "reference": reference,
        "compared": compared,
        "trials": count(len(data.results), "trial"),
        "states": states,
        "top": max(choice.rows.values(), key=lambda row: frame["test_acc"].fillna(-1)[row], default=None),
        "nearest": min(others, key=summary.leak, default=None),
        "ties": [recipe(choice.rows[tie]) for tie in choice.ties],
        "hides": hiding is not None and hiding.word == HIDES,
        "met": {recipe(row): str(summary.cells[row]["attack"]) for row in rows} if len(summary.attacks) > 1 else {},
        "recipe": recipe,
        "value_text": summary.value_text,
        "leak": lambda row: f"{summary.value_text(row)}{hits_in_words(summary.spec, summary.people)}",
        "gap": lambda row: gap(row, choice.baseline),
        "price": price,
        "accuracy": accuracy,
        "judged": f"by {the}{summary.spec.label}" if summary.primary else "",
        "of_attack": " under the strongest attack tried" if len(summary.attacks) > 1 else "",
        "among": "" if floor is None else f"among the recipes with at least {accuracy(floor)} test accuracy, ",
        "gap_words": partial(gap_words, summary),
        "uncertainty_words": partial(uncertainty_words, summary),
    }
    return sections(PLACE, "findings.txt", WORDS | known)


_FUNCTIONS = (count, difference, inverts_nothing, is_kept, listing, metric_of, points, standing)
WORDS = {one.__name__: one for one in _FUNCTIONS} | {
    "ACCURACY": ACCURACY,
    "HIDES": HIDES,
    "WORDING": WORDING,
}


def limits(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """Sentences on how all numbers of a page are computed, and on what they cannot show."""
    seeds = count(data.results["seed"].nunique(), "seed")
    known = {"data": data, "seeds": seeds, "tried": [attack for attack in summary.attacks if attack]}
    return sections(PLACE, "limits.txt", WORDS | known)["limits"]


def captions(data: ReportData, summary: Summary) -> dict[str, tuple[str, ...]]:
    """The captions of tables of recipes, of attacks, and of what the other judges say."""
    known = {
        "data": data,
        "summary": summary,
        "level": f"{100 * LEVEL:g} %",
        "several": len(summary.attacks) > 1,
        "others": any(metric_of(key).is_leak and key != summary.primary for key in shown_metrics(summary)),
        "control": None if summary.primary is None else summary.worst_of_control(summary.primary),
        "limited": limited(summary.checks),
        "incomplete": incomplete_lines(summary),
        "number": number,
    }
    return sections(PLACE, "captions.txt", WORDS | known)
