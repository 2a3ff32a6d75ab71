"""What the tests expect of selection alone."""

from tests.core.attacks.examples import KEPT_POOL, POOL, POOLED

EXAMPLE = {"pool": POOL, "selected": 4}

DRAWS = False  # its images are the pool's, whatever the seed

OPTIMISES = False  # it leaks what it began with

DECLARED = {
    "": ({}, POOLED, "prior", 1),
}

WRONG = [
    ({"selected": 41, "pool": POOL}, r"attack.selected: expected at most pool.size \(40\)"),
    ({"steps": 3}, "does not read 'steps'"),
]

KEPT = {"pool": KEPT_POOL, "selected": 2}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 0
