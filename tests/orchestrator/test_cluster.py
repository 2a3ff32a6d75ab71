"""What a cluster offers: the GPUs it can grow to count as well as those it has."""

import pytest

from core.errors import InputError
from orchestrator import cluster


@pytest.fixture
def joined(monkeypatch):
    """A cluster whose only machine is a head without a GPU."""
    monkeypatch.setattr(cluster.ray, "init", lambda **_: None)
    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: {"CPU": 8.0, cluster.SLOT: 32.0})
    monkeypatch.delenv(cluster.PROMISED_GPUS, raising=False)


def test_a_cluster_that_scales_from_zero_promises_its_gpus(joined, monkeypatch):
    assert cluster.connect("auto", None).gpus == 0
    monkeypatch.setenv(cluster.PROMISED_GPUS, "32")
    assert cluster.connect("auto", None).gpus == 32


@pytest.mark.parametrize("promised", ["many", "-1", "nan", "inf"])
def test_a_promise_that_is_no_number_is_one_line(joined, monkeypatch, promised):
    monkeypatch.setenv(cluster.PROMISED_GPUS, promised)
    with pytest.raises(InputError, match="expected a number of GPUs, got"):
        cluster.connect("auto", None)
