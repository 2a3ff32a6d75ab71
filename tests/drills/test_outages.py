"""What a sweep stands on goes away and comes back: the disk, the tracking server and its database, the clock."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from drills.emulated import free_port
from drills.sweep_runs import SweepRun, finish, partly_done, recorded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
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
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def server(tmp_path_factory):
    """MLflow's server on PostgreSQL, as a cluster has it: `server(command)` starts and stops both."""
    folder = tmp_path_factory.mktemp("mlflow")
    for part in (folder, *folder.parents):
        part.chmod(part.stat().st_mode | 0o011) if part.owner() == "root" and part != Path("/") else None
    port, database_port = free_port(), free_port()

    def tell(command: str) -> None:
        options = ["--dir", str(folder), "--port", str(port), "--pg-port", str(database_port), "--workers", "1"]
        subprocess.run(["bash", str(SCRIPT), command, *options], check=True, timeout=300)

    tell("start")
    yield f"http://127.0.0.1:{port}", tell
    tell("stop")


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


@pytest.mark.skipif(not LIBFAKETIME.is_file(), reason="needs Debian's faketime")
def test_a_clock_that_jumps(drill):
    """Driver and workers under one clock that jumps three hours ahead in a training, and four back in an attack."""
    clock = drill.folder / "clock"
    clock.write_text("+0\n")
    shifted = {
        "LD_PRELOAD": str(LIBFAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = SweepRun(drill.sweep, drill.store, None, environment=shifted)
    run.until(lambda: any(drill.store.glob("target/*.work/checkpoint.pt")))
    _turn(clock, "+3h")
    run.until(lambda: any(drill.store.glob("attack/*.work/classes/*")))
    _turn(clock, "-1h")
    assert run.wait() == 0, run.tail()
    drill.check("the clock jumps three hours ahead, then four back", note="driver and workers under libfaketime")


def _turn(clock: Path, offset: str) -> None:
    new = clock.with_suffix(".new")
    new.write_text(offset + "\n")
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
