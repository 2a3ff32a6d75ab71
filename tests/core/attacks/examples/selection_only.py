"""What the tests expect of selection alone."""

from smoothsweep.core.attacks.selection_only import SelectionOnly
from tests.core.attacks.examples import KEPT_POOL, POOL, POOLED, swept

EXAMPLE = {"pool": POOL, "selected": 4}

DRAWS = False  # its images are the pool's, whatever the seed

OPTIMISES = False  # it leaks what it began with

LEAST_LEAK = 0.25  # chance: it chooses among pictures of nobody here

DECLARED = {"": ({}, POOLED, "prior", 1)}

WRONG = [
    ({"selected": 41, "pool": POOL}, r"attack.selected: expected at most pool.size \(40\)"),
    ({"steps": 3}, "does not read 'steps'"),
]

KEPT = {"pool": KEPT_POOL, "selected": 2}

SWEPT = {
    "SelectionOnly": (
        {"control": {"kind": "selection_only", "selected": 2, "pool": {"size": 20}}},
        "control",
        swept(SelectionOnly, pool={"size": 30}, readout=({"/recipe.defense": {"kind": "mid", "beta": 0.01}}, "mean")),
    )
}

QUERIES = 0
