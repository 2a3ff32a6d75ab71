"""What the tests expect of the surrogate of scores."""

from smoothsweep.core.attacks.surrogates import SurrogateScores
from tests.core.attacks.examples import KEPT_SURROGATE, SURROGATE, SURROGATE_SWEPT, swept

DEAR = True
EXAMPLE = SURROGATE

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {"": ({}, ("pictures", "answered_scores", "surrogates"), "prior", 1)}

WRONG = [({"loss": "cross_entropy", "temperature": {}}, "attack.temperature: expected no value with")]

KEPT = KEPT_SURROGATE

SWEPT = {
    "SurrogateScores": ({"attack": {"kind": "surrogate_scores"}}, "attack", swept(SurrogateScores, **SURROGATE_SWEPT))
}

QUERIES = 4 * 4
