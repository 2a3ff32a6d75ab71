"""The table of results: one type a column, rates by class of several judges, links of several stages."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, TIME_COLUMNS
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.rows import (
    one_type_a_column,
    per_class_rows,
    results_table,
    with_recipes,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import tiny_sweep, write_tiny


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1, 2.5, None], True),
        ([1, True], False),
        ([0.5, False, None], False),
        (["a", None, "b"], True),
        (["a", 1], False),
        ([True, "True"], False),
        ([True, None, False], True),
        ([{"seed": 3}, 0.9], False),
        ([{"seed": 3}, "a"], True),
        ([None, None], True),
        ([1, "a", True, float("nan")], False),
    ],
)
def test_a_column_of_several_kinds_becomes_text_and_its_nulls_stay(values, kept):
    other = [0.5] * len(values)
    table = pd.DataFrame({"before": other, "mixed": pd.Series(values, dtype=object), "after": other})
    found = one_type_a_column(table.copy())["mixed"].tolist()
    nulls = [value is None or value != value for value in values]
    wanted = values if kept else [None if null else str(value) for value, null in zip(values, nulls, strict=True)]
    assert [None if null else one for one, null in zip(found, nulls, strict=True)] == [
        None if null else one for one, null in zip(wanted, nulls, strict=True)
    ]
    assert one_type_a_column(table.copy())[["before", "after"]].equals(table[["before", "after"]])


class Held:
    """A store whose finished stages and files are what a test says: name of a stage -> manifest."""

    def __init__(self, folder, manifests):
        self._folder, self._manifests = folder, manifests

    def prepare(self, stages):
        assert list(stages)

    def has(self, stage):
        return stage.name in self._manifests

    def manifest(self, stage):
        return self._manifests[stage.name]

    def place(self, stage):
        return self._folder / stage.name / stage.fingerprint

    def manifest_file(self, kind, fingerprint):
        return self._folder / kind / fingerprint / "manifest.json"

    def file(self, stage, name):
        path = self.place(stage) / name
        return path if path.exists() else None


def trial(number, *stages):
    return SimpleNamespace(id=f"t{number}", stages=stages)


def stage(name, number, **inputs):
    return Stage(name=name, config={"number": number}, inputs=inputs)


def test_rates_by_class_of_all_judges_stand_in_one_row_of_a_trial_and_class(tmp_path):
    """Two trials, two judges of different classes, a third that has not finished, a stage that judges none."""
    stages = {
        (name, n): stage(name, n)
        for name in ("judge_evaluator", "judge_embedder", "judge_general", "attack")
        for n in (1, 2)
    }
    held = Held(tmp_path, {name: {} for name in ("judge_evaluator", "judge_embedder", "attack")})
    for (name, n), one in stages.items():
        rates = {
            "judge_evaluator": {"attack_acc1": {"b": 0.1 * n, "a": 0.2 * n}},
            "judge_embedder": {"embedder_acc1": {"a": 0.3 * n, "c": 0.4 * n}},
        }.get(name, {"other": {"a": 9.0}})
        ((column, by_class),) = rates.items()
        held.place(one).mkdir(parents=True)
        frame = pd.DataFrame({"class": list(by_class), column: list(by_class.values())})
        frame.to_parquet(held.place(one) / "per_class.parquet")
    trials = [trial(n, *(one for (_, of), one in stages.items() if of == n)) for n in (2, 1)]
    found = per_class_rows(trials, held)
    assert list(found.columns) == ["trial", "class", "attack_acc1", "embedder_acc1"]
    rows = [tuple(None if value != value else value for value in row) for row in found.itertuples(index=False)]
    assert rows == [
        (f"t{n}", *row) for n in (1, 2) for row in (("a", 0.2 * n, 0.3 * n), ("b", 0.1 * n, None), ("c", None, 0.4 * n))
    ]
    nothing = per_class_rows(trials, Held(tmp_path, {}))
    assert nothing.empty and list(nothing.columns) == ["trial", "class"]


def test_the_row_of_a_trial_says_what_is_done_what_failed_and_what_it_took(tmp_path):
    """Of four trials: all stages done, some, none and failed, all done and a failure that was mended."""
    attacks = [tiny_sweep()["attack"], {"kind": "random_latents", "selected": 2}]
    trials = trials_of(load_sweep(write_tiny(tmp_path, grid={"attack": attacks}, baseline={}, seeds=[4, 9])))
    assert len(trials) == 4
    done = {one.id for one in (trials[0], trials[3])}

    class Some(Held):
        def has(self, stage):
            return stage.fingerprint in finished

        def manifest(self, stage):
            numbers = {"target": {"test_acc": 0.75}, "attack": {"queries": 12.0}}.get(stage.name, {})
            return {"metrics": numbers, "seconds": {"target": 5.0, "attack": 7.0}.get(stage.name, 1.0)}

        def file(self, stage, name):
            return None

    finished = {
        stage.fingerprint
        for one in trials
        for stage in one.stages
        if one.id in done or (one is trials[1] and stage.name == "target")
    }
    held = Some(tmp_path, {})
    failures = {trials[2].id: "no memory", trials[3].id: "mended", "elsewhere": "x"}
    table = results_table(trials, held, failures)
    assert table[["trial", "seed"]].to_numpy().tolist() == [[one.id, one.seed] for one in trials]
    assert table["status"].tolist() == ["done", "missing", "failed", "done"]
    assert [None if one != one else one for one in table["failure"]] == [None, None, "no memory", None]
    whole = table.iloc[0]
    assert (whole["test_acc"], whole["queries"], whole["seconds_target"]) == (0.75, 12.0, 5.0)
    reasons = json.loads(whole["reasons"])
    assert set(reasons) == {key for key in BY_KEY if pd.isna(whole[key])} and "test_acc" not in reasons
    assert set(TIME_COLUMNS) <= set(table.columns)
    assert table["attack_control"].tolist() == [one.settings.attack.built.control for one in trials]
    assert sorted(set(table["attack_access"])) == ["gradients", "none"]
    written = write_results(trials, held, failures, tmp_path / "new" / "report")
    read = pd.read_parquet(tmp_path / "new" / "report" / "results.parquet")
    assert read["trial"].tolist() == written["trial"].tolist() and read["test_acc"].tolist()[0] == 0.75
    empty = {name for name in (*BY_KEY, *TIME_COLUMNS) if written[name].isna().all()}
    assert set(read.columns) == set(written.columns) - empty and len(empty) > 30
    assert {"test_acc", "queries", "seconds_target", "failure", "reasons"} <= set(read.columns)


def test_the_file_names_each_rows_recipe_as_the_report_does(tmp_path):
    """What the file is in memory for stays as it is; without axes there is nothing to name."""
    table = pd.DataFrame({"trial": ["a", "b"], "seed": [1, 1], "alpha": [0.0, -0.2], "attack": ["ppa", "gmi"]})
    axes = (Axis(key="alpha"), Axis(key="attack", role="attack"))
    named = with_recipes(table, axes)
    assert list(named.columns) == ["trial", "seed", "recipe", "alpha", "attack"] and "recipe" not in table
    assert named["recipe"].tolist() == ["alpha\u00a00", "alpha\u00a0\u22120.2"], "the attack is no part of a name"
    whole = table.rename(columns={"alpha": "recipe"})
    axis = Axis(key="recipe", bare=True, values={0.0: "plain", -0.2: "smoothed"})
    named = with_recipes(whole, (axis,))
    assert named["recipe"].tolist() == ["plain", "smoothed"] and named["recipe_settings"].tolist() == [0.0, -0.2]
    assert with_recipes(table, ())["recipe"].tolist() == ["the recipe"] * 2


def test_names_in_a_table_can_be_typed(tmp_path):
    """The page's minus sign and its spaces that do not break are on no keyboard: a filter by a name would find none."""
    fine, plain = "smoothing\u00a0\u22120.8, step at\u00a00.1", "smoothing -0.8, step at 0.1"
    rows = pd.DataFrame({"recipe": [fine, None], "portfolio": [[fine], []], "leak": [0.25, None], "seed": [1, 2]})
    write_rows(rows, tmp_path / "a.parquet")
    read = pd.read_parquet(tmp_path / "a.parquet")
    assert list(read.loc[read["recipe"] == plain, "seed"]) == [1] and read["recipe"].isna().sum() == 1
    assert [list(names) for names in read["portfolio"]] == [[plain], []]
    assert read["leak"].tolist()[0] == 0.25 and read.dtypes[["leak", "seed"]].map(str).tolist() == ["float64", "int64"]
    assert rows["recipe"][0] == fine, "the page keeps its own"


