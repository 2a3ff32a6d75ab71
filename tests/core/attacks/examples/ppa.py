"""What the tests expect of Plug & Play."""

from tests.core.attacks.examples import NOISY, POOL, POOLED, REFUSED

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

STREAMS = {"ppa/pool.py": ["sample", "restart"], "ppa/batches.py": ["turn", "turn", "noise"]}


KEPT = None  # the trial's own attack: "attack, clean" and "attack, paper"

SWEPT = {
    "Pool": (
        {},
        "attack.pool",
        {
            "size": 21,
            "seed": 3,
            "truncation_psi": 0.4,
            "truncation_cutoff": 2,
            "crop": 30,
        },
    ),
    "PlugAndPlay": (
        {},
        "attack",
        {
            "kind": REFUSED,
            "weight_decay": 0.1,
            "crop_ratio": [0.9, 1.1],
            "lr_milestones": [1],
            "lr_gamma": ({"lr_milestones": [1]}, 0.5),
            "single_w": False,
            "selection_hflip": 0.1,
            "selection_view_size": 24,
            "sample": {"kind": "random"},
            "select": ({"selection_repeats": 100}, {"kind": "top_confidence"}),
            "optimise": ({"steps": 50, "lr": 0.005, "batch_size": 25}, {"kind": "none"}),
            "loss": "cross_entropy",
            "pool": {"size": 30},
            "candidates": 5,
            "steps": 5,
            "lr": 0.1,
            "betas": [0.5, 0.5],
            "crop_scale": [0.5, 0.6],
            "batch_size": 3,
            "clip": True,
            "discriminator_weight": ({"/prior": {"kind": "folder", "path": "$a"}, "/public": None}, 0.1),
            "selected": 3,
            "selection_repeats": 5,
            "selection_crop_scale": [0.3, 0.4],
            "selection_crop_ratio": [1.0, 1.1],
            "seed": 3,
            "precision": "bf16",
            "reconstruction_size": 20,
            "readout": (NOISY, "mean"),
            "temperature": ({"loss": "cross_entropy"}, {"mean_confidence": 0.6}),
            "average": {"views": 2},
            "restarts": {"count": 2},
            "feature_weight": 0.5,
            "sampling_target": ({"/grid": {}, "/baseline": {}}, {"trial": {"recipe.defense.alpha": 0.1}}),
            "selection_target": ({"/grid": {}, "/baseline": {}}, {"trial": {"recipe.defense.alpha": 0.1}}),
        },
    ),
    "Averaging": (
        {"attack.average": {}},
        "attack.average",
        {
            "views": 3,
            "kind": "noise",
            "crop_scale": [0.5, 0.6],
            "crop_ratio": [1.0, 1.1],
            "hflip": 0.1,
            "degrees": 2.0,
            "noise": ({"kind": "noise"}, 0.1),
        },
    ),
    "Restarts": ({"attack.restarts": {}}, "attack.restarts", {"count": 3, "spread": 0.1}),
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
