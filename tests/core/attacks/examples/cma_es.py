"""What the tests expect of CMA-ES on labels."""

from tests.core.attacks.examples import KEPT_POOL, NOISY, POOL, POOLED, REFUSED

EXAMPLE = {"pool": POOL, "components": 16, "population": 8, "max_queries": 320, "selected": 4}

TOO_LITTLE = ("labels",)  # access with which it fails

IN_ONE_DIRECTION = False  # it needs two

DECLARED = {
    "": ({}, POOLED, "prior", 1),
}

WRONG = [
    ({"components": 1}, "attack.components: expected a whole number of at least 2, got 1"),
    ({"population": 3}, "attack.population: expected a whole number of at least 4, got 3"),
    ({"max_queries": 24}, "attack.max_queries: expected at least 25, a generation for each of 1 selected"),
    ({"selected": 5, "max_queries": 124}, "attack.max_queries: expected at least 125"),
    ({"sigma": 0.0}, "attack.sigma: expected a finite number above 0, got 0.0"),
]

EDGES = {
    "components": ([0, 1, 10**9 + 1], [2]),
    "population": ([0, 3, 10**9 + 1], [4]),
    "sigma": ([0, -1], [1e-9]),
    "box": ([0, -1], [1e-9]),
    "max_queries": ([0, 4, 10**9 + 1, 35], [36]),
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""

STREAMS = {"cma_es.py": ["cma"]}

KEPT = {"pool": KEPT_POOL, "components": 4, "population": 4, "max_queries": 12, "selected": 1}

SWEPT = {
    "CMAES": (
        {"attack": {"kind": "cma_es"}},
        "attack",
        {
            "kind": REFUSED,
            "selected": 2,
            "seed": 3,
            "precision": "bf16",
            "readout": (NOISY, "mean"),
            "reconstruction_size": 20,
            "pool": {"size": 30},
            "components": 5,
            "population": 9,
            "sigma": 0.1,
            "box": 3.0,
            "max_queries": 999,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 4 * (1 + 8 * found.facts.get("generations", 0))
