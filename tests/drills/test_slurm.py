"""A sweep as a Slurm job, on a real Slurm: beside another, at its time limit, cancelled, requeued, with a node lost."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from drills.emulated import wait_until
from drills.sweep_runs import Kept, SweepRun, partly_done, passed, stray_files, table, write_sweep

NODES = ("n1", "n2", "n3")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "runuser")
CPUS = 2
CONFIGURATION = """ClusterName=drill
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
KillWait=30
MinJobAge=7200
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
SlurmctldPort={port}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """What this machine lacks for a Slurm of its own."""
    lacks = [name for name in PROGRAMS if shutil.which(name) is None]
    return lacks if os.getuid() == 0 else [*lacks, "root"]


class Slurm:
    """Use as a context manager. Commands find it by SLURM_CONF, which is set meanwhile."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sl-", dir="/tmp"))  # short: names of Ray's sockets hold it
        self._daemons: dict[str, subprocess.Popen] = {}
        self._before = os.environ.get("SLURM_CONF")

    def __enter__(self) -> Slurm:
        _start_munge()
        ports = _free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={2 * CPUS} RealMemory=8000"
            for name, port in zip(NODES, ports[1:], strict=True)
        ]
        text = CONFIGURATION.format(host=host, folder=self.folder, port=ports[0], nodes="\n".join(nodes))
        (self.folder / "slurm.conf").write_text(text)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        self._daemons["ctld"] = subprocess.Popen(["slurmctld", "-D"], stdout=-3, stderr=-3, start_new_session=True)
        for name in NODES:
            self.start(name)
        wait_until(lambda: said("sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(NODES)), every=1.0)
        return self

    def __exit__(self, *_: object) -> None:
        for line in said("squeue", "-h", "-o", "%i").split():
            said("scancel", line)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not said("squeue", "-h"), seconds=60, every=1.0)
        for daemon in self._daemons.values():
            daemon.kill()
        if self._before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = self._before
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, node: str) -> None:
        self._daemons[node] = subprocess.Popen(
            ["slurmd", "-D", "-N", node], stdout=-3, stderr=-3, start_new_session=True
        )

    def lose(self, node: str) -> None:
        """The node dies: its daemon and all that runs on it, without a word; Slurm is told as if it had waited."""
        self._daemons[node].kill()
        for process in psutil.process_iter(["pid", "environ"]):
            with contextlib.suppress(psutil.Error):
                if (process.info["environ"] or {}).get("SLURMD_NODENAME") == node:
                    process.send_signal(signal.SIGKILL)
        said("scontrol", "update", f"nodename={node}", "state=down", "reason=drill")


def said(*command: str) -> str:
    """What a command of Slurm prints; empty if it fails."""
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def state_of(job: str) -> str:
    return next((word[9:] for word in said("scontrol", "show", "job", job).split() if word.startswith("JobState=")), "")


def _start_munge() -> None:
    if subprocess.run("munge -n | unmunge", shell=True, capture_output=True).returncode == 0:
        return
    place = Path("/run/munge")
    place.mkdir(exist_ok=True)
    shutil.chown(place, "munge", "munge")
    subprocess.run(["runuser", "-u", "munge", "--", "munged"], check=True)
    time.sleep(1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(missing()), reason=f"a Slurm of this machine's own lacks {', '.join(missing())}"),
]
PATIENCE_S = 1500
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@pytest.fixture(scope="module")
def slurm():
    with Slurm() as here:
        yield here


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The store of the same sweep, run here without Slurm."""
    folder = tmp_path_factory.mktemp("reference")
    run = SweepRun(write_sweep(folder), folder / "store", None, environment={"RAY_worker_niceness": "0"})
    assert run.wait(PATIENCE_S) == 0, run.tail()
    return folder / "store"


class Submitted:
    """`smoothsweep slurm` on a store of its own. begun: copied from the reference, up to this stage."""

    def __init__(self, folder: Path, reference: Path, begun: str | None, *options: str) -> None:
        self.folder, self.reference, self.store = folder, reference, folder / "store"
        folder.mkdir(parents=True, exist_ok=True)
        if begun:
            partly_done(reference, self.store, begun)
        command = [sys.executable, "-m", "smoothsweep", "slurm", str(write_sweep(folder)), "--store", str(self.store)]
        command += ["--time", "240", "--cpus-per-node", "2", "--grace", "120"]  # no limit that a busy machine reaches
        command += ["--setup", "export OMP_NUM_THREADS=1 RAY_worker_niceness=0"]  # else Ray's workers starve there
        repository = Path(__file__).resolve().parents[2]
        command += ["--setup", f"export PYTHONPATH={repository}", "--setup", f"export RAY_TMPDIR={ray_place()}"]
        command += ["--folder", str(folder / "job"), *options]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        self.number = re.search(r"submitted job (\d+)", answer.stdout)[1]
        self.began = time.monotonic()

    @property
    def log(self) -> str:
        path = self.folder / f"slurm-{self.number}.out"
        return path.read_text() if path.exists() else ""

    def until(self, condition) -> None:
        """Asked often, since a small training keeps its checkpoint for a moment; Slurm is asked each second."""
        asked = [0.0]
        wait_until(lambda: condition() or self._not_over(asked), seconds=PATIENCE_S, every=0.02)

    def _not_over(self, asked: list[float]) -> bool:
        if time.monotonic() - asked[0] >= 1.0:
            asked[0] = time.monotonic()
            assert state_of(self.number) not in OVER, self.log[-3000:]
        return False

    def until_over(self) -> str:
        wait_until(lambda: state_of(self.number) in OVER, seconds=PATIENCE_S, every=1.0)
        return state_of(self.number)

    def is_as_undisturbed(self, what: str, harm=()) -> None:
        assert table(self.store).equals(table(self.reference)), self.log[-3000:]
        assert not stray_files(self.store)
        for kept in harm:
            kept.check()
        passed(what, time.monotonic() - self.began, [kept.lost for kept in harm])


