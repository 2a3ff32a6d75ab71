"""GPUs that a cluster promises are numbers of at least zero."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.devices import PROMISED_PER_NODE, promised_gpus


def test_each_variable_has_its_own_number(monkeypatch):
    monkeypatch.setenv("SMOOTHSWEEP_CLUSTER_GPUS", "8")
    monkeypatch.setenv("SMOOTHSWEEP_NODE_GPUS", "0.5")
    assert promised_gpus() == 8.0 and promised_gpus(PROMISED_PER_NODE) == 0.5
    monkeypatch.setenv("SMOOTHSWEEP_CLUSTER_GPUS", "0")
    assert promised_gpus() == 0.0


@pytest.mark.parametrize("given", ["many", "-1", "nan", "inf", ""])
def test_what_is_no_number_of_gpus_is_refused(given, monkeypatch):
    monkeypatch.setenv("SMOOTHSWEEP_CLUSTER_GPUS", given)
    with pytest.raises(InputError, match=f"SMOOTHSWEEP_CLUSTER_GPUS: expected a number of GPUs, got {given!r}"):
        promised_gpus()
