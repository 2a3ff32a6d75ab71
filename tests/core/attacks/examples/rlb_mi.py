"""What the tests expect of RLB-MI."""

from smoothsweep.core.attacks.rlb_mi import RLBMI
from tests.core.attacks.examples import GENERAL, IN_A_GAN, swept

DEAR = True

EXAMPLE = {"agent": "textbook", "episodes": 480, "minibatch": 32, "hidden": 32, "lr": 0.01, "at_once": 8, "selected": 2}

SHORT = {"episodes": 96}
"""Where it does not matter how much is found; three times the replay's minibatch, so that the agent learns."""
LEAST_LEAK, MOST_SEEDS = 0.35, 8
"""An agent of 480 queries lies near the usual bar, on either side of it by processor: eight seeds and a lower bar,
unless three are above the bar of the others, which is more than the lower one asks."""

TOO_LITTLE = ("labels",)  # access with which it fails

DECLARED = {"": ({}, (), "prior", 1), "own generator": ({"generator": "general_gan"}, GENERAL, "general_gan", 1)}

WRONG = [
    ({"episodes": 256}, "attack.episodes: expected at least 257, or nothing is ever learnt, got 256"),
    ({"gamma": 0.9}, "attack.gamma: expected the default where steps is 1, got 0.9"),
    ({"at_once": 256}, "attack.at_once: expected fewer episodes than a minibatch has, got 256"),
    ({"selected": 300}, "attack.selected: expected at most 255, found before learning begins, got 300"),
]

STREAMS = {"rlb_search.py": ["critic", "critic"]}

KEPT = {"agent": "textbook", "episodes": 6, "minibatch": 4, "hidden": 8, "at_once": 2, "selected": 2}

SWEPT = {
    "RLBMI": (
        {"attack": {"kind": "rlb_mi"}},
        "attack",
        swept(RLBMI, gamma=({"steps": 2}, 0.5), tau=({"steps": 2}, 0.5), **IN_A_GAN),
    )
}

QUERIES = 2 * 480
