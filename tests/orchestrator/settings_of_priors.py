"""Another value for each field of a sweep's priors."""

from tests.core.attacks.examples import REFUSED
from tests.orchestrator.settings_cases import TINY, Cases

EYES = {"left_eye": [19, 20], "right_eye": [45, 20], "side": 64}
TRAINED = {"kind": "stylegan2"}

OF_PRIORS: Cases = {
    "EigenfacesFit": (TINY, "prior", {"kind": REFUSED, "components": 5, "seed": 3}),
    "ShippedPrior": (lambda: TINY(prior={"kind": "shipped"}, public=None), "prior", {"kind": REFUSED, "name": REFUSED}),
    "PriorFolder": (
        lambda: TINY(prior={"kind": "folder", "path": "$a"}, public=None),
        "prior",
        {"kind": REFUSED, "path": "$b"},
    ),
    "RandomFace": (
        lambda: TINY(prior={"kind": "random_face", "path": "$a", "resolution": 64}, public=None),
        "prior",
        {"kind": REFUSED, "path": "$b", "resolution": 128, "crop": EYES},
    ),
    "Crop": (
        lambda: TINY(prior={"kind": "random_face", "path": "$a", "resolution": 64, "crop": EYES}, public=None),
        "prior.crop",
        {"left_eye": [20, 20], "right_eye": [46, 20], "side": 66},
    ),
    "StyleGAN2Training": (
        lambda: TINY(prior=TRAINED),
        "prior",
        {
            "kind": REFUSED,
            "z_dim": 64,
            "w_dim": 64,
            "mapping_layers": 2,
            "channel_base": 1024,
            "channel_max": 64,
            "kimg": 1.0,
            "batch_size": 8,
            "lr": 0.01,
            "r1_gamma": 5.0,
            "augmentation": "none",
            "workers": 2,
            "seed": 3,
        },
    ),
}
