"""Proposals that know how noisy a trial is: a recipe meets a few seeds, and more only where the frontier is unclear.

Every objective and constraint has a model of what its trials scatter (`noise_model`). What is proposed is what extends
the frontier most by expectation (`improvement`): either a new recipe, which meets the first seeds alone, or one more
seed for a recipe that has not met all of them. The frontier is made of recipes that have met all seeds, and of those in
flight, whose outcomes are drawn from the model together with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.frontier import pareto_mask
from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import (
    DONE,
    FAILED,
    Outcomes,
    Setup,
    Wait,
    all_tried,
    from_shares,
    groups_of,
    place,
    points_of,
    shares_of,
)
from smoothsweep.sweeps.space import Positions, Values

STARTUP = 4  # recipes at least, and one more than dimensions, before the model is asked
DRAWS = 64  # joint draws of the model, half of them mirrored
BEYOND = 0.1  # how far the reference point lies beyond the worst recipe, as a fraction of the range
WORTH = 0.005  # fraction of the frontier's box that further seeds must promise once all recipes were tried


def propose_noise_aware(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """A new recipe under the first seeds, or one more seed for one that was tried."""
    if not all_tried(setup, proposals):
        visible = max(0, len(proposals) - (setup.lag or 1) + 1)
        proposal = _new_or_more(setup, proposals, tried_recipes(setup, proposals, outcomes, visible=visible))
        if proposal is not None:
            return proposal
    return _last_seeds(setup, proposals, outcomes)


def _new_or_more(setup: Setup, proposals: Sequence[Proposal], known: Sequence[TriedRecipe]) -> Proposal | None:
    """The better of a new recipe and another seed for an old one; None where the space holds nothing new."""
    number = len(proposals)
    if len(known) < startup_of(setup) or len(_measured(known)) < 2:
        return _new(setup, proposals, _first(setup, known), "startup")[0]
    pool = new_recipes(setup, known, number)
    more = [recipe for recipe in _measured(known) if recipe.wants_seeds]
    candidates = [
        *(present(recipe.positions, "positions") for recipe in more),
        *(present(place(setup, values), "place") for values in pool),
    ]
    worth = expected_worth(setup, known, candidates, number)
    by_chance = np.random.default_rng([setup.seed, number, 2]).random(len(pool))  # among equals, such as none of worth
    order = np.lexsort((by_chance, -worth[len(more) :]))
    new, drawn = _new(setup, proposals, [pool[index] for index in order], "noise_aware")
    if new is None or not more:
        return new
    best = int(np.argmax(worth[: len(more)]))
    of_new = worth[len(more) + order[drawn]] if drawn < len(order) else 0.0
    return _more(more[best], number, more[best].seeds + 1) if worth[best] > of_new else new


def _last_seeds(setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes) -> Proposal | Wait | None:
    """All seeds for a recipe that may still extend the frontier, once nothing new is proposed; None if none may.

    By the outcomes up to the last new recipe: what ends meanwhile changes nothing.
    """
    begun = 1 + max((proposal.number for proposal in proposals if proposal.of is None), default=-1)
    if not all(number in outcomes for number in range(begun)):
        return Wait()
    known = tried_recipes(setup, proposals, outcomes, visible=begun)
    more = [recipe for recipe in _measured(known) if recipe.wants_seeds]
    if not more or len(_measured(known)) < 2:
        return None
    worth = expected_worth(setup, known, [present(recipe.positions, "positions") for recipe in more], len(proposals))
    best = int(np.argmax(worth))
    return _more(more[best], len(proposals), setup.seeds) if worth[best] > WORTH else None


def startup_of(setup: Setup) -> int:
    """How many recipes are spread evenly before the model is asked, the baseline included."""
    return max(STARTUP, len(setup.space.keys) + 1)


def _first(setup: Setup, known: Sequence[TriedRecipe]) -> list[Values]:
    """The next recipe of the first design, which counts the baseline as one of its own; none once it is used up."""
    at, width = place(setup, setup.baseline) if setup.baseline else None, len(setup.space.keys)
    others = np.reshape([] if at is None else shares_of(setup.space, at), (-1, width))
    shares = first_shares(startup_of(setup) - bool(setup.baseline), width, others, setup.seed)
    return [from_shares(setup.space, row) for row in shares[len(known) - bool(setup.baseline) :][:1]]


def _new(
    setup: Setup, proposals: Sequence[Proposal], wanted: Sequence[Values], origin: str
) -> tuple[Proposal | None, int]:
    """The first recipe wanted that is valid and new, a random one after them; and how many were refused before."""
    number, refused = len(proposals), -1

    def draw(attempt: int) -> Values:
        nonlocal refused
        refused = attempt
        return wanted[attempt] if attempt < len(wanted) else setup.random(number, attempt)

    values = setup.fresh(proposals, draw)
    if values is None:
        return None, refused
    origin = origin if refused < len(wanted) else "random"
    seeds = setup.first_seeds if setup.first_seeds < setup.seeds else None
    return Proposal(number=number, values=values, origin=origin, seeds=seeds), refused


def _more(recipe: TriedRecipe, number: int, seeds: int) -> Proposal:
    return Proposal(
        number=number,
        values=recipe.values,
        origin="replication",
        of=recipe.number,
        seeds=seeds if seeds < recipe.of else None,
    )


def _measured(known: Sequence[TriedRecipe]) -> list[TriedRecipe]:
    """Tried recipes that a model can be fitted to."""
    return [recipe for recipe in known if recipe.by_seed and recipe.positions is not None]


def expected_worth(
    setup: Setup, known: Sequence[TriedRecipe], candidates: Sequence[Positions], number: int
) -> np.ndarray:
    """How much each candidate is expected to extend the frontier, as a fraction of the frontier's box: [c]."""
    measured = _measured(known)
    offered = [recipe for recipe in known if recipe.is_on_offer and recipe.positions is not None]
    positions = [*(recipe.positions for recipe in measured), *(recipe.positions for recipe in offered), *candidates]
    points = np.stack([points_of(setup.space, present(position, "one")) for position in positions])
    random = np.random.default_rng([setup.seed, number, 1])
    drawn: dict[str, np.ndarray] = {}
    for column in dict.fromkeys([*setup.aims.objectives, *setup.aims.constraints]):
        normals = random.standard_normal((DRAWS // 2, len(positions)))
        model = fit(_seen(setup, measured, points[: len(measured)], column))
        drawn[column] = model.draws(points, np.concatenate([normals, -normals]))
    costs = np.stack([drawn[key] * (-1 if way == "max" else 1) for key, way in setup.aims.objectives.items()], axis=2)
    counts = np.ones(costs.shape[:2], dtype=bool)
    for column, constraint in setup.aims.constraints.items():
        if constraint.at_least is not None:
            counts &= drawn[column] >= constraint.at_least
        if constraint.at_most is not None:
            counts &= drawn[column] <= constraint.at_most
    seen = costs[:, : len(measured)].mean(axis=0)
    best, worst = seen.min(axis=0), seen.max(axis=0)
    reference = worst + BEYOND * (worst - best)
    front, rest = slice(len(measured), len(measured) + len(offered)), slice(len(measured) + len(offered), None)
    gains_of_new = expected_gains(costs[:, front], counts[:, front], costs[:, rest], counts[:, rest], reference)
    return gains_of_new / max(float(np.prod(reference - best)), 1e-300)


def _seen(setup: Setup, measured: Sequence[TriedRecipe], points: np.ndarray, column: str) -> SeenTrials:
    trials = [
        (row, seed, values[column]) for row, recipe in enumerate(measured) for seed, values in recipe.by_seed.items()
    ]
    recipe, seed, values = (np.array(side) for side in zip(*trials, strict=True))
    return SeenTrials(places=points, groups=groups_of(setup.space), recipe=recipe, seed=seed, values=values)


@dataclass(frozen=True, kw_only=True)
class TriedRecipe:
    """One recipe, of all that was proposed of it.

    Attributes:
        number: of the proposal that began it.
        positions: None for a recipe outside of the space.
        seeds: how many of the sweep's seeds were proposed so far.
        of: how many seeds the sweep has.
        by_seed: seed -> column -> value, of what has come out.
        is_open: whether some of what was proposed has not come out.
        has_failed: whether some of it has failed.
    """

    number: int
    values: Values
    positions: Positions | None
    seeds: int
    of: int
    by_seed: Mapping[int, Mapping[str, float]]
    is_open: bool
    has_failed: bool

    @property
    def wants_seeds(self) -> bool:
        """Whether there are seeds that it has not met, and what it has met is known."""
        return self.seeds < self.of and not self.is_open and not self.has_failed

    @property
    def is_on_offer(self) -> bool:
        """Whether it may be on the frontier in the end: it has met all seeds, or is in flight."""
        return not self.has_failed and (self.is_open or self.seeds >= self.of)


def tried_recipes(
    setup: Setup, proposals: Sequence[Proposal], outcomes: Outcomes, *, visible: int
) -> list[TriedRecipe]:
    """The recipes tried so far, in the order in which they were begun.

    visible: the outcomes of so many first proposals are used.
    """
    groups: dict[int, list[Proposal]] = {}
    for proposal in proposals:
        groups.setdefault(proposal.number if proposal.of is None else proposal.of, []).append(proposal)
    return [_tried(setup, members, outcomes, visible) for members in groups.values()]


def _tried(setup: Setup, members: Sequence[Proposal], outcomes: Outcomes, visible: int) -> TriedRecipe:
    first, last = members[0], members[-1]
    out = {
        member.number: outcomes[member.number]
        for member in members
        if member.number < visible and member.number in outcomes
    }
    done = [outcome for outcome in out.values() if outcome.status == DONE]
    return TriedRecipe(
        number=first.number,
        values=first.values,
        positions=place(setup, first.values),
        seeds=setup.seeds if last.seeds is None else last.seeds,
        of=setup.seeds,
        by_seed=done[-1].by_seed if done else {},  # a later one holds the seeds of those before
        is_open=last.number not in out,
        has_failed=any(outcome.status == FAILED for outcome in out.values()),
    )


TRIES = 50  # random designs of which the one with the widest gaps is taken
MOST = 512  # recipes that the model compares; a smaller space is compared as a whole
NEAR = 128  # of them so many near recipes that were tried
OTHERS_MOVE = 0.3  # probability that a dimension is moved beside the one that is
STEP = 0.15  # standard deviation of a step to a near recipe, as a share of a dimension


def first_shares(count: int, dimensions: int, others: np.ndarray, seed: int) -> np.ndarray:
    """Shares [count, dimensions] in [0, 1]: a Latin hypercube that holds both ends of every dimension.

    Of TRIES random ones that whose smallest distance is largest (Morris and Mitchell, 1995), distances to the recipes
    that are there already (`others` [n, dimensions]) included.
    """
    random = np.random.default_rng([seed, count, dimensions])
    levels = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    best, widest = np.empty((0, dimensions)), -1.0
    for _ in range(TRIES):
        shares = np.stack([random.permutation(levels) for _ in range(dimensions)], axis=1)
        points = np.concatenate([shares, others])
        gaps = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        gap = gaps[np.triu_indices(len(points), k=1)].min(initial=np.inf)
        if gap > widest:
            best, widest = shares, gap
    return best


def new_recipes(setup: Setup, known: Sequence[TriedRecipe], number: int) -> list[Values]:
    """Recipes of the space that were not tried: all of a small space, else random ones and some near those tried.

    Some of them may be no valid recipes, or the same work as one that was tried.
    """
    space = setup.space
    if all(dimension.values is not None for dimension in space.dimensions) and not space.is_larger_than(MOST):
        designs = list(space.enumerate())
    else:
        random = np.random.default_rng([setup.seed, number, 0])
        designs = [space.sample(random) for _ in range(MOST - NEAR)]
        centres = [
            shares_of(space, tried.positions) for tried in known if tried.positions is not None and tried.by_seed
        ]
        for index in range(NEAR if centres else 0):
            centre = centres[index % len(centres)]
            moved = random.random(len(centre)) < OTHERS_MOVE
            moved[random.integers(len(centre))] = True
            steps = moved * random.normal(0.0, STEP, len(centre))
            designs.append(from_shares(space, np.clip(centre + steps, 0.0, 1.0)))
    there = {repr(sorted(tried.values.items())) for tried in known}
    fresh = {text: values for values in designs if (text := repr(sorted(values.items()))) not in there}
    return list(fresh.values())


PRIOR_DF = 4.0  # degrees of freedom that the pooled variance counts beside a recipe's own
LEAST_NOISE = 1e-4  # variance of a trial, of standardised values
JITTER = 1e-8  # variance added so that a covariance has a Cholesky factor, of standardised values
PRIORS = {"length": (0.6, 0.8), "signal": (1.0, 0.7), "noise": (0.1, 1.2), "seed": (0.02, 1.2)}
"""Log-normal priors: median and standard deviation of the logarithm. Positions are in [0, 1], values standardised."""


@dataclass(frozen=True, kw_only=True)
class SeenTrials:
    """The trials seen, by one objective.

    Attributes:
        places: [r, d] positions of the recipes, each in [0, 1].
        groups: [d] the dimension that each column belongs to, from 0: columns of one dimension share a length scale.
        recipe: [n] row of `places` that each trial belongs to. Every row has a trial.
        seed: [n] the seed of each trial.
        values: [n] what each trial measured.
    """

    places: np.ndarray
    groups: np.ndarray
    recipe: np.ndarray
    seed: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The fitted process.

    Attributes:
        lengths: [g] a length scale per dimension.
        signal: variance of f; like all variances here, of values that are standardised by `shift` and `scale`.
        noise: [r] variance of one trial of each recipe.
        seed: variance of the effect that a seed has on all recipes.
    """

    seen: SeenTrials
    lengths: np.ndarray
    signal: float
    noise: np.ndarray
    seed: float
    shift: float
    scale: float

    def posterior(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean [m] and covariance [m, m] of f at positions [m, d], in the units of the values."""
        seen = self.seen
        lower = np.linalg.cholesky(_covariance(seen, self.lengths, self.signal, self.noise, self.seed))
        lengths = self.lengths[seen.groups]
        across = self.signal * matern(places, seen.places, lengths)[:, seen.recipe]
        weights = cho_solve((lower, True), (seen.values - self.shift) / self.scale)
        half = solve_triangular(lower, across.T, lower=True)
        covariance = self.signal * matern(places, places, lengths) - half.T @ half
        return self.shift + self.scale * (across @ weights), self.scale**2 * covariance

    def draws(self, places: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Joint draws [s, m] of f at positions [m, d] from standard normal numbers [s, m]."""
        mean, covariance = self.posterior(places)
        lower = np.linalg.cholesky(covariance + JITTER * self.scale**2 * np.eye(len(places)))
        return mean + normals @ lower.T


def fit(seen: SeenTrials) -> NoiseModel:
    """The model of the trials seen."""
    means = _means(seen.values, seen.recipe)
    shift, scale = float(means.mean()), float(means.std()) or 1.0
    values = (seen.values - shift) / scale
    kinds = ["length"] * (int(seen.groups.max()) + 1) + ["signal", "noise", "seed"]
    centre = np.log([PRIORS[kind][0] for kind in kinds])
    width = np.array([PRIORS[kind][1] for kind in kinds])
    seeds_differ = len(np.unique(seen.seed)) > 1  # with one seed its effect is part of the mean

    def minus_log_density(logs: np.ndarray) -> float:
        lengths, signal, noise, seed = np.exp(logs[:-3]), *np.exp(logs[-3:])
        noises = np.full(len(seen.places), noise + LEAST_NOISE)
        lower = np.linalg.cholesky(_covariance(seen, lengths, signal, noises, seed * seeds_differ))
        rest = solve_triangular(lower, values, lower=True)
        return float(0.5 * rest @ rest + np.log(np.diag(lower)).sum() + 0.5 * (((logs - centre) / width) ** 2).sum())

    bounds = list(zip(centre - 5 * width, centre + 5 * width, strict=True))
    optimum = minimize(minus_log_density, centre, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}).x
    signal, noise, seed = (float(value) for value in np.exp(optimum[-3:]))
    return NoiseModel(
        seen=seen,
        lengths=np.exp(optimum[:-3]),
        signal=signal,
        seed=seed * seeds_differ,
        shift=shift,
        scale=scale,
        noise=shrunk_variances(values, seen.recipe, seen.seed, noise + LEAST_NOISE),
    )


def shrunk_variances(values: np.ndarray, recipe: np.ndarray, seed: np.ndarray, pooled: float) -> np.ndarray:
    """Variance of a trial of each recipe [r]: its own, from what seeds do not share, shrunk to the pooled one.

    Args:
        values, recipe, seed: [n] of each trial. A recipe that one seed alone has met has the pooled variance.
    """
    rest = values
    for _ in range(20):  # two-way means of an unbalanced table, by turns
        rest = rest - _means(rest, recipe)[recipe]
        seeds = np.unique(seed, return_inverse=True)[1]
        rest = rest - _means(rest, seeds)[seeds]
    rest = rest - _means(rest, recipe)[recipe]
    freedom = np.bincount(recipe) - 1
    return (PRIOR_DF * pooled + np.bincount(recipe, weights=rest**2)) / (PRIOR_DF + freedom)


def matern(first: np.ndarray, other: np.ndarray, lengths: Sequence[float] | np.ndarray) -> np.ndarray:
    """Matern 5/2 correlation [n, m] of positions [n, d] and [m, d]. lengths: [d]."""
    gaps = (first[:, None, :] - other[None, :, :]) / lengths
    distance = np.sqrt(5 * (gaps**2).sum(axis=2))
    return (1 + distance + distance**2 / 3) * np.exp(-distance)


def _covariance(seen: SeenTrials, lengths: np.ndarray, signal: float, noise: np.ndarray, seed: float) -> np.ndarray:
    """[n, n] of the trials seen."""
    recipes = signal * matern(seen.places, seen.places, lengths[seen.groups])
    trials = recipes[np.ix_(seen.recipe, seen.recipe)] + seed * (seen.seed[:, None] == seen.seed[None, :])
    return trials + np.diag(noise[seen.recipe])


def _means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.bincount(group, weights=values) / np.bincount(group)


def expected_gains(
    front: np.ndarray,
    fronts_count: np.ndarray,
    candidates: np.ndarray,
    candidates_count: np.ndarray,
    reference: np.ndarray,
) -> np.ndarray:
    """Mean over the draws of the hypervolume that each candidate adds: [c], at least 0.

    Args:
        front, candidates: [s, f, d] and [s, c, d] draws of costs (smaller is better).
        fronts_count, candidates_count: bool [s, f] and [s, c], in which draws a recipe meets the constraints; where it
            does not, it counts for nothing.
        reference: [d], the costs that hypervolume is measured from.
    """
    total = np.zeros(candidates.shape[1])
    for draw in range(len(candidates)):
        members = front[draw][fronts_count[draw]]
        members = members[pareto_mask(members, ["min"] * len(reference))]  # slices cost the square of their number
        total += gains(members, candidates[draw], reference) * candidates_count[draw]
    return total / len(candidates)


def gains(front: np.ndarray, candidates: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Hypervolume that each candidate [c, d] adds to a front [f, d] of costs: [c]. Exact in any number of objectives.

    Between two of the front's values of the last cost the slice is the same problem in one dimension less, with those
    of the front that reach it.
    """
    last, limit = candidates[:, -1], reference[-1]
    if candidates.shape[1] == 1:
        return np.clip(min(limit, front[:, 0].min(initial=np.inf)) - last, 0.0, None)
    inside = front[(front < reference).all(axis=1)]
    levels = np.unique(inside[:, -1])
    total = np.zeros(len(candidates))
    for low, high in zip([-np.inf, *levels], [*levels, limit], strict=True):
        depth = np.clip(high - np.maximum(low, last), 0.0, None)
        if depth.any():
            total += depth * gains(inside[inside[:, -1] <= low, :-1], candidates[:, :-1], reference[:-1])
    return total
