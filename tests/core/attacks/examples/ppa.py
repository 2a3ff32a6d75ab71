"""What the tests expect of Plug & Play."""

from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.attacks.ppa.config import Averaging, Pool, Restarts
from tests.core.attacks.examples import DESCENT, POOL, POOLED, swept

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
    ({"average": {"kind": "blur"}}, "attack.average.kind: expected one of transforms, noise, got 'blur'"),
    ({"average": {"noise": 0.1}}, "attack.average.noise: expected no value with kind transforms"),
    ({"average": {"kind": "noise", "degrees": 3.0}}, "attack.average.degrees: expected no value with kind"),
    ({"temperature": {}}, "attack.temperature: expected no value with loss poincare"),
    ({"optimise": {"kind": "none"}, "average": {}}, "attack.average: expected no value with optimise none"),
    ({"precision": "fp8"}, "attack.precision"),
]

STREAMS = {"ppa/pool.py": ["sample", "restart"], "ppa/batches.py": ["turn", "turn", "noise"]}


KEPT = None  # the trial's own attack: "attack, clean" and "attack, paper"

ANOTHER_TARGET = ({"/grid": {}, "/baseline": {}}, {"trial": {"recipe.defense.alpha": 0.1}})
SWEPT = {
    "Pool": ({}, "attack.pool", swept(Pool, size=21, crop=30)),
    "PlugAndPlay": (
        {},
        "attack",
        swept(
            PlugAndPlay,
            **DESCENT,
            sample={"kind": "random"},
            select=({"selection_repeats": 100}, {"kind": "top_confidence"}),
            optimise=({"steps": 50, "lr": 0.005, "batch_size": 25}, {"kind": "none"}),
            loss="cross_entropy",
            pool={"size": 30},
            candidates=5,
            steps=5,
            feature_weight=0.5,
            discriminator_weight=({"/prior": {"kind": "folder", "path": "$a"}, "/public": None}, 0.1),
            selection_repeats=5,
            selection_crop_scale=[0.3, 0.4],
            selection_crop_ratio=[1.0, 1.1],
            selection_view_size=24,
            temperature=({"loss": "cross_entropy"}, {"mean_confidence": 0.6}),
        )
        | {"sampling_target": ANOTHER_TARGET, "selection_target": ANOTHER_TARGET},
    ),
    "Averaging": (
        {"attack.average": {}},
        "attack.average",
        swept(Averaging, crop_scale=[0.5, 0.6], crop_ratio=[1.0, 1.1], kind="noise", noise=({"kind": "noise"}, 0.1))
        | {"degrees": 2.0},
    ),
    "Restarts": ({"attack.restarts": {}}, "attack.restarts", swept(Restarts)),
    "TemperatureScaling": (
        {"attack.loss": "cross_entropy", "attack.temperature": {}},
        "attack.temperature",
        {"mean_confidence": 0.6},
    ),
    "Sample": ({}, "attack.sample", {"kind": "random"}),
    "Optimise": (
        {"attack.steps": 50, "attack.lr": 0.005, "attack.batch_size": 25},
        "attack.optimise",
        {"kind": "none"},
    ),
    "Select": ({"attack.selection_repeats": 100}, "attack.select", {"kind": "top_confidence"}),
}

QUERIES = 8 * 20 + 8 * 6
