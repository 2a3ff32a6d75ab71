"""What people prefer, by their answers: shares with intervals, agreement, and who did not look.

The paper's Table 13 counts people (classes): each goes to the recipe that most of its annotators chose, and those
where two are level are left out (section C.10). Beside it stand the shares of single answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.agreement import fleiss_kappa
from smoothsweep.core.metrics.intervals import independent_rate_interval, rate_interval
from smoothsweep.orchestrator.reading.study.answers import Answers
from smoothsweep.orchestrator.reading.study.draw import SURE
from smoothsweep.orchestrator.reading.study.key import StudyKey

LEVEL = 0.95
Choices = dict[int, int]
"""Question -> the recipe that was chosen."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A fraction of `of` with its interval; value None where there is nothing to count, ends None without interval."""

    value: float | None
    low: float | None
    high: float | None
    count: float
    of: int


@dataclass(frozen=True, kw_only=True)
class ByAnnotator:
    """One annotator.

    Attributes:
        shares: Share of each recipe.
        checks, failed: Attention checks answered, and those where the real picture was chosen.
        attentive: Whether so few failures would surprise of a person who guesses.
    """

    name: str
    answered: int
    questions: int
    checks: int
    failed: int
    attentive: bool
    shares: tuple[Share, ...]


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """All that the answers show; the lists by recipe in the order of the key.

    Attributes:
        preferred: Share of the people who go to a recipe by most votes, of those decided.
        undecided: How many are level.
        answers: Share of single answers, over the people whom every counted annotator answered about. Both leave out
            the annotators who are not attentive.
        agreement: Fleiss' kappa of those counted, None where none can be told.
    """

    recipes: tuple[str, ...]
    published: tuple[float | None, ...]
    annotators: tuple[ByAnnotator, ...]
    preferred: tuple[Share, ...]
    undecided: int
    answers: tuple[Share, ...]
    agreement: float | None


def study_result(key: StudyKey, answers: Sequence[Answers]) -> StudyResult:
    """Count. Nothing is drawn."""
    annotators = tuple(_annotator(key, answer) for answer in answers)
    counted = [_choices(key, answer) for answer, who in zip(answers, annotators, strict=True) if who.attentive]
    votes = _votes(key, counted)
    best = [np.flatnonzero(row == row.max()) for row in votes if row.sum()]
    winners = Counter(int(first[0]) for first in best if len(first) == 1)
    return StudyResult(
        recipes=key.recipes,
        published=key.published,
        annotators=annotators,
        preferred=tuple(_independent(winners[recipe], winners.total()) for recipe in range(len(key.recipes))),
        undecided=sum(len(first) > 1 for first in best),
        answers=tuple(_of_answers(counted, recipe) for recipe in range(len(key.recipes))),
        agreement=fleiss_kappa(votes),
    )


def _choices(key: StudyKey, answers: Answers) -> Choices:
    """The answers that count: to questions that are no checks."""
    answered = zip(key.questions, answers.answers, strict=True)
    return {
        number: present(question.options[choice], "recipe")  # of a question that is no check
        for number, (question, choice) in enumerate(answered)
        if choice is not None and not question.is_check
    }


def _annotator(key: StudyKey, answers: Answers) -> ByAnnotator:
    pairs = zip(key.questions, answers.answers, strict=True)
    checked = [
        question.options[choice] is None for question, choice in pairs if question.is_check and choice is not None
    ]
    chosen = Counter(_choices(key, answers).values())
    recipes = len(key.recipes)
    return ByAnnotator(
        name=answers.known_as,
        answered=chosen.total(),
        questions=sum(not q.is_check for q in key.questions),
        checks=len(checked),
        failed=sum(checked),
        attentive=attentive(len(checked), sum(checked), recipes),
        shares=tuple(_independent(chosen[recipe], chosen.total()) for recipe in range(recipes)),
    )


def attentive(checks: int, failed: int, options: int) -> bool:
    """Whether a person who guesses would fail so few of the attention checks with a probability of at most `SURE`.

    A person who guesses falls for the real picture in one of `options` checks.
    """
    return bool(stats.binom.cdf(failed, checks, 1 / options) <= SURE) if checks else False


def _votes(key: StudyKey, counted: Sequence[Choices]) -> np.ndarray:
    """int [questions, recipes]: how many chose which."""
    votes = np.zeros((len(key.questions), len(key.recipes)), dtype=np.int64)
    for choices in counted:
        for number, recipe in choices.items():
            votes[number, recipe] += 1
    return votes


def _independent(count: int, of: int) -> Share:
    """A share of independent things."""
    if not of:
        return Share(value=None, low=None, high=None, count=0, of=0)
    low, high = independent_rate_interval(count, of, level=LEVEL)
    return Share(value=count / of, low=low, high=high, count=count, of=of)


def _of_answers(counted: Sequence[Choices], recipe: int) -> Share:
    """Over annotators and people, as the report's rates over seeds and classes."""
    shared = sorted(set.intersection(*(set(choices) for choices in counted))) if counted else []
    if not shared:
        return Share(value=None, low=None, high=None, count=0, of=0)
    chosen = [[float(choices[number] == recipe) for number in shared] for choices in counted]
    interval = rate_interval(chosen, level=LEVEL)
    return Share(
        value=interval.mean,
        low=interval.low,
        high=interval.high,
        count=sum(map(sum, chosen)),
        of=len(shared) * len(counted),
    )
