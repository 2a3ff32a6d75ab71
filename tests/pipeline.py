"""One tiny trial made stage by stage in this process, and its artifacts by name: what the tests of tasks recompute."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from smoothsweep.orchestrator.planning.trial import InversionStages, inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import check
from tests.tiny import tiny_sweep


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The stages of one trial, all made. A name leads from a stage to its inputs: `judge_evaluator.evaluator`."""

    store: Store
    stages: Any

    def stage(self, name: str) -> Stage:
        first, *rest = name.split(".")
        found = next(stage for stage in self.stages if stage.name == first)
        for part in rest:
            found = found.inputs[part]
        return found

    def folder(self, name: str) -> Path:
        return self.store.path(self.stage(name))

    def tensors(self, name: str, file: str) -> dict[str, Tensor]:
        return load_file(self.folder(name) / f"{file}.safetensors")

    def metrics(self, name: str) -> dict[str, float | None]:
        return json.loads((self.folder(name) / "manifest.json").read_text())["metrics"]

    def config(self, name: str) -> dict[str, Any]:
        return {**self.stage(name).config, **self.stage(name).hints}

    def inputs(self, name: str) -> dict[str, Path]:
        return {key: self.store.path(source) for key, source in self.stage(name).inputs.items()}


SETTINGS = {
    "data": {"kind": "synthetic", "identities": 3, "train_per_class": 6, "test_per_class": 4, "size": 32, "seed": 3},
    "public": {"kind": "synthetic", "identities": 30, "per_identity": 1, "size": 32, "seed": 3},
    "attack": {
        "pool": {"size": 16, "truncation_psi": 0.7, "truncation_cutoff": None, "crop": 28, "seed": 11},
        "candidates": 5,
        "steps": 3,
        "lr": 0.05,
        "batch_size": 2,
        "selected": 3,
        "selection_repeats": 4,
        "seed": 9,
    },
    "grid": {},
    "baseline": {},
}


def stages_of_a_trial(protocol: str, **changes: Any) -> InversionStages:
    """Of a trial of three people: resnet_small against vgg_small, eigenfaces, four judges. changes: to its file."""
    raw = {**tiny_sweep(protocol=protocol, **SETTINGS), **changes}
    if "embedder" in raw["judges"]:
        raw["judges"] = {**raw["judges"], "embedder": {**raw["judges"]["embedder"], "verify": None}}
    raw["recipe"] |= {
        "optimizer": "sgd",
        "momentum": 0.9,
        "lr": 0.02,
        "weight_decay": 0.01,
        "lr_milestones": [0.5],
        "defense": {"alpha": 0.3},
        "batch_size": 9,
    }
    return inversion_stages(check(raw, "pipeline"), 1)


def made_pipeline(folder: Path, protocol: str) -> Pipeline:
    """The trial under this protocol, made."""
    store = open_store(str(folder / "store"))
    store.open_for_writing()
    pipeline = Pipeline(store=store, stages=stages_of_a_trial(protocol))
    for stage in pipeline.stages:
        execute_with_inputs(store, stage)
    return pipeline
