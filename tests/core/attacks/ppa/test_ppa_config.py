from __future__ import annotations

import dataclasses
import json

import pytest

from core.attacks.ppa.config import (
    PAPER_CONFIGS,
    CandidateConfig,
    OptimiseConfig,
    PoolConfig,
    PPAConfig,
    SelectConfig,
    paper_celeba,
    paper_facescrub,
)
from core.attacks.registry import make_attack
from core.errors import InputError

POOL = {"size": 10, "crop": None, "image_size": 8}


def test_the_values_of_the_paper():
    facescrub, celeba = paper_facescrub(), paper_celeba()
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
    assert (celeba.pool.size, celeba.optimise.steps) == (5000, 70)
    assert celeba.select == facescrub.select and celeba.candidates == facescrub.candidates
    json.dumps(dataclasses.asdict(celeba))


def test_learning_rate_milestones():
    config = OptimiseConfig(steps=5, lr=1.0, lr_milestones=(2, 4), lr_gamma=0.5)
    assert [config.lr_at(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]


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
    ("name", "pool", "crop", "steps", "lr", "batch", "scale"),
    [
        ("facescrub", 2000, 800, 50, 0.005, 25, 0.9),
        ("celeba", 5000, 800, 70, 0.005, 25, 0.9),
        ("facescrub_metfaces", 5000, 800, 70, 0.005, 20, 0.9),
        ("celeba_metfaces", 5000, 800, 70, 0.005, 20, 0.9),
        ("stanford_dogs", 2000, None, 100, 0.01, 25, 0.75),
    ],
)
def test_every_shipped_configuration(name, pool, crop, steps, lr, batch, scale):
    config = PAPER_CONFIGS[name]()
    assert (config.pool.size, config.pool.crop, config.pool.image_size) == (pool, crop, 224)
    assert (config.pool.truncation_psi, config.pool.truncation_cutoff, config.pool.seed) == (0.5, 8, 42)
    found = config.optimise
    assert (found.steps, found.lr, found.batch_size) == (steps, lr, batch)
    assert found.crop_scale == (scale, 1.0) and found.betas == (0.1, 0.1) and not found.lr_milestones
    assert (config.candidates.candidates, config.select.selected, config.select.selection_repeats) == (200, 50, 100)


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
