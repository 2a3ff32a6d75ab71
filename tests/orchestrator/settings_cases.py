"""For every class of a sweep file: a sweep that has it, and another value for each of its fields."""

import hashlib
import json
from functools import partial
from typing import Any

from tiny import searchable, tiny_sweep

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import measured
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.parts import DATA_MODELS
from tests.core.attacks.examples import REFUSED
from tests.core.attacks.examples import example as attack_example
from tests.core.data.examples import example as data_example
from tests.core.priors.examples import example as prior_example
from tests.orchestrator.search.made import ALPHA, KIND, SPACE, looked_sweep

Cases = dict[str, tuple[Any, str, dict[str, Any]]]
"""Class -> a sweep that has it, where it stands there, and for each field another value and what that needs."""

TINY = tiny_sweep
LABELLED = {"kind": "labelled", "path": "$a/faces.parquet"}
UNLABELLED = {"kind": "unlabelled", "path": "$a/others.parquet"}

HALVING = {
    "strategy": "halving",
    "recipes": 8,
    "space": SPACE,
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "rungs": [{"keep": 0.5, "set": {"attack.steps": 2}}],
    "audit": 1,
}
OPTUNA = {
    "strategy": "optuna",
    "recipes": 8,
    "space": SPACE,
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "sampler": "tpe",
    "in_flight": 2,
}
RANDOM = {key: value for key, value in OPTUNA.items() if key not in ("sampler", "in_flight")} | {"strategy": "random"}
NOISE_AWARE = RANDOM | {"strategy": "noise_aware"}
START, END = "recipe.defense.schedule.start", "recipe.defense.schedule.end"
RAMPS = {
    ALPHA: SPACE[ALPHA],
    KIND: {"choices": ["ramp", "linear"]},
    START: {"low": 0.0, "high": 0.6},
    END: {"low": 0.6, "high": 0.9},
}
CHOICES = {**HALVING, "space": {**RAMPS, END: {"choices": [0.7, 0.8]}}}
WIDE = {**HALVING, "space": {**RAMPS, END: {"low": 0.3, "high": 0.9}}}
WHOLE = {**HALVING, "space": {**RAMPS, "recipe.weight_decay": {"low": 0, "high": 3}}}


def search_sweep(**changes: Any) -> dict[str, Any]:
    """A searched sweep of one seed with these changes."""
    return searchable("made", HALVING, **{"seeds": [1], **changes})


OF_SEARCHES: Cases = {
    "Search": (
        search_sweep,
        "search",
        {
            "strategy": ({"/search": {**RANDOM, "recipes": 4}}, "optuna"),
            "sampler": ({"/search": OPTUNA}, "gp"),
            "recipes": 5,
            "seed": 4,
            "in_flight": ({"/search": OPTUNA}, 1),
            "space": {ALPHA: {"low": -0.5, "high": 0.3}},
            "objectives": {"embedder_acc1": "min"},
            "constraints": {"embedder_acc1": {"at_most": 0.3}},
            "rungs": [{"keep": 0.3, "set": {"attack.steps": 2}}],
            "audit": 3,
            "settings": REFUSED,  # by every strategy of ours: tests/test_plugins.py has one of another package
            "first_seeds": ({"/seeds": [1, 2], "/search": NOISE_AWARE}, 2),
        },
    ),
    "Range": (
        lambda: search_sweep(search={**HALVING, "space": RAMPS}),
        f"search.space[{END}]",
        {
            "choices": ({"/search": CHOICES}, [0.7, 0.9]),
            "low": 0.7,
            "high": 0.8,
            "step": 0.1,
            "log": True,
            "integer": ({"/search": WHOLE}, True, "search.space[recipe.weight_decay]"),
            "when": {KIND: ["ramp"]},
            "above": ({"/search": WIDE}, START),
        },
    ),
    "Constraint": (
        lambda: search_sweep(search={**HALVING, "constraints": {"test_acc": {"at_least": 0.5}}}),
        "search.constraints.test_acc",
        {"at_least": 0.93, "at_most": 0.9},
    ),
    "Rung": (search_sweep, "search.rungs.0", {"keep": 0.25, "set": {"attack.steps": 3}}),
    "SeedLooks": (
        looked_sweep,
        "seeds",
        {"looks": [2, 3], "first": 1, "alpha": 0.6, "spend": ({"alpha": 0.1}, "obrien-fleming"), "smallest": 0.9},
    ),
}

