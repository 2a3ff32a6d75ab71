"""A tiny alternative for every key of every stage's configuration; how a stage is run with it, and its digest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.training import Augmentation
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.registry import task

ARCHITECTURE = {"architecture": "vgg_small"}

TRAINING = {
    "architecture": ({}, ARCHITECTURE),
    "pretrained": ({}, {"pretrained": True}),  # refused: the small network has no published weights
    "image_size": ({}, {"image_size": 40}),
    "transform_input": ({}, {"transform_input": True}),  # refused: inception_v3's alone
    "epochs": ({}, {"epochs": 1}),
    "batch_size": ({}, {"batch_size": 6}),
    "optimizer": ({}, {"optimizer": "sgd"}),
    "lr": ({}, {"lr": 0.002}),
    "betas": ({}, {"betas": [0.5, 0.9]}),
    "momentum": ({"optimizer": "sgd"}, {"momentum": 0.9}),
    "weight_decay": ({}, {"weight_decay": 0.1}),
    "lr_schedule": ({}, {"lr_schedule": "cosine"}),
    "lr_milestones": ({}, {"lr_milestones": [0.5]}),
    "lr_factor": ({"lr_milestones": [0.5]}, {"lr_factor": 0.5}),
    "lr_min": ({"lr_schedule": "cosine"}, {"lr_min": 0.0005}),
    "precision": ({}, {"precision": "bf16"}),
    "seed": ({}, {"seed": 4}),
}

AUGMENTATION = {
    "crop_scale": [0.5, 0.6],
    "crop_ratio": [0.5, 0.6],
    "brightness": 0.5,
    "contrast": 0.5,
    "saturation": 0.5,
    "hue": 0.4,
    "flip": 1.0,
    "shared": True,
}

SMOOTHED = {"kind": "label_smoothing", "alpha": 0.2, "schedule": {"kind": "constant"}}
MID = {"kind": "mid", "parameters": {"beta": 0.5}, "alpha": 0.0, "schedule": {"kind": "constant"}}

TARGET = {
    **TRAINING,
    "defense": ({}, {"defense": SMOOTHED}),
    "protocol": ({"defense": MID}, {"protocol": "paper", "defense": MID}),
    "stop_at_test_acc": ({}, {"stop_at_test_acc": 0.01}),
}

POISON = {  # key -> what it needs beside it, another value
    "kind": ({}, "blended"),
    "share": ({}, 0.5),
    "target": ({}, 2),
    "size": ({}, 5),
    "strength": ({"kind": "blended"}, 0.3),
    "seeds": ({}, [0, 2]),
}

POOL_SETTINGS = {"size": 16, "seed": 11, "truncation_psi": 0.5, "truncation_cutoff": 8, "crop": 28}
POOL = {
    **{
        key: {"settings": {**POOL_SETTINGS, key: value}}
        for key, value in (("size", 12), ("seed", 12), ("truncation_psi", 0.9), ("truncation_cutoff", 2), ("crop", 24))
    },
    "image_size": {"image_size": 40},
    "precision": {"precision": "bf16"},
}

CANDIDATES = {"readout": {"readout": "mean"}, "precision": {"precision": "bf16"}}

UNREAD_STAGE_2 = {"steps": 50, "lr": 0.005, "batch_size": 25}  # what nothing reads keeps its default
UNREAD_STAGE_3 = {"selection_repeats": 100}
ATTACK = {
    "loss": {"loss": "cross_entropy"},
    "candidates": {"candidates": 4},
    "steps": {"steps": 3},
    "lr": {"lr": 0.1},
    "betas": {"betas": [0.1, 0.9]},
    "crop_scale": {"crop_scale": [0.5, 0.6]},
    "batch_size": {"batch_size": 5},
    "clip": {"clip": True},
    "discriminator_weight": {"discriminator_weight": 0.5},
    "selected": {"selected": 2},
    "selection_repeats": {"selection_repeats": 3},
    "selection_crop_scale": {"selection_crop_scale": [0.3, 0.4]},
    "selection_crop_ratio": {"selection_crop_ratio": [1.5, 1.6]},
    "selection_hflip": {"selection_hflip": 0.0},
    "selection_view_size": {"selection_view_size": 20},
    "weight_decay": {"weight_decay": 0.1},
    "crop_ratio": {"crop_ratio": [0.5, 2.0]},
    "lr_milestones": {"lr_milestones": [1]},
    "lr_gamma": {"lr_milestones": [1], "lr_gamma": 0.5},
    "single_w": {"single_w": False},
    "sample": {"sample": {"kind": "random"}},
    "optimise": {"optimise": {"kind": "none"}, **UNREAD_STAGE_2},
    "select": {"select": {"kind": "top_confidence"}, **UNREAD_STAGE_3},
    "classes": {"classes": [0, 1]},
    "seed": {"seed": [9, 2]},
    "readout": {"readout": "mean"},
    "precision": {"precision": "bf16"},
    "pool": {"pool": {**POOL_SETTINGS, "crop": 24}},
    "average": {"average": {"views": 2}},
    "temperature": {"temperature": {}},
    "restarts": {"restarts": {}},
    "image_size": {"image_size": 40},
    "protocol": {"protocol": "clean"},
}

IF_GMI = {
    "candidates": {"candidates": 4},
    "stage_steps": {"stage_steps": [2, 2, 1]},
    "radii": {"radii": [1000, 0.01]},
    "rgb_skip": {"rgb_skip": "kept"},
    **{
        key: ATTACK[key]
        for key in (
            "loss",
            "lr",
            "betas",
            "crop_scale",
            "batch_size",
            "selected",
            "selection_repeats",
            "selection_crop_scale",
            "selection_crop_ratio",
            "selection_hflip",
            "selection_view_size",
            "classes",
            "seed",
            "readout",
            "precision",
            "pool",
            "image_size",
            "protocol",
        )
    },
}

RANDOM_LATENTS = {
    "selected": {"selected": 2},
    "seed": {"seed": [9, 2]},
    "truncation_psi": {"truncation_psi": 0.9},
    "truncation_cutoff": {"truncation_cutoff": 2},
    "image_crop": {"image_crop": 24},
    "precision": {"precision": "bf16"},
    "classes": {"classes": [0, 1]},
}

LATENTS = {
    "truncation_psi": {"truncation_psi": 0.9},
    "truncation_cutoff": {"truncation_cutoff": 2},
    "image_crop": {"image_crop": 24},
    "precision": {"precision": "bf16"},
    "readout": {"readout": "mean"},
    "classes": {"classes": [0, 1, 2]},
    "seed": {"seed": [9, 2]},
    "image_size": {"image_size": 40},
    "protocol": {"protocol": "clean"},
}
RLB_MI = {
    **LATENTS,
    "selected": {"selected": 1},
    "episodes": {"episodes": 9},
    "steps": {"steps": 3},
    "diversity": {"diversity": 0.5},
    "at_once": {"at_once": 3},
    "agent": {"agent": "textbook"},
    "hidden": {"hidden": 12},
    "lr": {"lr": 0.3},
    "gamma": {"gamma": 0.1},
    "tau": {"tau": 0.9},
    "minibatch": {"minibatch": 5},
}
STARTS = {
    **{
        key: {"settings": {key: value}}
        for key, value in (
            ("batch", 20),
            ("max_batches", 1),
            ("seed", 12),
            ("clamp", 0.5),
            ("per_label", 3),
            ("truncation_psi", 0.9),
            ("truncation_cutoff", 2),
            ("image_crop", 20),
        )
    },
    "image_size": {"image_size": 40},
    "readout": {"readout": "mean"},
}
BREP_MI = {
    **LATENTS,
    "selected": {"selected": 3},
    "clamp": {"clamp": 0.3},
    "probes": {"probes": 6},
    "inside": {"inside": 0.9},
    "radius": {"radius": 0.7},
    "expansion": {"expansion": 1.5},
    "patience": {"patience": 2},
    "max_passes": {"max_passes": 2},
    "repulsion_only": {"repulsion_only": False},
    "result": {"result": "end"},
    "robust_views": {"result": "robust", "robust_views": 2},
}

PRIVATE = {
    "identities": {"identities": 4},
    "train_per_class": {"train_per_class": 3},
    "test_per_class": {"test_per_class": 2},
    "size": {"size": 24},
    "spread": {"spread": 0.9},
    "seed": {"seed": 1},
    "samples_per_class": {"samples_per_class": 1},
}
LABELLED = {
    "size": {"size": 24},
    "crop": {"crop": "stretch"},
    "test_fraction": {"test_fraction": 0.5},
    "split_seed": {"split_seed": 2},
    "largest_classes": {"largest_classes": 2},
    "bits": {"bits": 12},
    "samples_per_class": {"samples_per_class": 2},
    "on_corrupt": {"on_corrupt": "refuse"},
}
PUBLIC = {
    "identities": {"identities": 4},
    "per_identity": {"per_identity": 2},
    "size": {"size": 24},
    "spread": {"spread": 0.9},
    "seed": {"seed": 1},
}
UNLABELLED = {"size": {"size": 24}, "limit": {"limit": 5}, "bits": {"bits": 12}, "seed": {"seed": 2}}
EIGENFACES = {"components": {"components": 5}, "seed": {"seed": 1}}


NEVER_THE_SAME = ("seconds",)  # a column of the history
PLAIN = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def made(stage: str, config: Mapping[str, Any], inputs: Mapping[str, Path], folder: Path) -> dict[str, Any]:
    """Run the stage's task into `folder`, with a manifest as the store leaves it; its metrics."""
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / ".work"
    work.mkdir(parents=True)
    metrics = task(stage).function()(dict(config), dict(inputs), folder, TaskContext(work=work))
    shutil.rmtree(work)
    (folder / "manifest.json").write_text(json.dumps({"stage": stage, "config": config, "metrics": metrics}))
    return metrics


