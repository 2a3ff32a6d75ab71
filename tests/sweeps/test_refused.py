"""Sweep files that cannot be: `plan` says one line for each of refused.yaml, and nothing is written."""

from pathlib import Path

import pytest
import yaml
from tiny import searchable, tiny_sweep

from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.base import MAX_TRIALS, set_dotted
from smoothsweep.sweeps.parts import CLASSES
from smoothsweep.sweeps.schema import InversionSweep

SCHEDULE = "recipe.defense.schedule."
RAMP = {f"{SCHEDULE}kind": ["ramp"]}
SEARCH = {
    "strategy": "optuna",
    "recipes": 6,
    "space": {
        "recipe.defense.alpha": {"low": -0.5, "high": 0.3, "step": 0.1},
        f"{SCHEDULE}kind": {"choices": ["constant", "ramp"]},
        f"{SCHEDULE}start": {"low": 0.0, "high": 0.5, "step": 0.25, "when": RAMP},
        f"{SCHEDULE}end": {"low": 0.25, "high": 1.0, "step": 0.25, "above": f"{SCHEDULE}start", "when": RAMP},
    },
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}
SMALL = {key: value for key, value in searchable("s", {}).items() if key not in ("search", "judges")}
SMALL |= {"seeds": [1], "attack": {"pool": {"size": 20}, "candidates": 4, "selected": 2}}
IDLE = {key: SMALL[key] for key in ("name", "seeds", "data", "recipe")} | {"attack": None}
SWEEPS = {
    "tiny": tiny_sweep(),
    "plain": tiny_sweep(grid={}, baseline={}),
    "small": SMALL,
    "idle": IDLE,
    "search": searchable("s", SEARCH),
}


def changed(sweep, changes):
    """A copy of one of the sweeps; keys of `grid`, `cells` and so on are those of a file, with their dots."""
    raw = yaml.safe_load(yaml.safe_dump(SWEEPS[sweep]))
    for key, value in changes.items():
        set_dotted(raw, key, value, where="test")
    return raw


def refused(folder, capsys, raw, says, *overrides):
    path, store = folder / "s.yaml", folder / "store"
    path.write_text("# What it finds.\n" + yaml.safe_dump(raw, sort_keys=False))
    more = [word for override in overrides for word in ("--set", override)]
    assert main(["plan", str(path), "--store", str(store), *more]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert says in line and (overrides or line.startswith(f"smoothsweep: {path}")) and not store.exists(), line


ROWS = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capsys, row):
    (sweep, changes), *_ = row.items()
    refused(tmp_path, capsys, changed(sweep, changes), row["says"], *row.get("set", ()))


OF_A_TRIAL = {"data", "public", "recipe", "prior", "attack", "judges", "classes"}
"""What a cell may change; all else is of the whole sweep."""


@pytest.mark.parametrize("key", sorted(InversionSweep.model_fields.keys() - OF_A_TRIAL))
def test_a_key_of_the_whole_sweep_is_none_of_a_cell(tmp_path, capsys, key):
    line = "{}.{}: expected a key that a trial depends on"
    refused(tmp_path, capsys, changed("plain", {"grid": {key: [1, 2]}}), line.format("grid", key))
    refused(tmp_path, capsys, changed("plain", {"cells": [{key: 1}, {key: 2}]}), line.format("cells", key))


def test_a_grid_has_so_many_trials_at_most(tmp_path, capsys):
    grid = {"recipe.epochs": list(range(1, 500)), "attack.steps": list(range(1, 500))}
    refused(tmp_path, capsys, changed("plain", {"grid": grid}), f"expected at most {MAX_TRIALS} trials, got 249001")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_published_set_has_so_many_classes(tmp_path, capsys, kind):
    raw = changed("plain", {"data": {"kind": kind, "path": "p"}, "classes": [0, CLASSES[kind]]})
    refused(tmp_path, capsys, raw, f"classes: expected labels below {CLASSES[kind]}, got {CLASSES[kind]}")
