"""One node's part of a batch job's Ray: who is the head, what Ray is started with, and when it ends. No Ray starts."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import psutil
import pytest
from cluster_files import OTHERWISE_ON_NODES, local_settings

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.batch import node
from smoothsweep.orchestrator.commands.batch.node import start_options


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The job's folder, on a machine without Slurm's variables whose waits are over at once."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "RAY_", "AUTOSCALER", "DASHBOARD"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(node.time, "sleep", lambda _: None)
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "token").write_text("the job's token\n")
    return folder


@pytest.mark.parametrize(
    ("rank", "more", "head"), [(None, [], True), ("0", [], True), ("1", [], False), ("0", ["--worker"], False)]
)
def test_the_first_node_is_the_head_and_all_have_the_jobs_token_and_what_the_user_has_set(job, rank, more, head):
    kept = {"RAY_DEDUP_LOGS": "0"} | ({} if rank is None else {"SLURM_PROCID": rank})
    started = []

    def start(folder, own, *, head):
        path = os.environ["RAY_AUTH_TOKEN_PATH"]
        started.append((folder, str(own), head, Path(path).read_text(), dict(os.environ)))
        assert str(own / "token") == path and os.stat(path).st_mode & 0o777 == 0o600
        return 7

    with patch.dict(os.environ, kept), patch.object(node, "_start", start), patch.object(node, "sweep_away"):
        assert node.main([str(job), *more]) == 7
    ((folder, own, was_head, token, environment),) = started
    assert (folder, was_head, token) == (job, head, "the job's token")
    assert environment["RAY_AUTH_MODE"] == "token" and environment[node.BASE_VARIABLE] == own
    assert {**node.OF_A_NODE, **kept}.items() <= environment.items()
    assert not os.path.exists(own), "nothing stays on the node"


class Ray:
    """Stands for the process of `ray start`: runs until its answers are used up, or until it is ended."""

    def __init__(self, *answers, meanwhile=None, stubborn=False):
        self.answers, self.meanwhile, self.stubborn, self.told, self.starts = list(answers), meanwhile, stubborn, [], 0

    def __call__(self, command, **streams):
        self.starts += 1
        return self

    def poll(self):
        if self.meanwhile:
            self.meanwhile()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    pid = 2**30  # no process has this number

    def terminate(self):
        self.told.append("terminate")
        if not self.stubborn:
            self.answers = [None, None, 143]

    def kill(self):
        self.told.append("kill")
        self.answers = [-9]


@contextmanager
def started(ray):
    handlers = {}
    with patch.object(node.subprocess, "Popen", ray), patch.object(node.signal, "signal", handlers.__setitem__):
        yield handlers


@pytest.mark.parametrize(("number", "killed"), [(signal.SIGTERM, True), (signal.SIGUSR1, False)])
def test_what_does_not_end_before_slurm_kills_it_is_killed_and_who_leaves_has_time(
    job, tmp_path, monkeypatch, number, killed
):
    now = [0.0]
    monkeypatch.setattr(node, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None))
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait $!"], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))

    def meanwhile():
        now[0] += 1.0
        if now[0] == 3.0:
            handlers[number](number, None)
        if now[0] == 60.0:
            ray.answers = [143]

    ray = Ray(None, meanwhile=meanwhile, stubborn=True)
    ray.pid = parent.pid
    with started(ray) as handlers:
        assert node._once(job, tmp_path, "h:1") == 0
    assert ray.told == (["terminate", "kill"] if killed else ["terminate"])
    assert now[0] == (3 + node.END_S + 1 if killed else 60)
    with parent:  # it ends with its child, and says how that ended
        if killed:
            assert parent.wait() == 128 + signal.SIGKILL
        else:
            assert child.is_running() and parent.poll() is None
            child.kill()


def values(options):
    """Option -> its value, of those that have one."""
    return {one: two for one, two in pairwise(options) if one.startswith("--")}


def test_a_head_offers_places_for_the_trials_of_all_nodes_and_every_node_its_own_cpus(job, monkeypatch):
    monkeypatch.setattr(node, "allotted_cpus", lambda: 6)
    found = values(start_options(None))
    assert json.loads(found["--resources"]) == {"trial_slot": 2 * 8 * 1}
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "5")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    for address in (None, "h:1"):
        options = start_options(address)
        found = values(options)
        assert found["--num-cpus"] == "6" and found["--object-store-memory"] == str(150 * 2**20)
        assert {"--block", "--disable-usage-stats"} <= set(options)
        ports = {name: value for name, value in found.items() if name.endswith("port")}
        expected = {"--dashboard-agent-listen-port", *(() if address else ("--port", "--ray-client-server-port"))}
        assert set(ports) == expected and all(1024 <= int(port) < 65536 for port in ports.values())
        assert found.get("--address") == address and ("--head" in options) is (address is None)
        if address is None:
            assert json.loads(found["--resources"]) == {"trial_slot": 2 * 5 * 3}
            assert found["--include-dashboard"] == "false"


@pytest.mark.parametrize(("codes", "ended"), [([0], False), ([1, 0], False), ([1, 1, 1], True)])
def test_a_ray_that_does_not_come_up_is_tried_again_and_then_nobody_waits(job, tmp_path, capsys, codes, ended):
    (own := tmp_path / "own" / "ray").mkdir(parents=True)
    with started(ray := Ray(*codes)):
        assert node._start(job, own.parent, head=True) == (1 if ended else 0)
    assert ray.starts == len(codes) and (job / "ended").exists() is ended
    assert capsys.readouterr().err.count("ended with 1") == codes.count(1)


def test_a_worker_does_not_wait_for_a_head_that_has_ended(tmp_path):
    (tmp_path / "ended").touch()
    with pytest.raises(InputError, match="the head's address"):
        node._address_of_head(tmp_path)
    (tmp_path / "address").write_text("h:1\n")
    assert node._address_of_head(tmp_path) == "h:1"


def test_a_node_sets_what_the_nodes_of_other_clusters_set(monkeypatch):
    """As `cluster.yaml` and the manifest for Kubernetes; the token is the job's own."""
    expected = local_settings(monkeypatch) | OTHERWISE_ON_NODES
    expected.pop("RAY_AUTH_MODE")
    assert expected.items() <= node.OF_A_NODE.items()
