"""What a cluster offers: the GPUs it can grow to count as well as those it has."""

import socket
import time

import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster import connection as cluster
from smoothsweep.tasks.context import PROMISED_GPUS, PROMISED_PER_NODE


@pytest.fixture
def joined(monkeypatch):
    """A cluster whose only machine is a head without a GPU."""
    monkeypatch.setattr(cluster.ray, "init", lambda **_: None)
    monkeypatch.setattr(cluster, "_ask_whether_alive", lambda _: None)
    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: {"CPU": 8.0, cluster.SLOT: 32.0})
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0}}, {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}]
    monkeypatch.setattr(cluster.ray, "nodes", lambda: nodes)
    monkeypatch.delenv(PROMISED_GPUS, raising=False)
    monkeypatch.delenv(PROMISED_PER_NODE, raising=False)


def test_a_cluster_that_scales_from_zero_promises_its_gpus(joined, monkeypatch):
    now = cluster.connect("auto", None)
    assert (now.gpus, now.node_gpus, now.node_cpus) == (0, 0, 8), "a dead machine does not count"
    monkeypatch.setenv(PROMISED_GPUS, "32")
    grown = cluster.connect("auto", None)
    assert (grown.gpus, grown.node_gpus, grown.node_cpus) == (32, None, None)
    monkeypatch.setenv(PROMISED_PER_NODE, "8")
    assert cluster.connect("auto", None).node_gpus == 8


@pytest.mark.parametrize("promised", ["many", "-1", "nan", "inf"])
def test_a_promise_that_is_no_number_is_one_line(joined, monkeypatch, promised):
    monkeypatch.setenv(PROMISED_GPUS, promised)
    with pytest.raises(InputError, match="expected a number of GPUs, got"):
        cluster.connect("auto", None)


@pytest.fixture
def silent():
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


PLACES = ["127.0.0.1:{silent}", "127.0.0.1:1", "nowhere.invalid:6379", "ray://127.0.0.1:1", "localhost", "a:b"]


@pytest.mark.parametrize("where", PLACES)
def test_an_address_where_no_ray_listens_is_one_line_within_twenty_seconds(where, silent, smoothsweep, tmp_path):
    address, began = where.format(silent=silent), time.monotonic()
    done = smoothsweep("run", write_tiny(tmp_path), "--store", tmp_path / "store", "--address", address)
    assert done.returncode == 2 and time.monotonic() - began < 20
    [line] = [line for line in done.stderr.splitlines() if "--address" in line]
    assert address in line and "gcs_client" not in done.stderr
