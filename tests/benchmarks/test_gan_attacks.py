"""The official loops as they are re-stated for the benchmark, and ours, come to the same latents."""

from __future__ import annotations

import pytest
import torch

from benchmarks import gan_attacks
from benchmarks.gan_attacks import attacks_of, frozen, gap, ours, plainly, prepare, view_on
from smoothsweep.core.models.classifiers import build_classifier

STEPS = {"gmi": 4, "ked": 4, "lomma_gmi": 3, "lomma_ked": 3}


@pytest.fixture(params=[torch.float32, torch.float64], ids=["single", "double"])
def precise(request):
    """Everything in single or double precision, draws and networks."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.fixture
def setting(precise):
    target = build_classifier("resnet_small", 3, pretrained=False, protocol="clean", seed=4)
    with torch.no_grad():
        target.head.weight *= 30  # so that the classes differ, and the gradients are not next to nothing
    return prepare(target, classes=3, side=32, students=("resnet_small",), z_dim=6, width=4)


@pytest.mark.parametrize("name", list(STEPS))
def test_both_find_the_same_latents(setting, precise, name):
    """To the precision of the numbers: what parts them on large networks is rounding alone."""
    attack = attacks_of(setting, STEPS, selected=2)[name]
    still = frozen(setting)
    expected = plainly(setting, attack, 2, 9)
    assert expected.z.shape == (2, 6)
    most = 1e-3 if precise == torch.float32 else 1e-10
    assert gap(expected, ours(still, view_on(still), attack, 2, 9)) < most
    other = attacks_of(setting, {**STEPS, name: STEPS[name] + 1}, selected=2)[name]
    assert gap(expected, plainly(setting, other, 2, 9).z) > 1e-1  # a step more is not the same


@pytest.mark.parametrize("precise", [torch.float32], indirect=True)
def test_a_measure_of_every_attack(setting, monkeypatch):
    monkeypatch.setattr(gan_attacks, "_ROUNDS", 1)
    found = dict(gan_attacks.measure(setting, attacks_of(setting, dict.fromkeys(STEPS, 1), selected=1)))
    assert list(found) == list(STEPS)
    for one in found.values():
        assert one.plain > 0 and one.ours > 0 and one.apart < 1e-3 and one.apart_double < 1e-10
    assert torch.get_default_dtype() == torch.float32
