"""What the tests expect of each kind of prior of the table: a file for each, `<name>.py`, found by its name.

EXAMPLE: settings with which it is made in a second. WRONG: settings that are refused, each a change to the example; {}
where the kind has nothing that must be given. SWEPT: class of settings in a sweep file -> what the tiny sweep
(`tests/tiny.py`) is changed by to have them, where they stand, another value for each field. files(folder, faces), of a
kind with a `path`: writes what it reads, and gives the path; faces: public images uint8 [24, 3, 16, 16].
network(): a small prior of the network that the kind brings, where it brings one.
"""

from importlib import import_module
from importlib.util import find_spec

from smoothsweep.core.priors.kinds import PRIORS
from tests.core.attacks.examples import REFUSED

__all__ = ["REFUSED", "example", "network_of"]


def example(name):
    """The module of a kind's expectations. Fails with the file to write where there is none."""
    missing = f"write tests/core/priors/examples/{name}.py: what the tests expect of {name} (see its __init__.py)"
    assert find_spec(f"{__name__}.{name}") is not None, missing
    return import_module(f"{__name__}.{name}")


def network_of(name):
    """A small prior of the network that prior.json calls so."""
    kind = next(kind for kind, row in PRIORS.items() if name in row.networks)
    return example(kind).network()
