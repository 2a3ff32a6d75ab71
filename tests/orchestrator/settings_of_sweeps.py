"""Another value for each field of a sweep file's top level; its sections have files of their own."""

from tiny import tiny_sweep

from tests.core.attacks.examples import REFUSED
from tests.orchestrator.search.made import ALPHA
from tests.orchestrator.settings_cases import LABELLED, TINY, Cases
from tests.orchestrator.settings_of_searches import HALVING, search_sweep

OF_SWEEPS: Cases = {
    "InversionSweep": (
        lambda: TINY(),
        "",
        {
            "experiment": REFUSED,
            "name": "other",
            "protocol": "paper",
            "seeds": [1, 2],
            "data": LABELLED,
            "public": {**tiny_sweep()["public"], "seed": 5},
            "recipe": ({"grid": {}, "baseline": {}}, {"imported": "$a"}),
            "prior": {"kind": "eigenfaces", "components": 5},
            "attack": {"steps": 3},
            "judges": {},
            "classes": [0, 2],
            "grid": {ALPHA: [0.0, -0.1]},
            "cells": ({"grid": {}, "baseline": {}}, [{ALPHA: 0.0}, {ALPHA: 0.1}]),
            "baseline": {ALPHA: -0.2},
            "budget": {"minutes": 5},
            "reaudit": {"seeds": [7]},
            "min_test_acc": 0.9,
            "accuracy_margin": 0.02,
            "tracking": {"models": "all"},
            "resources": {"cpus_per_task": 3},
            "paper": {"table": 1, "dataset": "facescrub"},
            "search": ({"grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}, HALVING),
        },
    ),
    "ToySweep": (
        lambda: {"experiment": "toy", "name": "toy", "grid": {"alpha": [0.0, 0.05]}},
        "",
        {
            "experiment": REFUSED,
            "name": "other",
            "alpha": ({"grid": {}}, 0.05),
            "grid": {"alpha": [0.0]},
            "cells": ({"grid": {}}, [{"alpha": 0.1}, {"alpha": 0.2}]),
            "baseline": {"alpha": 0.0},
            "resources": {"trial_slots": 9},
        },
    ),
    "Resources": (
        TINY,
        "resources",
        {
            "cpus_per_task": 3,
            "gpus_per_training": 2.0,
            "gpus_per_task": 0.25,
            "classes_per_task": 5,
            "trial_slots": 7,
            "attack_rows": 3,
            "attack_compile": True,
            "attack_cuda_graphs": True,
            "training_timeout_minutes": 7.0,
            "attack_timeout_minutes": 7.0,
        },
    ),
    "PaperTable": (
        lambda: TINY(paper={"table": 1, "dataset": "facescrub"}),
        "paper",
        {"table": "2", "dataset": "celeba"},
    ),
    "Tracking": (TINY, "tracking", {"models": "all"}),
    "Budget": (lambda: TINY(budget={"device_hours": 1.0}), "budget", {"device_hours": 0.1, "minutes": 5.0}),
    "Reaudit": (
        lambda: search_sweep(reaudit={"seeds": [7]}, budget={"device_hours": 1.5}),
        "reaudit",
        {"seeds": [8], "recipes": 2, "share": 0.9},
    ),
}
