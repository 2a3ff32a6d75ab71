"""Optuna's choice of the next recipe: a study built anew from what is known, asked once.

A study that is built anew costs milliseconds and remembers nothing, so a search that was killed goes on as if it had
not been. The sampler is Optuna's multi-objective TPE (Watanabe, 2023, for its parts), over groups of dimensions that
occur together, with what still runs taken for bad ("constant liar"), so that several recipes at once differ.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from scipy.stats import qmc

from orchestrator.search.outcomes import Outcome
from orchestrator.search.proposals import Proposal
from orchestrator.search.strategies import Setup
from sweeps.dimension import Dimension, Values
from sweeps.space import Space

STARTUP = 10  # recipes before the sampler has anything to go by, spread evenly over the space
PATIENCE = 4  # attempts at one proposal before chance takes over from a sampler that repeats itself

optuna.logging.set_verbosity(optuna.logging.ERROR)


def choose(
    setup: Setup, proposals: Sequence[Proposal], outcomes: Mapping[int, Outcome], *, told: int, attempt: int
) -> tuple[Values, str]:
    """Values of the next recipe, and how they were come by. told: outcomes of so many first proposals count."""
    number = len(proposals)
    if attempt >= PATIENCE:
        return setup.random(number, attempt), "random"
    finished = [p for p in proposals[:told] if p.number in outcomes and outcomes[p.number].status == "done"]
    if number < STARTUP or len(finished) < 2:
        return _spread(setup.space, setup.seed, number, attempt), "startup"
    study = _study(setup, number, attempt)
    distributions = {dimension.key: distribution(dimension) for dimension in setup.space.dimensions}
    for proposal in proposals:
        trial = _as_trial(setup, distributions, proposal, outcomes.get(proposal.number), proposal.number < told)
        if trial is not None:
            study.add_trial(trial)
    trial = study.ask()
    return setup.space.suggest(trial), "optuna"


def distribution(dimension: Dimension) -> BaseDistribution:
    """The distribution that `Dimension.suggest` asks for."""
    if dimension.above is not None:
        return FloatDistribution(0.0, 1.0)
    if dimension.values is None:
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if dimension.is_ordered:
        return IntDistribution(0, len(dimension.values) - 1)
    return CategoricalDistribution(range(len(dimension.values)))


def _study(setup: Setup, number: int, attempt: int) -> optuna.Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=2,
            multivariate=True,
            group=True,
            constant_liar=True,
            seed=int(np.random.SeedSequence([setup.seed, number, attempt]).generate_state(1)[0]),
        )
    directions = ["maximize" if way == "max" else "minimize" for way in setup.aims.objectives.values()]
    return optuna.create_study(directions=directions, sampler=sampler)


def _as_trial(
    setup: Setup,
    distributions: Mapping[str, BaseDistribution],
    proposal: Proposal,
    outcome: Outcome | None,
    counts: bool,
) -> optuna.trial.FrozenTrial | None:
    """A proposal as the study knows it: finished, failed, or running. None for a recipe outside of the space."""
    positions = setup.space.positions(proposal.values)
    if positions is None:
        return None
    state, values, constraints = TrialState.RUNNING, None, None
    if counts:
        state = TrialState.FAIL
        if outcome is not None and outcome.status == "done":
            state, values = TrialState.COMPLETE, list(outcome.objectives.values())
            constraints = {column: outcome.violations[column] for column in setup.aims.constraints}
    return create_trial(
        state=state,
        values=values,
        params=positions,
        distributions={key: distributions[key] for key in positions},
        constraints=constraints,
    )


def _spread(space: Space, seed: int, number: int, attempt: int) -> Values:
    """Point `number` of a scrambled Sobol sequence over the space; another sequence for every attempt."""
    shares = dict(zip(space.keys, _sobol(len(space.keys), seed, attempt)[number % STARTUP_POINTS], strict=True))
    return space.choose(lambda dimension: dimension.spread(float(shares[dimension.key])))[0]


STARTUP_POINTS = 2 ** math.ceil(math.log2(max(2, STARTUP)))


@lru_cache(maxsize=64)
def _sobol(dimensions: int, seed: int, attempt: int) -> np.ndarray:
    generator = np.random.default_rng([seed, attempt])
    return qmc.Sobol(dimensions, scramble=True, rng=generator).random(STARTUP_POINTS)
