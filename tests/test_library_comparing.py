"""Audits beside each other: each model against the first, under every attack; nothing unlike is paired."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.orchestrator.result.audit import Audit as AuditResult
from smoothsweep.orchestrator.result.audit import Person, Reached
from smoothsweep.orchestrator.result.estimates import NOTHING
from smoothsweep.results import Audit, Judge, Rate

CLASSES, SEEDS = (0, 1, 4, 5, 7, 9), (1, 2, 3)
JUDGE = Judge(
    metric="embedder_acc1",
    names=tuple("abcdefghij"),
    sensitivity=Rate(share=0.9, trials=50),
    logits=lambda images: images,
)


def audit(mean, *, seed, by=JUDGE, seeds=SEEDS, classes=CLASSES, attacks=("ppa", "ppa logit", "random_latents")):
    shares = np.clip(mean + 0.1 * np.random.default_rng(seed).normal(size=(len(seeds), len(classes))), 0, 1)
    weaker = {one: np.clip(shares - 0.05 * at, 0, 1) for at, one in enumerate(attacks) if one != "random_latents"}
    return made_audit(weaker, by=by, seeds=seeds, classes=classes, attacks=attacks, test_acc=0.8 + seed / 100)


def made_audit(shares, *, by, seeds, classes, attacks, test_acc, published=()):
    """An audit with these shares of hits, the strongest attack first."""
    cost = {"seeds": len(seeds), "queries": None, "seconds": 0.0}
    reached = tuple(
        Reached(
            attack=name,
            access="gradients",
            control=name not in shares,
            leak=float(shares[name].mean()) if name in shares else 0.0,
            low=0.0,
            high=1.0,
            row=row,
            **cost,
        )
        for row, name in enumerate(attacks)
    )
    known = {"share": 0.0, "rate": 0.0, "low": 0.0, "high": 1.0, "among_top": 0.0}
    return Audit(
        result=AuditResult(
            names=by.names,
            classes=len(by.names),
            judge=by.metric,
            ceiling=by.sensitivity.share,
            reached=reached,
            beyond=NOTHING,
            people=tuple(Person(name=str(label), label=label, key=label, **known) for label in classes),
            test_acc=test_acc,
            chance=1 / len(by.names),
            can_tell=by.sensitivity.share > 2 / len(by.names),
        ),
        reconstructions=None,
        by=by,
        names={name: name for name in attacks},
        shares=shares,
        seeds=seeds,
        published=published,
    )


def test_each_model_stands_beside_the_first():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    table = smoothsweep.compare(audits)
    assert list(table["model"]) == list(audits) and list(table["test_acc"]) == pytest.approx([0.81, 0.82, 0.83])
    leaks = [one.shares["ppa"].mean() for one in audits.values()]
    assert list(table["leak"]) == leaks
    assert np.isnan(table["difference"][0]) and list(table["difference"][1:]) == pytest.approx(
        [leak - leaks[0] for leak in leaks[1:]]
    )
    assert list(table["verdict"]) == ["", "inconclusive", "reduces"]
    assert table["seeds_needed"].isna()[2] and list(table["reduction"][1:]) == list(-table["difference"][1:])
    assert list(table["reduction_low"][1:]) == list(-table["difference_high"][1:])
    assert table["difference_low"][2] < table["difference"][2] < table["difference_high"][2] < 0


def test_a_judge_that_knows_nothing_gives_no_verdict():
    blind = replace(JUDGE, sensitivity=Rate(share=0.1, trials=50))
    audits = {"plain": audit(0.72, seed=2, by=blind), "hidden": audit(0.2, seed=3, by=blind)}
    table = smoothsweep.compare(audits)
    assert list(table["verdict"]) == ["", ""] and table["reduction"].isna().all() and table["leak"].notna().all()


def test_the_intervals_pay_for_models_and_for_the_choice_of_attacks():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    both = smoothsweep.compare({name: audits[name] for name in ("mine", "hidden")})
    three = smoothsweep.compare(audits)
    assert len({(table["difference_high"] - table["difference_low"]).iloc[-1] for table in (both, three)}) == 2
    pair = compare_recipes({name: audits[name].shares["ppa"] for name in ("hidden", "mine")}).pairs[0]
    low, high = both["difference_low"][1], both["difference_high"][1]
    assert low < pair.low and pair.high < high and both["difference"][1] == pytest.approx(pair.difference)
    swapped = {name: replace(one, shares=dict(reversed(one.shares.items()))) for name, one in audits.items()}
    pd.testing.assert_frame_equal(smoothsweep.compare(swapped), three)


def test_one_seed_tells_the_difference_and_no_more():
    table = smoothsweep.compare({"a": audit(0.7, seed=1, seeds=(1,)), "b": audit(0.2, seed=2, seeds=(1,))})
    assert table["difference"][1] < -0.3 and np.isnan(table["difference_low"][1])
    assert table["verdict"][1] == "inconclusive"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"by": replace(JUDGE)}, "compare: b: expected the judge of the first audit"),
        ({"classes": (0, 1, 4, 5, 7, 8)}, "expected the people of the first audit"),
        ({"seeds": (1, 2, 4)}, r"expected the seeds of the first audit, \[1, 2, 3\], got \[1, 2, 4\]"),
        ({"attacks": ("ppa", "random_latents")}, "expected the attacks of the first audit"),
    ],
)
def test_what_stands_for_something_else_is_not_paired(other, words):
    with pytest.raises(InputError, match=words) as caught:
        smoothsweep.compare({"a": audit(0.5, seed=1), "b": audit(0.5, seed=2, **other)})
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="at least two audits, got 1"):
        smoothsweep.compare({"a": audit(0.5, seed=1)})