OF_SWEEPS: Cases = {
    "InversionSweep": (
        lambda: TINY(),
        "",
        {
            "experiment": REFUSED,
            "name": "other",
            "protocol": "paper",
            "seeds": [1, 2],
            "data": LABELLED,
            "public": {**tiny_sweep()["public"], "seed": 5},
            "recipe": ({"grid": {}, "baseline": {}}, {"imported": "$a"}),
            "prior": {"kind": "eigenfaces", "components": 5},
            "attack": {"steps": 3},
            "judges": {},
            "classes": [0, 2],
            "grid": {ALPHA: [0.0, -0.1]},
            "cells": ({"grid": {}, "baseline": {}}, [{ALPHA: 0.0}, {ALPHA: 0.1}]),
            "baseline": {ALPHA: -0.2},
            "budget": {"minutes": 5},
            "reaudit": {"seeds": [7]},
            "min_test_acc": 0.9,
            "accuracy_margin": 0.02,
            "tracking": {"models": "all"},
            "resources": {"cpus_per_task": 3},
            "paper": {"table": 1, "dataset": "facescrub"},
            "search": ({"grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}, HALVING),
        },
    ),
    "ToySweep": (
        lambda: {"experiment": "toy", "name": "toy", "grid": {"alpha": [0.0, 0.05]}},
        "",
        {
            "experiment": REFUSED,
            "name": "other",
            "alpha": ({"grid": {}}, 0.05),
            "grid": {"alpha": [0.0]},
            "cells": ({"grid": {}}, [{"alpha": 0.1}, {"alpha": 0.2}]),
            "baseline": {"alpha": 0.0},
            "resources": {"trial_slots": 9},
        },
    ),
    "Resources": (
        TINY,
        "resources",
        {
            "cpus_per_task": 3,
            "gpus_per_training": 2.0,
            "gpus_per_task": 0.25,
            "classes_per_task": 5,
            "trial_slots": 7,
            "attack_rows": 3,
            "attack_compile": True,
            "attack_cuda_graphs": True,
            "training_timeout_minutes": 7.0,
            "attack_timeout_minutes": 7.0,
        },
    ),
    "PaperTable": (
        lambda: TINY(paper={"table": 1, "dataset": "facescrub"}),
        "paper",
        {"table": "2", "dataset": "celeba"},
    ),
    "Tracking": (TINY, "tracking", {"models": "all"}),
    "Budget": (lambda: TINY(budget={"device_hours": 1.0}), "budget", {"device_hours": 0.1, "minutes": 5.0}),
    "Reaudit": (
        lambda: search_sweep(reaudit={"seeds": [7]}, budget={"device_hours": 1.5}),
        "reaudit",
        {"seeds": [8], "recipes": 2, "share": 0.9},
    ),
}

PUBLISHED = {"kind": "celeba", "path": "$a/people"}
DATA = {"data": LABELLED, "public": UNLABELLED}

OF_DATA: Cases = {
    "SyntheticData": (
        TINY,
        "data",
        {
            "kind": REFUSED,
            "identities": 5,
            "train_per_class": 9,
            "test_per_class": 5,
            "size": 48,
            "spread": 0.9,
            "seed": 3,
            "samples_per_class": 2,
        },
    ),
    "LabelledData": (
        lambda: TINY(**DATA),
        "data",
        {
            "kind": REFUSED,
            "path": "$b/faces.parquet",
            "size": 48,
            "crop": "stretch",
            "test_fraction": 0.3,
            "split_seed": 3,
            "largest_classes": 3,
            "bits": 12,
            "samples_per_class": 2,
            "on_corrupt": "skip",
        },
    ),
    "PublishedData": (
        lambda: TINY(data=PUBLISHED),
        "data",
        {
            "kind": "celeba64",
            "path": "$b/people",
            "classes": 3,
            "split_seed": 3,
            "samples_per_class": 2,
            "on_corrupt": "skip",
            "pictures": "aligned",
        },
    ),
    "SyntheticPublic": (
        TINY,
        "public",
        {"kind": REFUSED, "identities": 61, "per_identity": 2, "size": 48, "spread": 0.9, "seed": 3},
    ),
    "UnlabelledPublic": (
        lambda: TINY(**DATA),
        "public",
        {"kind": REFUSED, "path": "$b/others.parquet", "size": 48, "limit": 20, "bits": 12, "seed": 3},
    ),
    "PublishedPublic": (
        lambda: TINY(public={"kind": "celeba64", "path": "$a/people", "size": 32}),
        "public",
        {"kind": REFUSED, "path": "$b/people", "size": 48},
    ),
    **{
        model.__name__: (
            partial(TINY, data={"kind": kind, **data_example(kind).EXAMPLE}),
            "data",
            {
                "kind": REFUSED,
                **({"path": "$b/people"} if "path" in model.model_fields else {}),
                **data_example(kind).SWEPT,
            },
        )
        for kind, model in DATA_MODELS.items()
    },
}

TRAINING = {
    "architecture": "resnet50",
    "pretrained": True,
    "image_size": 48,
    "transform_input": REFUSED,
    "epochs": 3,
    "batch_size": 12,
    "optimizer": "adam",
    "lr": 0.01,
    "betas": ({"optimizer": "adam"}, [0.5, 0.9]),
    "momentum": ({"optimizer": "sgd"}, 0.5),
    "weight_decay": 0.1,
    "lr_schedule": "multistep",
    "lr_milestones": ({"lr_schedule": "multistep"}, [0.3]),
    "lr_factor": ({"lr_schedule": "multistep"}, 0.3),
    "lr_min": ({"lr_schedule": "cosine"}, 0.0005),
    "precision": "bf16",
    "augmentation": {"flip": 0.1},
}
RAMP, POINTS = {"kind": "ramp"}, {"schedule": {"kind": "piecewise", "points": [[0, 0.1], [1, 0.3]]}}

OF_TRAINING: Cases = {
    "Recipe": (
        TINY,
        "recipe",
        {
            **TRAINING,
            "optimizer": "sgd",
            "lr_schedule": "cosine",
            "pretrained": ({"architecture": "resnet18"}, True),
            "defense": ({"/grid": {}, "/baseline": {}}, {"alpha": 0.1}),
            "workers": 2,
            "checkpoint_every": 3,
            "stop_at_test_acc": 0.5,
            "poison": {"kind": "badnets"},
        },
    ),
    "Poison": (
        lambda: TINY(recipe={**tiny_sweep()["recipe"], "poison": {"kind": "badnets"}}),
        "recipe.poison",
        {
            "kind": "blended",
            "share": 0.3,
            "target": 2,
            "size": 5,
            "strength": ({"kind": "blended"}, 0.3),
            "placed": "before_augmentation",
            "seed": 3,
        },
    ),
    "Augmentation": (
        TINY,
        "recipe.augmentation",
        {
            "crop_scale": [0.5, 0.6],
            "crop_ratio": [0.5, 0.6],
            "brightness": 0.5,
            "contrast": 0.5,
            "saturation": 0.5,
            "hue": 0.3,
            "flip": 0.1,
        },
    ),
    "OtherTrial": (
        lambda: TINY(recipe={**tiny_sweep()["recipe"], "stop_at_test_acc": {"trial": {ALPHA: 0.1}}}),
        "recipe.stop_at_test_acc",
        {"trial": {ALPHA: 0.2}},
    ),
    "ImportedClassifier": (lambda: TINY(recipe={"imported": "$a"}, grid={}, baseline={}), "recipe", {"imported": "$b"}),
    "Evaluator": (
        TINY,
        "judges.evaluator",
        {
            **TRAINING,
            "optimizer": "sgd",
            "lr_schedule": "cosine",
            "pretrained": ({"architecture": "resnet18"}, True),
            "seed": 5,
            "checkpoint_every": 3,
        },
    ),
    "Knowledge": (
        TINY,
        "judges.knowledge",
        {**TRAINING, "pretrained": ({"architecture": "resnet18"}, True), "seed": 5, "checkpoint_every": 3},
    ),
    "LabelSmoothing": (
        lambda: TINY(grid={}, baseline={}),
        "recipe.defense",
        {"kind": REFUSED, "alpha": 0.3, "schedule": ({"alpha": 0.3}, RAMP)},
    ),
    "Smoothing": (
        lambda: TINY(grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {"kind": "dropout", "p": 0.1}}),
        "recipe.defense.smoothing",
        {"alpha": 0.3, "schedule": ({"alpha": 0.3}, RAMP)},
    ),
    "OtherDefense": (
        lambda: TINY(grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {"kind": "dropout", "p": 0.1}}),
        "recipe.defense",
        {"kind": REFUSED, "smoothing": {"alpha": 0.2}},
    ),
    "Schedule": (
        lambda: TINY(
            grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {"alpha": 0.3, "schedule": RAMP}}
        ),
        "recipe.defense.schedule",
        {
            "kind": "linear",
            "start": 0.1,
            "end": 0.9,
            "back": 0.9,
            "at": ({"kind": "step"}, 0.1),
            "scaled": ({"kind": "reference"}, True),
            "points": ({"/recipe.defense": POINTS}, [[0, 0.2], [1, 0.3]]),
        },
    ),
}


