"""How good is the search? Replayed on a recorded grid of real trials, of which the whole frontier is known.

python -m benchmarks.search_quality [TABLE.csv] [--seeds 20] [--first-seed 0] [--in-flight 2] [--search NAME ...]
    [--reference ACCURACY LEAK]

The table (default: recorded_grid.csv beside this file) has one row per recipe and seed: the recipe's axes (empty
where a schedule does not have one), `seed`, `test_acc`, `embedder_acc1` and `device_seconds`. Search and random choice
go through the very code that drives a sweep (orchestrator/search), among the recorded recipes alone: the proposer sees
a recipe's values by seed once it has "finished", in_flight proposals later. Told is the share of the grid's
hypervolume against the share of its device time, where everything that was begun counts in full. A strategy that gives
a recipe some seeds first pays for these alone, and the recipe counts as found once it has met all of them: hypervolume
is of means over all seeds. A replay ends at UNTIL of the device time, and at the goal. --first-seed: settings of a
strategy are chosen on other seeds than those they are judged by.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.frontier import hypervolume
from smoothsweep.orchestrator.planning.trial import Proposal
from smoothsweep.orchestrator.search.setup import Aims, Outcome, Setup, Wait, strategy
from smoothsweep.sweeps.space import Dimension, Space, Values, make_space

TABLE = Path(__file__).with_name("recorded_grid.csv")
MEASURED = ACCURACY, LEAK, COST = "test_acc", "embedder_acc1", "device_seconds"
DIRECTIONS = {ACCURACY: "max", LEAK: "min"}
GOAL, UNTIL = 0.95, 0.7
SEARCHES = {  # name -> strategy, sampler
    "noise_aware": ("noise_aware", "gp"),
    "gp": ("optuna", "gp"),
    "tpe": ("optuna", "tpe"),
    "random": ("random", "gp"),
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A grid of recipes that were tried.

    Attributes:
        recipes: axis -> value, absent axes left out.
        points: [n, 2] mean accuracy and leak.
        seconds: [n] device-seconds over all seeds.
        reference: the point that hypervolume is measured from.
        trials: [n] of each recipe, seed -> column -> value, device-seconds among them.
    """

    recipes: list[Values]
    points: np.ndarray
    seconds: np.ndarray
    reference: tuple[float, float]
    trials: list[dict[int, dict[str, float]]]

    @property
    def space(self) -> Space:
        """The recorded values of every axis, and on which other axis it depends whether a recipe has it."""
        axes = dict.fromkeys(key for recipe in self.recipes for key in recipe)
        always = [key for key in axes if all(key in recipe for recipe in self.recipes)]
        return make_space([self._dimension(key, always) for key in axes])

    def _dimension(self, key: str, always: Sequence[str]) -> Dimension:
        values = sorted({recipe[key] for recipe in self.recipes if key in recipe})
        if key in always:
            return Dimension(key=key, choices=tuple(values))
        for other in always:
            has = {recipe[other] for recipe in self.recipes if key in recipe}
            if not has & {recipe[other] for recipe in self.recipes if key not in recipe}:
                return Dimension(key=key, choices=tuple(values), when={other: tuple(sorted(has))})
        raise InputError(f"{key}: expected an axis whose values say which recipes have this one, got none")


def read_table(path: Path, reference: tuple[float, float] | None = None) -> Recorded:
    """The recorded grid. Raises InputError (one line) for columns that are missing or a table without recipes.

    reference: accuracy and leak from which hypervolume is measured; None for the worst of each in the table.
    """
    try:
        rows = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a table, got: {error}") from None
    axes = [name for name in rows.columns if name not in ("seed", *MEASURED)]
    if not {"seed", *MEASURED} <= {*rows.columns} or not axes or rows.empty:
        expected, got = ", ".join(MEASURED), ", ".join(rows.columns)
        raise InputError(f"{path}: expected axes, seed, {expected} and at least one row, got {got}")
    groups = rows.astype({axis: object for axis in axes}).groupby(axes, dropna=False, sort=False)
    recipes = [{axis: one for axis, one in zip(axes, key, strict=True) if not pd.isna(one)} for key, _ in groups]
    trials = [of_one.set_index("seed")[list(MEASURED)].to_dict("index") for _, of_one in groups]
    if len({tuple(of_one) for of_one in trials}) > 1:
        raise InputError(f"{path}: expected every recipe under the same seeds in the same order, got others")
    points = groups[[ACCURACY, LEAK]].mean().to_numpy(dtype=float)
    worst = (float(points[:, 0].min()), float(points[:, 1].max()))
    seconds = groups[COST].sum().to_numpy(dtype=float)
    return Recorded(recipes=recipes, points=points, seconds=seconds, reference=reference or worst, trials=trials)


