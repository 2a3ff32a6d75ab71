"""The official way with a batch of classes at once, as it is re-stated for the benchmark, and ours find the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.gan_attacks import attacks_of, double, frozen, gap, prepare, view_on
from benchmarks.gan_attacks_batch import AS_PUBLISHED, OFFICIAL, Way, measure, official, ours, ways_of
from smoothsweep.core.models.classifiers import build_classifier

STEPS = {"gmi": 4, "ked": 4, "lomma_gmi": 3, "lomma_ked": 3}
CLASSES = [2, 0, 3]


@pytest.fixture
def setting():
    target = build_classifier("resnet_small", 4, pretrained=False, protocol="clean", seed=4)
    with torch.no_grad():
        target.head.weight *= 30  # so that the classes differ, and the gradients are not next to nothing
    return prepare(target, classes=4, side=32, students=("resnet_small",), z_dim=6, width=4)


@pytest.mark.parametrize("name", list(STEPS))
def test_a_batch_finds_the_latents_that_ours_finds(setting, name):
    with double(setting) as made:
        attack = replace(attacks_of(made, STEPS, selected=2)[name], reference_batch=len(CLASSES))
        still = frozen(made)
        expected = official(made, attack, CLASSES)
        assert expected.z.shape == expected.start.shape == (3, 2, 6)
        assert gap(expected, ours(still, view_on(still), attack, CLASSES, Way(protocol="paper"))) < 1e-10
        longer = replace(attack, steps=attack.steps + 1)
        assert gap(expected, official(made, longer, CLASSES).z) > 1e-1  # a step more is not the same


@pytest.mark.parametrize("name", list(STEPS))
def test_the_ways_of_an_attack_find_the_same_where_they_ought_to(setting, name):
    attack = replace(attacks_of(setting, STEPS, selected=2)[name], reference_batch=len(CLASSES))
    still = frozen(setting)
    view = view_on(still)
    found = {what: ours(still, view, attack, CLASSES, way) for what, way in ways_of(attack, len(CLASSES)).items()}
    assert next(iter(found)) == AS_PUBLISHED
    if name.endswith("gmi"):
        assert torch.equal(found[AS_PUBLISHED], found["class by class"])
    else:
        [alone, at_once] = [latents for what, latents in found.items() if what.startswith("clean")]
        assert torch.allclose(alone, at_once, atol=1e-3) and not torch.equal(alone, found[AS_PUBLISHED])


def test_turns_of_every_way(setting):
    attacks = attacks_of(setting, dict.fromkeys(STEPS, 1), selected=1)
    found = dict(measure(setting, attacks, [0, 1], turns=2))
    assert list(found) == list(STEPS)
    for name, one in found.items():
        assert list(one.seconds) == [OFFICIAL, *ways_of(attacks[name], 2)]
        assert all(len(seconds) == 2 and min(seconds) > 0 for seconds in one.seconds.values())
        ratio = one.seconds[OFFICIAL][1] / one.seconds["paper"][1]
        assert one.ratios("paper")[1] == pytest.approx(ratio)
        assert one.apart < 1e-3 and one.apart_double < 1e-10
    assert torch.get_default_dtype() == torch.float32
