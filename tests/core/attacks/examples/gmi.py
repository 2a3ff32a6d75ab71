"""What the tests expect of GMI."""

from tests.core.attacks.examples import GENERAL, KEPT_SEARCHED, LOW_RESOLUTION, REFUSED, SWEPT_GAN, SWEPT_SEARCHED

DEAR = True
EXAMPLE = LOW_RESOLUTION

DECLARED = {
    "": ({}, GENERAL, "general_gan", 1),
}

WRONG = [
    ({"momentum": 1.0}, r"attack.momentum: expected a number in \[0, 1\), got 1.0"),
    ({"bound": 0.0}, "attack.bound"),
    ({"restarts": 3}, "does not read 'restarts'"),
    ({"gan": {"batch_size": 1}}, "attack.gan.batch_size: expected a whole number of at least 2, got 1"),
    ({"gan": {"width": 0}}, "attack.gan.width"),
    ({"gan": {"workers": 2}}, "attack.gan.workers: expected 1, which trains the parts of an attack, got 2"),
    ({"gan": {"betas": [0.0, 1.0]}}, "attack.gan.betas"),
]

KEPT = KEPT_SEARCHED

SWEPT = {
    "GMI": (
        {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
        "attack",
        {**SWEPT_SEARCHED, "momentum": 0.5, "bound": 2.0},
    ),
    "GanTraining": (
        {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
        "attack.gan",
        {
            "width": 4,
            "epochs": 3,
            "batch_size": 8,
            "critic_steps": 2,
            "lr": 0.1,
            "betas": [0.1, 0.2],
            "z_dim": 7,
            "seed": 3,
            "imported": ({"/attack.gan": {"imported": "$b/gan"}, "/public": None}, "$a/gan"),
            "workers": REFUSED,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return (16 + 1) * 3
