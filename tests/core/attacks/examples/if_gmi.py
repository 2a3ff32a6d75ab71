"""What the tests expect of IF-GMI."""

from smoothsweep.core.attacks.if_gmi.attack import IFGMI
from tests.core.attacks.examples import KEPT_POOL, POOL, POOLED, swept

EXAMPLE = {"pool": POOL, "candidates": 4, "stage_steps": [5, 3], "lr": 0.12, "selected": 2, "selection_repeats": 2}

SHIPPED_PRIOR = "stylegan2_synthetic64"  # it moves what a StyleGAN2 has inside

TOO_LITTLE = ("scores",)  # access with which it fails

IN_ONE_DIRECTION = False  # and from eigenfaces at all

NEEDED = {"stage_steps": [2, 2]}  # by itself more than the stages of small priors

PRIOR = {"kind": "shipped"}  # the prior of a sweep that it does not go without

DECLARED = {"": ({}, POOLED, "prior", 1)}

WRONG = [
    ({"stage_steps": []}, r"attack.stage_steps: expected at least one stage, got \(\)"),
    ({"stage_steps": [5, 0]}, "attack.stage_steps: expected "),
    ({"stage_steps": [5] * 9}, "attack.radii: expected one for each of the 9 stages of stage_st"),
    ({"stage_steps": [5, 5], "radii": [9.0]}, "attack.radii: expected one for each of the 2 stages of stage"),
    ({"stage_steps": [5], "radii": [9.0, 9.0]}, "attack.radii: expected one for each of the 1 stages of sta"),
    ({"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
    ({"stage_steps": [5], "rgb_skip": "kept"}, "attack.rgb_skip: expected no value with a single stage"),
    ({"rgb_skip": "half"}, "attack.rgb_skip: expected "),
    ({"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got"),
    ({"steps": 3}, "does not read 'steps'"),
]

KEPT = {"pool": KEPT_POOL, "candidates": 2, "stage_steps": [1, 1], "lr": 0.05, "selected": 2, "selection_repeats": 2}

SWEPT = {
    "IFGMI": (
        {
            "attack": {"kind": "if_gmi", "candidates": 4, "selected": 2, "stage_steps": [3, 3]},
            "prior": {"kind": "shipped"},
            "public": None,
        },
        "attack",
        swept(
            IFGMI,
            candidates=5,
            stage_steps=[4, 4],
            radii=[5.0, 5.0],
            betas=[0.5, 0.5],
            crop_scale=[0.5, 0.6],
            rgb_skip="dropped",
            pool={"size": 30},
            selection_crop_scale=[0.3, 0.4],
            selection_crop_ratio=[1.0, 1.1],
            selection_view_size=24,
        ),
    )
}

QUERIES = 4 * (5 + 3 + 2 * 2)
