"""Interrupts, time-outs of a Ray Train group, two drivers at once: what ends leaves nothing behind."""

import os
import signal
import time

import psutil
import pytest
from drills import ledger
from drills.emulated import wait_until
from drills.sweep_runs import SweepRun, partly_done, write_sweep

from smoothsweep.orchestrator.planning.state import STATE_FILE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
INTERRUPTED = 130


def interrupted_run(drill, *signals, pause=1.0):
    """A run told to end in the middle of a training; how it ended and what it printed."""
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = drill.run()
    run.until(lambda: any(drill.store.glob("target/*.work/checkpoint.pt")))
    drill.about_to_harm()
    started = time.monotonic()
    for number in signals:
        run.process.send_signal(number)
        time.sleep(pause)
    code = run.wait(120)
    assert code == INTERRUPTED, run.tail()
    assert "Traceback" not in run.tail() and "the same command goes on from here" in run.tail()
    return time.monotonic() - started


@pytest.mark.parametrize(
    ("signals", "name"),
    [
        ([signal.SIGINT], "ctrl-C"),
        ([signal.SIGINT, signal.SIGINT], "ctrl-C twice"),
        ([signal.SIGTERM], "SIGTERM, as of `ray job stop`"),
    ],
)
def test_an_interrupted_run(drill, signals, name):
    seconds = interrupted_run(drill, *signals, pause=0.3)
    drill.nothing_left_on_the_cluster()
    drill.finish(name, note=f"ended within {seconds:.0f} s, exit code 130")


def test_ctrl_c_of_a_run_on_this_machine_leaves_no_process(undisturbed, tmp_path):
    """As a terminal sends it: to the whole group, Ray's processes too."""
    sweep, store = write_sweep(tmp_path), tmp_path / "store"
    partly_done(undisturbed.store, store, "target")
    started, run = time.monotonic(), SweepRun(sweep, store, None)
    run.until(lambda: any(store.glob("target/*.work/checkpoint.pt")))
    family = [psutil.Process(run.process.pid), *psutil.Process(run.process.pid).children(recursive=True)]
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.wait(120) == INTERRUPTED, run.tail()
    assert "Traceback" not in run.tail()
    wait_until(lambda: not [process for process in family if process.is_running()], seconds=60)
    ledger.add("ctrl-C of a run without a cluster", time.monotonic() - started, [], "no process of it left")


def test_two_drivers_on_one_store(drill):
    partly_done(drill.undisturbed.store, drill.store, "target")
    first = drill.run()
    first.until(lambda: any(drill.store.glob(f"sweeps/*/{STATE_FILE}")))  # the second takes long to begin
    second = drill.run()
    for run in (first, second):
        assert run.wait() == 0, run.tail()
    assert "another driver" in second.log.read_text()
    drill.finish("two drivers on one store at once", note="the second says so and goes on")


def test_a_ray_train_group_that_runs_too_long(cluster, tmp_path):
    """The group and its placement group are gone, the CPUs are free, and the trial's failure is one line."""
    changes = {
        "grid": {},
        "baseline": {},
        "judges": {},
        "resources": {"training_timeout_minutes": 0.1},
    }
    sweep = write_sweep(tmp_path, **changes)
    started = time.monotonic()
    endless = ["--set", "recipe.workers=2", "--set", "recipe.epochs=5000"]
    run = SweepRun(sweep, tmp_path / "store", cluster.address, *endless)
    assert run.wait() == 1, run.tail()
    assert "ran longer than resources.training_timeout_minutes allows (6 s), and was ended" in run.tail()
    cluster.wait_until_clear()
    ledger.add("a Ray Train group past its time-out", time.monotonic() - started, [], "its placement group gone")
