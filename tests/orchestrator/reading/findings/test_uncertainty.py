"""How sure the choice is: probabilities, runners-up up to a number, and the bias of choosing, from numbers by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.needed import Needed
from smoothsweep.core.metrics.recommendation import selection_optimism
from smoothsweep.orchestrator.reading.findings.uncertainty import (
    NAMED,
    optimism,
    p_words,
    sample_words,
    share,
    standing,
    uncertainty_words,
)
from smoothsweep.orchestrator.reading.numbers.format import ascii_text, named, start


def made(allowed, best="a", runners_up=(), shares=None, *, classes=None, pairs=6, values=None, level=0.95):
    choice = SimpleNamespace(best=best, allowed=tuple(allowed), runners_up=tuple(runners_up), probability_best=shares)
    evidence = SimpleNamespace(
        recommendation=choice, pairs=pairs, compared=tuple(allowed), classes=classes, values=values or {}
    )
    settings = SimpleNamespace(level=level, resamples=200, seed=3)
    return SimpleNamespace(evidence=evidence, compared=evidence, settings=settings, spec=metric_of("embedder_acc1"))


def said(summary):
    (line,) = standing(summary)
    return ascii_text(line)


@pytest.mark.parametrize("runners", range(6))
def test_runners_up_are_named_up_to_a_number_each_with_its_probability(runners):
    """Of seven recipes: the best, so many that may be it, and the others that are not."""
    allowed = list("abcdefg")
    shares = {recipe: 0.9 - 0.11 * place for place, recipe in enumerate(allowed)}
    line = said(made(allowed, runners_up=allowed[1 : 1 + runners], shares=shares))
    assert "best of the 7 is 90 %" in line
    for place, recipe in enumerate(allowed[1:], 1):
        assert (f"{recipe} ({90 - 11 * place} %)" in line) == (place <= min(runners, NAMED))
    assert (f"{runners - NAMED} other" in line) == (runners > NAMED)
    assert ("each of the others" in line) == (runners == 0)


@pytest.mark.parametrize(
    ("probability", "runners", "capped"),
    [
        (0.95, "b", True),
        (0.949, "b", False),
        (0.99, "", False),
        (0.97, "b", True),
    ],
)
def test_a_probability_above_the_level_is_a_bound_while_another_may_be_the_best(probability, runners, capped):
    line = said(made("abc", runners_up=runners, shares={"a": probability, "b": 1 - probability, "c": 0.0}))
    assert ("at most" in line) is capped and ascii_text(share(probability)) in line


def test_of_two_the_other_one_and_one_seed_tells_nothing():
    assert "than the other." in said(made("ab", shares={"a": 0.999, "b": 0.001})) and "than each" in said(
        made("abc", shares={"a": 0.999, "b": 0.001, "c": 0.0})
    )
    assert "best of 3" in said(made("abc", shares=None)) and "%" not in said(made("abc", shares=None))
    assert standing(made("a", shares={"a": 1.0})) == () and standing(made("ab", best=None, shares={})) == ()
    assert standing(SimpleNamespace(evidence=None)) == ()
    several, one = (said(made("ab", runners_up="b", shares={"a": 0.6, "b": 0.4}, pairs=pairs)) for pairs in (2, 1))
    assert "all pairs" in several and "all pairs" not in one


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0.0, "p < 0.001"),
        (0.00099, "p < 0.001"),
        (0.001, "p = 0.001"),
        (0.0123, "p = 0.012"),
        (0.5, "p = 0.5"),
        (1.0, "p = 1"),
    ],
)
def test_p_is_never_zero(p, words):
    assert ascii_text(p_words(p)) == words


@pytest.mark.parametrize(
    ("seeds", "classes", "words"),
    [
        (1, None, "n = 1 seed"),
        (2, None, "n = 2 seeds"),
        (3, 1, "n = 3 seeds and 1 class"),
        (5, 48, "n = 5 seeds and 48 classes"),
    ],
)
def test_the_sample_counts_seeds_and_classes(seeds, classes, words):
    assert ascii_text(sample_words(made("ab", classes=classes), seeds)) == words


def gap(
    word="reduces",
    *,
    seeds=3,
    low: float | None = 0.1,
    high: float | None = 0.3,
    p: float | None = 0.01,
    comparisons=6,
    needed=None,
):
    return LeakComparison(
        word=word,
        reduction=0.2,
        low=low,
        high=high,
        p=p,
        comparisons=comparisons,
        attack="x",
        attack_reference="x",
        seeds=seeds,
        needed=needed,
    )


OPEN = {"low": -0.1, "high": 0.5, "p": 0.4}


def test_each_kind_of_difference_has_its_own_words():
    """None, one seed, none at all, the four words: each its own sentence, and those of an interval state p."""
    summary = made("abcd")
    kinds = [None, gap("inconclusive", seeds=1, low=None, high=None, p=None), gap("inconclusive", low=0.0, high=0.0)]
    kinds += [gap("reduces"), gap("leaks more"), gap("hides", **OPEN), gap("inconclusive", **OPEN)]
    lines = [ascii_text(uncertainty_words(summary, one)) for one in kinds]
    assert len(set(lines)) == len(kinds) and all(line.endswith(".") for line in lines)
    told = [("p = " in line, "corrected for 6 comparisons" in line) for line in lines]
    assert told == [(False, False)] * 3 + [(True, True)] * 4
    assert "1 seed" in lines[1] and all("3 seeds" in line for line in lines[2:])
    assert ["inconclusive" in line for line in lines] == [False, True, False, False, False, True, True]
    alone = ascii_text(uncertainty_words(summary, gap(comparisons=1)))
    assert (
        "p = 0.01" in alone
        and "corrected" not in alone
        and "(p" not in ascii_text(uncertainty_words(summary, gap(p=None)))
    )


def test_what_would_settle_it_is_said_where_it_is_open():
    wanting = Needed(seeds=7, classes=24)
    assert "7 seeds" in ascii_text(uncertainty_words(made("ab"), gap("inconclusive", needed=wanting, **OPEN)))
    assert "7 seeds" not in ascii_text(uncertainty_words(made("ab"), gap(needed=wanting)))


VALUES = {name: np.random.default_rng(place).normal(0.3, 0.05, (3, 6)).clip(0, 1) for place, name in enumerate("abcde")}


def test_the_bias_is_that_of_those_chosen_among():
    """The recipes that are accurate enough, not all that were measured."""
    for allowed in ("abcde", "abd", "ce"):
        summary = made(allowed, values=VALUES)
        wanted = selection_optimism({name: VALUES[name] for name in allowed}, resamples=200, seed=3)
        assert optimism(summary.evidence, 200, 3) == wanted
    assert optimism(made("a", values=VALUES).evidence, 200, 3) is None


def test_names_with_commas_stand_in_quotes_and_sentences_begin_with_a_capital():
    assert (named("a, b"), named("a b"), named("a,b")) == ("\u201ca, b\u201d", "a b", "a,b")
    assert (start("one Two"), start(""), start("\u201ca")) == ("One Two", "", "\u201ca")
