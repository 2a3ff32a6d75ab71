"""What the tests expect of GMI."""

from tests.core.attacks.examples import GENERAL, KEPT_SEARCHED, LOW_RESOLUTION

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
    ({"gan": {"betas": [0.0, 1.0]}}, "attack.gan.betas"),
]

STREAMS = {"lowres/gmi.py": ["restart"]}

KEPT = KEPT_SEARCHED


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return (16 + 1) * 3
