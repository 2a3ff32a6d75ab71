"""What a stage of an attack is given, by the names that it needs."""

import pytest
import torch

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator
from smoothsweep.core.attacks.kept_networks import save_network
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.tasks.attacking import OpenTarget, PartNetworks, PartTensors, attack_inputs_of, execution_of
from smoothsweep.tasks.files import save_tensors

CONFIG = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2)


def test_only_what_is_needed_is_given(tmp_path):
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    save_tensors(tmp_path / "images.safetensors", {"images": images})
    given = attack_inputs_of(("public", "pool"), {"protocol": "clean"}, {"public": tmp_path, "pool": tmp_path}, "cpu")
    assert torch.equal(given.public, images) and given.prior is None and given.discriminator is None
    assert given.parts.keys() == {"pool"} and torch.equal(given.parts["pool"]["images"], images)
    assert (
        attack_inputs_of(("pool",), {"protocol": "clean"}, {"public": tmp_path, "pool": tmp_path}, "cpu").public is None
    )


def test_a_parts_tensors_are_files_of_their_names_read_once(tmp_path):
    save_tensors(tmp_path / "w.safetensors", {"w": torch.ones(2)})
    save_tensors(tmp_path / "confidences.safetensors", {"confidences": torch.zeros(3)})
    save_network(ConditionalGenerator(CONFIG), tmp_path, "generator")
    part = PartTensors(tmp_path)
    assert list(part) == ["confidences", "w"] and len(part) == 2  # the network's weights are none of them
    first = part["w"]
    assert torch.equal(first, torch.ones(2)) and part["w"] is first
    with pytest.raises(KeyError, match="labels"):
        part["labels"]


def test_a_parts_networks_are_built_from_their_cards_once(tmp_path):
    made = ConditionalGenerator(CONFIG)
    save_network(made, tmp_path, "generator")
    networks = PartNetworks(tmp_path, "cpu")
    assert list(networks) == ["generator"] and len(networks) == 1
    found = networks["generator"]
    assert networks["generator"] is found and not found.training
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in made.state_dict().items())
    with pytest.raises(KeyError, match="critic"):
        networks["critic"]


def test_how_networks_run_is_what_the_configuration_says():
    assert execution_of({"steps": 3}) == ExecutionConfig()
    said = {"precision": "bf16", "compile": True, "rows_per_batch": 7}
    assert vars(execution_of({**said, "steps": 3})) == {**vars(ExecutionConfig()), **said}


def test_an_attack_that_sees_nothing_of_the_target_has_a_view_of_nothing():
    target = OpenTarget(None, {"image_size": 32}, "cpu")
    view = target.view("none", noise=3)
    assert view.queries == 0 and target.view("none") is view and view.image_size == 32
