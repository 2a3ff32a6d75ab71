"""What the tests expect of KED-MI."""

from tests.core.attacks.examples import DISTRIBUTION, KEPT_SEARCHED, LOW_RESOLUTION, SPECIFIC, SWEPT_GAN, SWEPT_SEARCHED

DEAR = True

EXAMPLE = {**LOW_RESOLUTION, **DISTRIBUTION}

DECLARED = {
    "": ({}, SPECIFIC, "specific_gan", 60),
}

WRONG = [
    ({"start_log_variance": 21.0}, "attack.start_log_variance"),
    ({"reference_batch": 0}, "attack.reference_batch: expected a whole number of at least 1, got 0"),
]

KEPT = KEPT_SEARCHED

SWEPT = {
    "KED": (
        {"attack": {"kind": "ked", "gan": SWEPT_GAN}, "prior": None},
        "attack",
        {**SWEPT_SEARCHED, "start_log_variance": 0.0},
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 24 + 3
