"""Optuna's choice of the next recipe: a study built anew from what is known, asked once.

A study that is built anew remembers nothing, so a search that was killed goes on as if it had not been. Sampler gp is
Optuna's Gaussian process: the next recipe is where the hypervolume is expected to grow most, given what still runs and
how likely the constraints are met. It takes a second per ask, which tpe does not (docs/benchmarks.md compares). A
dimension that a recipe does not have stands in the middle, so that all recipes are points of one space.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from scipy.stats import qmc

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import Outcome, Outcomes, Setup, from_shares, place
from smoothsweep.sweeps.space import Dimension, Space, Values

STARTUP = {"gp": 4, "tpe": 10}  # recipes at least, and one more than dimensions, spread evenly before it is asked
PATIENCE = 4  # attempts at one proposal before chance takes over from a sampler that repeats itself

optuna.logging.set_verbosity(optuna.logging.ERROR)


def propose_optuna(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | None:
    """Optuna's choice, from the outcomes of the proposals up to i - lag."""
    number = len(proposals)
    visible = number - (setup.lag or 1) + 1
    origin, drawn = "optuna", []

    def draw(attempt: int) -> dict[str, Any]:
        nonlocal origin
        values, origin = choose(setup, proposals, outcomes, visible=max(0, visible), refused=drawn)
        drawn.append(values)
        return values

    values = setup.fresh(proposals, draw)
    return None if values is None else Proposal(number=number, values=values, origin=origin)


def choose(
    setup: Setup,
    proposals: Sequence[Proposal],
    outcomes: Mapping[int, Outcome],
    *,
    visible: int,
    refused: Sequence[Values] = (),
) -> tuple[Values, str]:
    """Values of the next recipe, and where they come from (`Proposal.origin`).

    visible: the outcomes of so many first proposals are used. refused: values chosen before that cannot be used, since
    they are known or invalid.
    """
    number, attempt = len(proposals), len(refused)
    if attempt >= PATIENCE:
        return setup.random(number, attempt), "random"
    finished = [p for p in proposals[:visible] if p.number in outcomes and outcomes[p.number].status == "done"]
    startup = max(STARTUP[setup.sampler], len(setup.space.keys) + 1)
    if number < startup or len(finished) < 2:
        return _spread(setup.space, setup.seed, number, attempt, startup), "startup"
    study = _study(setup, number, attempt)
    distributions = {dimension.key: distribution(dimension) for dimension in setup.space.dimensions}
    for proposal in proposals:
        trial = _as_trial(setup, distributions, proposal, outcomes.get(proposal.number), proposal.number < visible)
        if trial is not None:
            study.add_trial(trial)
    for values in refused:
        if (positions := place(setup, values)) is not None:
            study.add_trial(create_trial(state=TrialState.RUNNING, params=positions, distributions=distributions))
    asked = study.ask(distributions).params
    return setup.space.choose(lambda dimension: asked[dimension.key])[0], "optuna"


def distribution(dimension: Dimension) -> BaseDistribution:
    """The distribution of the positions on a dimension."""
    if dimension.above is not None:
        return FloatDistribution(0.0, 1.0)
    if dimension.values is None:
        return FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if dimension.is_ordered:
        return IntDistribution(0, len(dimension.values) - 1)
    return CategoricalDistribution(range(len(dimension.values)))


def _study(setup: Setup, number: int, attempt: int) -> optuna.Study:
    seed = int(np.random.SeedSequence([setup.seed, number, attempt]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if setup.sampler == "gp":
            sampler = optuna.samplers.GPSampler(n_startup_trials=2, seed=seed)
        else:
            sampler = optuna.samplers.TPESampler(n_startup_trials=2, multivariate=True, constant_liar=True, seed=seed)
    directions: list[Literal["maximize", "minimize"]] = [
        "maximize" if way == "max" else "minimize" for way in setup.aims.objectives.values()
    ]
    return optuna.create_study(directions=directions, sampler=sampler)


def _as_trial(
    setup: Setup,
    distributions: Mapping[str, BaseDistribution],
    proposal: Proposal,
    outcome: Outcome | None,
    counts: bool,
) -> optuna.trial.FrozenTrial | None:
    """A proposal as the study knows it: finished, failed, or running. None for a recipe outside of the space."""
    positions = place(setup, proposal.values)
    if positions is None:
        return None
    state, values, constraints = TrialState.RUNNING, None, None
    if counts:
        state = TrialState.FAIL
        if outcome is not None and outcome.status == "done":
            state = TrialState.COMPLETE
            values = [present(value, "objective") for value in outcome.objectives.values()]
            constraints = {column: outcome.violations[column] for column in setup.aims.constraints}
    return create_trial(
        state=state,
        values=values,
        params=positions,
        distributions=dict(distributions),
        constraints=constraints,
    )


def _spread(space: Space, seed: int, number: int, attempt: int, startup: int) -> Values:
    """Point `number` of a scrambled Sobol sequence over the space; another sequence for every attempt."""
    points = _sobol(len(space.keys), seed, attempt, math.ceil(math.log2(startup)))
    return from_shares(space, points[number % len(points)])


@lru_cache(maxsize=64)
def _sobol(dimensions: int, seed: int, attempt: int, doublings: int) -> np.ndarray:
    generator = np.random.default_rng([seed, attempt])
    return qmc.Sobol(dimensions, scramble=True, rng=generator).random(2**doublings)
