"""What the tests expect of KED-MI."""

from smoothsweep.core.attacks.lowres import KED
from tests.core.attacks.examples import DISTRIBUTION, KEPT_SEARCHED, LOW_RESOLUTION, SPECIFIC, SWEPT_GAN, swept

DEAR = True

EXAMPLE = {**LOW_RESOLUTION, **DISTRIBUTION}

DECLARED = {"": ({}, SPECIFIC, "specific_gan", 60)}

WRONG = [({"start_log_variance": 21.0}, "attack.start_log_variance")]

KEPT = KEPT_SEARCHED

SWEPT = {
    "KED": (
        {"attack": {"kind": "ked", "gan": SWEPT_GAN}, "prior": None},
        "attack",
        swept(KED, gan={**SWEPT_GAN, "width": 4}),
    )
}

QUERIES = 24 + 3
