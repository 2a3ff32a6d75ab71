"""What the tests expect of RLB-MI."""

from tests.core.attacks.examples import GENERAL, IN_A_GAN, SWEPT_ALL

DEAR = True

EXAMPLE = {
    "agent": "textbook",
    "episodes": 480,
    "minibatch": 32,
    "hidden": 32,
    "lr": 0.01,
    "at_once": 8,
    "selected": 2,
}

SHORT = {"episodes": 96}
"""Where it does not matter how much is found; three times the replay's minibatch, so that the agent learns."""
LEAST_LEAK, MOST_SEEDS = 0.35, 8
"""An agent of 480 queries lies near the usual bar, on either side of it by processor: eight seeds and a lower bar,
unless three are above the bar of the others, which is more than the lower one asks."""

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {
    "": ({}, (), "prior", 1),
    "own generator": ({"generator": "general_gan"}, GENERAL, "general_gan", 1),
}

WRONG = [
    ({"episodes": 256}, "attack.episodes: expected at least 257, or nothing is ever learnt, got 256"),
    ({"diversity": 1.0}, r"attack.diversity: expected a number in \[0, 1\), got 1.0"),
    ({"agent": "double"}, "attack.agent: expected one of official, textbook, got 'double'"),
    ({"logarithm": "log2"}, "attack.logarithm: expected one of official, floored"),
    ({"gamma": 0.9}, "attack.gamma: expected the default where steps is 1, got 0.9"),
    ({"at_once": 256}, "attack.at_once: expected fewer episodes than a minibatch has, got 256"),
    ({"selected": 300}, "attack.selected: expected at most 255, found before learning begins, got 300"),
    ({"truncation_psi": 0}, "attack.truncation_psi"),
]

EDGES = {
    "episodes": ([0, -1, 10**9 + 1, 32], [33]),
    "at_once": ([0, -1, 10**9 + 1, 32], [1]),
    "minibatch": ([0, -1, 10**9 + 1], [16, 479]),
    "hidden": ([0, -1, 10**9 + 1], [1]),
    "diversity": ([-0.1, 1], [0, 0.99]),
    "gamma": ([-0.1, 1.1], []),  # by itself it has no effect
    "tau": ([-0.1, 1.1], []),  # nor has this
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""

STREAMS = {"rlb_search.py": ["critic", "critic"]}

KEPT = {"agent": "textbook", "episodes": 6, "minibatch": 4, "hidden": 8, "at_once": 2, "selected": 2}

SWEPT = {
    "RLBMI": (
        {"attack": {"kind": "rlb_mi"}},
        "attack",
        {
            **SWEPT_ALL,
            "truncation_psi": 0.9,
            "truncation_cutoff": 2,
            "image_crop": 30,
            "episodes": 300,
            "steps": 2,
            "diversity": 0.5,
            "at_once": 2,
            "agent": "textbook",
            "logarithm": "floored",
            "hidden": 8,
            "lr": 0.1,
            "gamma": ({"steps": 2}, 0.5),
            "tau": ({"steps": 2}, 0.5),
            "minibatch": 128,
            **IN_A_GAN,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 2 * 480
