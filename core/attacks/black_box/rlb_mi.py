"""RLB-MI (Han et al., CVPR 2023) as a row of the attack family: a policy is rewarded by the target's probabilities.

Defaults are the official code's (HanGyojin/RLB-MI, main.py and SAC.py, commit 3a113bd). The search itself is
rlb_search.py, the learner soft_actor_critic.py, both beside this file; each names the traps that are its own.

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

from smoothsweep.core.attacks.black_box.latent_settings import GeneratorSettings
from smoothsweep.core.attacks.shared.base import Access, Aggregate, Attack, AttackInputs, Part, Reconstructions
from smoothsweep.core.bounds import Beta, Count, Fraction, Latents, Positive
from smoothsweep.core.checks import require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.black_box.rlb_search import SearchResult
    from smoothsweep.core.attacks.shared.view import ScoreView


@dataclass(frozen=True, kw_only=True)
class RLBMI(GeneratorSettings, Attack):
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

    title: ClassVar[str] = "RLB-MI"
    cites: ClassVar[tuple[str, ...]] = ("han2023reinforcement",)
    access: ClassVar[Access] = "scores"
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
        Attack.__post_init__(self)
        GeneratorSettings.__post_init__(self)
        self._check_learning()
        self._refuse_unread()

    def _check_learning(self) -> None:
        """Something is learnt, and enough was found before for what is kept should the policy die of it."""
        fewest_episodes = self.minibatch // self.steps + 1
        require(
            self.episodes >= fewest_episodes,
            "attack.episodes",
            f"at least {fewest_episodes}, or nothing is ever learnt",
            self.episodes,
        )
        most = self.minibatch // self.steps - self.at_once
        require(most >= 1, "attack.at_once", "fewer episodes than a minibatch has", self.at_once)
        require(
            self.selected <= most, "attack.selected", f"at most {most}, found before learning begins", self.selected
        )

    def _refuse_unread(self) -> None:
        """gamma and tau say how what comes after a step counts: in episodes of one step nothing does."""
        for name, default in (("gamma", 0.99), ("tau", 0.01)):
            unread = self.steps == 1 and getattr(self, name) != default
            require(not unread, f"attack.{name}", "the default where steps is 1", getattr(self, name))

    @property
    def variant(self) -> str | None:
        """The textbook's agent, and a logarithm that was asked for."""
        words = [self.agent] if self.agent != "official" else []
        return " ".join([*words, *([f"{self.logarithm} log"] if self.logarithm else [])]) or None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The generator, where it is not the sweep's prior."""
        return self.generator_parts

    @property
    def needs(self) -> tuple[str, ...]:
        """What decodes its latents, and nothing else."""
        return (self.generator,)

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError for a size that the generator cannot have, too."""
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        self.check_size(image_size)

    @property
    def enlarging(self) -> str:
        """The way of the official evaluation (utils.py, low2high)."""
        return "truncated_bytes"

    def queries(self, protocol: str) -> int:
        """Images that the target is shown for one class, where the policy does not die."""
        once = protocol == "clean" and self.diversity == 0
        return self.episodes * (self.steps * (1 if once else 2) + 1)

    def most_queries(self, protocol: str) -> int:
        """As many as `queries`: a policy that dies asks less."""
        return self.queries(protocol)

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Play the episodes of one class."""
        import torch

        from smoothsweep.core.attacks.black_box.latent_images import LatentImages, generator_of
        from smoothsweep.core.attacks.black_box.rlb_learner import class_learner, paper_learner
        from smoothsweep.core.attacks.black_box.rlb_search import CAPACITY, Episodes, Search, SearchVariant
        from smoothsweep.core.attacks.black_box.soft_actor_critic import Replay

        paper, device = inputs.protocol == "paper", view.execution.device
        decoder = generator_of(inputs, self.generator)
        images = LatentImages(decoder, self, view.execution, image_size=view.image_size)
        if paper:
            learner, draws = paper_learner(self, images.z_dim, seed, device=device)
        else:
            learner, draws = class_learner(self, images.z_dim, seed, target_class, device=device)
        logarithm = self.logarithm or ("official" if paper else "floored")
        episodes = Episodes(
            episodes=self.episodes,
            steps=self.steps,
            diversity=self.diversity,
            minibatch=self.minibatch,
            at_once=self.at_once,
        )
        manner = SearchVariant(floored=logarithm == "floored", ask_twice=paper, by_margin=not paper)
        replay = Replay(min(CAPACITY, self.episodes * self.steps), images.z_dim, device)
        result = Search(
            lambda z: view.scores(images(z)), learner, target_class, episodes, manner, draws, replay, keep=self.selected
        ).run()
        return Reconstructions(
            w=images.w_of(result.z).cpu(),
            scores=result.confidences,
            facts=_facts(result),
            curves={name: torch.tensor(values) for name, values in result.curves.items()},
        )


def _facts(result: SearchResult) -> dict[str, float]:
    """Not a number where there is none: nothing was finite, or the policy lived."""
    return {
        "best_reward": result.best_reward if isfinite(result.best_reward) else nan,
        "log_margin": float(result.margins[0]),
        "learning_steps": float(result.learnt),
        "underflows": float(result.underflows),
        "died": float(result.died_at is not None),
        "died_at": nan if result.died_at is None else float(result.died_at),
    }