VALUES = {
    "recipe.lr": [0.01, 1, 1e-3],
    "attack.pool.truncation_cutoff": [None, 1, 2],
    "classes": ["all", [0, 1], [2]],
    "recipe.stop_at_test_acc": [None, 0.5, {"trial": {"recipe.epochs": 1}}],
    "attack.clip": [None, True, False],
    "recipe.defense": [{"alpha": 0.1}, {"kind": "label_smoothing", "alpha": -0.1}],
    "attack.loss": ["poincare"],
    "attack.seed": [0, 2**63 - 1],
    "recipe.betas": [[0.9, 0.99], [0.5, 1e-3]],
    "attack.discriminator_weight": [None, 0],
    "recipe.lr_milestones": [None, [0.5], []],
}
grids = st.dictionaries(st.sampled_from(sorted(VALUES)), st.none(), min_size=1, max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(VALUES[key]), min_size=1, max_size=3, unique_by=repr) for key in keys}
    )
)


@settings(max_examples=25, deadline=None)
@given(grid=grids, seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=2, unique=True))
def test_the_rows_of_any_sweep_can_be_written_and_read(tmp_path_factory, grid, seeds):
    folder = tmp_path_factory.mktemp("rows")
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(grid=grid, baseline={}, seeds=seeds), sort_keys=False))
    try:
        trials = trials_of(load_sweep(path))
    except InputError:
        return  # a grid of which two cells are the same, say
    table = results_table(trials, Store(root=folder / "store"), {trials[0].id: "it failed"})
    write_rows(table, folder / "results.parquet")
    read = pd.read_parquet(folder / "results.parquet")
    assert list(read["seed"]) == [trial.seed for trial in trials] and list(read.columns) == list(table.columns)


