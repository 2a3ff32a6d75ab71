"""Inversion beside membership: which words the intervals allow, and what the page says where it was not measured."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.standing import (
    ATTACKS,
    LESS,
    MORE,
    SCORES_ALONE,
    UNCLEAR,
    membership_frame,
    membership_sentence,
    warnings_of,
)
from smoothsweep.orchestrator.result.summary import summarise

CLASSES, SEEDS = 24, 4
TRUE = {  # alpha -> inversion, AUC by scores, AUC by labels
    0.0: (0.6, 0.75, 0.65),
    0.1: (0.6, 0.88, 0.66),
    -0.2: (0.5, 0.62, 0.65),
    -0.8: (0.3, 0.56, 0.54),
    -0.05: (0.6, 0.75, 0.65),
}


def data(shift=0.5, copies=0.0, *, shadows=True):
    draw, rows, hits = np.random.default_rng(3), [], []
    person = draw.normal(size=CLASSES) * 0.03
    for alpha, (leak, scores, labels) in TRUE.items():
        for seed in range(SEEDS):
            trial = f"{alpha}/{seed}"

            def near(mean, person=person):
                return np.clip(mean + person + 0.02 * draw.normal() + 0.03 * draw.normal(size=CLASSES), 0, 1)

            columns = {"embedder_acc1": near(leak), "membership_margin": near(scores)}
            columns |= {"membership_label_views": near(labels)}
            columns |= {"membership_rmia": near(scores)} if shadows else {}
            hits.append(pd.DataFrame({"trial": trial, "class": [f"c{i:02d}" for i in range(CLASSES)], **columns}))
            rows.append(
                {
                    "trial": trial,
                    "seed": seed,
                    "status": "done",
                    "alpha": alpha,
                    "test_acc": 0.9,
                    "embedder_acc1": columns["embedder_acc1"].mean(),
                    "membership_auc_within": columns["membership_margin"].mean(),
                    "membership_shift": shift,
                    "membership_copies": copies,
                }
            )
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        per_class=pd.concat(hits),
        axes=(Axis(key="alpha"),),
        baseline={"alpha": 0.0},
    )


@pytest.fixture(scope="module")
def found():
    given = data()
    return membership_frame(given, summarise(given))


def test_words_say_what_scores_and_labels_lose(found):
    labels = found["recipe"].str.split("\u00a0").str[-1].str.replace("\u2212", "-")
    assert dict(zip(labels, found["word"], strict=True)) == {
        "0": "baseline",
        "0.1": MORE,
        "-0.2": SCORES_ALONE,
        "-0.8": LESS,
        "-0.05": UNCLEAR,
    }


def test_intervals_are_over_seeds_and_persons(found):
    assert [name for name in ATTACKS if name in found] == ["rmia", "margin", "label_views"]
    assert set(found["seeds"]) == {SEEDS} and set(found["persons"]) == {CLASSES}
    said = membership_sentence(found, summarise(data()))
    assert "lowers scores alone" in said and "from 5" in said


def test_the_page_shows_both_leaks_and_what_makes_them_doubtful():
    page = render(data())
    assert 'id="two-leaks"' in page and "Inversion against membership of every recipe" in page
    assert page.count("no claim can be made") == 0
    doubtful = data(shift=0.8, copies=2.0)
    assert len(warnings_of(doubtful)) == 2 and "no claim can be made" in render(doubtful)


def test_without_membership_there_is_no_section():
    given = data()
    bare = ReportData(
        title="t",
        results=given.results.drop(columns=["membership_auc_within", "membership_shift", "membership_copies"]),
        per_class=given.per_class[["trial", "class", "embedder_acc1"]],
        axes=given.axes,
        baseline=given.baseline,
    )
    assert membership_frame(bare, summarise(bare)) is None and 'id="two-leaks"' not in render(bare)


def test_without_shadow_models_the_margin_stands_for_scores():
    given = data(shadows=False)
    found = membership_frame(given, summarise(given))
    assert {"margin", "label_views"} <= {*found} and "rmia" not in found


def test_the_file_has_the_numbers_of_the_page(found):
    given, table = data(), found.set_index("recipe")
    assert len(table) == len(TRUE) and set(table["word"]) == {"baseline", MORE, SCORES_ALONE, LESS, UNCLEAR}
    recipe = table.index[table["word"] == LESS][0]
    trials = given.results.loc[given.results["alpha"] == -0.8, "trial"]
    by_person = given.per_class.loc[given.per_class["trial"].isin(trials), "membership_margin"]
    assert table.loc[recipe, "margin"] == pytest.approx(by_person.mean())
    assert table.loc[recipe, "less_by_labels_low"] > 0 and table["less_by_scores"].isna().sum() == 1
