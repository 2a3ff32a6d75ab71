"""One sweep through every output: for every recipe the same reduction, interval, sign and word."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest

import smoothsweep
from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.result.audit import read_audit
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.findings import find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows
from smoothsweep.orchestrator.tracking.runs import ORDER, VERDICT, verdicts_of
from smoothsweep.results import Judge
from tests.test_library import made_audit

PLAIN, MODEL = "plain", "mine"
RATES = {  # recipe -> leak under the published attack, under another of them, and under the adapted one
    "strong": (0.15, 0.1, 0.25),
    PLAIN: (0.6, 0.65, 0.55),
    "masked": (0.1, 0.1, 0.66),
    "worse": (0.95, 0.9, 0.9),
    MODEL: (0.62, 0.58, 0.6),
    "little": (0.6, 0.55, 0.62),
}
WORDS = {"strong": "reduces", "masked": "hides", "worse": "leaks more", MODEL: "inconclusive", "little": "inconclusive"}
ATTACKS, PUBLISHED = ("ppa", "other", "adapted"), ("ppa", "other")
SEEDS, CLASSES = (9, 2, 5), tuple(np.random.default_rng(4).permutation(14))
METRIC = "embedder_acc1"


def drawn():
    """recipe -> attack -> hit rates [seeds, classes]."""
    generator, people = np.random.default_rng(8), np.random.default_rng(9).normal(0, 0.03, len(CLASSES))
    return {
        recipe: {
            attack: generator.binomial(20, np.clip(rate + people, 0.02, 0.98), (len(SEEDS), len(CLASSES))) / 20
            for attack, rate in zip(ATTACKS, rates, strict=True)
        }
        for recipe, rates in RATES.items()
    }


CELLS = drawn()


@pytest.fixture(scope="module")
def data():
    """The same as a finished sweep leaves it, its trials in no order."""
    rows, classes = [], []
    for recipe, under in CELLS.items():
        for attack, rates in under.items():
            for seed, hits in zip(SEEDS, rates, strict=True):
                trial = f"{recipe}-{attack}-{seed}"
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "failure": None,
                        "recipe_settings": recipe,
                        "attack_settings": attack,
                        "attack_access": "gradients",
                        "attack_control": False,
                        "attack_published": attack in PUBLISHED,
                        "test_acc": 0.9,
                        METRIC: float(hits.mean()),
                        "queries": 10.0,
                    }
                )
                classes += [{"trial": trial, "class": k, METRIC: hit} for k, hit in zip(CLASSES, hits, strict=True)]
    axes = (Axis(key="recipe_settings", bare=True, defense=True), Axis(key="attack_settings", role="attack", bare=True))
    return ReportData(
        title="t",
        results=pd.DataFrame(rows).sample(frac=1, random_state=1),
        axes=axes,
        per_class=pd.DataFrame(classes).sample(frac=1, random_state=2),
        baseline={"recipe_settings": PLAIN},
    )


@pytest.fixture(scope="module")
def summary(data):
    return summarise(data)


@pytest.fixture(scope="module")
def result(data, summary):
    return result_of(data, summary)


@pytest.fixture(scope="module")
def expected(result):
    """recipe -> (reduction as text with its interval, word): the number from the drawn rates, the interval from the
    file of verdicts, and every other output has to say the same."""
    frame = verdict_rows(result).set_index("recipe")
    found = {}
    for recipe, word in WORDS.items():
        row = frame.loc[recipe]
        strongest = [max(rates.mean() for rates in CELLS[one].values()) for one in (PLAIN, recipe)]
        assert row["reduction"] == pytest.approx(strongest[0] - strongest[1]) and row["verdict"] == word
        assert row["reduction_low"] < row["reduction"] < row["reduction_high"]
        decimals = 0 if row["reduction_high"] - row["reduction_low"] >= 0.04 else 1
        ends = [f"{100 * row[end]:+.{decimals}f}" for end in ("reduction_low", "reduction_high")]
        found[recipe] = f"{100 * row['reduction']:+.1f} [{', '.join(ends)}]", word
    assert set(WORDS.values()) == {"reduces", "hides", "leaks more", "inconclusive"}
    return found


def plain_text(markup):
    return ascii_text(html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))))


def row_of(markup, recipe):
    """The cells of a recipe in a table of the page, as text."""
    return plain_text(re.split(rf'<tr[^>]*data-recipe="{recipe}"', markup)[1].split("</tr>")[0])


def test_the_terminal_says_it(result, expected):
    lines = terminal_text(result).split("\n\n")[1].splitlines()
    for recipe, (size, word) in expected.items():
        (line,) = (line for line in lines if line.startswith(f"{recipe} "))
        assert size in line and re.search(rf"  {word}(  |$)", line)
    assert next(line for line in lines if line.startswith(PLAIN)).endswith("baseline")


@pytest.mark.parametrize("section", ["first", "hiding", "defenses"])
def test_the_page_says_it(data, summary, expected, section):
    markup = part(section, data, result_of(data, summary))
    for recipe, (size, word) in expected.items() if markup else ():
        row = row_of(markup, recipe)
        assert size in row and re.search(rf"(^|[ >]){word}( |$)", row), (section, row)
        assert not [other for other in set(WORDS.values()) - {word} if re.search(rf" {other} ", row)]
    assert markup or section == "defenses"


def test_mlflow_says_it(result, expected):
    verdicts = verdicts_of(result)
    frame = verdict_rows(result).set_index("recipe")
    for recipe, (_, word) in expected.items():
        for attack in ATTACKS:  # one word on all runs of a recipe, whatever the attack
            told = verdicts.of_trials[f"{recipe}-{attack}-{SEEDS[0]}"]
            assert told.tags[VERDICT] == word
            for end in ("", "_low", "_high"):
                value = frame.loc[recipe, f"reduction{end}"]
                assert told.numbers[f"reduction{end}"] == value
    lines = ascii_text(markdown_table(tables_of(result)[0])).splitlines()
    rows = {re.sub(r" \(.*", "", line.split(" | ")[0][2:]): line for line in lines if "|" in line}
    for recipe, (size, word) in expected.items():
        assert size in rows[recipe].replace("**", "") and rows[recipe].endswith(f"| {word} |")


def test_mlflow_marks_and_orders_as_the_page_does(data, summary, result):
    """A place for every run: recipes by their strongest attack's leak, that attack before the masked ones."""
    verdicts = verdicts_of(result)
    leak = {(recipe, attack): CELLS[recipe][attack].mean() for recipe in RATES for attack in ATTACKS}
    strongest = {recipe: max(leak[recipe, attack] for attack in ATTACKS) for recipe in RATES}
    wanted = sorted(leak, key=lambda cell: (strongest[cell[0]], -leak[cell]))
    place = {cell: verdicts.of_trials["{}-{}-{}".format(*cell, SEEDS[0])].numbers[ORDER] for cell in leak}
    assert sorted(place, key=place.get) == wanted and sorted(place.values()) == [*range(1, len(leak) + 1)]
    markup, least = part("first", data, result_of(data, summary)), min(strongest, key=strongest.get)
    (mark,) = re.findall(r'class="tag least">([^<]*)<', markup)
    assert f"* {mark} " in terminal_text(result) and verdicts.is_marked
    assert verdicts.ranked[0].startswith(f"{least}-") and verdicts.leak == METRIC
    first = ascii_text(find(data, summary)["answer"][0])
    assert first in plain_text(markup) and least in first


