"""The official loops as they are re-stated for the benchmark, and ours, come to the same latents."""

from __future__ import annotations

import pytest
import torch

from benchmarks import gan_attacks
from benchmarks.gan_attacks import attacks_of, frozen, gap, ours, plainly, prepare, view_on
from core.models.classifiers import build_classifier

STEPS = {"gmi": 4, "ked": 4, "lomma_gmi": 3, "lomma_ked": 3}


@pytest.fixture(scope="module")
def setting():
    target = build_classifier("resnet_small", 3, pretrained=False, protocol="clean", seed=4)
    with torch.no_grad():
        target.head.weight *= 30  # so that the classes differ, and the gradients are not next to nothing
    return prepare(target, classes=3, side=32, students=("resnet_small",), z_dim=6, width=4)


@pytest.mark.parametrize("name", list(STEPS))
def test_both_find_the_same_latents(setting, name):
    attack = attacks_of(setting, STEPS, selected=2)[name]
    still = frozen(setting)
    expected = plainly(setting, attack, 2, 9)
    assert expected.z.shape == (2, 6)
    assert gap(expected, ours(still, view_on(still), attack, 2, 9)) < 1e-3
    other = attacks_of(setting, {**STEPS, name: STEPS[name] + 1}, selected=2)[name]
    assert gap(expected, plainly(setting, other, 2, 9).z) > 1e-1  # a step more is not the same


def test_a_measure_of_every_attack(setting, monkeypatch):
    monkeypatch.setattr(gan_attacks, "_ROUNDS", 1)
    found = gan_attacks.measure(setting, attacks_of(setting, dict.fromkeys(STEPS, 1), selected=1))
    assert found.keys() == STEPS.keys()
    assert all(plain > 0 and own > 0 and apart < 1e-3 for plain, own, apart in found.values())
