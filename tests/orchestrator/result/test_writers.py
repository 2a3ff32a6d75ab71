"""The result: frames, facts, JSON, numbers in words; every writer shows its numbers, all of them, and no others."""

import csv
import html
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.text import MINUS, NBSP
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import csv_table, latex_tables, markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import Measured
from smoothsweep.orchestrator.result.format import (
    ascii_text,
    difference,
    estimate,
    gap_in_row,
    interval,
    number,
    points,
    signed,
    signed_interval,
    significant,
)
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import FRAMES, metric_columns, result_of, rows_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs import verdicts_of
from smoothsweep.sweeps.load import load_sweep
from tests.made_rows import ALPHA, made_data
from tests.made_stores import write_artifacts
from tests.tiny import write_tiny


@pytest.fixture(scope="module", params=["complete", "one seed", "no leak", "nothing done"])
def made(request, make_data):
    data = make_data()
    results = data.results
    if request.param == "one seed":
        results = results[results["seed"] == 1].reset_index(drop=True)
    if request.param == "no leak":
        results = results.assign(**dict.fromkeys(("embedder_acc1", "attack_acc1", "dist_face", "dist_eval"), np.nan))
        data = make_data(per_class=None)
    if request.param == "nothing done":
        results = results.assign(status="missing")
    data = make_data(results=results, per_class=data.per_class)
    summary = summarise(data)
    return data, summary, result_of(data, summary)


def test_frames_have_the_declared_columns_and_the_cells_numbers(made):
    _, summary, result = made
    for name, frame in result.frames.items():
        declared = [column.name for column in FRAMES[name]]
        assert [name for name in frame if name in declared] == declared and frame.columns.is_unique
    assert list(result.recipes["recipe"]) == summary.recipes and len(result.attacks) == len(summary.frame)
    for column in metric_columns(summary.measured):
        if column.name in summary.frame:
            np.testing.assert_array_equal(result.attacks[column.name], summary.frame[column.name])


def test_facts_agree_with_the_frames(made):
    data, _, result = made
    facts, recipes = result.facts, result.recipes.set_index("recipe")
    assert facts["trials"] == len(data.results) == sum(facts[f"trials_{one}"] for one in ("done", "failed", "missing"))
    assert set(facts["front"]) == set(recipes.index[recipes["on_front"]])
    if facts["best"] is not None:
        leak = facts["best_leak"]
        assert leak.value == recipes.loc[facts["best"], facts["leak"]] and leak.low <= leak.value <= leak.high
        assert facts["baseline_accuracy"].value == recipes.loc[facts["baseline"], "test_acc"]
    if facts.get("reduction"):
        assert facts["reduction"].value == recipes.loc[facts["best"], "reduction"]
    assert result.sentences["answer"] and str(result)


def test_json_is_the_dump(made):
    *_, result = made
    held = json.loads(result.to_json())
    assert held == result.dump()
    assert set(FRAMES) <= set(held) and [row["recipe"] for row in held["recipes"]] == list(result.recipes["recipe"])
    for row, (_, mine) in zip(held["recipes"], result.recipes.iterrows(), strict=True):
        shown = {key: value for key, value in row.items() if isinstance(value, float)}
        assert all(mine[key] == value for key, value in shown.items())


@pytest.fixture
def finished(tmp_path):
    """A tiny sweep of two recipes, and its store of made-up artifacts."""
    sweep = write_tiny(tmp_path, seeds=[1, 2], grid={"recipe.defense.alpha": [0.0, -0.2]})
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(sweep))
    write_artifacts(trials, store)
    return sweep, store, trials


def test_the_result_of_a_store_has_the_numbers_of_its_trials(finished):
    sweep, store, trials = finished
    result = smoothsweep.load_result(store.root, sweep)
    assert isinstance(result, smoothsweep.SweepResult) and result.facts["trials_done"] == len(trials) == 4
    for _, recipe in result.recipes.iterrows():
        alike = [trial for trial in trials if trial.recipe_label == recipe["recipe"]]
        targets = [next(stage for stage in trial.stages if stage.name == "target") for trial in alike]
        accuracies = [store.metrics(stage)["test_acc"] for stage in targets]
        assert len(alike) == recipe["n"] == 2 and recipe["test_acc"] == pytest.approx(np.mean(accuracies))


