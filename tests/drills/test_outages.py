"""What a sweep stands on goes away: disk, tracking server, database, clock, and machines, with notice."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from drills.emulated import free_port
from drills.sweep_runs import Kept, SweepRun, finish, partly_done, passed, recorded, stray_files, table, write_sweep

from smoothsweep.orchestrator.scheduling.scheduler import WORKER_RETRIES
from tests.tiny import tiny_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "mlflow-postgres.sh"


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a tmpfs needs root")
def test_a_full_disk(drill):
    """The store on a small tmpfs that fills up in the middle, and is then made larger."""
    disk = drill.store
    disk.mkdir()
    ballast = disk / "ballast"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)
    try:
        partly_done(drill.undisturbed.store, disk / "copy", "target")
        for folder in (disk / "copy").iterdir():
            folder.rename(disk / folder.name)
        (disk / "copy").rmdir()
        ballast.write_bytes(b"\0" * int((64 - megabytes(disk) - 1.6) * 2**20))
        run = drill.run()
        assert run.wait() == 1, run.tail()
        assert "No space left on device" in run.tail() and "Traceback" not in run.tail()
        drill.about_to_harm()
        ballast.unlink()
        drill.finish("the store's disk full, then room again", note="the store on a tmpfs")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # MLflow may hold its database open


@pytest.fixture
def server():
    """MLflow's server on PostgreSQL, as a cluster has it, at a URI; and `tell(command)` that starts and stops both."""
    folder = Path(tempfile.mkdtemp(prefix="drill-mlflow", dir="/var/tmp"))  # pytest's own is closed to user postgres
    folder.chmod(0o755)
    port, database_port = free_port(), free_port()

    def tell(command: str) -> None:
        options = ["--dir", str(folder), "--port", str(port), "--pg-port", str(database_port), "--workers", "1"]
        subprocess.run(["bash", str(SCRIPT), command, *options, "--python", sys.executable], check=True, timeout=900)

    try:
        tell("start")
        yield f"http://127.0.0.1:{port}", tell
    finally:
        tell("stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(not SCRIPT.is_file(), reason="needs deploy/mlflow-postgres.sh")
def test_the_tracking_server_and_its_database_stop_and_come_back(drill, server):
    uri, tell = server
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = drill.run("--tracking-uri", uri)
    run.until(lambda: any(drill.store.glob("target/*.work")))
    tell("stop")
    run.until(lambda: any(drill.store.glob("attack/*/manifest.json")))  # work goes on without them
    tell("start")
    assert run.wait() in (0, 1), run.tail()
    drill.finish("PostgreSQL and `mlflow server` stopped and started again", "--tracking-uri", uri, tracking=uri)
    assert recorded(uri) == drill.undisturbed.recorded


def test_a_clock_that_jumps(drill):
    """Driver and workers under one clock that jumps three hours ahead in a training, and four back in an attack."""
    clock = drill.folder / "clock"
    clock.write_text("0")
    path = os.pathsep.join([str(Path(__file__).parent / "shifted"), os.environ.get("PYTHONPATH", "")])
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = SweepRun(drill.sweep, drill.store, None, environment={"DRILL_CLOCK": str(clock), "PYTHONPATH": path})
    run.until(lambda: any(drill.store.glob("target/*.work/checkpoint.pt")))
    _turn(clock, 3 * 3600)
    run.until(lambda: any(drill.store.glob("attack/*.work/classes/*")))
    _turn(clock, -3600)
    assert run.wait() == 0, run.tail()
    stamps = [json.loads(path.read_text())["finished_at"] for path in drill.store.glob("loot/*/manifest.json")]
    assert all(stamp < time.time() - 1800 for stamp in stamps)  # the clock did jump
    drill.check("the clock jumps three hours ahead, then four back", note="driver, Ray's Python and workers")


def _turn(clock: Path, offset: float) -> None:
    new = clock.with_suffix(".new")
    new.write_text(str(offset))
    os.replace(new, clock)
    time.sleep(0.1)


def test_a_clock_set_back_between_two_runs(drill):
    """What lies in the store was made 'tomorrow': it counts all the same, and its driver is known to be dead."""
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = drill.run()
    run.until(lambda: any(drill.store.glob("target/*.work/checkpoint.pt")))
    drill.about_to_harm()
    run.process.kill()
    run.wait()
    tomorrow = time.time() + 24 * 3600
    for path in drill.store.rglob("*"):
        os.utime(path, (tomorrow, tomorrow), follow_symlinks=False)
    finish(drill.sweep, drill.store, drill.cluster.address)
    drill.check("the clock set back a day between two runs", note="all times of the store in the future")


NOTICE_S = 60.0  # Ray is told; AWS gives two minutes
SELDOM = 1000  # epochs between two checkpoints: what is kept is kept because of the notice
LEAVES = "leaves; it goes on elsewhere"


def recipe(**changes):
    return {**tiny_sweep()["recipe"], "checkpoint_every": SELDOM, **changes}


def gone(process: psutil.Process) -> bool:
    """Whether the task has ended: its worker idles, or went with its node."""
    try:
        return "execute_" not in " ".join(process.cmdline())
    except psutil.Error:
        return True


def drained(run: SweepRun, cluster, kind: str, seconds: float = NOTICE_S) -> tuple[float, Kept]:
    """Drain a node on which such work runs, wait until it has let go of it, take it away.

    Returns how long letting go took, and what the store held then.
    """
    victim = run.until(lambda: cluster.find(kind))[0]
    told, node = time.monotonic(), cluster.drain_node_of(victim, seconds)
    run.until(lambda: gone(victim))
    took, kept = time.monotonic() - told, Kept.now(run.store)
    cluster.take_away(node)
    cluster.mend()
    return took, kept


def test_a_training_moves_more_often_than_a_worker_may_die(cluster, tmp_path):
    """Every notice costs the rest of an epoch at most; no retry is counted; the numbers are the undisturbed run's."""
    moves = WORKER_RETRIES + 2
    changes = {"grid": {}, "baseline": {}, "judges": {}, "recipe": recipe(epochs=120)}
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    partly_done(calm / "store", store, "target")
    started, run, took, kept = time.monotonic(), SweepRun(sweep, store, cluster.address), [], []
    for _ in range(moves):
        run.until(lambda: any(store.glob("target/*.work/progress.json")))
        seconds, left = drained(run, cluster, "task")
        took.append(seconds)
        kept.append(left)
    assert run.wait() == 0, run.tail()
    assert run.log.read_text().count(LEAVES) == moves, run.log.read_text()
    assert table(store).equals(table(calm / "store")) and not stray_files(store)
    epochs = [one.check() for one in kept]
    assert epochs == sorted(epochs) and epochs[0] > 0, "the notice itself left a checkpoint"
    cluster.wait_until_clear()
    note = f"checkpointed and left within {max(took):.0f} s of the notice; no retry counted"
    passed(
        f"{moves} nodes drained one after the other under one training",
        time.monotonic() - started,
        [one.lost for one in kept],
        note,
    )


def test_an_attacks_shards_move(drill):
    partly_done(drill.undisturbed.store, drill.store, "attack")
    run = drill.run()
    run.until(lambda: any(drill.store.glob("attack/*.work/classes/*")))
    kept = drill.about_to_harm()
    took, _ = drained(run, drill.cluster, "shard")
    assert run.wait() == 0, run.tail()
    assert kept.lost_s
    drill.check("a node drained in the middle of an attack", note=f"left within {took:.0f} s of the notice")


def test_a_ray_train_group_goes_on_where_the_machine_left_it(cluster, tmp_path):
    """Ray Train waits for the machine's end, restarts the group elsewhere, and counts no failure of a worker."""
    changes = {"grid": {"recipe.workers": [2]}, "baseline": {}, "judges": {}, "recipe": recipe(epochs=60)}
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    partly_done(calm / "store", store, "target")
    cluster.add_node()
    started, run = time.monotonic(), SweepRun(sweep, store, cluster.address)
    run.until(lambda: any(store.glob("target/*.work/progress.json")))
    victim = run.until(lambda: cluster.find("train_worker"))[0]
    told, node = time.monotonic(), cluster.drain_node_of(victim, 20.0)
    run.until(lambda: any(store.glob("target/*.work/ray_train/checkpoint_*")))
    took, kept = time.monotonic() - told, Kept.now(store)
    run.until(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE)
    cluster.take_away(node)
    assert run.wait() == 0, run.tail()
    assert table(store).equals(table(calm / "store")) and not stray_files(store)
    kept.check()
    cluster.wait_until_clear()
    passed(
        "a node drained under one of two Ray Train workers",
        time.monotonic() - started,
        [kept.lost],
        f"checkpointed within {took:.0f} s of the notice",
    )
