"""Whatever reaches a number belongs to its identity: nothing that a fingerprint leaves out changes one bit."""

import pytest
import torch
from safetensors.torch import load_file

from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.schema import Resources
from tests.every_stage import every_stage

REACHES_NUMBERS = {"attack_rows": 3, "attack_compile": True, "attack_cuda_graphs": True}
NEUTRAL_RESOURCES = {
    "cpus_per_task": 2,
    "gpus_per_training": 2.0,
    "gpus_per_task": 1.0,
    "classes_per_task": 1,
    "trial_slots": 3,
    "training_timeout_minutes": 5.0,
    "attack_timeout_minutes": 5.0,
}


def test_every_resource_is_known_to_reach_numbers_or_not_to():
    assert set(Resources.model_fields) == set(REACHES_NUMBERS) | set(NEUTRAL_RESOURCES)


@pytest.mark.parametrize("name", [*REACHES_NUMBERS, *NEUTRAL_RESOURCES])
def test_a_resource_that_reaches_numbers_is_in_the_identity(tmp_path, name):
    plain = {stage.name: stage.fingerprint for stage in every_stage(tmp_path)}
    value = {**REACHES_NUMBERS, **NEUTRAL_RESOURCES}[name]
    changed = {stage.name: stage.fingerprint for stage in every_stage(tmp_path, resources={name: value})}
    others = {stage for stage in plain if plain[stage] != changed[stage]}
    reached = {"pool", "candidates", "attack", "loot"} | {stage for stage in plain if stage.startswith("judge")}
    assert others == ({*reached, "knowledge"} if name in REACHES_NUMBERS else set())


@pytest.fixture(scope="module")
def reconstructions(tmp_path_factory):
    """(rows, try) -> fingerprint and tensors of an attack and its reconstructions, in a new store for each try."""
    found = {}
    for attempt in range(2):
        folder = tmp_path_factory.mktemp("store")
        store = open_store(str(folder / "store"))
        store.open_for_writing()
        for rows in (None, 1, 3):
            stages = {s.name: s for s in every_stage(folder, resources={"attack_rows": rows}, judges={})}
            execute_with_inputs(store, stages["loot"])
            attack, reconstructions = (store.path(stages[name]) for name in ("attack", "loot"))
            assert store.manifest(stages["attack"])["metrics"]["rows_halved"] == 0
            tensors = {
                **load_file(attack / "reconstructions.safetensors"),
                **load_file(reconstructions / "images.safetensors"),
            }
            found[rows, attempt] = stages["loot"].fingerprint, tensors
    return found


def test_the_same_identity_gives_the_same_bits_and_other_rows_are_another(reconstructions):
    fingerprints = {rows: reconstructions[rows, 0][0] for rows in (None, 1, 3)}
    assert len(set(fingerprints.values())) == 3
    for rows, fingerprint in fingerprints.items():
        again, tensors = reconstructions[rows, 1]
        assert again == fingerprint
        assert all(torch.equal(reconstructions[rows, 0][1][name], tensor) for name, tensor in tensors.items())


def test_the_number_of_rows_does_reach_the_bits(reconstructions):
    """Else it could be left out of the identity."""
    latents = [reconstructions[rows, 0][1]["w"] for rows in (None, 1, 3)]
    assert any(not torch.equal(latents[0], other) for other in latents[1:])


def test_how_often_is_saved_changes_no_bit(tmp_path):
    weights = []
    for every in (1, 2):
        store = open_store(str(tmp_path / f"store{every}"))
        store.open_for_writing()
        stages = {stage.name: stage for stage in every_stage(tmp_path, judges={})}
        target = stages["target"]
        object.__setattr__(target, "hints", {"checkpoint_every": every})
        execute_with_inputs(store, target)
        weights.append(load_file(store.path(target) / "weights.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
