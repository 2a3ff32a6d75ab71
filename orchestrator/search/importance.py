"""How much of the differences between the tried recipes each searched parameter accounts for: Optuna's fANOVA.

Functional ANOVA (Hutter, Hoos, Leyton-Brown, ICML 2014) as `optuna.importance.FanovaImportanceEvaluator` computes it: a
random forest is fitted to what was tried, and the variance of its prediction over the whole space is divided among the
parameters. It describes the recipes that were tried. A search tries more recipes where they are good, so the shares are
no estimate of what a parameter causes, and they have no interval.
"""

from __future__ import annotations

from collections.abc import Sequence

from smoothsweep.orchestrator.planning.proposals import TrialMaker
from smoothsweep.orchestrator.result.data import Importance
from smoothsweep.orchestrator.search.agenda import search_setup
from smoothsweep.orchestrator.search.record import ProposalRecord, SearchRecord
from smoothsweep.orchestrator.search.shared.places import place
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.space import Positions

LEAST = 8
"""The fewest recipes that a forest is fitted to."""
SEED = 0


def importances(loaded: LoadedSweep, record: SearchRecord) -> tuple[Importance, ...]:
    """One importance per objective, from recipes with the full attack under all seeds; none below `LEAST` recipes.

    A parameter that a recipe does not have counts as the middle of its range, as it does when recipes are proposed.
    """
    setup = search_setup(TrialMaker(loaded))
    known: list[tuple[Positions, ProposalRecord]] = []
    for proposal in record.proposals:
        full = proposal.rung is None and proposal.seeds is None and proposal.status == "done"
        positions = place(setup, proposal.values) if full else None
        if positions is not None:
            known.append((positions, proposal))
    by_objective = (_importance(loaded, known, objective) for objective in record.objectives)
    return tuple(importance for importance in by_objective if importance is not None)


def _importance(
    loaded: LoadedSweep, known: Sequence[tuple[Positions, ProposalRecord]], objective: str
) -> Importance | None:
    values = [(at, float(value)) for at, recipe in known if (value := recipe.objectives.get(objective)) is not None]
    if len(values) < LEAST or len({value for _, value in values}) < 2:
        return None
    import optuna  # seconds, which a report of a grid does without
    from optuna.trial import create_trial

    from smoothsweep.orchestrator.search.strategies.optuna_choice import distribution

    dimensions = loaded.search.dimensions.dimensions
    space = {dimension.key: distribution(dimension) for dimension in dimensions}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=SEED))
    study.add_trials([create_trial(params=at, distributions=space, value=value) for at, value in values])
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    ranked = sorted(((key, float(share)) for key, share in shares.items()), key=lambda pair: -pair[1])
    return Importance(objective=objective, recipes=len(values), shares=tuple(ranked))
