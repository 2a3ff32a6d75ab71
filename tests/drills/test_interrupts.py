"""A run that is told to end, or loses its Ray, at any moment of its life: how it ends, and what it leaves."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from drills.emulated import EmulatedCluster, kill, wait_until
from drills.sweep_runs import (
    Kept,
    SweepRun,
    finish,
    local_tracking,
    partly_done,
    passed,
    recorded,
    stray_files,
    table,
    write_sweep,
)
from ray.job_submission import JobStatus, JobSubmissionClient

from smoothsweep.orchestrator.planning.state import STATE_FILE

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
    passed(
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
    passed(
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
    passed(
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
    passed(f"a closed terminal{', under nohup' if ignored else ''}", time.monotonic() - started, [], note)


INTERRUPTED_ENDS = 130


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
    assert code == INTERRUPTED_ENDS, run.tail()
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
    assert run.wait(120) == INTERRUPTED_ENDS, run.tail()
    assert "Traceback" not in run.tail()
    wait_until(lambda: not [process for process in family if process.is_running()], seconds=60)
    passed("ctrl-C of a run without a cluster", time.monotonic() - started, [], "no process of it left")


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
    changes = {"grid": {}, "baseline": {}, "judges": {}, "resources": {"training_timeout_minutes": 0.1}}
    sweep = write_sweep(tmp_path, **changes)
    started = time.monotonic()
    endless = ["--set", "recipe.workers=2", "--set", "recipe.epochs=5000"]
    run = SweepRun(sweep, tmp_path / "store", cluster.address, *endless)
    assert run.wait() == 1, run.tail()
    assert "ran longer than resources.training_timeout_minutes allows (6 s), and was ended" in run.tail()
    cluster.wait_until_clear()
    passed("a Ray Train group past its time-out", time.monotonic() - started, [], "its placement group gone")


REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def jobs():
    """Jobs are submitted through the dashboard, which the other drills do without."""
    emulated = EmulatedCluster(dashboard=True)
    yield emulated, JobSubmissionClient(emulated.dashboard)
    emulated.close()


def test_a_submitted_driver(undisturbed, jobs, tmp_path):
    cluster, client = jobs
    sweep, store = write_sweep(tmp_path), tmp_path / "store"
    partly_done(undisturbed.store, store, "target")
    started, harm = time.monotonic(), []

    def submit() -> str:
        command = f"{sys.executable} -m orchestrator run {sweep} --store {store} --yes"
        return client.submit_job(entrypoint=command, runtime_env={"env_vars": {"PYTHONPATH": str(REPOSITORY)}})

    def first_submission() -> str | None:
        with contextlib.suppress(RuntimeError):  # "No available agent": the dashboard is up before it knows the nodes
            return submit()
        return None

    def ended(job: str) -> JobStatus:
        wait_until(lambda: client.get_job_status(job).is_terminal(), every=0.5)
        cluster.wait_until_clear()
        return client.get_job_status(job)

    def in_a_training() -> bool:
        return any(store.glob("target/*.work/checkpoint.pt"))

    job = wait_until(first_submission, every=1.0)
    wait_until(in_a_training)
    harm.append(Kept.now(store))
    client.stop_job(job)
    assert ended(job) == JobStatus.STOPPED
    assert "the same command goes on from here" in client.get_job_logs(job)

    job = submit()
    wait_until(lambda: cluster.find("task") or client.get_job_status(job).is_terminal())
    assert cluster.find("task"), client.get_job_logs(job)
    harm.append(Kept.now(store))
    assert kill(_driver(store))
    assert ended(job) == JobStatus.FAILED

    assert ended(submit()) == JobStatus.SUCCEEDED
    assert table(store).equals(undisturbed.table)
    assert recorded(local_tracking(store)) == undisturbed.recorded
    assert not stray_files(store)
    for kept in harm:
        kept.check()
    passed(
        "a submitted job: `ray job stop`, then kill -9 of its driver",
        time.monotonic() - started,
        [kept.lost for kept in harm],
    )


def _driver(store: Path) -> psutil.Process | None:
    """The job's own process: not the shell that the job manager starts it from."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "orchestrator" in words and str(store) in words:
            return process
    return None
