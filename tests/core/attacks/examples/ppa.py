"""What the tests expect of Plug & Play."""

from tests.core.attacks.examples import POOL, POOLED

EXAMPLE = {"pool": POOL, "candidates": 8, "steps": 20, "lr": 0.05, "selected": 4, "selection_repeats": 6}

TOO_LITTLE = ("scores", "labels")  # access with which it fails

NEEDED = {"steps": 2}  # what it has no default for

DECLARED = {
    "": ({}, POOLED, "prior", 1),
    "tempered": (
        {"loss": "cross_entropy", "temperature": {"mean_confidence": 0.5}},
        (*POOLED, "temperature"),
        "prior",
        1,
    ),
    "pulled": ({"feature_weight": 0.5}, (*POOLED, "pool_features"), "prior", 1),
}

WRONG = [
    ({"stepz": 3}, "does not read 'stepz'"),
    ({"steps": 0}, "attack.steps: expected a whole number of at least 1, got 0"),
    ({"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
    ({"select": {"kind": "by_eye"}}, "attack.select.kind: expected one of augmented_confidence"),
    ({"select": {"kind": "top_confidence"}, "selection_repeats": 3}, "which does not read it"),
    ({"optimise": {"kind": "none"}, "lr": 0.1}, "attack.lr: expected no value with optimise none"),
    ({"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got 'hinge'"),
    ({"average": {"views": 0}}, "attack.average.views: expected a whole number of at least 1, got 0"),
    ({"average": {"views": -8}}, "attack.average.views: expected a whole number of at least 1, got -8"),
    ({"average": {"kind": "blur"}}, "attack.average.kind: expected one of transforms, noise, got 'blur'"),
    ({"average": {"noise": 0.1}}, "attack.average.noise: expected no value with kind transforms"),
    ({"average": {"kind": "noise", "degrees": 3.0}}, "attack.average.degrees: expected no value with kind"),
    ({"average": {"degrees": 16.0}}, r"attack.average.degrees: expected a number in \[0, 15\], got 16.0"),
    ({"temperature": {}}, "attack.temperature: expected no value with loss poincare"),
    ({"restarts": {"count": 1}}, "attack.restarts.count: expected a whole number of at least 2, got 1"),
    ({"optimise": {"kind": "none"}, "average": {}}, "attack.average: expected no value with optimise none"),
    ({"pool": {"size": 0}}, "attack.pool.size"),
    ({"seed": 2**63}, "attack.seed"),
    ({"precision": "fp8"}, "attack.precision"),
]

STREAMS = {"ppa/pool.py": ["sample"], "ppa/neighbours.py": ["turn", "turn", "noise"], "ppa/restarts.py": ["restart"]}


KEPT = None  # the trial's own attack: "attack, clean" and "attack, paper"


def queries(found):
    """What it asks the target of one class with EXAMPLE: a few more measure the batch."""
    return range(8 * 20 + 8 * 6, 8 * 20 + 8 * 6 + 4 + 2 + 1)
