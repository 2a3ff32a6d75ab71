"""Networks of parts: written and read the same, frozen, and refused in one line where the file is another's."""

import json

import pytest
import torch

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, with_class
from smoothsweep.core.attacks.kept_networks import PART_NETWORKS, load_network, network_names, save_network
from smoothsweep.core.attacks.training_settings import ConditionalConfig
from smoothsweep.core.errors import InputError

CONFIG = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2)


@pytest.fixture
def kept(tmp_path):
    network = ConditionalGenerator(CONFIG).eval()
    network.norm.running_mean.normal_(generator=torch.Generator().manual_seed(0))
    save_network(network, tmp_path, "generator")
    return network, tmp_path


def test_a_network_is_read_as_it_was_written(kept):
    network, folder = kept
    found = load_network(folder, "generator")
    assert type(found) is ConditionalGenerator and found.config == CONFIG and network_names(folder) == ["generator"]
    assert not found.training and not any(parameter.requires_grad for parameter in found.parameters())
    w = with_class(torch.randn(2, 4, generator=torch.Generator().manual_seed(1)), 2)
    assert torch.equal(found.synthesize(w), network.synthesize(w))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pickle"}, "kind: expected one of conditional_generator"),
        ({"config": {}}, "config: expected the keys classes"),
        ({"config": {**vars(CONFIG), "classes": 4}}, "expected shape"),
        ({"config": {**vars(CONFIG), "resolution": 224}}, "resolution: expected 16, 32 or 64, got 224"),
    ],
)
def test_a_card_that_does_not_fit_is_one_line(change, message, kept):
    card = kept[1] / "generator.network.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), **change}))
    with pytest.raises(InputError, match=message) as refusal:
        load_network(kept[1], "generator")
    assert "\n" not in str(refusal.value) and str(kept[1]) in str(refusal.value)


def test_a_network_of_no_kind_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="expected one of conditional_generator"):
        save_network(torch.nn.Linear(2, 2), tmp_path, "generator")
    assert list(tmp_path.iterdir()) == []


def test_every_kind_says_what_it_is_built_from():
    for row in PART_NETWORKS.values():
        assert issubclass(row.load(), torch.nn.Module) and row.config.__dataclass_params__.frozen