def _attacked(changes):
    """The tiny sweep with these changes."""
    sweep = tiny_sweep()
    for key, value in changes.items():
        if key == "control":
            sweep |= {"grid": {"attack": [{"kind": "ppa", **sweep["attack"]}, dict(value)]}, "baseline": {}}
        else:
            set_dotted(sweep, key, json.loads(json.dumps(value)), where="case")  # no part is in two places
    return sweep


OF_ATTACKS: Cases = {
    name: (partial(_attacked, changes), where, fields)
    for attack in ATTACKS
    for name, (changes, where, fields) in attack_example(attack).SWEPT.items()
}


def _changed(changes):
    """The tiny sweep with these changes, no part of which is in two places."""
    return TINY(**json.loads(json.dumps(changes)))


OF_PRIORS: Cases = {
    name: (partial(_changed, changes), where, fields)
    for kind in PRIORS
    for name, (changes, where, fields) in prior_example(kind).SWEPT.items()
}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PUBLISHED_FID = {"fid_plg": {"weights": "$a/weights.safetensors"}}
EVALUATOR = tiny_sweep()["judges"]["evaluator"]

OF_JUDGES: Cases = {
    "Judges": (
        TINY,
        "judges",
        {
            **{name: dict(judge.example) for name, judge in measured().items()},  # which say no more than that
            "features": {"perplexity": 5.0},
            "gradients": {"steps": 3},
            "evaluator": {**EVALUATOR, "seed": 3},
            "embedder": None,
            "knowledge": None,
            "general": {"weights": "$a/weights.safetensors"},
            "fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1},
            "robustness": {"eps": 0.1},
            "membership": {"copies": 3},
            "fid_lomma": PUBLISHED_FID["fid_plg"],
            **PUBLISHED_FID,
        },
    ),
    "Robustness": (
        lambda: TINY(judges={"robustness": {}}),
        "judges.robustness",
        {
            "eps": 0.1,
            "step": 0.02,
            "steps": 1,
            "generations": 3,
            "population": 20,
            "strong_steps": 3,
            "strong_restarts": 2,
            "images": 5,
            "seed": 3,
        },
    ),
    "Membership": (
        lambda: TINY(judges={"membership": {"shadows": 4}}),
        "judges.membership",
        {
            "shadows": 6,
            "share": 0.4,
            "copies": 3,
            "levels": 3,
            "images": 4,
            "seed": 3,
            "trained_on_data": True,
            "shadow_recipe": {**tiny_sweep()["recipe"], "epochs": 9},
        },
    ),
    "Gradients": (
        lambda: TINY(judges={"gradients": {"steps": 3}}),
        "judges.gradients",
        {
            "per_class": 3,
            "seed": 3,
            "truncation_psi": 0.4,
            "truncation_cutoff": 2,
            "crop": 30,
            "steps": 4,
            "lr": 0.1,
            "betas": [0.5, 0.5],
            "crop_scale": [0.5, 0.6],
            "average": {"views": 2},
        },
    ),
    "Embedder": (
        lambda: TINY(judges={"embedder": {"name": "facenet", "weights": "$a/weights.safetensors"}}),
        "judges.embedder",
        {"name": "mobilefacenet_a", "weights": "$b/weights.safetensors", "verify": None},
    ),
    "General": (
        lambda: TINY(judges={"general": {"weights": "$a/weights.safetensors"}}),
        "judges.general",
        {"name": REFUSED, "weights": "$b/weights.safetensors", "verify": None},
    ),
    "Fidelity": (
        lambda: TINY(
            judges={"fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1}},
            attack={**tiny_sweep()["attack"], "selected": 4},
        ),
        "judges.fidelity",
        {"weights": "$b/weights.safetensors", "sha256": sha("b"), "neighbours": 2},
    ),
    "Features": (
        lambda: TINY(judges={"features": {"perplexity": 5.0}}),
        "judges.features",
        {"classes": 3, "perplexity": 6.0, "seed": 3},
    ),
    "PublishedFid": (
        lambda: TINY(judges={**PUBLISHED_FID, "evaluator": EVALUATOR}),
        "judges.fid_plg",
        {"weights": "$b/weights.safetensors", "sha256": sha("b")},
    ),
}

CASES = OF_SWEEPS | OF_DATA | OF_TRAINING | OF_ATTACKS | OF_PRIORS | OF_JUDGES | OF_SEARCHES
