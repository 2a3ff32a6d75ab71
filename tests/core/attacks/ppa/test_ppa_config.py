from __future__ import annotations

import dataclasses
import json

import pytest

from smoothsweep.core.attacks.ppa.config import (
    CandidateConfig,
    OptimiseConfig,
    PoolConfig,
    PPAConfig,
    SelectConfig,
)
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.errors import InputError

POOL = {"size": 10, "crop": None, "image_size": 8}


def test_the_values_of_the_paper():
    """FaceScrub targets and the 1024-pixel FFHQ prior: appendix B.4, configs/attacking/FaceScrub_FFHQ.yaml."""
    facescrub = PPAConfig(pool=PoolConfig(size=2000, crop=800, image_size=224), optimise=OptimiseConfig(steps=50))
    assert dataclasses.asdict(facescrub) == {
        "pool": {
            "size": 2000,
            "seed": 42,
            "truncation_psi": 0.5,
            "truncation_cutoff": 8,
            "crop": 800,
            "image_size": 224,
            "clip": True,
        },
        "candidates": {"candidates": 200, "single_w": True, "restarts": None},
        "optimise": {
            "steps": 50,
            "lr": 0.005,
            "betas": (0.1, 0.1),
            "weight_decay": 0.0,
            "loss": "poincare",
            "crop_scale": (0.9, 1.0),
            "crop_ratio": (1.0, 1.0),
            "batch_size": 25,
            "clip": False,
            "lr_milestones": (),
            "lr_gamma": 0.1,
            "discriminator_weight": 0.0,
            "temperature": None,
            "average": None,
            "feature_weight": None,
        },
        "select": {
            "selected": 50,
            "selection_repeats": 100,
            "selection_crop_scale": (0.5, 0.9),
            "selection_crop_ratio": (0.8, 1.2),
            "selection_hflip": 0.5,
            "selection_view_size": None,
        },
    }
    json.dumps(dataclasses.asdict(facescrub))


def test_learning_rate_milestones():
    config = OptimiseConfig(steps=5, lr=1.0, lr_milestones=(2, 4), lr_gamma=0.5)
    assert [config.lr_at(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]


def test_a_discriminator_comes_with_a_folder_alone():
    attack = make_attack("ppa", steps=1, discriminator_weight=0.1, pool={"crop": None})
    attack.check(image_size=64, prior_kind="folder", has_public=False)
    with pytest.raises(InputError, match=r"^attack\.discriminator_weight: expected a prior of kind folder.* shipped$"):
        attack.check(image_size=64, prior_kind="shipped", has_public=False)


STILL = {"selection_crop_scale": (1, 1), "selection_crop_ratio": (1, 1), "selection_hflip": 0}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PoolConfig(**{**POOL, "size": 0}), "pool.size"),
        (lambda: PoolConfig(**{**POOL, "crop": 0}), "pool.crop"),
        (lambda: PoolConfig(**{**POOL, "image_size": 0}), "pool.image_size"),
        (lambda: PoolConfig(**POOL, truncation_cutoff=-1), "truncation_cutoff"),
        (lambda: CandidateConfig(candidates=0), "attack.candidates"),
        (lambda: OptimiseConfig(steps=0), "attack.steps"),
        (lambda: OptimiseConfig(steps=1, lr=0.0), "lr"),
        (lambda: OptimiseConfig(steps=1, betas=(0.1, 1.0)), "betas"),
        (lambda: OptimiseConfig(steps=1, loss="hinge"), "poincare, cross_entropy"),
        (lambda: OptimiseConfig(steps=5, lr_milestones=(5,)), "lr_milestones"),
        (lambda: OptimiseConfig(steps=5, lr_gamma=0.5), "lr_gamma"),
        (lambda: OptimiseConfig(steps=5, crop_scale=(0.9, 1.1)), "crop_scale"),
        (lambda: OptimiseConfig(steps=5, discriminator_weight=-1.0), "discriminator_weight"),
        (lambda: SelectConfig(selected=0), "attack.selected"),
        (lambda: SelectConfig(selection_hflip=1.5), "selection_hflip"),
        (lambda: SelectConfig(**STILL, selection_repeats=1, selection_view_size=5), "no effect"),
        (lambda: SelectConfig(**STILL, selection_repeats=2), "repeats"),
        (
            lambda: PPAConfig(
                pool=PoolConfig(**POOL),
                candidates=CandidateConfig(candidates=11),
                optimise=OptimiseConfig(steps=1),
            ),
            r"at most pool.size \(10\)",
        ),
        (
            lambda: PPAConfig(
                pool=PoolConfig(**POOL),
                candidates=CandidateConfig(candidates=5),
                optimise=OptimiseConfig(steps=1),
                select=SelectConfig(selected=6),
            ),
            r"at most candidates \(5\)",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize(
    ("settings", "published"),
    [
        ({}, True),
        ({"loss": "cross_entropy"}, True),
        ({"loss": "logit"}, False),
        ({"loss": "max_margin"}, False),
        ({"select": {"kind": "augmented_margin"}}, False),
        ({"restarts": {"count": 2}}, False),
        ({"average": {"views": 4}}, False),
        ({"loss": "cross_entropy", "temperature": {}}, False),
    ],
)
def test_only_the_two_losses_as_published_are_what_a_defense_is_usually_measured_with(settings, published):
    assert make_attack("ppa", **settings).published is published
