"""What the tests expect of BREP-MI."""

from smoothsweep.core.attacks.brep_mi import BREPMI, StartSearch
from tests.core.attacks.examples import GENERAL, IN_A_GAN, swept

DEAR = True
EXAMPLE = {"selected": 2, "starts": {"batch": 64, "max_batches": 10}, "probes": 16, "patience": 25, "max_passes": 80}

TOO_LITTLE = ("none",)  # access with which it fails

DECLARED = {
    "": ({}, ("starts",), "prior", 1),
    "own generator": ({"generator": "general_gan"}, (*GENERAL, "starts"), "general_gan", 1),
}

WRONG = [({"robust_views": 8}, "attack.robust_views: expected the default where result is not robust, got 8")]

STREAMS = {"brep_mi.py": ["walk", "nowhere", "robust", "starts"]}

KEPT = {"selected": 1, "starts": {"batch": 16, "max_batches": 2}, "probes": 8, "patience": 3, "max_passes": 3}

SWEPT = {
    "BREPMI": (
        {"attack": {"kind": "brep_mi"}},
        "attack",
        swept(BREPMI, expansion=1.5, robust_views=({"result": "robust"}, 8), **IN_A_GAN),
    ),
    "StartSearch": ({"attack": {"kind": "brep_mi"}}, "attack.starts", swept(StartSearch)),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 17 * 2 * found.facts.get("passes", 0)
