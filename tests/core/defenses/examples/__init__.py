"""What the tests expect of each defense of the table: a file for each, `<name>.py`, found by its name.

EXAMPLE: valid parameters, with which it can be tried: those it needs, one value each. WRONG: parameters that are
refused. TRAVEL: each of its fields -> the parameters beside it, and another value, with which a tiny training has other
numbers. What is not the rule, where it is not: FACTS: what its epochs record; PASSES: images of a forward pass, in
batches; NOT_ON: small architectures that it refuses; CHANGES_RECIPE; NEEDED, ALPHA: parameters, and the smoothing, that
all of TRAVEL is tried with; IN_A_FILE: another example, as a sweep file has it; COUNTED: parameters under which
training images are counted otherwise; UNSMOOTHED: parameters under which its own losses are not smoothed; ON_RANKS:
parameters with which two ranks train.
"""

from importlib import import_module
from importlib.util import find_spec


def example(name):
    """The module of a defense's expectations. Fails with the file to write where there is none."""
    missing = f"write tests/core/defenses/examples/{name}.py: what the tests expect of {name} (see its __init__.py)"
    assert find_spec(f"{__name__}.{name}") is not None, missing
    return import_module(f"{__name__}.{name}")


def told(name, what, usual):
    """What the file of a defense says of `what`, or `usual`."""
    return getattr(example(name), what, usual)
