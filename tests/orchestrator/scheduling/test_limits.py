"""Time-outs: the sweep file's, and a default that no honest stage meets."""

import json

import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.scheduling.tasks_in_flight import FLOOR_S, TIMES, UNKNOWN_S, Limits
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.store.opening import open_store

TARGET = Stage(name="target", config={"architecture": "resnet_small", "epochs": 3, "workers": 1})
NONE = {"training_timeout_minutes": None, "attack_timeout_minutes": None}


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def measured(store, seconds: float, device: str = "cpu") -> None:
    """Leave the manifest of a target like TARGET that took so long."""
    stage = Stage(name="target", config={**TARGET.config, "seed": seconds})
    path = store.manifest_file(stage.name, stage.fingerprint)
    path.parent.mkdir(parents=True)
    content = {**stage.identity(), "fingerprint": stage.fingerprint, "seconds": seconds, "device": device}
    content |= {"metrics": {}, "files": {}, "finished_at": 1.0, "code_version": "test"}
    path.write_text(json.dumps(sealed(content)))


def test_the_sweep_files_own_limit_counts_from_the_start_whatever_was_measured(store):
    limit = Limits(store, {**NONE, "training_timeout_minutes": 2}).of(TARGET, 1e6)
    assert (limit.total_s, limit.silent_s) == (120.0, None)
    assert limit.reason() == "ran longer than resources.training_timeout_minutes allows (2 min 00 s), and was ended"


@pytest.mark.parametrize(("expected", "silent"), [(None, UNKNOWN_S), (1.0, FLOOR_S), (FLOOR_S, TIMES * FLOOR_S)])
def test_the_default_is_silence_for_twenty_times_the_estimate(store, expected, silent):
    limit = Limits(store, NONE).of(TARGET, expected)
    assert (limit.total_s, limit.silent_s) == (None, silent)
    assert "no sign of life" in limit.reason() and "resources.training_timeout_minutes sets" in limit.reason()


def test_a_stage_without_a_setting_of_its_own_has_the_default_too(store):
    limits = Limits(store, {"training_timeout_minutes": 1, "attack_timeout_minutes": 1})
    limit = limits.of(Stage(name="loot", config={}), None)
    assert (limit.total_s, limit.silent_s, limit.setting) == (None, UNKNOWN_S, None)
    assert limits.of(Sleep(config={}), None).setting == "resources.attack_timeout_minutes"


def test_the_estimate_is_the_longest_of_its_like_on_a_like_device(store):
    measured(store, 100.0)
    measured(store, 300.0)
    assert Limits(store, NONE).expected_s(TARGET, "cpu") == 300.0
    assert Limits(store, NONE).expected_s(TARGET, "cuda") is None, "a GPU's seconds say nothing about a CPU's"
    measured(store, 5.0, "cuda")
    assert Limits(store, NONE).expected_s(TARGET, "cpu") is None, "nor do measurements of both"
