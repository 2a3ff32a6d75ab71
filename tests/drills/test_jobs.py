"""A driver that was submitted as a job: stopped by `ray job stop`, killed, submitted again."""

import contextlib
import sys
import time
from pathlib import Path

import psutil
import pytest
from drills import ledger
from drills.emulated import EmulatedCluster, kill, wait_until
from drills.kept import Kept
from drills.sweep_runs import local_tracking, partly_done, recorded, stray_files, table, write_sweep
from ray.job_submission import JobStatus, JobSubmissionClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
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
    ledger.add(
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