def outcome(stage: str, config: Mapping[str, Any], inputs: Mapping[str, Path], folder: Path) -> str:
    """A digest of everything in the artifact and its metrics; or the line of the refusal."""
    try:
        metrics = made(stage, config, inputs, folder)
    except InputError as error:
        return f"refused: {error}"
    digest = hashlib.sha256(repr(sorted(metrics.items())).encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".safetensors":
            for name, value in sorted(load_file(path).items()):
                digest.update(f"{name}{list(value.shape)}{value.dtype}".encode() + value.contiguous().numpy().tobytes())
        elif path.suffix == ".parquet":
            rows = pd.read_parquet(path)
            digest.update(rows.drop(columns=[c for c in NEVER_THE_SAME if c in rows]).to_csv().encode())
        elif path.name != "manifest.json" and path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def training(**changes: Any) -> dict[str, Any]:
    """A configuration of a tiny training."""
    return {
        "architecture": "resnet_small",
        "pretrained": False,
        "image_size": 32,
        "epochs": 2,
        "batch_size": 9,
        "optimizer": "adam",
        "lr": 0.001,
        "weight_decay": 0.0,
        "lr_schedule": "multistep",
        "augmentation": Augmentation().model_dump(mode="json"),
        "seed": 3,
        "protocol": "clean",
        **changes,
    }