def trainings(store):
    return list(store.glob("target/*.work/checkpoint.pt"))


def left_since(store, moment):
    """Whether a stage ended, or left a checkpoint or a class, since then, as the job asks before a requeue."""
    marks = [*store.glob("*/[!.]*/manifest.json"), *(one for one in store.glob("*/*.work/**/*") if one.is_file())]
    return any(one.name != "progress.json" and changed(one) > moment for one in marks)


def changed(path):
    """When a file was written; never, where its stage has just put it elsewhere."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def ray_place() -> Path:
    """Where the jobs' Rays have their files: apart from those of whatever else runs on this machine."""
    return Path(os.environ["SLURM_CONF"]).parent


def files_of_rays() -> list[Path]:
    """Folders of jobs' Rays, of those that live and of others."""
    return list(ray_place().glob("ssray-*"))


def test_two_jobs_at_once_share_a_node_and_never_meet(slurm, reference, tmp_path):
    two = Submitted(tmp_path / "a", reference, None, "--nodes", "2", "--sbatch=--nodelist=n1,n2")
    one = Submitted(tmp_path / "b", reference, None, "--sbatch=--nodelist=n1")
    for job in (two, one):
        assert job.until_over() == "COMPLETED", job.log[-3000:]
        job.is_as_undisturbed("two Slurm jobs at once, which share a node")
        assert sorted(path.name for path in (job.folder / "job").iterdir()) == ["job.sh"]
    assert not files_of_rays()


def test_three_time_limits(slurm, reference, tmp_path):
    """The warning is sent as Slurm sends it, so that the drill need not wait for the limit."""
    job = Submitted(tmp_path, reference, "target", "--nodes", "2")
    harm = []
    for again in range(3):
        job.until(lambda number=again: job.log.count("already in") > number)
        began = time.time()
        job.until(lambda since=began: left_since(job.store, since))  # who has left nothing is not requeued
        harm.append(Kept.now(job.store, since=began))  # Slurm holds a requeued job for two minutes, which is no work
        said("scancel", "--signal=USR1", "--batch", job.number)
        wait_until(lambda number=again: job.log.count("requeued:") > number, seconds=PATIENCE_S, every=0.5)
        said("scontrol", "release", job.number)
    assert job.until_over() == "COMPLETED", job.log[-3000:]
    job.is_as_undisturbed("a Slurm job at its time limit, three times: checkpointed, requeued", harm)


def test_cancelled_and_submitted_again(slurm, reference, tmp_path):
    job = Submitted(tmp_path, reference, "target", "--nodes", "2")
    job.until(lambda: trainings(job.store))
    harm = [Kept.now(job.store)]
    said("scancel", job.number)
    assert job.until_over() == "CANCELLED"
    wait_until(lambda: not files_of_rays(), seconds=300, every=1.0)
    assert not list((tmp_path / "job").glob("job-*"))
    again = Submitted(tmp_path, reference, None, "--nodes", "2")
    assert again.until_over() == "COMPLETED", again.log[-3000:]
    again.is_as_undisturbed("a Slurm job, scancel, submitted again", harm)


def test_a_requeue_by_the_administrator(slurm, reference, tmp_path):
    job = Submitted(tmp_path, reference, "target")
    job.until(lambda: trainings(job.store))
    harm = [Kept.now(job.store)]
    said("scontrol", "requeue", job.number)
    job.until(lambda: "start 1 on" in job.log)
    assert job.until_over() == "COMPLETED", job.log[-3000:]
    job.is_as_undisturbed("a Slurm job that its administrator requeues", harm)


def test_a_node_that_goes_down(slurm, reference, tmp_path):
    job = Submitted(tmp_path, reference, "target", "--nodes", "2", "--sbatch=--nodelist=n2,n3")
    job.until(lambda: trainings(job.store))
    harm = [Kept.now(job.store)]
    slurm.lose("n3")
    assert job.until_over() == "COMPLETED", job.log[-3000:]
    slurm.start("n3")
    job.is_as_undisturbed("a Slurm job that loses a node", harm)


def test_workers_that_come_and_go(slurm, reference, tmp_path):
    job = Submitted(tmp_path, reference, "target", "--array", "0-1")
    job.until(lambda: len(files_of_rays()) == 3)  # Slurm looks for places every few seconds
    harm = [Kept.now(job.store)]
    worker = said("squeue", "-h", "-t", "R", "-n", "smoothsweep-tiny-workers", "-o", "%i").split()[0]
    said("scancel", worker)
    assert job.until_over() == "COMPLETED", job.log[-3000:]
    wait_until(lambda: not said("squeue", "-h"), seconds=PATIENCE_S, every=1.0)
    wait_until(lambda: not files_of_rays(), seconds=60, every=1.0)
    job.is_as_undisturbed("Slurm workers that come and go: one is cancelled", harm)
