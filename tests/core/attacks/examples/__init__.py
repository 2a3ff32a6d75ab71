"""What the tests expect of each attack of the table: a file for each, `<name>.py`, found by its name.

EXAMPLE: small settings, with which it leaks within seconds from a target of a few people. DECLARED: form (a word of the
field `form`, or any words) -> its settings, the attack's parts in order, what makes its images, how many classes are
inverted at once under protocol paper; NEEDED: what it has no default for. WRONG: settings that are refused, and the
sentence. EDGES: the bounds of numbers that no other attack has. STREAMS: module -> the names of the random streams in
it. KEPT: tiny settings whose numbers are kept in tests/tasks/stage_numbers.json. TOO_LITTLE: access with which it
fails. queries(found): how many images it shows the target for one class, or a range.
"""

from importlib import import_module
from importlib.util import find_spec

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
POOLED, GENERAL, SPECIFIC = ("pool", "candidates"), ("general_gan",), ("specific_gan",)
"""Parts of many attacks, in order."""


def example(name):
    """The module of an attack's expectations. Fails with the file to write where there is none."""
    missing = f"write tests/core/attacks/examples/{name}.py: what the tests expect of {name} (see its __init__.py)"
    assert find_spec(f"{__name__}.{name}") is not None, missing
    return import_module(f"{__name__}.{name}")
