"""A run that is told to end, or loses its Ray, at any moment of its life: how it ends, and what it leaves."""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from drills import ledger
from drills.emulated import EmulatedCluster, wait_until
from drills.sweep_runs import SweepRun, finish, partly_done, stray_files, table, write_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
INTERRUPTED, FAILED = 130, 1
TRIES, SEED = 50, 2026
GO_ON = "the same command goes on from here"
LOSS_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished store, and how long a run takes that has its reconstructions and all after it still to do."""
    folder = tmp_path_factory.mktemp("whole")
    finish(write_sweep(folder), folder / "store", None)
    partly_done(folder / "store", folder / "again" / "store", "loot")
    started = time.monotonic()
    finish(write_sweep(folder / "again"), folder / "again" / "store", None)
    return folder / "store", time.monotonic() - started


def begun(whole, folder, first_missing, *, environment=None) -> SweepRun:
    partly_done(whole[0], folder / "store", first_missing)
    return SweepRun(write_sweep(folder), folder / "store", None, environment=environment)


def listening(run: SweepRun) -> bool:
    """Whether the interpreter is up and our first lines are through: SIGTERM is caught."""
    with open(f"/proc/{run.process.pid}/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def family_of(run: SweepRun) -> list[psutil.Process]:
    try:
        process = psutil.Process(run.process.pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def ours(store) -> list[psutil.Process]:
    """Every process of this machine that names this store, or was started for it: Ray's inherit our environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DRILL_OF") == str(store) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def goes_on(whole, store, sweep) -> None:
    """The same command, to the numbers of the undisturbed run."""
    finish(sweep, store, None)
    assert table(store).equals(table(whole[0]))
    assert not stray_files(store)


def marked(store) -> dict[str, str]:
    return {"DRILL_OF": str(store)}


def test_fifty_interrupts_at_any_moment(whole, tmp_path):
    """130 every time, one line, no traceback, no process; and the same command then finishes."""
    dice, started, seen = random.Random(SEED), time.monotonic(), []
    for number in range(TRIES):
        folder = tmp_path / str(number)
        run = begun(whole, folder, "loot", environment=marked(folder / "store"))
        wait_until(lambda run=run: listening(run), seconds=60, every=0.002)
        moment = dice.uniform(0.0, 1.05 * whole[1])
        time.sleep(moment)
        if run.process.poll() is not None:
            assert run.process.returncode == 0, run.tail()
            seen.append(f"{moment:5.1f} s  had ended")
            continue
        os.killpg(run.process.pid, signal.SIGINT)
        told = time.monotonic()
        code = run.wait(120)
        if code == 0 and "trials in" in run.tail():  # all was done and said; the interpreter was on its way out
            seen.append(f"{moment:5.1f} s  had done all")
            continue
        seen.append(f"{moment:5.1f} s  {code} after {time.monotonic() - told:.1f} s")
        assert code == INTERRUPTED, f"{seen[-1]}: {run.tail()}"
        assert "Traceback" not in run.log.read_text() and GO_ON in run.tail(), f"{seen[-1]}: {run.log.read_text()}"
        wait_until(lambda folder=folder: not ours(folder / "store"), seconds=10)
    print("\n".join(seen))
    goes_on(whole, folder / "store", folder / "tiny.yaml")
    hit = sum("after" in line for line in seen)
    note = f"exit code 130 in {hit} of {hit}, no process left"
    ledger.add(
        f"{TRIES} ctrl-C at random moments of a run without a cluster (seed {SEED})",
        time.monotonic() - started,
        [],
        note,
    )


@pytest.mark.parametrize("server", ["gcs_server", "raylet"])
def test_a_lost_ray_of_this_machine(whole, tmp_path, server):
    started, run = time.monotonic(), begun(whole, tmp_path, "attack", environment=marked(tmp_path / "store"))
    run.until(lambda: any(run.store.glob("attack/*.work/classes/*")))
    victim = next(child for child in family_of(run) if child.name() == server)
    victim.kill()
    seconds = ends_as_lost(run)
    wait_until(lambda: not ours(tmp_path / "store"), seconds=30)
    goes_on(whole, tmp_path / "store", tmp_path / "tiny.yaml")
    ledger.add(
        f"kill -9 of `{server}` of a run without a cluster",
        time.monotonic() - started,
        [],
        f"one line within {seconds:.0f} s, exit code 1, no process left",
    )


@pytest.mark.parametrize("server", ["gcs_server", "raylet"])
def test_a_lost_head_of_a_joined_cluster(whole, tmp_path, server):
    partly_done(whole[0], tmp_path / "store", "attack")
    started, cluster, sweep = time.monotonic(), EmulatedCluster(), write_sweep(tmp_path)
    try:
        run = SweepRun(sweep, tmp_path / "store", cluster.address)
        run.until(lambda: any(run.store.glob("attack/*.work/classes/*")))
        cluster.process_of_head(server).kill()
        seconds = ends_as_lost(run)
    finally:
        cluster.close()
    goes_on(whole, tmp_path / "store", sweep)
    ledger.add(
        f"kill -9 of `{server}` of a joined cluster's head",
        time.monotonic() - started,
        [],
        f"one line within {seconds:.0f} s, exit code 1",
    )


def ends_as_lost(run: SweepRun) -> float:
    """Seconds from now until the run has ended with one line of its own."""
    lost = time.monotonic()
    code = run.wait(120)
    seconds, said = time.monotonic() - lost, run.log.read_text()
    assert code == FAILED, said
    assert "the Ray cluster is lost" in said.splitlines()[-1] and GO_ON in said.splitlines()[-1], said
    assert "Traceback" not in said and "state-dump" not in said, said
    assert seconds < LOSS_WITHIN_S
    return seconds


@pytest.mark.parametrize("ignored", [False, True], ids=["a terminal", "nohup"])
def test_a_closed_terminal(whole, tmp_path, ignored):
    """SIGHUP to the whole session, Ray's processes too. Under nohup the run goes on to its end."""
    partly_done(whole[0], tmp_path / "store", "attack")
    sweep, started = write_sweep(tmp_path), time.monotonic()
    command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(tmp_path / "store"), "--yes"]
    log = tmp_path / "said.log"
    process = subprocess.Popen(
        [*(["nohup"] if ignored else []), *command],
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
        env={**os.environ, **marked(tmp_path / "store")},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the drills themselves may run under nohup
    )
    wait_until(lambda: any((tmp_path / "store").glob("attack/*.work/classes/*")) or process.poll() is not None)
    for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
        one.send_signal(signal.SIGHUP)
    code = process.wait(300)
    assert code == (0 if ignored else INTERRUPTED), log.read_text()
    assert "Traceback" not in log.read_text()
    wait_until(lambda: not ours(tmp_path / "store"), seconds=30)
    goes_on(whole, tmp_path / "store", sweep)
    note = "the run goes on to its end" if ignored else "exit code 130, no process left"
    ledger.add(f"a closed terminal{', under nohup' if ignored else ''}", time.monotonic() - started, [], note)
