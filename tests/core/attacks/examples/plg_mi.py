"""What the tests expect of PLG-MI."""

from tests.core.attacks.examples import PLG_GAN, REFUSED, SWEPT_ALL

DEAR = True

EXAMPLE = {"top_n": 8, "gan": PLG_GAN, "steps": 8, "selected": 4}

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {
    "": ({}, ("plg_labels", "plg_gan"), "plg_gan", 1),
}

WRONG = [
    ({"top_n": 0}, "attack.top_n: expected a whole number of at least 1, got 0"),
    ({"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got"),
    ({"steps": 0}, "attack.steps"),
    ({"lr": 0.0}, "attack.lr"),
    ({"gan": {"batch_size": 1}}, "attack.gan.batch_size: expected a whole number of at least 2, got 1"),
    ({"gan": {"loss": "hinge"}}, "attack.gan.loss"),
    ({"gan": {"betas": [0.0, 1.0]}}, r"attack.gan.betas: expected a number in \[0, 1\), got 1.0"),
    ({"gan": {"steps": 0}}, "attack.gan.steps"),
    ({"gan": {"critic_steps": 0}}, "attack.gan.critic_steps"),
    ({"gan": {"lr": -1.0}}, "attack.gan.lr"),
    ({"gan": {"inversion_weight": -0.1}}, "attack.gan.inversion_weight"),
    ({"gan": {"width": 0}}, "attack.gan.width"),
    ({"gan": {"z_dim": 0}}, "attack.gan.z_dim"),
    ({"gan": {"seed": -1}}, "attack.gan.seed"),
]

EDGES = {
    "top_n": ([0, -1, 10**9 + 1], [1]),
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""

STREAMS = {
    "plg_gan.py": ["plg gan", "plg gan", "plg order", "plg weights"],
    "plg_search.py": ["plg start", "plg start", "plg views", "plg order"],
}

KEPT = {"top_n": 4, "gan": {"steps": 3, "batch_size": 6, "width": 2, "z_dim": 4}, "steps": 2, "selected": 2}

SWEPT = {
    "PLGMI": (
        {"attack": {"kind": "plg_mi"}, "prior": None},
        "attack",
        {
            **SWEPT_ALL,
            "top_n": 3,
            "gan": {"steps": 5},
            "steps": 5,
            "lr": 0.2,
            "loss": "cross_entropy",
        },
    ),
    "ConditionalTraining": (
        {"attack": {"kind": "plg_mi"}, "prior": None},
        "attack.gan",
        {
            "steps": 5,
            "critic_steps": 2,
            "batch_size": 8,
            "lr": 0.01,
            "betas": [0.5, 0.9],
            "inversion_weight": 1.0,
            "loss": "poincare",
            "z_dim": 8,
            "width": 4,
            "seed": 3,
            "imported": ({"/attack.gan": {"imported": "$b/plg"}, "/public": None}, "$a/plg"),
            "workers": REFUSED,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return (2 * 8 + 1) * 4
