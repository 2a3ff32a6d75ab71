"""The answer in MLflow's note: the strongest attack on each recipe, and no recipe that lacks one."""

from itertools import product

import pytest

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.reading.findings.display import with_interval
from smoothsweep.orchestrator.reading.numbers.format import ascii_text
from smoothsweep.orchestrator.tracking.pages.answer import answer, answer_text
from smoothsweep.orchestrator.tracking.runs.recipes import recipe_means

LOSSES = ("cross_entropy", "logit", "poincare")
LEAKS = {(-0.2, "cross_entropy"): 0.1, (-0.2, "logit"): 0.9, (-0.2, "poincare"): 0.3}
"""Of the masked recipe; plain training leaks .5 under every loss."""


@pytest.fixture
def means(load, finished, store, monkeypatch):
    """Both recipes under all losses at two seeds, and the trials; leaks as in `LEAKS`."""
    loaded = load(
        seeds=[1, 2],
        grid={"recipe.defense.alpha": [0.0, -0.2], "attack.loss": list(LOSSES)},
    )
    trials = finished(loaded)
    found = {}
    for trial in trials:
        found.setdefault((trial.settings.recipe.defense.alpha, trial.settings.attack.loss), []).append(trial)
    told = {}
    for key, mine in found.items():
        one, leak = recipe_means(mine, store, loaded), LEAKS.get(key, 0.5)
        one.metrics["embedder_acc1"] = leak
        for row in one.rows:
            row["embedder_acc1"] = leak
        told[key] = one
    return trials, told


def test_the_strongest_attack_counts_and_the_masked_one_does_not(means):
    trials, told = means
    found = answer([*told.values()], planned=trials)
    assert [one.metrics["embedder_acc1"] for one in found.worst] == [0.5, 0.9] and found.incomplete == ()
    assert "plain training" in found.recommended.label


@pytest.mark.parametrize("absent", [("logit",), ("logit", "poincare"), ("logit", "poincare", "cross_entropy")])
def test_a_recipe_that_lacks_an_attack_is_named_and_not_ranked(means, absent):
    trials, told = means
    found = answer([one for key, one in told.items() if key not in product((-0.2,), absent)], planned=trials)
    assert [one.metrics["embedder_acc1"] for one in found.worst] == [0.5]
    assert found.recommended is None or "-0.2" not in found.recommended.label
    text = answer_text(found)
    assert text.startswith("Incomplete, and so compared with no other recipe:") and text.count("lacks") == 1
    assert all(text.split(")")[0].count(word) == 1 for word in ("seeds 1 and 2" if len(absent) == 1 else "lacks",))


def test_a_seed_that_one_attack_lacks_does_not_count_under_the_others(means):
    """Seed 2 of plain training is missing under one loss; its leak under the others is then that of seed 1."""
    trials, told = means
    one = told[0.0, "logit"]
    one.rows.pop()
    for row, leak in zip(told[0.0, "cross_entropy"].rows, (0.6, 0.0), strict=True):
        row["embedder_acc1"] = leak
    told[0.0, "cross_entropy"].metrics["embedder_acc1"] = 0.3
    found = answer([*told.values()], planned=trials)
    plain = next(one for one in found.worst if "plain training" in one.label)
    assert "cross entropy" in plain.label and [said[:6] for said in found.incomplete] == ["Seed 2"]


def test_numbers_have_the_digits_of_the_report(means):
    """A wide interval in whole per cents, a narrow one with a decimal, as the terminal and the page write it."""
    trials, told = means
    one = told[-0.2, "logit"]
    one.metrics.update({"test_acc": 0.9469, "test_acc_low": 0.9184, "test_acc_high": 0.9658})
    one.metrics.update({"embedder_acc1": 0.9, "embedder_acc1_low": 0.891, "embedder_acc1_high": 0.9089})
    text = answer_text(answer([*told.values()], planned=trials))
    for key in ("test_acc", "embedder_acc1"):
        shown = with_interval(metric_of(key), one.metrics)
        assert ascii_text(shown) in text, shown
    assert "94.7 % [92, 97]" in text and "90.0 % [89.1, 90.9]" in text
