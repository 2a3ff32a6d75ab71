"""What the tests expect of BREP-MI."""

from tests.core.attacks.examples import GENERAL, IN_A_GAN, SWEPT_ALL

DEAR = True
EXAMPLE = {
    "selected": 2,
    "starts": {"batch": 64, "max_batches": 10},
    "probes": 16,
    "patience": 25,
    "max_passes": 80,
}

TOO_LITTLE = ("none",)  # access with which it fails

DECLARED = {
    "": ({}, ("starts",), "prior", 1),
    "own generator": ({"generator": "general_gan"}, (*GENERAL, "starts"), "general_gan", 1),
}

WRONG = [
    ({"inside": 1.0}, r"attack.inside: expected a number in \[-1, 1\), got 1.0"),
    ({"expansion": 1.0}, "attack.expansion: expected a finite number above 1, got 1.0"),
    ({"max_passes": 0}, "attack.max_passes: expected a whole number of at least 1, got 0"),
    ({"result": "best"}, "attack.result: expected one of last_expansion, end, robust, got 'best'"),
    ({"robust_views": 8}, "attack.robust_views: expected the default where result is not robust, got 8"),
    ({"starts": {"max_batches": 0}}, "attack.starts.max_batches"),
]

EDGES = {
    "clamp": ([0, -1], [0.01]),
    "probes": ([0, -1, 10**9 + 1], [1]),
    "inside": ([-1.1, 1], [-1, 0.99]),
    "radius": ([0, -1], [0.01]),
    "expansion": ([0.9, 1], [1.01]),
    "patience": ([0, -1, 10**9 + 1], [1]),
    "max_passes": ([0, -1, 10**9 + 1], [1]),
    "robust_views": ([0, -1, 10**9 + 1], []),  # by itself it has no effect
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""

STREAMS = {
    "brep_mi.py": ["walk", "nowhere", "robust", "starts"],
}

KEPT = {"selected": 1, "starts": {"batch": 16, "max_batches": 2}, "probes": 8, "patience": 3, "max_passes": 3}

SWEPT = {
    "BREPMI": (
        {"attack": {"kind": "brep_mi"}},
        "attack",
        {
            **SWEPT_ALL,
            "truncation_psi": 0.9,
            "truncation_cutoff": 2,
            "image_crop": 30,
            "starts": {"seed": 3},
            "clamp": 1.0,
            "probes": 16,
            "inside": 0.5,
            "radius": 1.0,
            "expansion": 1.5,
            "patience": 10,
            "max_passes": 10,
            "repulsion_only": False,
            "result": "end",
            "robust_views": ({"result": "robust"}, 8),
            **IN_A_GAN,
        },
    ),
    "StartSearch": ({"attack": {"kind": "brep_mi"}}, "attack.starts", {"batch": 64, "max_batches": 3, "seed": 3}),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 17 * 2 * found.facts.get("passes", 0)
