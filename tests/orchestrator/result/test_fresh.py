"""The second audit: selection bias per recipe and over the frontier, in closed form."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.comparisons import reaudit, together
from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.standing import check_reaudit, fresh_words
from smoothsweep.orchestrator.result.summary import recipe_label, summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

CLASSES = [f"c{i}" for i in range(20)]


def rows(leaks, seeds, *, metric="embedder_acc1", noise=0.03, tag=""):
    """leaks: alpha -> mean. Results and class values."""
    results, hits = [], []
    for alpha, leak in leaks.items():
        for seed in seeds:
            rng = np.random.default_rng([seed, round(1000 * alpha + 500)])
            values = np.clip(leak + rng.normal(0, noise, len(CLASSES)), 0, 1)
            trial = f"{tag}{alpha}/{seed}"
            hits.append(pd.DataFrame({"trial": trial, "class": CLASSES, metric: values}))
            results.append(
                {
                    "trial": trial,
                    "seed": seed,
                    "status": "done",
                    "alpha": alpha,
                    "test_acc": 0.9 - 0.1 * abs(alpha),
                    metric: values.mean(),
                }
            )
    return pd.DataFrame(results), pd.concat(hits)


def audited(first, later, **changes):
    before, hits = rows(first, (0, 1))
    after, again = rows(later, (101, 102))
    fields = {
        "title": "t",
        "results": before,
        "fresh": after,
        "per_class": pd.concat([hits, again]),
        "axes": (Axis(key="alpha"),),
        "baseline": {"alpha": 0.0},
    }
    return ReportData(**(fields | changes))


def matrices(data, alpha):
    found = []
    for results in (data.results, data.fresh):
        trials = results.loc[results["alpha"] == alpha, "trial"]
        table = data.per_class.set_index(["trial", "class"])["embedder_acc1"]
        found.append(np.stack([table[trial].loc[CLASSES] for trial in trials]))
    return found


def test_the_bias_is_fresh_minus_first_paired_by_class():
    data = audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.2: 0.26, -0.1: 0.36})
    summary = summarise(data, resamples=200)
    found = check_reaudit(data, summary)
    assert found.seeds == (101, 102) and found.by_class and len(found.recipes) == 2
    recipe = recipe_label(summary.axes, {"alpha": -0.2})
    pairs = [[{"": cells} for cells in matrices(data, alpha)] for alpha in (-0.2, -0.1)]
    expected = [reaudit(*pair, among=2) for pair in pairs]
    assert vars(found.recipes[recipe]) == pytest.approx(vars(expected[0]))
    assert vars(found.together) == pytest.approx(vars(together(expected)))
    assert found.together.bias == pytest.approx(0.06, abs=0.02) and found.together.verdict == "higher"


def test_only_the_recipes_checked_are_listed_and_the_first_audit_alone_decides():
    data = audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.1: 0.01})
    summary = summarise(data, resamples=200)
    assert ascii_text(summary.evidence.recommendation.best) == "alpha -0.2"
    shown = ascii_text(part("fresh", data, result_of(data, summary)))
    assert "alpha -0.1" in shown and "alpha -0.2" not in shown and "overestimated" in shown
    page = render(data, result_of(data, summary))
    assert 'id="fresh"' in page and "101" in page


def test_without_a_second_audit_there_is_no_section():
    data = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.2}, fresh=None)
    summary = summarise(data, resamples=50)
    assert check_reaudit(data, summary) is None and part("fresh", data, result_of(data, summary)) == ""
    unfinished = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.2})
    unfinished = ReportData(**{**vars(unfinished), "fresh": unfinished.fresh.assign(status="missing")})
    assert check_reaudit(unfinished, summarise(unfinished, resamples=50)) is None


def test_values_without_classes_and_a_single_seed_cannot_tell():
    data = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.3}, per_class=None)
    one = ReportData(**{**vars(data), "results": data.results.query("seed == 0"), "fresh": data.fresh.iloc[:1]})
    found = check_reaudit(one, summarise(one, resamples=50))
    (result,) = found.recipes.values()
    assert result.low is None and result.verdict == "inconclusive" and not found.by_class
    assert "inconclusive: one seed" in fresh_words(summarise(one, resamples=50), found)[0]
