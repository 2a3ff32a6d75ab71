"""What the tests expect of each kind of data of the table: a file for each, `<name>.py`, found by its name.

EXAMPLE: settings with which it makes a handful of images; of a kind with files, `path` among them (`$a/people` is a
folder). WRONG: settings that are refused, each a change to the example, and the sentence. SWEPT: another value for each
of its fields. files(folder), of a kind that reads some: writes them there, and gives their path.
"""

from importlib import import_module
from importlib.util import find_spec


def example(name):
    """The module of a kind's expectations. Fails with the file to write where there is none."""
    missing = f"write tests/core/data/examples/{name}.py: what the tests expect of {name} (see its __init__.py)"
    assert find_spec(f"{__name__}.{name}") is not None, missing
    return import_module(f"{__name__}.{name}")