class Shelf:
    """A store of files by the name of their stage; manifests hold metrics."""

    def __init__(self, root, metrics=None):
        self.root, self.metrics = root, metrics or {}

    def has(self, stage):
        return (self.root / stage.name).is_dir() or stage.name in self.metrics

    def file(self, stage, name):
        path = self.root / stage.name / name
        return path if path.exists() else None

    def manifest(self, stage):
        return {"metrics": self.metrics[stage.name]}


def write(folder, **frames):
    folder.mkdir()
    for name, rows in frames.items():
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")


def test_every_rate_knows_of_how_many_images_it_is(tmp_path):
    """A judge of all images; one that asked about some, beside natural ones, and had no answer once; an old one."""
    write(
        tmp_path / "judge_embedder",
        per_class={"class": [0, 3], "embedder_acc1": [0.5, 1.0]},
        per_image={"class": [0, 0, 3, 3, 3], "hit": [True, False, True, True, True]},
    )
    write(
        tmp_path / "judge_general",
        per_class={"class": [0, 3], "general_acc1": [1.0, 0.0]},
        per_image={
            "kind": ["loot", "loot", "loot", "same", "other"],
            "class": [0, 0, 3, 0, 3],
            "hit": pd.array([True, None, False, True, False], dtype="boolean"),
        },
    )
    write(tmp_path / "judge_evaluator", per_class={"class": [0, 3], "attack_acc1": [0.25, 0.75]})
    write(tmp_path / "judge_gradients", per_class={"class": [0, 3], "gradients_zero_ce": [0.0, 0.0]})
    stages = [SimpleNamespace(name=name) for name in ("target", *sorted(path.name for path in tmp_path.iterdir()))]
    rows = per_class_rows([SimpleNamespace(id="t", stages=stages)], Shelf(tmp_path)).set_index("class")
    assert rows["embedder_acc1_images"].to_dict() == {0: 2, 3: 3}
    assert rows["general_acc1_images"].to_dict() == {0: 1, 3: 1}
    assert "attack_acc1_images" not in rows and rows["attack_acc1"].to_dict() == {0: 0.25, 3: 0.75}
