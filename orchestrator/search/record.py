"""What is known of a search, what it may still propose and cost, and which recipes are audited again.

How much of the differences between the tried recipes each searched parameter accounts for is Optuna's fANOVA (Hutter,
Hoos, Leyton-Brown, ICML 2014): a random forest is fitted to what was tried, and the variance of its prediction over the
whole space is divided among the parameters. It describes the recipes that were tried. A search tries more recipes where
they are good, so the shares are no estimate of what a parameter causes, and they have no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from smoothsweep.core.defenses.strengths import value_text
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.frontier import Direction, accuracy_leak_frontier
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.planning.state import read_failures
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial, recipe_of
from smoothsweep.orchestrator.result.data import Importance, Objective, ProposalRow, SearchView, same_recipe
from smoothsweep.orchestrator.result.format import count, duration, is_null, listing
from smoothsweep.orchestrator.search.agenda import read_end, search_setup, spent
from smoothsweep.orchestrator.search.setup import (
    DONE,
    OPEN,
    Setup,
    crowding,
    distribution,
    metrics_of,
    place,
    read_outcome,
    worst_by_seed,
)
from smoothsweep.orchestrator.stages.stage import canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep, axis_names
from smoothsweep.sweeps.space import Positions, Values

Objectives = Mapping[str, float | None]  # column -> value


def search_view(loaded: LoadedSweep, store: Store, label: Callable[[Mapping[str, Any]], str]) -> SearchView | None:
    """What the store knows of the sweep's search, in a reader's words; None for a sweep without one.

    label: axes -> a recipe's name.
    """
    search = loaded.sweep.search
    if search is None:
        return None
    budget, proposed = loaded.sweep.budget, ProposalLog(loaded, store)
    names = {key: name.replace("_", " ") for key, name in axis_names(list(search.space)).items()}
    rows = _rows(proposed, names, label)
    tried = [
        (proposal.values, row.objectives)
        for proposal, row in zip(proposed.proposals(), rows, strict=True)
        if row.is_full and row.status == DONE
    ]
    return SearchView(
        strategy=search.strategy,
        asked=search.recipes,
        stopped_by=read_end(proposed),
        objectives=tuple(Objective(column=column, way=way) for column, way in search.objectives.items()),
        proposals=rows,
        space=tuple(dimension_words(names[key], one.model_dump(), names) for key, one in search.space.items()),
        constraints=tuple(
            constraint_words(column, bound.model_dump(exclude_none=True))
            for column, bound in search.constraints.items()
        ),
        budget=budget_words(budget.model_dump() if budget else {}),
        spent_device_hours=spent(store, loaded.sweep.name)[0] / 3600,
        rungs=tuple(rung_words(rung.set) for rung in search.rungs),
        importances=tuple(
            replace(importance, shares=tuple((names.get(key, key), share) for key, share in importance.shares))
            for importance in importances(search_setup(proposed), tried)
        ),
    )


def dimension_words(name: str, dimension: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`start: 0 to 0.8 in steps of 0.05, with kind ramp`."""
    if dimension.get("choices") is not None:
        span = ", ".join("none" if choice is None else value_text(choice) for choice in dimension["choices"])
    else:
        span = f"{value_text(dimension['low'])} to {value_text(dimension['high'])}"
        if dimension.get("step"):
            span += f" in steps of {value_text(dimension['step'])}"
        if dimension.get("log"):
            span += ", evenly in the logarithm"
    if dimension.get("above"):
        span += f", above {names.get(dimension['above'], dimension['above'])}"
    for key, values in (dimension.get("when") or {}).items():
        wanted = values if isinstance(values, list | tuple) else (values,)
        span += f", with {names.get(key, key)} {' or '.join(map(value_text, wanted))}"
    return f"{name}: {span}"


def constraint_words(column: str, ends: Mapping[str, float]) -> str:
    """`test accuracy at least 90 %`."""
    spec, words = BY_KEY.get(column), {"at_least": "at least", "at_most": "at most"}
    percent = spec is not None and spec.unit == "percent"
    amounts = {end: f"{100 * value:g}" if percent else f"{value:g}" for end, value in ends.items()}
    unit = f"{NBSP}%" if percent else ""
    shown_ends = [f"{words[end]} {minus(amount)}{unit}" for end, amount in amounts.items() if end in words]
    return f"{spec.label if spec else column} {listing(shown_ends)}"


def budget_words(budget: Mapping[str, float | None]) -> str:
    """`3 device-hours and 60 minutes`; empty without one."""
    ways = (("device_hours", 3600, "of device time"), ("minutes", 60, "by the clock"))
    amounts = [(amount, unit, words) for key, unit, words in ways if (amount := budget.get(key)) is not None]
    return listing(f"{duration(unit * amount)} {words}" for amount, unit, words in amounts)


def rung_words(settings: Mapping[str, Any]) -> str:
    """`4 classes, candidates 2, steps 10`: in what the attack is cheaper than the full one."""
    parts = []
    for key, value in settings.items():
        if key == "classes" and isinstance(value, list | tuple):
            parts.append(count(len(value), "class", "classes"))
        else:
            parts.append(f"{key.removeprefix('attack.').replace('.', ' ').replace('_', ' ')} {value_text(value)}")
    return ", ".join(parts)


