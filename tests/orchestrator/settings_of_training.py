"""Another value for each field of a recipe, its defense, and the evaluator's and the surrogate's training."""

from tiny import tiny_sweep

from tests.core.attacks.examples import REFUSED
from tests.orchestrator.search.made import ALPHA
from tests.orchestrator.settings_cases import TINY, Cases

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
        {
            **TRAINING,
            "pretrained": ({"architecture": "resnet18"}, True),
            "seed": 5,
            "checkpoint_every": 3,
        },
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
