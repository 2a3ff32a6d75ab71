"""The word per recipe as the page, the terminal and the file say it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.display import needed_words
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.leaks import hiding_not_looked_for, hiding_sentences, verdicts
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows

PUBLISHED = {"ppa": True, "ppa logit": False, "chance": True}
RATES = {  # alpha -> attack -> leak
    0.0: {"ppa": 0.8, "ppa logit": 0.8, "chance": 0.05},
    -0.2: {"ppa": 0.2, "ppa logit": 0.8, "chance": 0.05},
    -0.5: {"ppa": 0.1, "ppa logit": 0.1, "chance": 0.05},
}
CLASSES = 20


def data(attacks=tuple(PUBLISHED), published=PUBLISHED, seeds=(1, 2, 3), rates=RATES):
    generator, rows, classes = np.random.default_rng(3), [], []
    for alpha, under in rates.items():
        for attack in attacks:
            for seed in seeds:
                trial = f"{alpha}-{attack}-{seed}"
                hits = generator.binomial(8, under[attack], CLASSES) / 8
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "alpha": alpha,
                        "attack_settings": attack,
                        "attack_access": "gradients",
                        "attack_control": attack == "chance",
                        "attack_published": published[attack],
                        "test_acc": 0.95,
                        "embedder_acc1": float(hits.mean()),
                    }
                )
                classes += [{"trial": trial, "class": f"c{at:02}", "embedder_acc1": hit} for at, hit in enumerate(hits)]
    axes = (Axis(key="alpha"), Axis(key="attack_settings", role="attack", bare=True))
    return ReportData(
        title="t", results=pd.DataFrame(rows), per_class=pd.DataFrame(classes), axes=axes, baseline={"alpha": 0.0}
    )


@pytest.fixture(scope="module")
def told():
    summary = summarise(data())
    return summary, verdicts(summary)


def test_each_recipe_gets_its_word_and_controls_are_no_attacks(told):
    summary, found = told
    hides, reduces = (recipe for recipe in summary.recipes[::-1] if recipe in found)
    assert (found[hides].word, found[reduces].word) == ("hides", "reduces")
    assert summary.cases(summary.primary).attacks == ("ppa", "ppa logit") and summary.published == ("ppa",)


def test_page_terminal_and_file_say_the_same(told):
    summary, found = told
    page, result = part("hiding", data(), result_of(data(), summary)), result_of(data(), summary)
    text, frame = terminal_text(result).split("\n\n")[1], verdict_rows(result)
    first = part("first", data(), result_of(data(), summary))
    for recipe, verdict in found.items():
        row = frame[frame["recipe"] == recipe].iloc[0]
        assert row["verdict"] == verdict.word and row["reduction"] == verdict.reduction
        line = next(line for line in text.splitlines() if f"  {verdict.word}" in line)
        row = first.split(f'data-recipe="{recipe}"><th scope="row">')[1].split("</tr>")[0]
        assert f">{verdict.word}</span>" in row, "the first screen has the same word in the recipe's own row"
        assert f">{verdict.word}</abbr>" in page and verdict.attack in line
    (baseline,) = (line for line in text.splitlines() if line.endswith("baseline"))
    strongest = next(iter(found.values())).attack_reference
    leaks = summary.frame[(summary.frame["recipe"] == summary.baseline_recipe) & ~summary.frame["control"]]
    worst = leaks.loc[leaks[summary.primary].idxmax()]
    assert worst["attack"] == strongest and strongest in baseline
    assert f"{100 * worst[summary.primary]:.1f} %" in baseline and f"{100 * worst['test_acc']:.1f} %" in baseline
    sentences = " ".join(hiding_sentences(summary))
    assert "upper bound" in sentences and "ppa logit" in sentences


def test_published_attacks_alone_reduce_and_say_nothing_of_hiding():
    summary = summarise(data(published=dict.fromkeys(PUBLISHED, True)))
    found = verdicts(summary)
    assert {one.word for one in found.values()} == {"reduces", "inconclusive"}
    assert "published one" in hiding_not_looked_for(summary) and all(one.hidden is None for one in found.values())
    result = result_of(data(published=dict.fromkeys(PUBLISHED, True)), summary)
    assert "hiding: not looked for" in terminal_text(result) and verdict_rows(result)["hidden"].isna().all()
    assert "cannot be said" in part(
        "hiding",
        data(published=dict.fromkeys(PUBLISHED, True)),
        result_of(data(published=dict.fromkeys(PUBLISHED, True)), summary),
    )


def test_every_undecided_recipe_has_what_might_settle_it_in_every_output():
    """A difference of some points needs seeds; one of almost none needs more than anyone trains."""
    rates = {
        0.0: RATES[0.0],
        -0.1: {"ppa": 0.77, "ppa logit": 0.72, "chance": 0.05},
        -0.2: {"ppa": 0.8, "ppa logit": 0.79, "chance": 0.05},
    }
    summary = summarise(data(rates=rates))
    found = verdicts(summary)
    undecided = {recipe: one for recipe, one in found.items() if one.word == "inconclusive"}
    assert len(undecided) == 2 and all(one.needed is not None for one in undecided.values())
    page, result = (
        part("hiding", data(rates=rates), result_of(data(rates=rates), summary)),
        result_of(data(rates=rates), summary),
    )
    text, frame = terminal_text(result), verdict_rows(result)
    for recipe, one in undecided.items():
        assert needed_words(one) in page and ascii_text(needed_words(one)) in text
        how = "would" if needed_words(one).startswith("no number") else "might"
        assert f"{needed_words(one)} {how} settle it" in hiding_sentences(summary)[0]
        row = frame[frame["recipe"] == recipe].iloc[0]
        told = [None if pd.isna(row[name]) else row[name] for name in ("seeds_needed", "classes_needed")]
        assert told == [one.needed.seeds, one.needed.classes]
        assert (told == [None, None]) == (how == "would"), "what settles nothing names no classes either"
    assert any("no number of seeds up to 50" in needed_words(one) for one in undecided.values())
    assert any(one.needed.seeds is not None for one in undecided.values())


def test_what_would_settle_a_recipe_counts_the_people_that_are_not_attacked_yet():
    """Seeds alone do not settle so small a difference; all 200 people of the data do, under five seeds."""
    close = {0.0: {"ppa": 0.6, "chance": 0.05}, -0.2: {"ppa": 0.585, "chance": 0.05}}
    close = {alpha: {**under, "ppa logit": under["ppa"]} for alpha, under in close.items()}
    for people, seeds, classes in ((None, None, None), (CLASSES, None, None), (200, 5, 200)):
        (found,) = summarise(replace(data(rates=close), people=people)).compared.leaks.verdicts.values()
        assert (found.needed.seeds, found.needed.classes) == (seeds, classes)
        assert found.needed.more_classes is (people == 200)
