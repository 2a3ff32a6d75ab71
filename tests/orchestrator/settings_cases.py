"""For every class of a sweep file: a sweep that has it, and another value for each of its fields."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import measured
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.parts import DATA_MODELS
from tests.core.attacks.examples import REFUSED
from tests.core.attacks.examples import example as attack_example
from tests.core.data.examples import example as data_example
from tests.core.priors.examples import example as prior_example
from tests.orchestrator.search.made import ALPHA, KIND, SPACE, looked_sweep
from tests.tiny import searchable, tiny_sweep

Cases = dict[str, tuple[Any, str, dict[str, Any]]]
"""Class -> a sweep that has it, where it stands there, and for each field another value and what that needs."""

TINY = tiny_sweep
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
        {"looks": [2, 3], "first": 1, "alpha": 0.6, "spend": ({"alpha": 0.1}, "obrien-fleming"), "smallest": 0.9},
    ),
}


def _made(of, changes):
    """A sweep with these changes by dotted key, no part of which is in two places."""
    sweep = {"tiny": TINY, "search": search_sweep, "toy": dict}[of]()
    for key, value in json.loads(json.dumps(changes)).items():
        if key == "control":
            sweep |= {"grid": {"attack": [{"kind": "ppa", **sweep["attack"]}, value]}, "baseline": {}}
        else:
            set_dotted(sweep, key, value, where="case")
    return sweep


def _value(value):
    """Another value of a field as a case has it: alone, or with what it needs beside it."""
    if isinstance(value, dict) and value.keys() == {"beside", "value"}:
        return value["beside"], value["value"]
    return REFUSED if value == "refused" else value


ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
WRITTEN: Cases = {
    name: (
        partial(_made, row.get("of", "tiny"), row.get("change", {})),
        row["at"],
        {key: _value(value) for key, value in row["fields"].items()},
    )
    for name, row in ROWS.items()
    if "fields" in row
}
BESIDE_SEARCH = {"grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}
WRITTEN["InversionSweep"][2]["search"] = BESIDE_SEARCH, HALVING
WRITTEN["Judges"][2].update(
    {name: dict(judge.example) for name, judge in measured().items() if name not in ROWS["Judges"]["fields"]}
)

OF_DATA: Cases = {
    model.__name__: (
        partial(TINY, data={"kind": kind, **data_example(kind).EXAMPLE}),
        "data",
        {
            "kind": REFUSED,
            **({"path": "$b/people"} if "path" in model.model_fields else {}),
            **data_example(kind).SWEPT,
        },
    )
    for kind, model in DATA_MODELS.items()
}

OF_ATTACKS: Cases = {
    name: (partial(_made, "tiny", changes), where, fields)
    for attack in ATTACKS
    for name, (changes, where, fields) in attack_example(attack).SWEPT.items()
}


OF_PRIORS: Cases = {
    name: (partial(_made, "tiny", changes), where, fields)
    for kind in PRIORS
    for name, (changes, where, fields) in prior_example(kind).SWEPT.items()
}


CASES = WRITTEN | OF_DATA | OF_ATTACKS | OF_PRIORS | OF_SEARCHES
