"""A whole sweep on s3:// with real Ray: the numbers of a local store, a killed driver, a second machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.s3 import BUCKET, full, keys, s3_server
from tests.tiny import TRAINING, tiny_sweep, write_tiny

pytestmark = pytest.mark.slow
STORE = f"s3://{BUCKET}/audits/faces"
LIMIT_S = 600


@pytest.fixture(scope="module")
def server():
    with s3_server() as environment:
        yield {**full(environment), "RAY_worker_niceness": "0"}


def command(sweep, store, *more):
    return [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(store), "--yes", *more]


def run(sweep, store, environment):
    done = subprocess.run(command(sweep, store), env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done


def on_machine(server, folder):
    """The environment of a machine with a mirror of its own."""
    return {**server, "SMOOTHSWEEP_CACHE": str(folder)}


def mirror(folder) -> Path:
    (found,) = (folder / "stores").iterdir()
    return found


def without_times(path):
    rows = pd.read_parquet(path)
    return rows.drop(columns=[column for column in rows if column.startswith("seconds_")])


def manifests(server):
    return {key for key in keys(server, "audits/faces/") if key.endswith("/manifest.json")}


@pytest.mark.timeout(2400)
def test_a_driver_killed_in_the_middle_another_machine_finishes_and_a_third_runs_nothing(server, tmp_path):
    sweep = write_tiny(tmp_path)
    first = subprocess.Popen(
        command(sweep, STORE),
        env=on_machine(server, tmp_path / "one"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + LIMIT_S
    while not any("/target/" in key for key in manifests(server)) and time.monotonic() < deadline:
        assert first.poll() is None, "the driver ended by itself"
        time.sleep(0.5)
    before = manifests(server)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert any("/target/" in key for key in before) and not any("/knowledge/" in key for key in before)

    run(sweep, STORE, on_machine(server, tmp_path / "two"))
    after = manifests(server)
    assert before < after and not keys(server, "audits/faces/work/")

    run(sweep, tmp_path / "local", server)
    expected = without_times(tmp_path / "local" / "sweeps" / "tiny" / "results.parquet")
    here = mirror(tmp_path / "two")
    pd.testing.assert_frame_equal(without_times(here / "sweeps" / "tiny" / "results.parquet"), expected)

    third = run(sweep, STORE, on_machine(server, tmp_path / "three"))
    assert "2/2 trials" in third.stderr and manifests(server) == after
    there = mirror(tmp_path / "three")
    pd.testing.assert_frame_equal(without_times(there / "sweeps" / "tiny" / "results.parquet"), expected)
    assert not list(there.glob("target/*/weights.safetensors")), "a report brings no weights"
    page = (there / "sweeps" / "tiny" / "report.html").read_text()
    links = [part.split('"')[0] for part in page.split('href="') if part.split('"')[0].endswith("manifest.json")]
    assert links and all((there / "sweeps" / "tiny" / link).is_file() for link in links)
    published = {key.split("/sweeps/tiny/")[1] for key in keys(server, "audits/faces/sweeps/tiny/")}
    assert {"report.html", "results.parquet", "state.json"} <= published


@pytest.mark.timeout(1500)
def test_two_workers_keep_their_checkpoints_in_the_store(server, tmp_path):
    """Ray Train through the store: the same weights as on a file system that both workers see."""
    recipe = {"architecture": "resnet_small", "checkpoint_every": 1, "workers": 2, **TRAINING}
    judges = {"evaluator": tiny_sweep()["judges"]["evaluator"]}
    sweep = write_tiny(tmp_path, name="pair", recipe=recipe, judges=judges, grid={"recipe.defense.alpha": [0.0]})
    run(sweep, f"s3://{BUCKET}/pair", on_machine(server, tmp_path / "one"))
    run(sweep, tmp_path / "local", server)
    rows = without_times(mirror(tmp_path / "one") / "sweeps" / "pair" / "results.parquet")
    pd.testing.assert_frame_equal(rows, without_times(tmp_path / "local" / "sweeps" / "pair" / "results.parquet"))
    assert not keys(server, "pair/work/")