@pytest.fixture(scope="module")
def audited(data, summary):
    known = dict(
        names=[f"p{k}" for k in range(len(CLASSES))],
        classes=len(CLASSES),
        recipe=MODEL,
        architecture="resnet18",
        epochs=4,
    )
    return read_audit(data, summary, **known)


def test_the_audit_s_page_says_it(audited, expected):
    page = audit_page(audited, name="m", facts={}, portraits={})
    rows = [plain_text(row) for row in page.split("<tr>")]
    for recipe, (size, word) in expected.items():
        shown = "this model" if recipe == MODEL else recipe
        (row,) = (row for row in rows if row.strip().startswith(f"{shown} ") and "resnet18" not in row)
        assert f"{word} {size}" in row
    answer = plain_text(page.split('id="details"')[1].split("</section>")[0])
    value, interval = expected[MODEL][0].split(" ", 1)
    assert re.search(rf"is inconclusive \(reduction {re.escape(value)} points? {re.escape(interval)}", answer)


def test_json_says_it(audited, expected):
    beside = {one["recipe"]: one for one in json.loads(json.dumps(audited.dump()))["beside"]}
    for recipe, (size, word) in expected.items():
        assert beside[recipe]["leak"]["word"] == word
        assert f"{100 * beside[recipe]['leak']['reduction']:+.1f}" == size.split(" ")[0]
    assert beside[PLAIN]["leak"] is None


def test_python_says_it(result, expected):
    """From the same hits by `smoothsweep.compare`, whose models come in another order."""
    judge = Judge(metric=METRIC, names=tuple("abcdefghijklmn"), sensitivity=0.9, logits=lambda images: images)

    def audit(under):
        attacks, said = sorted(under, key=lambda attack: -under[attack].mean()), {"by": judge, "seeds": SEEDS}
        classes = tuple(range(len(CLASSES)))
        return made_audit(under, classes=classes, attacks=attacks, test_acc=0.9, published=PUBLISHED, **said)

    table = smoothsweep.compare({recipe: audit(CELLS[recipe]) for recipe in (PLAIN, *WORDS)}).set_index("model")
    frame = verdict_rows(result).set_index("recipe")
    for recipe, (_, word) in expected.items():
        for end in ("", "_low", "_high"):
            assert table.loc[recipe, f"reduction{end}"] == pytest.approx(frame.loc[recipe, f"reduction{end}"], abs=1e-9)
        assert table.loc[recipe, "verdict"] == word
    assert table.loc[PLAIN, "verdict"] == "" and np.isnan(table.loc[PLAIN, "reduction"])
