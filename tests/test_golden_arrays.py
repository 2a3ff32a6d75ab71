"""Every array of the official low-resolution attacks: a named test compares it, or the table says why none does."""

import ast
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
import torch
import yaml

from tests.lowres import FOLDER, golden, normal, u

ROOT = FOLDER.parents[1]
FILES = ("lowres", "plg", "black_box")
RECORDED = 664  # arrays of the official code, all in all


@cache
def table():
    return yaml.safe_load((FOLDER / "lowres_arrays.yaml").read_text())


def stored():
    """Name of an array -> the files that hold it; stand-ins lie in several."""
    found = {}
    for file in FILES:
        for name in np.load(FOLDER / f"{file}.npz").files:
            found.setdefault(name, set()).add(f"{file}.npz")
    return found


def rows():
    """(pattern, the test that compares what it matches, or None), in the order of the table."""
    for file, tests in table()["compared"].items():
        yield from ((pattern, f"{file}::{test}") for test, patterns in tests.items() for pattern in patterns)
    yield from ((pattern, None) for patterns in table()["not_compared"].values() for pattern in patterns)


def belonging():
    """Row -> the arrays that belong to it."""
    found = {row: [] for row in rows()}
    for name in stored():
        first = next((row for row in found if fnmatchcase(name, row[0])), None)
        assert first is not None, f"{name}: no row of lowres_arrays.yaml"
        found[first].append(name)
    return found


def test_every_array_has_a_row_and_every_row_an_array():
    found = belonging()
    assert not [row for row, names in found.items() if not names]
    absent = [name for names in table()["not_copied"].values() for name in names]
    assert not stored().keys() & set(absent)
    assert sum(map(len, found.values())) + len(absent) == RECORDED


def test_every_test_of_the_table_is_there():
    for file, tests in table()["compared"].items():
        written = ast.parse((ROOT / file).read_text()).body
        assert set(tests) <= {node.name for node in written if isinstance(node, ast.FunctionDef)}, file


def test_numbers_by_formula_are_the_official_ones():
    for make, name in ((u, "recipe_u_probe"), (normal, "recipe_normal_probe")):
        assert torch.equal(make("probe", (8,)), golden(name).float())
