"""`smoothsweep run --only-judges`: what it refuses before anything starts, and that its plan holds judges alone."""

import json

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.store.base import Store
from tests.recorded import recorded
from tests.tiny import write_tiny


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rejudge")
    _, store = recorded(folder)
    return folder / "tiny.yaml", store


def rejudge(made, *overrides, more=()):
    sweep, store = made
    words = [word for override in overrides for word in ("--set", override)]
    return main(["run", str(sweep), "--store", str(store.root), "--only-judges", *words, *more])


def test_only_the_new_judge_and_what_it_is_made_of_would_run(made, capsys):
    """It is planned, and asked about: without a terminal nothing is started."""
    other = ["judges.evaluator.epochs=1", "judges.knowledge=null"]
    assert rejudge(made, *other, more=["--confirm-above", "0"]) == 2
    assert "exceed --confirm-above 0: expected --yes" in capsys.readouterr().err
    words = [word for override in other for word in ("--set", override)]
    assert main(["plan", str(made[0]), "--store", str(made[1].root), "--json", *words]) == 0
    kinds = json.loads(capsys.readouterr().out)["by_stage"]
    to_run = {name: row["to_run"] for name, row in kinds.items() if row["to_run"]}
    assert to_run == {"embeddings": 1, "judge_evaluator": 2, "target": 1}, "a new evaluator"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("judges.evaluater.epochs=1", "expected a known key, got the unknown key 'evaluater'; did you"),
        ("recipe.epochs=3", "got none of plain training · seed 1 (attack "),
        ("attack.steps=4", "(attack "),
        ("seeds=[1, 5]", "seed 5 (attack "),
        (
            "seeds={looks: [2, 3]}",
            "a list of seeds, of which no judge has chosen, got looks",
        ),
    ],
)
def test_what_is_no_other_judge_is_one_line_and_nothing_starts(made, capsys, override, line):
    assert rejudge(made, "judges.knowledge=null", override) == 2
    said = capsys.readouterr().err.splitlines()
    assert line in said[-1] and not (made[1].root / "sweeps" / "tiny-rejudged").exists()


def test_where_an_attack_is_missing_one_line_names_it(tmp_path, capsys):
    trials, store = recorded(tmp_path, without=("attack",))
    assert rejudge((tmp_path / "tiny.yaml", store), "judges.knowledge=null") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    attack = next(stage for stage in trials[0].stages if stage.name == "attack")
    assert said.endswith(f"got none of {trials[0].label} ({attack.label}) and 1 more")


def test_a_search_is_refused_and_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    space, objectives = {"recipe.defense.alpha": {"low": -0.4, "high": 0.1}}, {"embedder_acc1": "min"}
    search = {"strategy": "random", "recipes": 2, "space": space, "objectives": objectives}
    path, store = write_tiny(tmp_path, search=search, grid={}, baseline={}), Store(root=tmp_path / "store")
    assert rejudge((path, store), "judges.knowledge=null") == 2
    assert "expected the store of an earlier run" in capsys.readouterr().err and not store.root.exists()
    store.root.mkdir()
    assert rejudge((path, store), "judges.knowledge=null") == 2
    assert "of which no judge has chosen, got a search" in capsys.readouterr().err
