"""Audits beside each other: each model against the first, under every attack; nothing unlike is paired."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.orchestrator.result.audit import Audit as AuditResult
from smoothsweep.results import Audit, Judge

CLASSES, SEEDS = (0, 1, 4, 5, 7, 9), (1, 2, 3)
JUDGE = Judge(metric="embedder_acc1", names=tuple("abcdefghij"), sensitivity=0.9, logits=lambda images: images)


def audit(mean, *, seed, by=JUDGE, seeds=SEEDS, classes=CLASSES, attacks=("ppa", "ppa logit", "random_latents")):
    shares = np.clip(mean + 0.1 * np.random.default_rng(seed).normal(size=(len(seeds), len(classes))), 0, 1)
    weaker = {one: np.clip(shares - 0.05 * at, 0, 1) for at, one in enumerate(attacks) if one != "random_latents"}
    return made_audit(weaker, by=by, seeds=seeds, classes=classes, attacks=attacks, test_acc=0.8 + seed / 100)


def made_audit(shares, *, by, seeds, classes, attacks, test_acc, published=()):
    """An audit with these shares of hits, the strongest attack first."""
    known = {"access": "gradients", "low": 0.0, "high": 1.0, "seeds": len(seeds), "queries": None, "seconds": 0.0}
    leaks = {name: float(shares[name].mean()) if name in shares else 0.0 for name in attacks}
    reached = [{"attack": name, "control": name not in shares, "leak": leak, **known} for name, leak in leaks.items()]
    people = dict.fromkeys(("share", "rate", "low", "high", "among_top", "control", "verified"), 0.0)
    result = AuditResult(
        classes=len(by.names),
        judge=by.metric,
        ceiling=by.sensitivity,
        reached=tuple(reached),
        people=tuple({"name": str(label), "label": label, **people} for label in classes),
        test_acc=test_acc,
        chance=1 / len(by.names),
        can_tell=by.sensitivity > 2 / len(by.names),
    )
    names = {name: name for name in attacks}
    return Audit(
        result=result, reconstructions=None, by=by, names=names, shares=shares, seeds=seeds, published=published
    )


def test_each_model_stands_beside_the_first():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    table = smoothsweep.compare(audits)
    assert list(table["model"]) == list(audits) and list(table["test_acc"]) == pytest.approx([0.81, 0.82, 0.83])
    leaks = [one.shares["ppa"].mean() for one in audits.values()]
    assert list(table["leak"]) == leaks and np.isnan(table["reduction"][0])
    assert list(table["reduction"][1:]) == pytest.approx([leaks[0] - leak for leak in leaks[1:]])
    assert list(table["verdict"]) == ["", "inconclusive", "reduces"] and table["seeds_needed"].isna()[2]
    assert table["reduction_high"][2] > table["reduction"][2] > table["reduction_low"][2] > 0
    blind = {name: replace(one, result=replace(one.result, can_tell=False)) for name, one in audits.items()}
    table = smoothsweep.compare(blind)
    assert list(table["verdict"]) == [""] * 3 and table["reduction"].isna().all() and table["leak"].notna().all()


def test_the_intervals_pay_for_models_and_for_the_choice_of_attacks():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    both = smoothsweep.compare({name: audits[name] for name in ("mine", "hidden")})
    three = smoothsweep.compare(audits)
    assert len({(table["reduction_high"] - table["reduction_low"]).iloc[-1] for table in (both, three)}) == 2
    pair = compare_recipes({name: audits[name].shares["ppa"] for name in ("mine", "hidden")}).pairs[0]
    low, high = both["reduction_low"][1], both["reduction_high"][1]
    assert low < pair.low and pair.high < high and both["reduction"][1] == pytest.approx(pair.difference)
    swapped = {name: replace(one, shares=dict(reversed(one.shares.items()))) for name, one in audits.items()}
    pd.testing.assert_frame_equal(smoothsweep.compare(swapped), three)


def test_one_seed_tells_the_reduction_and_no_more():
    table = smoothsweep.compare({"a": audit(0.7, seed=1, seeds=(1,)), "b": audit(0.2, seed=2, seeds=(1,))})
    assert table["reduction"][1] > 0.3 and np.isnan(table["reduction_low"][1])
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
