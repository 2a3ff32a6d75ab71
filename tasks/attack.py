"""The attack stages: one pool for all targets, candidates per target, then every class by itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from core.attacks.execution import Execution
from core.attacks.ppa import ClassReconstruction, decode_pool, invert_class, score_pool
from core.attacks.seeds import derive_seed
from core.defenses.mid import draws_noise, seed_noise
from core.devices import ExecutionConfig
from core.errors import InputError
from core.files import write_file
from core.priors.registry import load_discriminator, load_prior
from tasks.classes import CLASSES_FILE, class_file, classes_to_do
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import load_tensors, save_rows, save_tensors
from tasks.manifests import config_of
from tasks.settings import pool_config, ppa_config
from tasks.training import load_classifier
from tasks.unfinished import finished_class, load_class, save_class

DECODE_BATCH, SCORE_BATCH = 64, 256  # images at once at most; part of what the stage's version stands for: rounding
EXECUTION_KEYS = ("precision", "compile", "cuda_graphs", "rows_per_batch")


def decode_candidate_pool(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes latents.safetensors (w [S, num_ws, w_dim]) and images.safetensors (what a target will be shown)."""
    prior = load_prior(inputs["prior"]).to(context.device)
    pool = pool_config(config)
    execution = Execution(execution_of(config), context.device)
    w, images = decode_pool(prior, pool, device=context.device, batch_size=DECODE_BATCH, execution=execution)
    save_tensors(out / "latents.safetensors", {"w": w})
    save_tensors(out / "images.safetensors", {"images": images})
    return {"pool_size": len(w), "rows_halved": execution.rows_halved}


def score_candidates(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the target's confidence in every class for every pool image, and the list of classes to invert."""
    target = _load_target(config, inputs["target"], context.device)
    images = load_tensors(inputs["pool"] / "images.safetensors")["images"]
    execution = Execution(execution_of(config), context.device)
    confidences = score_pool(
        target, images, hflip=True, batch_size=SCORE_BATCH, device=context.device, execution=execution
    )
    num_classes = confidences.shape[1]
    classes = list(range(num_classes)) if config["classes"] == "all" else list(config["classes"])
    if max(classes) >= num_classes:
        raise InputError(f"classes: expected labels below {num_classes}, got {max(classes)}")
    save_tensors(out / "confidences.safetensors", {"confidences": confidences})
    write_file(out / CLASSES_FILE, json.dumps(classes))
    best = confidences[:, classes].topk(config["candidates"], dim=0).values
    return {"candidate_conf": best.mean().item(), "rows_halved": execution.rows_halved}


def invert_classes(config: Config, inputs: Inputs, classes: Sequence[int], context: TaskContext) -> None:
    """Invert these classes one by one; each leaves its file in the work folder as soon as it is done.

    A class's numbers depend on the seed and the class: every class is computed by itself, whatever its neighbours.
    """
    prior = load_prior(inputs["prior"]).to(context.device)
    target = _load_target(config, inputs["target"], context.device)
    confidences = load_tensors(inputs["candidates"] / "confidences.safetensors")["confidences"]
    w_pool = load_tensors(inputs["pool"] / "latents.safetensors")["w"]
    ppa, seed = ppa_config(config, len(w_pool)), _seed(config["seed"])
    weighted = bool(ppa.optimise.discriminator_weight)
    discriminator = load_discriminator(inputs["prior"]).to(context.device) if weighted else None
    execution = Execution(execution_of(config), context.device)  # networks are prepared once for all classes
    for target_class in [c for c in classes if load_class(class_file(context.work, c)) is None]:
        context.leave_with_the_machine()
        context.progress(0.0, f"class {target_class}")
        if draws_noise(target):  # a noisy readout must not depend on the classes before: a copy with its own noise
            seed_noise(target, derive_seed(seed, target_class, "noise"))
            execution = Execution(execution_of(config), context.device)
        found = invert_class(
            prior, target, confidences, w_pool, target_class, ppa,
            seed=seed, protocol=config["protocol"], device=context.device, execution=execution,
            discriminator=discriminator,
        )  # fmt: skip
        save_class(class_file(context.work, target_class), _tensors_of(found, execution.rows_halved))


def collect_classes(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes reconstructions.safetensors (w, labels, scores; best first within a class) and rows.parquet."""
    classes = classes_to_do(config, inputs)
    invert_classes(config, inputs, classes, context)  # whatever a lost shard left undone
    parts = [finished_class(class_file(context.work, c)) for c in classes]
    labels = torch.tensor(classes).repeat_interleave(torch.tensor([len(part["scores"]) for part in parts]))
    merged = {name: torch.cat([part[name] for part in parts]) for name in ("w", "scores", "pool_index")}
    save_tensors(out / "reconstructions.safetensors", {**merged, "labels": labels})
    summaries = torch.stack([part["summary"] for part in parts])
    rows = pd.DataFrame(summaries.numpy(), columns=list(SUMMARY)).assign(**{"class": classes})
    save_rows(out / "rows.parquet", rows)
    curves = torch.stack([part["loss_curve"] for part in parts])
    save_tensors(out / "curves.safetensors", {"loss": curves})
    return {
        "target_conf": merged["scores"].mean().item(),
        "gradient_cosine": summaries[:, SUMMARY.index("gradient_cosine")].nanmean().item(),
        "num_frozen": summaries[:, SUMMARY.index("num_frozen")].sum().item(),
        "rows_halved": summaries[:, SUMMARY.index("rows_halved")].max().item(),
    }


SUMMARY = ("loss_first", "loss_last", "gradient_cosine", "num_frozen", "rows_halved")


def _tensors_of(found: ClassReconstruction, rows_halved: int) -> dict[str, torch.Tensor]:
    curve = found.loss_curve
    counts = [float(found.num_frozen), float(rows_halved)]
    summary = torch.tensor([curve[0], curve[-1], found.gradient_cosine, *counts])
    return {
        "w": found.w,
        "scores": found.scores,
        "pool_index": found.pool_index,
        "loss_curve": curve,
        "summary": summary,
    }


def execution_of(config: Config) -> ExecutionConfig:
    """How the networks run, as the stage's configuration says."""
    return ExecutionConfig(**{key: config[key] for key in EXECUTION_KEYS if key in config})


def _seed(parts: Sequence[int]) -> int:
    """One seed from the attack's own and the trial's."""
    return int.from_bytes(hashlib.sha256(json.dumps(list(parts)).encode()).digest()[:7], "big")


def _load_target(config: Config, folder: Path, device: str) -> Any:
    """The target as the attacker reads it; a readout is for targets with a noisy bottleneck (defense mid)."""
    return load_classifier(folder, config_of(folder), device, readout=config.get("readout"))
