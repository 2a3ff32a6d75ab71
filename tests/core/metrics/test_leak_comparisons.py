"""Reduces or hides: the words where the truth is known, the bounds by hand, and how often they are wrong."""

import numpy as np
import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.metrics.leak_comparisons import (
    LeakCells,
    LeakComparison,
    against_baseline,
    compare_leaks,
    hidden_claim,
    reductions,
)

ATTACKS = ("published", "other published", "adaptive", "labels")
PUBLISHED = ATTACKS[:2]
SEEDS, CLASSES, SHOTS = 3, 24, 8
NOBODY_ASKS = float("inf")  # of interest: what would settle an open word is not computed, which no word rests on


def drawn(rates: dict[str, dict[str, float]], seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Hit rates [seeds, classes] of recipes under attacks with these true means: some people are found more easily
    whatever the recipe, some trainings leak more whatever the attack, and of `SHOTS` reconstructions some hit."""
    generator = np.random.default_rng(seed)
    people = generator.normal(0, 1.0, CLASSES)
    found = {}
    for recipe, under in rates.items():
        training = generator.normal(0, 0.25, SEEDS)[:, None]
        found[recipe] = {}
        for attack, rate in under.items():
            own = generator.normal(0, 0.3, (SEEDS, CLASSES))
            chance = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + people + training + own)))
            found[recipe][attack] = generator.binomial(SHOTS, chance) / SHOTS
    return found


def words(rates: dict[str, dict[str, float]], times: int, recipe: str) -> list[str]:
    asked = {"baseline": "plain", "published": PUBLISHED, "smallest": NOBODY_ASKS}
    return [verdicts(drawn(rates, seed), **asked)[recipe].word for seed in range(times)]


def verdicts(leaks: dict, **asked) -> dict[str, LeakComparison]:
    return compare_leaks(leaks, **asked, every_pair=False).verdicts


PLAIN = dict(zip(ATTACKS, (0.8, 0.75, 0.82, 0.7), strict=True))
SCALED = dict(zip(ATTACKS, (0.2, 0.15, 0.82, 0.7), strict=True))  # as if its logits were only scaled
MERGED = dict(zip(ATTACKS, (0.2, 0.18, 0.22, 0.17), strict=True))  # as if people shared classes
BETWEEN = dict(zip(ATTACKS, (0.02, 0.02, 0.36, 0.2), strict=True))


def test_recipes_whose_truth_is_known_get_its_word() -> None:
    rates = {"plain": PLAIN, "scaled": SCALED, "merged": MERGED, "between": BETWEEN}
    for recipe, word in {"scaled": "hides", "merged": "reduces"}.items():
        assert words(rates, 30, recipe).count(word) >= 24
    both = words(rates, 30, "between")
    assert both.count("reduces") >= 15
    assert set(both) <= {"reduces", "hides", "inconclusive"}
    found = [verdicts(drawn(rates, seed), baseline="plain", published=PUBLISHED)["between"] for seed in range(30)]
    assert sum(one.word == "reduces" and one.hidden.is_clear for one in found) >= 15, "what is hidden beside is known"


def test_false_removes_are_rare_where_nothing_was_removed() -> None:
    """The hardest case for it: many attacks that are equally good against the baseline, one alone against the recipe,
    so that the baseline's best is flattered by the choice and the recipe's is not."""
    equal = dict.fromkeys(ATTACKS, 0.5)
    one = dict(zip(ATTACKS, (0.1, 0.1, 0.5, 0.1), strict=True))
    said = words({"plain": equal, "blinding": one, "other": equal}, 200, "blinding")
    assert sum("reduces" in word for word in said) <= 0.05 * len(said)


def test_a_sweep_of_many_equal_recipes_says_something_false_of_any_of_them_in_one_of_twenty() -> None:
    """Of twelve recipes that leak as the baseline does, each meets it at the same level: without a correction for their
    number, every seventh sweep calls one of them better or worse."""
    attacks = ATTACKS[:1]
    rates = {recipe: dict.fromkeys(attacks, 0.5) for recipe in ["plain", *(f"recipe {i}" for i in range(12))]}
    asked = {"baseline": "plain", "published": attacks, "smallest": NOBODY_ASKS}
    sweeps = [verdicts(drawn(rates, seed), **asked) for seed in range(100)]
    false = [any(found.word != "inconclusive" for found in sweep.values()) for sweep in sweeps]
    assert sum(false) <= 5


def test_false_hides_are_rare_where_nothing_was_hidden() -> None:
    rates = {"plain": dict.fromkeys(ATTACKS, 0.5), "less": dict.fromkeys(ATTACKS, 0.25)}
    said = words(rates, 200, "less")
    assert sum("hides" in word for word in said) <= 0.05 * len(said)


def test_the_numbers_by_hand() -> None:
    leaks = {
        "plain": {"published": [[0.6, 0.8], [0.6, 0.8]], "adaptive": [[0.7, 0.9], [0.7, 0.9]]},
        "masked": {"published": [[0.1, 0.3], [0.1, 0.3]], "adaptive": [[0.5, 0.7], [0.5, 0.7]]},
    }
    found = verdicts(leaks, baseline="plain", published=["published"])["masked"]
    assert found.hidden.claimed == pytest.approx(0.5)
    assert found.reduction == pytest.approx(0.2)
    assert found.hidden.part.value == pytest.approx(0.3)
    assert (found.attack, found.attack_reference, found.hidden.published) == ("adaptive", "adaptive", "published")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"baseline": "none"}, "baseline: expected one of plain, merged, got 'none'"),
        ({"published": ["ppa"]}, "published: expected some of .*, got ppa"),
    ],
)
def test_what_is_not_there_is_refused(change: dict, line: str) -> None:
    given = {"baseline": "plain", "published": PUBLISHED} | change
    leaks = drawn({"plain": PLAIN, "merged": MERGED}, 0)
    with pytest.raises(InputError, match=line):
        verdicts(leaks, **given)
    del leaks["merged"]["labels"]
    with pytest.raises(InputError, match=r"recipe merged: expected leaks under .*labels"):
        verdicts(leaks, baseline="plain", published=PUBLISHED)


def test_attacks_of_one_kind_hide_nothing_and_still_reduce() -> None:
    leaks = drawn({"plain": PLAIN, "merged": MERGED}, 0)
    for published in ((), ATTACKS):
        found = verdicts(leaks, baseline="plain", published=published)["merged"]
        assert found.word == "reduces" and found.hidden is None
        assert found.low == verdicts(leaks, baseline="plain", published=PUBLISHED)["merged"].low


def test_every_pair_is_the_same_either_way_round() -> None:
    rates = {"plain": PLAIN, "scaled": SCALED, "merged": MERGED}
    found = compare_leaks(drawn(rates, 1), baseline="plain", published=PUBLISHED)
    for one, other in (("plain", "merged"), ("scaled", "merged")):
        there, back = found.against(one, other), found.against(other, one)
        assert (back.reduction, back.low, back.high) == (-there.reduction, -there.high, -there.low)
        assert (there.attack, there.attack_reference) == (back.attack_reference, back.attack)
        assert {there.word, back.word} in ({"reduces", "leaks more"}, {"inconclusive"})
    assert found.against("plain", "stranger") is None


def test_pairs_pay_for_the_choice_of_attacks_and_for_every_pair() -> None:
    """Under one attack they are what a comparison of any numbers finds; under several, wider than for the attack that
    looks best, by Bonferroni's quantile for pairs times attacks."""
    rates = {"plain": PLAIN, "scaled": SCALED, "merged": MERGED, "between": BETWEEN}
    leaks = drawn(rates, 1)
    alone = {recipe: {"published": under["published"]} for recipe, under in leaks.items()}
    one = compare_leaks(alone, baseline="plain")
    plain = compare_recipes({recipe: under["published"] for recipe, under in leaks.items()}, reference="plain")
    for pair in plain.pairs:
        found = one.against(pair.first, pair.second)
        assert (-found.reduction, -found.high, -found.low) == pytest.approx((pair.difference, pair.low, pair.high))
        assert found.p == pytest.approx(pair.p_corrected, rel=1e-6)
    every = compare_leaks(leaks, baseline="plain")
    assert every.against("scaled", "merged").comparisons == 6 * len(ATTACKS)
    assert every.against("scaled", "plain").comparisons == 3 * len(ATTACKS)
    worst = {recipe: under[max(under, key=lambda a: under[a].mean())] for recipe, under in leaks.items()}
    free = compare_recipes(worst, reference="plain").between("scaled", "merged")
    found = every.against("scaled", "merged")
    assert found.high - found.low > free.high - free.low and -found.reduction == pytest.approx(free.difference)


def test_the_words_rest_on_the_numbers_that_looks_ask_for() -> None:
    """`reductions` is what a look stops by and a simulation asks; no output shows another interval."""
    leaks = drawn({"plain": PLAIN, "scaled": SCALED, "merged": MERGED, "between": BETWEEN}, 2)
    asked = {"baseline": "plain", "level": 0.97, "span": 1.0, "among": 7}
    found, numbers = verdicts(leaks, published=PUBLISHED, **asked), reductions(leaks, **asked)
    for recipe, one in numbers.items():
        told = found[recipe]
        assert (told.reduction, told.low, told.high, told.p) == (one.value, one.low, one.high, one.p)
        assert told.comparisons == 7 * len(ATTACKS)


@pytest.mark.parametrize("seeds", [2, 3])
def test_sweeps_asked_at_once_are_told_what_each_is_told(seeds: int) -> None:
    rates = {"plain": PLAIN, "merged": MERGED, "between": BETWEEN}
    sweeps = [drawn(rates, number) for number in range(4)]
    cells = np.array([[list(under.values()) for under in one.values()] for one in sweeps])[..., :seeds, :]
    together = LeakCells(cells=cells, attacks=ATTACKS, alpha=0.05)
    family = against_baseline(len(rates))
    for row, recipe in enumerate(rates):
        if recipe == "plain":
            continue
        reduction = together.ends(together.reduction(row, 0), family)
        hidden = together.ends(hidden_claim(together, row, 0, (0, 1)), family)
        for number, one in enumerate(cells):
            leaks = {name: dict(zip(ATTACKS, under, strict=True)) for name, under in zip(rates, one, strict=True)}
            told = verdicts(leaks, baseline="plain", published=PUBLISHED)[recipe]
            ends = [reduction.low[number], reduction.high[number], hidden.low[number], hidden.high[number]]
            part = told.hidden.part
            assert ends == pytest.approx([told.low, told.high, part.low, part.high], abs=1e-12)
            assert reduction.p_values[number] == pytest.approx(told.p, rel=1e-9)
