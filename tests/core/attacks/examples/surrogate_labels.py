"""What the tests expect of the surrogate of labels."""

from smoothsweep.core.attacks.surrogates import SurrogateLabels
from smoothsweep.core.attacks.training_settings import SurrogateTraining
from tests.core.attacks.examples import KEPT_SURROGATE, SURROGATE, SURROGATE_SWEPT, swept

DEAR = True
EXAMPLE = SURROGATE

TOO_LITTLE = ("none",)  # access with which it fails

DECLARED = {"": ({}, ("pictures", "answered_labels", "surrogates"), "prior", 1)}

WRONG = [
    ({"finalists": 101}, r"attack.finalists: expected at most candidates \(100\), got 101"),
    ({"selected": 21}, r"attack.selected: expected at most finalists \(20\), got 21"),
    ({"pool": {"size": 50}, "candidates": 20}, r"attack.pool.size: expected at least attack.surr"),
    ({"surrogates": {"architectures": []}}, "attack.surrogates.architectures: expected at least"),
    ({"discriminator_weight": 0.1}, "attack.discriminator_weight: expected no value with surrog"),
    ({"feature_weight": 1.0}, "attack.feature_weight: expected no value with surrogates"),
]

STREAMS = {"surrogates.py": ["answer"]}

KEPT = KEPT_SURROGATE

SWEPT = {
    "SurrogateLabels": ({"attack": {"kind": "surrogate_labels"}}, "attack", swept(SurrogateLabels, **SURROGATE_SWEPT)),
    "SurrogateTraining": (
        {"attack": {"kind": "surrogate_labels"}},
        "attack.surrogates",
        swept(SurrogateTraining, architectures=["resnet_small"]),
    ),
}

QUERIES = 4 * 4
