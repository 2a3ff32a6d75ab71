"""What an attacker is given before anything is attacked."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from smoothsweep.core.audit.attacking import Attacker
from smoothsweep.core.errors import InputError

PUBLIC = torch.zeros(9, 3, 32, 32, dtype=torch.uint8)


class Drawing(nn.Module):
    """A prior with weights."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


def attacker(prior, *, device="cpu", classes=7):
    model = SimpleNamespace(execution=SimpleNamespace(device=torch.device(device)), num_classes=classes, image_size=32)
    return Attacker(model, PUBLIC, prior, prior_kind="given")


def test_a_prior_goes_where_the_model_is_and_one_without_weights_stays():
    """On the device that holds no numbers, which every machine has."""
    assert attacker(Drawing(), device="meta").prior.layer.weight.device.type == "meta"
    assert attacker(Drawing()).prior.layer.weight.device.type == "cpu"
    plain = SimpleNamespace()
    assert attacker(plain, device="meta").prior is plain


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ([], "expected one or more, each once, got []"),
        ([1, 2, 1], "each once, got [1, 2, 1]"),
        ([7], "0 to 6, got 7"),
        ([-1], "0 to 6, got -1"),
        ([True, 0], "got True"),
        ([0, 1.0], "got 1.0"),
        ([0, "1"], "got '1'"),
    ],
)
def test_classes_are_numbers_of_the_models_each_once(classes, words):
    with pytest.raises(InputError) as raised:
        attacker(Drawing())._check_classes(classes)
    assert words in str(raised.value) and str(raised.value).startswith("classes: ")


def test_all_classes_in_any_order_are_fine():
    attacker(Drawing())._check_classes([6, 0, 3])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "attack: expected its kind, got none"),
        ({"kind": "random_latents", "precision": "bf16"}, "precision: expected none outside of a sweep"),
    ],
)
def test_an_attack_is_named_and_has_no_setting_of_a_sweep(settings, words):
    with pytest.raises(InputError) as raised:
        attacker(Drawing()).attack_of(settings)
    assert words in str(raised.value)
