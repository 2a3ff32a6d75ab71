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


def each(**values: Any) -> dict[str, dict[str, Any]]:
    """Key -> the change that gives it another value."""
    return {key: {key: value} for key, value in values.items()}


def alone(**values: Any) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """As `each`, of keys that need nothing beside them to count."""
    return {key: ({}, change) for key, change in each(**values).items()}


def of_settings(base: Mapping[str, Any], **values: Any) -> dict[str, dict[str, Any]]:
    """As `each`, of keys that stand below `settings`."""
    return {key: {"settings": {**base, key: value}} for key, value in values.items()}


TRAINING = {  # key -> what it needs beside it, the change
    **alone(architecture="vgg_small", image_size=40, epochs=1, batch_size=6, optimizer="sgd", lr=0.002),
    **alone(pretrained=True, transform_input=True),  # refused: of a network with published weights, and inception_v3's
    **alone(betas=[0.5, 0.9], weight_decay=0.1, lr_schedule="cosine", lr_milestones=[0.5], precision="bf16", seed=4),
    "momentum": ({"optimizer": "sgd"}, {"momentum": 0.9}),
    "lr_factor": ({"lr_milestones": [0.5]}, {"lr_factor": 0.5}),
    "lr_min": ({"lr_schedule": "cosine"}, {"lr_min": 0.0005}),
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
    **alone(defense=SMOOTHED, stop_at_test_acc=0.01),
    "protocol": ({"defense": MID}, {"protocol": "paper", "defense": MID}),
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
SHOWN = each(image_size=40, precision="bf16")
POOL = {**of_settings(POOL_SETTINGS, size=12, seed=12, truncation_psi=0.9, truncation_cutoff=2, crop=24), **SHOWN}
CANDIDATES = each(readout="mean", precision="bf16")

UNREAD_STAGE_2 = {"steps": 50, "lr": 0.005, "batch_size": 25}  # what nothing reads keeps its default
UNREAD_STAGE_3 = {"selection_repeats": 100}
DESCENDED = {  # under every descent of Plug & Play
    **each(loss="cross_entropy", candidates=4, lr=0.1, betas=[0.1, 0.9], crop_scale=[0.5, 0.6], batch_size=5),
    **each(selected=2, selection_repeats=3, selection_crop_scale=[0.3, 0.4], selection_crop_ratio=[1.5, 1.6]),
    **each(selection_hflip=0.0, selection_view_size=20, classes=[0, 1], seed=[9, 2], readout="mean", protocol="clean"),
    **each(pool={**POOL_SETTINGS, "crop": 24}),
    **SHOWN,
}
ATTACK = {
    **DESCENDED,
    **each(steps=3, clip=True, discriminator_weight=0.5, weight_decay=0.1, crop_ratio=[0.5, 2.0], lr_milestones=[1]),
    **each(single_w=False, sample={"kind": "random"}, average={"views": 2}, temperature={}, restarts={}),
    "lr_gamma": {"lr_milestones": [1], "lr_gamma": 0.5},
    "optimise": {"optimise": {"kind": "none"}, **UNREAD_STAGE_2},
    "select": {"select": {"kind": "top_confidence"}, **UNREAD_STAGE_3},
}
IF_GMI = {**DESCENDED, **each(stage_steps=[2, 2, 1], radii=[1000, 0.01], rgb_skip="kept")}

DRAWN = each(truncation_psi=0.9, truncation_cutoff=2, image_crop=24, precision="bf16", seed=[9, 2])
RANDOM_LATENTS = {**DRAWN, **each(selected=2, classes=[0, 1])}
LATENTS = {**DRAWN, **each(readout="mean", classes=[0, 1, 2], image_size=40, protocol="clean")}
RLB_MI = {
    **LATENTS,
    **each(selected=1, episodes=9, steps=3, diversity=0.5, at_once=3, agent="textbook", hidden=12, lr=0.3, gamma=0.1),
    **each(tau=0.9, minibatch=5),
}
STARTS = {
    **of_settings({}, batch=20, max_batches=1, seed=12, clamp=0.5, per_label=3, truncation_psi=0.9),
    **of_settings({}, truncation_cutoff=2, image_crop=20),
    **each(image_size=40, readout="mean"),
}
BREP_MI = {
    **LATENTS,
    **each(selected=3, clamp=0.3, probes=6, inside=0.9, radius=0.7, expansion=1.5, patience=2, max_passes=2),
    **each(repulsion_only=False, result="end"),
    "robust_views": {"result": "robust", "robust_views": 2},
}

PLG_GAN_SETTINGS = {
    **{"steps": 2, "critic_steps": 2, "batch_size": 4, "lr": 2e-4, "betas": [0.0, 0.9], "inversion_weight": 0.2},
    **{"loss": "max_margin", "seed": 46, "z_dim": 4, "width": 2},
}
"""Of two steps: the first of Adam looks the same whatever its averages."""
PLG_GAN = {
    **of_settings(PLG_GAN_SETTINGS, steps=3, critic_steps=1, batch_size=3, lr=0.01, betas=[0.5, 0.9], z_dim=5),
    **of_settings(PLG_GAN_SETTINGS, inversion_weight=1.0, loss="cross_entropy", width=3, seed=47),
}
PLG_MI = each(steps=3, lr=0.2, loss="cross_entropy", selected=2, seed=[9, 2], protocol="paper", classes=[0])

PRIVATE = each(identities=4, train_per_class=3, test_per_class=2, size=24, spread=0.9, seed=1, samples_per_class=1)
LABELLED = {
    **each(size=24, crop="stretch", test_fraction=0.5, split_seed=2, largest_classes=2, bits=12, samples_per_class=2),
    **each(on_corrupt="refuse"),
}
PUBLIC = each(identities=4, per_identity=2, size=24, spread=0.9, seed=1)
UNLABELLED = each(size=24, limit=5, bits=12, seed=2)
EIGENFACES = each(components=5, seed=1)


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
