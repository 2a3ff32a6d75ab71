"""What the tests expect of each attack of the table: a file for each, `<name>.py`, found by its name.

EXAMPLE: small settings, with which it leaks within seconds from a target of a few people. DECLARED: form (a word of the
field `form`, or any words) -> its settings, the attack's parts in order, what makes its images, how many classes are
inverted at once under protocol paper; NEEDED: what it has no default for; PRIOR: the prior that it needs. WRONG:
settings that are refused for more than a bound of theirs, and the sentence. STREAMS: module -> the names of the
random streams in it. KEPT: tiny settings whose numbers are kept in tests/tasks/stage_numbers.json.
TOO_LITTLE: access with which it fails. DEAR: it takes many seconds, and is tried under the paper's protocol by the
slow tests alone. SWEPT: class of settings in a sweep file -> what the tiny sweep
(`tests/tiny.py`) is changed by to have them (dotted keys; `control`: the attack beside Plug & Play), where they stand,
another value for each field, made by `swept` (beside it, where it needs them, changes; `/key` of the whole sweep).
QUERIES: how many images EXAMPLE shows the target for one class; or queries(found), which may be a range.

What is not the rule, where it is not: DRAWS False: it draws nothing, and every seed gives the same. OPTIMISES False: it
leaks what it began with. LEAST_LEAK: the share of images that a judge takes for the person, where half is too much to
ask; MOST_SEEDS: over how many seeds at most that is a mean. SHORT: settings for a class alone and among others, where
EXAMPLE takes many seconds. IN_ONE_DIRECTION False: it is refused from latents of a single direction, of eigenfaces.
SHIPPED_PRIOR: the generator that it needs, of those that come with smoothsweep.
"""

from dataclasses import MISSING, fields
from importlib import import_module
from importlib.util import find_spec
from typing import get_type_hints

from tests.nonsense import another

PEOPLE, SIZE = 4, 32
POOL = {"size": 40, "truncation_psi": 1.0, "truncation_cutoff": None}
PLG_GAN = {
    "steps": 30,
    "batch_size": 12,
    "width": 8,
    "z_dim": 8,
    "lr": 0.006,
    "inversion_weight": 1.0,
    "critic_steps": 1,
}
LOW_GAN = {"width": 8, "epochs": 10, "batch_size": 8, "critic_steps": 1, "lr": 0.004, "z_dim": 32}
LOW_RESOLUTION = {"gan": LOW_GAN, "steps": 16, "selected": 3, "reference_batch": 2}
DISTRIBUTION = {"gan": {**LOW_GAN, "epochs": 7, "lr": 0.005}, "steps": 24, "lr": 0.1, "start_log_variance": -3.0}
STUDENTS = {"architectures": ["vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 16}
SURROGATE = {
    "pool": {**POOL, "size": 160},
    "candidates": 8,
    "steps": 20,
    "lr": 0.05,
    "finalists": 4,
    "views": 4,
    "selected": 4,
    "surrogates": {"architectures": ["resnet_small"], "pretrained": False, "epochs": 6, "batch_size": 8},
}
KEPT_POOL = {"size": 16, "truncation_psi": 1.0, "truncation_cutoff": None}
KEPT_GAN = {"width": 2, "epochs": 1, "batch_size": 6, "critic_steps": 2, "z_dim": 4}
KEPT_STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 2, "batch_size": 8}
KEPT_SEARCHED = {"gan": KEPT_GAN, "steps": 2, "selected": 2}
KEPT_SURROGATE = {
    "pool": KEPT_POOL,
    "candidates": 2,
    "steps": 2,
    "finalists": 2,
    "views": 2,
    "selected": 2,
    "surrogates": KEPT_STUDENTS,
}
REFUSED = "one value there is, or none that this sweep could have"
"""In SWEPT, of a field."""
SWEPT_GAN = {"batch_size": 16}
NOISY = {"/recipe.defense": {"kind": "mid", "beta": 0.01}, "/grid": {}, "/baseline": {}}
SWEPT_ALL = {
    "kind": REFUSED,
    "selected": 3,
    "seed": 3,
    "precision": "bf16",
    "reconstruction_size": 20,
    "readout": (NOISY, "mean"),
}
"""What every attack on a target has."""
IN_A_GAN = {  # the generator decides whether a prior is read: with the other one this sweep is refused
    "generator": REFUSED,
    "gan": ({"/prior": None, "generator": "general_gan", "gan": {"batch_size": 8}}, {"batch_size": 9}),
}
USUAL = {**SWEPT_ALL, "truncation_cutoff": 2, "image_crop": 30, "workers": REFUSED}
"""Of SWEPT, by the name of a field."""
DESCENT = {
    "betas": [0.5, 0.5],
    "crop_scale": [0.5, 0.6],
    "crop_ratio": [0.9, 1.1],
    "lr_milestones": [1],
    "lr_gamma": ({"lr_milestones": [1]}, 0.5),
    "average": {"views": 2},
    "restarts": {"count": 2},
}
STUDENTS_SWEPT = {
    "gan": {**SWEPT_GAN, "width": 4},
    "form": ({"form": "L_logit", "students": {}}, "baseline"),
    "students": {**SWEPT_GAN, "epochs": 3},
}
SURROGATE_SWEPT = {
    **DESCENT,
    "surrogates": {"epochs": 3},
    **dict.fromkeys(("discriminator_weight", "temperature", "feature_weight"), REFUSED),
}


def swept(declared, **others):
    """Another value for each field, as SWEPT has them: `others`, the usual one of that name, or one by its type."""
    hints, found = get_type_hints(declared, include_extras=True), {"kind": REFUSED} if "title" in dir(declared) else {}
    for field in fields(declared):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        known = {**USUAL, **others}
        found[field.name] = known[field.name] if field.name in known else another(hints[field.name], default)
    return found


POOLED, GENERAL, SPECIFIC = ("pool", "candidates"), ("general_gan",), ("specific_gan",)
"""Parts of many attacks, in order."""


def needed(name):
    """What an attack has no default for, or one that is too much for a test."""
    return getattr(example(name), "NEEDED", {})


def prior_of(name):
    """The prior of a sweep that an attack needs; None where any does."""
    return getattr(example(name), "PRIOR", None)


def example(name):
    """The module of an attack's expectations. Fails with the file to write where there is none."""
    missing = f"write tests/core/attacks/examples/{name}.py: what the tests expect of {name} (see its __init__.py)"
    assert find_spec(f"{__name__}.{name}") is not None, missing
    return import_module(f"{__name__}.{name}")
