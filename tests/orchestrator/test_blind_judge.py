"""A judge that knows nothing: no output believes it, and each says how often it is right about real photographs."""

import json
import re
from io import StringIO

import pandas as pd
import pytest

from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.page.tables import csv_table, markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.result.audit import read_audit
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.findings import find
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.tracking.runs import verdicts_of
from tests.orchestrator.made_reports import AXES, make_frames

WORDS = re.compile("reduces|hides|leaks more|inconclusive")
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
        assert not WORDS.search(text), where
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


def test_a_recogniser_that_accepts_nobody_and_a_reach_above_the_ceiling_tell_nothing():
    common = {"evaluator_real_acc": 0.95, "embedder_real_acc": 0.6}
    verified = report(("evaluator", "embedder"), verified_far1=0.3, verified_far1_real=0.02, **common)
    assert not summarise(verified).is_told("verified_far1") and summarise(verified).primary == "embedder_acc1"
    reached = report(("evaluator", "embedder"), embedder_reach=1.0, reach_images=50, **common)
    assert not summarise(reached).is_told("embedder_acc1") and summarise(reached).primary == "attack_acc1"


def test_the_accuracy_of_a_judge_that_is_often_wrong_stands_beside_its_leak():
    data = report(evaluator_real_acc=0.7)
    summary = summarise(data)
    assert summary.primary == "attack_acc1"
    result = result_of(data, summary)
    tables = [markdown_table(table) for table in tables_of(result)]
    for text in (
        terminal_text(result),
        seen(part("first", data, result)),
        find(data, summary)["answer"][0],
        *tables,
    ):
        assert "70" in text
    assert summary.verdict(summary.recipes[0]) is not None


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
    assert not WORDS.search(json.dumps(found["said"])) and "16.7" in found["said"]["answer"][0]
