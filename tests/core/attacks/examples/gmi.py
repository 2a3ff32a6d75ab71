"""What the tests expect of GMI."""

from smoothsweep.core.attacks.lowres import GMI
from smoothsweep.core.attacks.training_settings import GanTraining
from tests.core.attacks.examples import GENERAL, KEPT_SEARCHED, LOW_RESOLUTION, SWEPT_GAN, swept

DEAR = True
EXAMPLE = LOW_RESOLUTION

DECLARED = {"": ({}, GENERAL, "general_gan", 1)}

WRONG = [
    ({"restarts": 3}, "does not read 'restarts'"),
    ({"gan": {"workers": 2}}, "attack.gan.workers: expected 1, which trains the parts of an attack, got 2"),
]

KEPT = KEPT_SEARCHED

SWEPT = {
    "GMI": (
        {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
        "attack",
        swept(GMI, gan={**SWEPT_GAN, "width": 4}),
    ),
    "GanTraining": (
        {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
        "attack.gan",
        swept(
            GanTraining,
            batch_size=8,
            betas=[0.1, 0.2],
            imported=({"/attack.gan": {"imported": "$b/gan"}, "/public": None}, "$a/gan"),
        ),
    ),
}

QUERIES = (16 + 1) * 3
