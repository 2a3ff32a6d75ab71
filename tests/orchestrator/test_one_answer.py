"""One sweep through every output: for every recipe the same reduction, interval, sign and word."""

import html
import json
import re
from io import StringIO

import numpy as np
import pandas as pd
import pytest

import smoothsweep
from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.page.tables import csv_table, markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.result.audit import read_audit
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.findings import find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows
from smoothsweep.orchestrator.tracking.runs import VERDICT, verdicts_of
from smoothsweep.results import Judge
from tests.orchestrator.made_reports import AXES, make_frames
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


TOLD = re.compile("reduces|hides|leaks more|inconclusive")
PEOPLE, PHOTOGRAPHS = 6, 24


def report(columns=("evaluator",), **known):
    """A sweep of six people, judged by these judges, with what is known of them."""
    results, per_class = make_frames(classes=PEOPLE)
    gone = {"embedder": ["embedder_acc1", "dist_face", "embedder_real_acc"], "evaluator": ["attack_acc1", "dist_eval"]}
    lacking = [column for judge, names in gone.items() if judge not in columns for column in names]
    results = results.drop(columns=lacking).assign(**{"xi_train": None, **known})
    per_class = per_class.drop(columns=[column for column in lacking if column in per_class])
    return ReportData(
        title="six people",
        results=results,
        per_class=per_class,
        axes=AXES,
        baseline={"alpha": 0.0},
        people=PEOPLE,
        real_images=PHOTOGRAPHS,
    )


def seen(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


BLIND = {
    "chance": ({"evaluator_real_acc": 1 / 6}, "16.7"),
    "one name for all": ({"evaluator_real_acc": 0.9, "evaluator_real_acc_balanced": 1 / 6}, "16.7"),
    "half of the targets": ({"evaluator_real_acc": 0.43, "test_acc": 0.95}, "43.0"),
}


@pytest.mark.parametrize("case", BLIND)
def test_no_output_gives_a_verdict_by_it_and_each_shows_its_accuracy(case):
    known, figure = BLIND[case]
    data = report(**known)
    summary = summarise(data)
    assert summary.primary is None
    assert not any(summary.verdict(recipe, "attack_acc1") for recipe in summary.recipes)
    result = result_of(data, summary)
    tables, verdicts = tables_of(result), verdicts_of(result)
    assert not result.recipes["verdict"].notna().any() and not verdicts.of_trials
    outputs = {
        "terminal": terminal_text(result),
        "first screen": seen(part("first", data, result)),
        "MLflow": verdicts.note,
        **{f"markdown {table.stem}": markdown_table(table) for table in tables},
    }
    for where, text in outputs.items():
        assert not TOLD.search(text), where
        assert figure in text and "evaluator" in text, where
    for table in tables:
        rows = pd.read_csv(StringIO(csv_table(table)))
        assert "verdict" not in rows and "reduction" not in rows and not rows["attack_acc1_differs"].eq("yes").any()
    words = re.findall('class="verdict[^>]*>([^<]+)<', render(data, result_of(data, summary)))
    assert not {"reduces", "hides", "leaks more"} & {*words}, "those of accuracy are none of the judge's"


def test_another_judge_that_can_tell_decides_and_the_blind_one_is_named():
    data = report(("evaluator", "embedder"), evaluator_real_acc=1 / 6, embedder_real_acc=0.95)
    summary = summarise(data)
    assert summary.primary == "embedder_acc1" and summary.verdict(summary.recipes[0]) is not None
    assert summary.verdict(summary.recipes[0], "attack_acc1") is None
    assert not summary.gaps("attack_acc1") and any(gap.verdict for gap in summary.gaps("embedder_acc1").values())
    assert any("evaluator" in line and "16.7" in line for line in find(data, summary)["incomplete"])


@pytest.mark.parametrize(("embedder", "decides"), [(0.1, "attack_acc1"), (0.95, "embedder_acc1")])
def test_an_embedder_of_other_faces_hands_over_to_a_judge_that_can_tell(embedder, decides):
    data = report(("evaluator", "embedder"), evaluator_real_acc=0.95, embedder_real_acc=embedder)
    assert summarise(data).primary == decides


def test_an_audit_names_nobody_and_compares_nothing_by_it():
    results, per_class = make_frames(classes=PEOPLE, losses=("ce",))
    results = results.assign(attack_control=False, attack_access="gradients", evaluator_real_acc=1 / 6, queries=10.0)
    gone = ["embedder_acc1", "dist_face", "embedder_real_acc"]
    data = ReportData(
        title="audit",
        results=results.drop(columns=[*gone, "attack_loss"]),
        per_class=per_class.drop(columns="embedder_acc1"),
        axes=AXES[:1],
        baseline={"alpha": 0.0},
        people=PEOPLE,
        real_images=PHOTOGRAPHS,
    )
    summary = summarise(data)
    audit = read_audit(data, summary, names=[*"abcdef"], classes=PEOPLE, recipe=summary.recipes[0])
    found = audit.dump()
    assert found["can_tell"] is False and found["ceiling"] == pytest.approx(1 / 6)
    assert not found["people"] and not found["beyond"]["verdict"]
    assert all(one["leak"] is None for one in found["beside"])
    assert not TOLD.search(json.dumps(found["said"])) and "16.7" in found["said"]["answer"][0]
