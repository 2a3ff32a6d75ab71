"""Code and weights that somebody changes while a sweep runs: one line, nothing sealed, and the next run goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pandas as pd
import pytest
from checkout import copy_packages
from safetensors.torch import load_file, save_file
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.judges.columns import TIME_COLUMNS
from smoothsweep.core.models.embedders import own_weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
ROOMS = ("core", "tasks", "sweeps", "orchestrator")
PATIENCE_S = 400


@pytest.fixture
def tree(repository, tmp_path):
    """A copy of the code, which may be edited."""
    copy_packages(repository, tmp_path / "tree")
    shutil.copy(repository / "pyproject.toml", tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def sweep(tmp_path):
    weights = tmp_path / "embedder.safetensors"
    shutil.copy(own_weights("synthetic"), weights)
    judges = {**tiny_sweep()["judges"], "embedder": {"name": "synthetic", "weights": str(weights)}}
    return write_tiny(tmp_path, judges=judges), weights


def begin(tree, sweep, store):
    command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(store)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=tree, env=environment, text=True, **pipes)


def after(store, pattern):
    """Returns as soon as the store has such a manifest."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(store.glob(pattern)):
        assert time.monotonic() < deadline, pattern
        time.sleep(0.02)


def ended(run):
    out, err = run.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in out + err, err
    return run.returncode, err


def numbers(folder):
    """The content of a sealed stage's arrays by their names."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    assert found
    return found


def table(store):
    found = pd.read_parquet(store / "sweeps" / "tiny" / "results.parquet")
    return found.drop(columns=[*TIME_COLUMNS, "failure"])


def test_code_that_is_edited_in_the_middle(tree, sweep, tmp_path):
    store = tmp_path / "store"
    run = begin(tree, sweep[0], store)
    after(store, "pool/*/manifest.json")
    edited = tree / "core" / "metrics" / "distances.py"
    whole = edited.read_text()
    edited.write_text(whole.replace("def nearest_real", "def nearest_unreal"))
    code, said = ended(run)
    assert code == 1 and "expected the code that this run began with" in said
    assert "last changed: core/metrics/fidelity.py" in said and not list(store.glob("judge_e*/*/manifest.json"))
    edited.write_text(whole)
    code, said = ended(begin(tree, sweep[0], store))
    assert code == 0, said
    other = tmp_path / "other"
    assert ended(begin(tree, sweep[0], other))[0] == 0
    pd.testing.assert_frame_equal(table(store), table(other))


def test_weights_that_are_replaced_in_the_middle(tree, sweep, tmp_path):
    store, (path, weights) = tmp_path / "store", sweep
    kept = tmp_path / "kept"
    shutil.copy2(weights, kept)
    run = begin(tree, path, store)
    after(store, "pool/*/manifest.json")
    save_file({name: value * 1.05 for name, value in load_file(weights).items()}, weights)
    code, said = ended(run)
    assert code == 1 and f"{weights}: expected what it held when this was planned" in said
    assert not list(store.glob("judge_embedder/*/manifest.json"))
    sealed = [path.parent.relative_to(store) for path in store.glob("embeddings/*/manifest.json")]
    os.replace(kept, weights)
    assert ended(begin(tree, path, store))[0] == 0
    other = tmp_path / "other"
    assert ended(begin(tree, path, other))[0] == 0
    for folder in sealed:  # an embedder may have done its work before: by the weights that were planned
        assert numbers(store / folder) == numbers(other / folder)
    pd.testing.assert_frame_equal(table(store), table(other))
