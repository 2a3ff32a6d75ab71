"""What the tests expect of the surrogate of scores."""

from tests.core.attacks.examples import KEPT_SURROGATE, SURROGATE, SURROGATE_SWEPT

DEAR = True
EXAMPLE = SURROGATE

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {
    "": ({}, ("pictures", "answered_scores", "surrogates"), "prior", 1),
}

WRONG = [
    ({"loss": "cross_entropy", "temperature": {}}, "attack.temperature: expected no value with"),
    ({"views": 0}, "attack.views: expected a whole number of at least 1, got 0"),
]

KEPT = KEPT_SURROGATE

SWEPT = {
    "SurrogateScores": ({"attack": {"kind": "surrogate_scores"}}, "attack", SURROGATE_SWEPT),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 4 * 4
