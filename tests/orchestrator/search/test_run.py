"""One small search on real Ray: a budget that stops it in the middle, then the rest, the re-audit, the report."""

import json

import pandas as pd
import pytest

from smoothsweep.orchestrator.search.record import search_view
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.orchestrator.search.made import ALPHA, KIND, START
from tests.tiny import write_tiny

SEARCH = {
    "strategy": "optuna",
    "recipes": 3,
    "in_flight": 2,
    "space": {
        ALPHA: {"low": -0.4, "high": 0.2, "step": 0.2},
        KIND: {"choices": ["constant", "ramp"]},
        START: {"choices": [0.0, 0.5], "when": {KIND: "ramp"}},
    },
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}


@pytest.fixture
def stopped(smoothsweep, tmp_path):
    """A search that its budget has stopped: its file, its store, what is known of it."""
    judges = {"embedder": {"name": "synthetic"}}
    path = write_tiny(
        tmp_path,
        search=SEARCH,
        grid={},
        baseline={},
        judges=judges,
        reaudit={"seeds": [9], "recipes": 1},
        budget={"device_hours": 0.5 / 3600},
    )
    store = Store(root=tmp_path / "store")
    run = smoothsweep("run", path, "--store", store.root)
    assert run.returncode == 0, run.stderr  # the budget is one of the ends of a search
    assert "device-hours are spent" in run.stderr and "Traceback" not in run.stderr
    record = search_view(load_sweep(path), store, str)
    assert record.stopped_by.startswith("budget: ")
    assert {p.status for p in record.proposals} >= {"open"} and record.spent_device_hours > 0
    return path, store, record


@pytest.mark.slow
def test_a_search_is_stopped_by_its_budget_goes_on_and_is_audited_again(smoothsweep, stopped):
    path, store, record = stopped
    status = json.loads(smoothsweep("status", path, "--store", store.root, "--json").stdout)
    assert status["counts"].get("open") and not status["alive"]
    done = smoothsweep("run", path, "--store", store.root, "--set", "budget=null", "--yes")
    assert done.returncode == 0, done.stderr
    after = search_view(load_sweep(path, ["budget=null"]), store, str)
    assert after.stopped_by == "recipes" and [p.status for p in after.proposals] == 3 * ["done"]
    known = [p.values for p in record.proposals]
    assert [p.values for p in after.proposals][: len(known)] == known
    assert after.spent_device_hours > record.spent_device_hours
    rows = pd.read_parquet(store.sweep_folder("tiny") / "results.parquet")
    assert rows["phase"].value_counts().to_dict() == {"sweep": 3, "reaudit": 1}
    assert set(rows["status"]) == {"done"} and set(rows.loc[rows["phase"] == "reaudit", "seed"]) == {9}
