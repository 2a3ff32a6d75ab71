"""Another value for each field of a sweep's judges; those that train are with the recipes."""

import hashlib

from tiny import tiny_sweep

from smoothsweep.core.judges.table import measured
from tests.core.attacks.examples import REFUSED
from tests.orchestrator.settings_cases import TINY, Cases


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


PUBLISHED_FID = {"fid_plg": {"weights": "$a/weights.safetensors"}}
EVALUATOR = tiny_sweep()["judges"]["evaluator"]

OF_JUDGES: Cases = {
    "Judges": (
        TINY,
        "judges",
        {
            **{name: dict(judge.example) for name, judge in measured().items()},  # which say no more than that
            "features": {"perplexity": 5.0},
            "gradients": {"steps": 3},
            "evaluator": {**EVALUATOR, "seed": 3},
            "embedder": None,
            "knowledge": None,
            "general": {"weights": "$a/weights.safetensors"},
            "asked": {"model": "a"},
            "fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1},
            "robustness": {"eps": 0.1},
            "membership": {"copies": 3},
            "fid_lomma": PUBLISHED_FID["fid_plg"],
            **PUBLISHED_FID,
        },
    ),
    "Robustness": (
        lambda: TINY(judges={"robustness": {}}),
        "judges.robustness",
        {
            "eps": 0.1,
            "step": 0.02,
            "steps": 1,
            "generations": 3,
            "population": 20,
            "strong_steps": 3,
            "strong_restarts": 2,
            "images": 5,
            "seed": 3,
        },
    ),
    "Membership": (
        lambda: TINY(judges={"membership": {"shadows": 4}}),
        "judges.membership",
        {
            "shadows": 6,
            "share": 0.4,
            "copies": 3,
            "levels": 3,
            "images": 4,
            "seed": 3,
            "trained_on_data": True,
            "shadow_recipe": {**tiny_sweep()["recipe"], "epochs": 9},
        },
    ),
    "Gradients": (
        lambda: TINY(judges={"gradients": {"steps": 3}}),
        "judges.gradients",
        {
            "per_class": 3,
            "seed": 3,
            "truncation_psi": 0.4,
            "truncation_cutoff": 2,
            "crop": 30,
            "steps": 4,
            "lr": 0.1,
            "betas": [0.5, 0.5],
            "crop_scale": [0.5, 0.6],
            "average": {"views": 2},
        },
    ),
    "Embedder": (
        lambda: TINY(judges={"embedder": {"name": "facenet", "weights": "$a/weights.safetensors"}}),
        "judges.embedder",
        {"name": "mobilefacenet_a", "weights": "$b/weights.safetensors", "verify": None},
    ),
    "General": (
        lambda: TINY(judges={"general": {"weights": "$a/weights.safetensors"}}),
        "judges.general",
        {
            "name": REFUSED,
            "weights": "$b/weights.safetensors",
            "verify": None,
        },
    ),
    "VisionLanguageJudge": (
        lambda: TINY(judges={"asked": {"model": "a"}}),
        "judges.asked",
        {
            "model": "b",
            "images": 3,
            "pairs": 3,
            "seed": 3,
            "questions": 30,
            "per_second": 3.0,
        },
    ),
    "Fidelity": (
        lambda: TINY(
            judges={"fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1}},
            attack={**tiny_sweep()["attack"], "selected": 4},
        ),
        "judges.fidelity",
        {"weights": "$b/weights.safetensors", "sha256": sha("b"), "neighbours": 2},
    ),
    "Features": (
        lambda: TINY(judges={"features": {"perplexity": 5.0}}),
        "judges.features",
        {
            "classes": 3,
            "perplexity": 6.0,
            "seed": 3,
        },
    ),
    "PublishedFid": (
        lambda: TINY(judges={**PUBLISHED_FID, "evaluator": EVALUATOR}),
        "judges.fid_plg",
        {
            "weights": "$b/weights.safetensors",
            "sha256": sha("b"),
        },
    ),
}