def _rows(
    proposed: ProposalLog, names: Mapping[str, str], label: Callable[[Mapping[str, Any]], str]
) -> tuple[ProposalRow, ...]:
    store, proposals = proposed.store, proposed.proposals()
    aims, failures = search_setup(proposed).aims, read_failures(store, proposed.name)
    by_number = {proposal.number: proposal for proposal in proposals}
    again = {proposal.of for proposal in proposals if proposal.origin == "survivor"}
    left = {by_number[p.of].rung for p in proposals if p.of in by_number}  # rungs that some recipe has left
    counted: set[str] = set()
    rows = []
    for proposal in proposals:
        trials, rung = proposed.trials_of(proposal), proposal.rung
        outcome = read_outcome(trials, store, aims, failures)
        settled = outcome.status != OPEN and set(outcome.violations) == set(aims.constraints)
        axes = {
            name: trials[0].cell.axes[name] for key, name in proposed.loaded.names.items() if key.startswith("recipe.")
        }
        stages = [stage for trial in trials for stage in trial.stages if stage.fingerprint not in counted]
        new = {stage.fingerprint: stage for stage in stages if store.has(stage)}  # that no earlier proposal has
        counted |= new.keys()
        stated = {names.get(key, key): value for key, value in proposal.values.items() if not is_null(value)}
        values, name = {name: value_text(value) for name, value in stated.items()}, label(axes)
        rows.append(
            ProposalRow(
                number=proposal.number,
                values=values,
                key=same_recipe(proposal.values),
                rung=rung,
                status=outcome.status,
                objectives=dict(outcome.objectives),
                device_hours=sum(store.manifest(stage)["seconds"] for stage in new.values()) / 3600,
                kept=None if rung is None else True if proposal.number in again else False if rung in left else None,
                audited=proposal.origin == "audit",
                recipe=name if rung is None and proposal.seeds is None else None,
                name=name,
                feasible=outcome.feasible or not settled,
                seeds=proposal.seeds,
                settings={
                    name: float(value) if type(value) in (int, float) else values[name]
                    for name, value in stated.items()
                },
            )
        )
    return tuple(rows)


LEAST = 8
"""The fewest recipes that a forest is fitted to."""
SEED = 0


def importances(setup: Setup, tried: Iterable[tuple[Values, Objectives]]) -> tuple[Importance, ...]:
    """One importance per objective, from recipes that met the full attack under all seeds; none below `LEAST` recipes.

    A parameter that a recipe does not have counts as the middle of its range, as it does when recipes are proposed.
    """
    placed = [(place(setup, values), found) for values, found in tried]
    found_by = (_importance(setup, placed, objective) for objective in setup.aims.objectives)
    return tuple(importance for importance in found_by if importance is not None)


def _importance(
    setup: Setup, placed: Sequence[tuple[Positions | None, Objectives]], objective: str
) -> Importance | None:
    values = [(at, float(value)) for at, found in placed if at and (value := found.get(objective)) is not None]
    if len(values) < LEAST or len({value for _, value in values}) < 2:
        return None
    import optuna  # seconds, which a report of a grid does without
    from optuna.trial import create_trial

    space = {dimension.key: distribution(dimension) for dimension in setup.space.dimensions}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=SEED))
    study.add_trials([create_trial(params=at, distributions=space, value=value) for at, value in values])
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    ranked = sorted(((key, float(share)) for key, share in shares.items()), key=lambda pair: -pair[1])
    return Importance(objective=objective, recipes=len(values), shares=tuple(ranked))


def frontier_recipes(loaded: LoadedSweep, trials: Sequence[Trial], store: Store) -> list[dict[str, Any]]:
    """Recipes on the frontier of test accuracy and leak, by falling accuracy, at most as many as the sweep asks for.

    Of a search, by its first objective that is a leak; of a grid, by the leak that its report decides by; both among
    the recipes accurate enough. Recipes with trials that are not finished do not take part. Where the frontier
    holds too many, its ends stay and the loneliest of the others (crowding distance).
    """
    recipes: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.phase == "sweep":
            recipes.setdefault(canonical_json(recipe_of(trial.cell.values)), []).append(trial)
    rows = {
        key: [(trial.seed, metrics_of(trial, store)) for trial in members]
        for key, members in recipes.items()
        if all(store.has(stage) for trial in members for stage in trial.stages)
    }
    aim = leak_of(loaded, [metrics for row in rows.values() for _, metrics in row])
    if aim is None:
        return []
    column, way = aim
    places = {}
    for key, row in rows.items():
        accuracies, leaks = worst_by_seed(row, "test_acc", "max").values(), worst_by_seed(row, column, way).values()
        if accuracies and leaks:
            places[key] = fmean(accuracies), fmean(leaks) * (1 if way == "min" else -1)
    if not places:
        return []
    keys, points = list(places), np.array(list(places.values()))
    floor = loaded.sweep.accuracy_needed
    members = np.array(accuracy_leak_frontier(points[:, 0], points[:, 1], min_accuracy=floor))
    if len(members) > loaded.reaudit.recipes:  # on a tie those that leak less
        best = np.lexsort((points[members, 1], -crowding(points[members])))[: loaded.reaudit.recipes]
        members = members[np.sort(best)]
    return [recipe_of(recipes[keys[index]][0].cell.values) for index in members]


def leak_of(loaded: LoadedSweep, rows: Sequence[dict[str, Any]]) -> tuple[str, Direction] | None:
    """The leak that decides, and the direction a defender wants; None if none was measured."""
    search = loaded.sweep.search
    if search:
        return next(iter(search.leaks.items()), None)
    specs = [metric_of(key) for key in CLASS_METRICS] + [s for s in METRICS if s.group == "leak" and s.better]
    for spec in specs:
        if any(metrics.get(spec.key) is not None for metrics in rows):
            return spec.key, "min" if spec.better == "low" else "max"
    return None
