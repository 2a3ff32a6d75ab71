"""Another value for each field of a search, and of seeds that are looked at again."""

from typing import Any

from tiny import searchable

from tests.core.attacks.examples import REFUSED
from tests.orchestrator.search.looked import looked_sweep
from tests.orchestrator.search.made import ALPHA, KIND, SPACE
from tests.orchestrator.settings_cases import Cases

HALVING = {
    "strategy": "halving",
    "recipes": 8,
    "space": SPACE,
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "rungs": [{"keep": 0.5, "set": {"attack.steps": 2}}],
    "audit": 1,
}
OPTUNA = {
    "strategy": "optuna",
    "recipes": 8,
    "space": SPACE,
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "sampler": "tpe",
    "in_flight": 2,
}
RANDOM = {key: value for key, value in OPTUNA.items() if key not in ("sampler", "in_flight")} | {"strategy": "random"}
NOISE_AWARE = RANDOM | {"strategy": "noise_aware"}
START, END = "recipe.defense.schedule.start", "recipe.defense.schedule.end"
RAMPS = {
    ALPHA: SPACE[ALPHA],
    KIND: {"choices": ["ramp", "linear"]},
    START: {"low": 0.0, "high": 0.6},
    END: {"low": 0.6, "high": 0.9},
}
CHOICES = {**HALVING, "space": {**RAMPS, END: {"choices": [0.7, 0.8]}}}
WIDE = {**HALVING, "space": {**RAMPS, END: {"low": 0.3, "high": 0.9}}}
WHOLE = {**HALVING, "space": {**RAMPS, "recipe.weight_decay": {"low": 0, "high": 3}}}


def search_sweep(**changes: Any) -> dict[str, Any]:
    """A searched sweep of one seed with these changes."""
    return searchable("made", HALVING, **{"seeds": [1], **changes})


OF_SEARCHES: Cases = {
    "Search": (
        search_sweep,
        "search",
        {
            "strategy": ({"/search": {**RANDOM, "recipes": 4}}, "optuna"),
            "sampler": ({"/search": OPTUNA}, "gp"),
            "recipes": 5,
            "seed": 4,
            "in_flight": ({"/search": OPTUNA}, 1),
            "space": {ALPHA: {"low": -0.5, "high": 0.3}},
            "objectives": {"embedder_acc1": "min"},
            "constraints": {"embedder_acc1": {"at_most": 0.3}},
            "rungs": [{"keep": 0.3, "set": {"attack.steps": 2}}],
            "audit": 3,
            "settings": REFUSED,  # by every strategy of ours: tests/test_plugins.py has one of another package
            "first_seeds": ({"/seeds": [1, 2], "/search": NOISE_AWARE}, 2),
        },
    ),
    "Range": (
        lambda: search_sweep(search={**HALVING, "space": RAMPS}),
        f"search.space[{END}]",
        {
            "choices": ({"/search": CHOICES}, [0.7, 0.9]),
            "low": 0.7,
            "high": 0.8,
            "step": 0.1,
            "log": True,
            "integer": ({"/search": WHOLE}, True, "search.space[recipe.weight_decay]"),
            "when": {KIND: ["ramp"]},
            "above": ({"/search": WIDE}, START),
        },
    ),
    "Constraint": (
        lambda: search_sweep(search={**HALVING, "constraints": {"test_acc": {"at_least": 0.5}}}),
        "search.constraints.test_acc",
        {"at_least": 0.93, "at_most": 0.9},
    ),
    "Rung": (search_sweep, "search.rungs.0", {"keep": 0.25, "set": {"attack.steps": 3}}),
    "SeedLooks": (
        looked_sweep,
        "seeds",
        {
            "looks": [2, 3],
            "first": 1,
            "alpha": 0.6,
            "spend": ({"alpha": 0.1}, "obrien-fleming"),
            "smallest": 0.9,
        },
    ),
}
