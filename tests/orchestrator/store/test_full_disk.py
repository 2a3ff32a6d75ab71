"""A disk that is full before the first stage is through: one line, nothing half, and the same command goes on."""

import os
import shutil
import subprocess

import pytest
from tiny import write_tiny

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

pytestmark = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("mount"), reason="needs root")


@pytest.fixture(params=["16k", "200k"])
def small_disk(request, tmp_path):
    """Too small for the data; large enough for the data alone."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    yield place
    subprocess.run(["umount", place], check=True)


def test_data_that_find_no_room(small_disk, tmp_path, capfd):
    sweep, location = write_tiny(tmp_path), small_disk / "store"
    assert main(["run", str(sweep), "--store", str(location)]) == 1
    told = capfd.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("smoothsweep: ")] == told[-1:] and len(told) < 6
    assert "No space left on device; with room again, the same command goes on from here" in told[-1]
    store = open_store(str(location))
    plan = make_plan(trials_of(load_sweep(sweep, []), store), store)
    done = [stage for stage in plan.stages if store.has(stage)]
    assert {stage.name for stage in done} <= {"data"}
    assert not [path for path in location.rglob(".*")], "no draft"
    for stage in done:
        assert (store.path(stage) / "train.safetensors").stat().st_size > 0