def replay(
    recorded: Recorded, name: str, *, seed: int, in_flight: int, sampler: str = "gp"
) -> Iterator[tuple[float, float]]:
    """(share of the grid's device time, share of its hypervolume) after every recipe, in the order of proposing."""
    places = {json.dumps(recipe, sort_keys=True): index for index, recipe in enumerate(recorded.recipes)}

    def identity(values: Values) -> str:
        text = json.dumps(values, sort_keys=True)
        if text not in places:
            raise InputError(f"expected a recorded recipe, got {text}")
        return text

    setup = Setup(
        space=recorded.space,
        aims=Aims(objectives=DIRECTIONS),
        identity=identity,
        seed=seed,
        recipes=len(recorded.recipes),
        lag=in_flight,
        sampler=sampler,
        seeds=len(recorded.trials[0]),
    )
    propose, proposals, outcomes, chosen = strategy(name), [], {}, []
    spent, done, found, ways = 0.0, 0, [], list(DIRECTIONS.values())
    whole, best = recorded.seconds.sum(), hypervolume(recorded.points, recorded.reference, ways)

    def finish() -> tuple[float, float]:
        """The oldest recipe that runs has ended; all that were begun with it have been paid for."""
        nonlocal done
        outcomes[done] = _outcome(setup.aims, recorded.trials[chosen[done]], proposals[done].seeds)
        if proposals[done].seeds is None:
            found.append(chosen[done])
        done += 1
        points = recorded.points[found].reshape(-1, 2)
        return float(spent / whole), hypervolume(points, recorded.reference, ways) / best

    while (proposal := propose(setup, proposals, outcomes)) is not None:
        if isinstance(proposal, Proposal):
            proposals.append(proposal)
            chosen.append(places[identity(proposal.values)])
            spent += _cost(recorded.trials[chosen[-1]], proposals)
        if isinstance(proposal, Wait) or done <= len(proposals) - in_flight:
            yield finish()
    while done < len(proposals):
        yield finish()


def compare(recorded: Recorded, *, seeds: Sequence[int], in_flight: int, searches: Sequence[str]) -> dict[str, Any]:
    """The share of the device time at which each strategy reaches the goal, seed by seed (infinite if it does not until
    UNTIL), and what it has reached at fixed shares of the time."""
    found: dict[str, Any] = {}
    for name in searches:
        way, sampler = SEARCHES[name]
        curves, times = [], []
        for seed in seeds:
            curves.append([])
            for spent, share in replay(recorded, way, seed=seed, in_flight=in_flight, sampler=sampler):
                curves[-1].append((spent, share))
                if share >= GOAL - 1e-12 or spent > UNTIL:
                    break
            times.append(spent if share >= GOAL - 1e-12 else math.inf)
        shares = {
            f"{limit:.0%}": median(max((v for s, v in curve if s <= limit), default=0.0) for curve in curves)
            for limit in (0.1, 0.2, 0.3, 0.5)
        }
        found[name] = {"device_time_to_goal": times, "median": median(times), "worst": max(times)}
        found[name]["hypervolume_at"] = shares
    return found


def _outcome(aims: Aims, trials: Mapping[int, Mapping[str, float]], seeds: int | None) -> Outcome:
    """What is known of a recipe under its first seeds; None for all."""
    met = {seed: dict(trials[seed]) for seed in list(trials)[:seeds]}
    return aims.outcome({column: fmean(one[column] for one in met.values()) for column in (ACCURACY, LEAK)}, met)


def _cost(trials: Mapping[int, Mapping[str, float]], proposals: Sequence[Proposal]) -> float:
    """Device-seconds of the last proposal: of the seeds that its recipe has not met before."""
    last = proposals[-1]
    before = [p for p in proposals[:-1] if last.of is not None and last.of in (p.number, p.of)]
    met = before[-1].seeds if before else 0
    return sum(trials[seed][COST] for seed in list(trials)[met : last.seeds])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description="The search against random choice on a recorded grid.")
    parser.add_argument("table", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--search", nargs="+", choices=list(SEARCHES), default=list(SEARCHES))
    parser.add_argument("--reference", type=float, nargs=2, metavar=("ACCURACY", "LEAK"))
    options = parser.parse_args(arguments)
    recorded = read_table(options.table, tuple(options.reference) if options.reference else None)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = compare(recorded, seeds=seeds, in_flight=options.in_flight, searches=options.search)
    print(f"{len(recorded.recipes)} recorded recipes; reference {[*recorded.reference]}; {options.seeds} seeds")
    for name in options.search:
        row = found[name]
        reached = ", ".join(f"{value:.1%} at {limit}" for limit, value in row["hypervolume_at"].items())
        print(
            f"{name:<11} {GOAL:.0%} of the hypervolume at {row['median']:.1%} of the device time (median; worst "
            f"{row['worst']:.1%}); median share: {reached}"
        )
        print(f"            per seed: {', '.join(f'{value:.1%}' for value in row['device_time_to_goal'])}")


if __name__ == "__main__":
    main()