@pytest.mark.parametrize("described", ["missing.yaml", {"name": "x", "seeds": "no"}])
def test_a_mistake_ends_before_anything_runs(described, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        smoothsweep.sweep(described)
    assert list(tmp_path.iterdir()) == []


def test_report_prints_json_and_refuses_what_stands_against_it(finished, smoothsweep):
    sweep, store, _ = finished
    done = smoothsweep("report", sweep, "--store", store.root, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["facts"]["trials_done"] == 4
    assert not (store.root / "sweeps").exists()
    for more in (["--out", store.root / "x"], [sweep]):
        assert smoothsweep("report", sweep, *more, "--store", store.root, "--json").returncode == 2


NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?!\w)")


@pytest.fixture(scope="module", params=[3, 1])
def shown_result(request, make_data):
    data = make_data()
    rows = data.results[data.results["seed"] < request.param].reset_index(drop=True)
    data = make_data(results=rows, per_class=data.per_class)
    summary = summarise(data)
    return data, result_of(data, summary)


def numbers(value):
    """Every number in frames, facts and labels of a result."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, Measured | list | tuple):
        return [found for one in value for found in numbers(one)]
    if isinstance(value, str):
        return [float(found.replace(",", "")) for found in NUMBER.findall(ascii_text(value))]
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    return [float(value)] if is_number else []


def shown(result):
    """How a writer may show them, without sign."""
    known = [1.0, *numbers(dict(result.facts)), *numbers(dict(result.labels))]
    known += [found for frame in result.frames.values() for row in rows_of(frame) for found in numbers(row)]
    texts = set()
    for value in map(abs, known):
        texts |= {repr(value), f"{value:g}", f"{value:,.0f}", ascii_text(significant(value))}
        texts |= {f"{100 * value:.{decimals}f}" for decimals in range(4)} | {f"{100 * value:g}"}
    return texts


def outputs(data, result):
    tables = tables_of(result)
    page = "".join(part(name, data, result) for name in ("recipes", "hiding", "everything"))
    page = re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    yield "terminal", terminal_text(result)
    yield "page", html.unescape(page)
    yield "MLflow", verdicts_of(result).note
    for table in tables:
        yield f"Markdown {table.stem}", markdown_table(table)
        yield f"CSV {table.stem}", csv_table(table)
        for ending, text in latex_tables(table, "label").items():
            body = text.partition("\\toprule")[2].replace("~", " ").replace("$-$", "-")
            yield f"LaTeX {table.stem}{ending}", body


def test_no_writer_shows_a_number_that_the_result_has_not(shown_result):
    data, result = shown_result
    allowed, counted, strange = shown(result), 0, []
    said = {
        found for lines in result.sentences.values() for line in lines for found in NUMBER.findall(ascii_text(line))
    }
    names = [ascii_text(str(name)) for column in ("recipe", "attack") for name in {*result.attacks[column]} if name]
    for where, text in outputs(data, result):
        plain = ascii_text(text)
        for name in sorted(names, key=len, reverse=True):
            plain = plain.replace(name, " ")
        for found in NUMBER.findall(plain):
            counted += 1
            if found not in said and found.lstrip("+-") not in allowed:
                strange.append((where, found))
    assert counted > 300 and strange == []


def test_every_number_of_the_result_is_on_the_page_and_in_the_tables(shown_result):
    data, result = shown_result
    written, counted = dict(outputs(data, result)), 0
    recipes = result.recipes[result.recipes["attack"].notna()]  # the others have not met every attack
    for stem, frame in (("attacks", result.attacks), ("recipes", recipes)):
        lines = list(csv.DictReader(io.StringIO(written[f"CSV {stem}"])))
        for row, line in zip(rows_of(frame), lines, strict=True):
            for name in (f"{key}{end}" for key in result.facts["key_metrics"] for end in ("", "_low", "_high")):
                counted += row[name] is not None
                assert line[name] == ("" if row[name] is None else repr(float(row[name])))
    for row in rows_of(result.attacks):
        for spec in (result.metric(key) for key in result.facts["metrics"] if row[key] is not None):
            texts = [number(spec, row[spec.key]), interval(spec, row[f"{spec.key}_low"], row[f"{spec.key}_high"])]
            texts += [gap_in_row(spec, row, f"{spec.key}_gap")] if spec.is_leak and row[f"{spec.key}_gap"] else []
            counted += len(texts)
            assert [text for text in texts if text not in written["page"]] == []
    assert counted > 100


def test_json_is_the_result_and_mlflow_has_its_numbers(shown_result):
    _, result = shown_result
    told, dumped, counted = verdicts_of(result), json.loads(result.to_json()), 0
    recipes = {row["recipe"]: row for row in rows_of(result.recipes)}
    for name, frame in result.frames.items():
        numeric = [column for column in frame if pd.api.types.is_numeric_dtype(frame[column])]
        for row, same in zip(rows_of(frame), dumped[name], strict=True):
            assert {column: same[column] for column in numeric} == {column: row[column] for column in numeric}
    for row in rows_of(result.attacks):
        for trial in told.of_trials.keys() & set(row["trials"]):
            recipe = recipes[row["recipe"]]
            known = {"leak_strongest": recipe[result.facts["leak"]], "leak_order": row["place"]}
            for name, value in told.of_trials[trial].numbers.items():
                counted += 1
                assert value == {**recipe, **known}[name]
    assert counted > 10


def text_table(data):
    """The first table in a terminal."""
    return terminal_text(result_of(data, summarise(data))).split("\n\n")[0]


def test_the_terminal_table_is_plain_and_aligned(make_data):
    table = text_table(make_data())
    lines = table.splitlines()
    assert max(map(len, lines)) <= 125
    head, rows = lines[0], lines[2:-4]
    assert len(rows) == 8 and lines[-2].startswith("Incomplete") and "alpha 0.1" in lines[-2]
    assert lines[-1].startswith("Seed 0 is left out")  # alpha -0.2, which is in front, lacks it
    assert head.split("  ")[0] == "" and "independent judge" in head
    assert "verdict" not in head, "with several attacks the table of recipes has the word"
    marked = [row for row in rows if row.startswith("*")]
    assert len(marked) == 1 and "-0.2" in marked[0] and "Poincaré" in marked[0]
    assert sum(row.startswith("=") for row in rows) == 2
    assert "\u2212" not in table and "\u00a0" not in table and "FID" not in table
    nothing = text_table(make_data(results=make_data().results.assign(status="missing")))
    assert "0 of 3" in nothing and "verdict" not in nothing


def test_a_baseline_that_leaks_least_has_both_marks():
    rows = [{"seed": seed, "alpha": alpha, "embedder_acc1": 0.2 + alpha} for alpha in (0.0, 0.1) for seed in (0, 1)]
    data = made_data(rows, ALPHA, baseline={"alpha": 0})
    assert text_table(data).splitlines()[2].startswith("*=  alpha 0")


ACC, DIST = metric_of("test_acc"), metric_of("dist_face")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.712, "0.712"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (151.42, "151"),
        (1523.4, "1,523"),
        (0.0432, "0.043"),
        (0.0004, "0.0004"),
        (-0.5, "\u22120.500"),
        (0.0, "0"),
    ],
)
def test_plain_metrics_have_three_digits(value, text):
    assert number(DIST, value) == text


def test_percentages():
    assert number(ACC, 0.8724) == f"87.2{NBSP}%"
    assert interval(ACC, 0.861, 0.883) == f"[86.1,{NBSP}88.3]"
    assert interval(ACC, 0.10, 0.17) == f"[10,{NBSP}17]"
    assert interval(ACC, float("nan"), 0.2) == ""
    assert estimate(ACC, 0.134, 0.10, 0.17) == f"13{NBSP}% [10,{NBSP}17]"
    assert estimate(ACC, 0.134, 0.13, 0.138) == f"13.4{NBSP}% [13.0,{NBSP}13.8]"
    assert estimate(ACC, 0.134, float("nan"), float("nan")) == f"13.4{NBSP}%"


def test_differences_carry_sign_and_unit():
    assert difference(ACC, -0.261, -0.30, -0.21) == f"{MINUS}26.1{NBSP}points [{MINUS}30,{NBSP}{MINUS}21]"
    assert difference(ACC, 0.01, float("nan"), float("nan")) == f"+1.0{NBSP}point"
    assert signed(DIST, 0.52) == "+0.520"
    assert signed(ACC, 0.0001) == "0.0"
    assert points(ACC, -0.012) == f"1.2{NBSP}points"
    assert points(DIST, -0.5) == "0.500"


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_the_printed_interval_of_a_difference_never_changes_its_verdict(a, b):
    low, high = sorted((a, b))
    ends = ascii_text(signed_interval(ACC, low, high)).strip("[]").split(", ")
    shown = [float(end) for end in ends]
    if low > 1e-5:
        assert shown[0] > 0
    if high < -1e-5:
        assert shown[1] < 0
