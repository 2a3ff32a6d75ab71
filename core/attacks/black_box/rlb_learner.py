"""RLB-MI's learner and its random numbers, under either protocol."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.rlb_search import Draws
from smoothsweep.core.attacks.black_box.soft_actor_critic import RULES, Actor, Critic, SoftActorCritic
from smoothsweep.core.seeds import generator

OFFICIAL_SEED = 42


class LearnerSettings(Protocol):
    """What decides a learner; described with `core.attacks.black_box.rlb_mi.RLBMI`."""

    @property
    def agent(self) -> str: ...

    @property
    def hidden(self) -> int: ...

    @property
    def lr(self) -> float: ...

    @property
    def gamma(self) -> float: ...

    @property
    def tau(self) -> float: ...

    @property
    def steps(self) -> int: ...


def paper_learner(
    settings: LearnerSettings, size: int, seed: int, *, device: torch.device | str
) -> tuple[SoftActorCritic, Draws]:
    """The learner of every class alike: each network is drawn from the seed itself, and the noise goes on from there.

    On the CPU these are the official numbers, one by one (SAC.py lines 40, 69, 106, 138, 300; attack.py lines 20, 53):
    every constructor reseeds torch's generator, the last of them a critic's, and Python's own draws the positions in
    the replay. size: of a latent. A textbook agent's second critic, which the official code does not have, is drawn
    from a seed of its own.
    """
    stream = torch.Generator().manual_seed(seed)
    critics = [Critic(size, settings.hidden, stream)]
    critics += [Critic(size, settings.hidden, generator(seed, "critic", i)) for i in range(1, _critics(settings))]
    actor = Actor(size, settings.hidden, torch.Generator().manual_seed(seed))
    learner = _learner(settings, actor, critics, stream, device)
    positions = random.Random(seed)
    return learner, Draws(
        latents=_latents(stream, size),
        positions=lambda held, count: torch.tensor(positions.sample(range(held), count)),
    )


def class_learner(
    settings: LearnerSettings, size: int, seed: int, target_class: int, *, device: torch.device | str
) -> tuple[SoftActorCritic, Draws]:
    """A learner whose every number depends on the seed and the class."""
    source = {name: generator(seed, target_class, name) for name in ("actor", "noise", "latents", "positions")}
    critics = [
        Critic(size, settings.hidden, generator(seed, target_class, "critic", i)) for i in range(_critics(settings))
    ]
    learner = _learner(settings, Actor(size, settings.hidden, source["actor"]), critics, source["noise"], device)
    return learner, Draws(
        latents=_latents(source["latents"], size),
        positions=lambda held, count: torch.randint(held, (count,), generator=source["positions"]),
    )


def _critics(settings: LearnerSettings) -> int:
    return RULES[settings.agent].critics


def _latents(source: torch.Generator, size: int) -> Callable[[int], Tensor]:
    return lambda count: torch.randn(count, size, generator=source)


def _learner(
    settings: LearnerSettings, actor: Actor, critics: list[Critic], source: torch.Generator, device: torch.device | str
) -> SoftActorCritic:
    return SoftActorCritic(
        actor.to(device),
        [critic.to(device) for critic in critics],
        RULES[settings.agent],
        noise=lambda *shape: torch.randn(shape, generator=source),
        lr=settings.lr,
        gamma=settings.gamma,
        tau=settings.tau,
        one_step=settings.steps == 1,
    )
