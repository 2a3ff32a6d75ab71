"""What the tests expect of CMA-ES on labels."""

from smoothsweep.core.attacks.cma_es import CMAES
from tests.core.attacks.examples import KEPT_POOL, POOL, POOLED, swept

EXAMPLE = {"pool": POOL, "components": 16, "population": 8, "max_queries": 320, "selected": 4}

TOO_LITTLE = ("labels",)  # access with which it fails

IN_ONE_DIRECTION = False  # it needs two

DECLARED = {"": ({}, POOLED, "prior", 1)}

WRONG = [
    ({"max_queries": 24}, "attack.max_queries: expected at least 25, a generation for each of 1 selected"),
    ({"selected": 5, "max_queries": 124}, "attack.max_queries: expected at least 125"),
]

STREAMS = {"cma_es.py": ["cma"]}

KEPT = {"pool": KEPT_POOL, "components": 4, "population": 4, "max_queries": 12, "selected": 1}

SWEPT = {"CMAES": ({"attack": {"kind": "cma_es"}}, "attack", swept(CMAES, selected=2))}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 4 * (1 + 8 * found.facts.get("generations", 0))
