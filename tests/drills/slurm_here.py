"""A real Slurm of three nodes on this machine: Debian's slurm-wlm and munge, one daemon for each node."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
from drills.emulated import wait_until

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
