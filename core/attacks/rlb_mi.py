"""RLB-MI (Han et al., CVPR 2023) as a row of the attack family: a policy is rewarded by the target's probabilities.

Defaults are the official code's (HanGyojin/RLB-MI, main.py and SAC.py, commit 3a113bd). The search itself stands
in rlb_search.py beside this file, which names its traps.

Protocol `paper`: every class gets the same start states, noise and replay positions, because the official agent seeds
all generators anew for every class, so that the classes' results are not independent; the stream is the official one,
number by number, on the CPU. Equal images are asked about twice, and of candidates of equal confidence the last is the
result. Protocol `clean`: the stream depends on the class, equal images are asked about once (two queries an episode,
not three), and candidates are ranked by their log margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, ClassVar, Literal

from smoothsweep.core.attacks.latent_images import LatentAttack, LatentImages, generator_of
from smoothsweep.core.attacks.shared.base import Aggregate, AttackInputs, Reconstructions
from smoothsweep.core.bounds import Beta, Count, Fraction, Latents, Positive
from smoothsweep.core.checks import require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import ScoreView


@dataclass(frozen=True, kw_only=True)
class RLBMI(LatentAttack):
    """The best `selected` images of a policy's roll-outs.

    Attributes:
        episodes: Episodes played for each class.
        steps: Actions of an episode.
        diversity: Weight of the old state in the new one, the rest is the action.
        at_once: Episodes played at once, for which there is one learning step (the official code has 1).
        agent: "official" (one number of noise, a temperature that falls whatever happens, one critic in effect) or
            "textbook" soft actor-critic.
        logarithm: Logarithm of the probabilities in a reward, "official" (-inf where they underflow) or "floored" at
            -100 nats; None as the protocol does.
        hidden: Units of each hidden layer of the agent's networks.
        lr: Learning rate of the agent's Adam.
        gamma: Discount of later rewards, in [0, 1].
        tau: Weight of the new critic in the averaged one, in [0, 1].
        minibatch: Steps of the replay that one learning step sees.
    """

    title = "RLB-MI"
    cites = ("han2023reinforcement",)
    access = "scores"
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "best_reward": "mean",
        "log_margin": "mean",
        "learning_steps": "mean",
        "underflows": "sum",
        "died": "sum",
        "died_at": "mean",
    }

    selected: Latents = 1
    episodes: Count = 40_000
    steps: Count = 1
    diversity: Beta = 0.0
    at_once: Count = 1
    agent: Literal["official", "textbook"] = "official"
    logarithm: Literal["official", "floored"] | None = None
    hidden: Count = 256
    lr: Positive = 5e-4
    gamma: Fraction = 0.99
    tau: Fraction = 0.01
    minibatch: Count = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        fewest, most = self.minibatch // self.steps + 1, self.minibatch // self.steps - self.at_once
        enough = f"at least {fewest}, or nothing is ever learnt"
        require(self.episodes >= fewest, "attack.episodes", enough, self.episodes)
        require(most >= 1, "attack.at_once", "fewer episodes than a minibatch has", self.at_once)
        # Should the policy die of what it learns, what is kept was found before.
        found = f"at most {most}, found before learning begins"
        require(self.selected <= most, "attack.selected", found, self.selected)
        for name, default in (("gamma", 0.99), ("tau", 0.01)):  # they weigh what comes after a step
            unread = self.steps == 1 and getattr(self, name) != default
            require(not unread, f"attack.{name}", "the default where steps is 1", getattr(self, name))

    @property
    def variant(self) -> str | None:
        words = [self.agent] if self.agent != "official" else []
        return " ".join([*words, *([f"{self.logarithm} log"] if self.logarithm else [])]) or None

    def most_queries(self, protocol: str) -> int:
        """Images that the target is shown for one class; fewer where the policy dies."""
        once = protocol == "clean" and self.diversity == 0
        return self.episodes * (self.steps * (1 if once else 2) + 1)

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        import torch

        from smoothsweep.core.attacks.rlb_search import Search, learner_of

        paper, device = inputs.protocol == "paper", view.execution.device
        images = LatentImages(generator_of(inputs, self.generator), view, **self.latent)
        learner, draws = learner_of(self, images.z_dim, seed, target_class, paper=paper, device=device)
        found = Search(lambda z: view.scores(images(z)), learner, target_class, self, draws, paper=paper).run()
        return Reconstructions(
            w=images.w_of(found.z).cpu(),
            scores=found.confidences,
            facts={
                "best_reward": found.best_reward if isfinite(found.best_reward) else nan,
                "log_margin": float(found.margins[0]),
                "learning_steps": float(found.learnt),
                "underflows": float(found.underflows),
                "died": float(found.died_at is not None),
                "died_at": nan if found.died_at is None else float(found.died_at),
            },
            curves={name: torch.tensor(values) for name, values in found.curves.items()},
        )
