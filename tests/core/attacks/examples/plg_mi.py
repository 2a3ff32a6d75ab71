"""What the tests expect of PLG-MI."""

from smoothsweep.core.attacks.plg_mi import PLGMI
from smoothsweep.core.attacks.training_settings import ConditionalTraining
from tests.core.attacks.examples import PLG_GAN, swept

DEAR = True

EXAMPLE = {"top_n": 8, "gan": PLG_GAN, "steps": 8, "selected": 4}

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {"": ({}, ("plg_labels", "plg_gan"), "plg_gan", 1)}

WRONG = [({"gan": {"imported": "gan"}, "top_n": 4}, "attack.top_n: expected no value with an imported GAN, which")]

STREAMS = {
    "plg_search.py": [
        *("plg gan", "plg gan", "plg order", "plg weights"),
        *("plg start", "plg start", "plg views", "plg order"),
    ]
}

KEPT = {"top_n": 4, "gan": {"steps": 3, "batch_size": 6, "width": 2, "z_dim": 4}, "steps": 2, "selected": 2}

SWEPT = {
    "PLGMI": ({"attack": {"kind": "plg_mi"}, "prior": None}, "attack", swept(PLGMI, top_n=3, gan={"steps": 5})),
    "ConditionalTraining": (
        {"attack": {"kind": "plg_mi"}, "prior": None},
        "attack.gan",
        swept(
            ConditionalTraining,
            betas=[0.5, 0.9],
            imported=({"/attack.gan": {"imported": "$b/plg"}, "/public": None}, "$a/plg"),
        ),
    ),
}

QUERIES = (2 * 8 + 1) * 4
