"""The attack: every class by itself, whatever the kind of attack, then collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.attacks.shared.base import Attack, Reconstructions
from smoothsweep.core.attacks.shared.view import View
from smoothsweep.core.data.images import pack_images
from smoothsweep.core.seeds import combined_seed, derive_seed
from smoothsweep.tasks.attacking import OpenTarget, attack_inputs_of
from smoothsweep.tasks.class_names import class_names_of
from smoothsweep.tasks.classes import batches, class_file, classes_of_stage
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import LEFT_IMAGES, save_rows, save_tensors
from smoothsweep.tasks.settings import attack_of
from smoothsweep.tasks.unfinished import finished_class, load_class, save_class

QUERIES, HALVED = "queries", "rows_halved"  # images the target was shown; times memory did not do for a batch


def invert_classes(config: Config, inputs: Inputs, classes: Sequence[int], context: TaskContext) -> None:
    """Invert these classes; each leaves its file in the work folder as soon as it is done.

    A class's numbers depend on the seed and the class, and it is computed by itself, whatever its neighbours. Where an
    attack's protocol couples classes, `class_batch` of the sweep's list are inverted at once; `classes` then holds
    whole batches. Where it couples none, it may compute several at once, of those that are missing (`side_by_side`).
    """
    attack, seed = attack_of(config), combined_seed(config["seed"])
    attack_inputs = attack_inputs_of(attack.needs, config, inputs, context.device)
    target = OpenTarget(inputs.get("target"), config, context.device)
    others = {role: OpenTarget(inputs[role], config, context.device) for role in _others(attack, inputs)}
    coupled = config.get("class_batch", 1)
    steady = all(queries.steady for queries in (target, *others.values()))
    together = attack.side_by_side(context.device) if coupled == 1 and steady else 1
    for batch in batches(classes, max(coupled, together)):
        missing = [c for c in batch if load_class(class_file(context.work, c)) is None]
        if not missing:
            continue
        batch = batch if coupled > 1 else missing
        context.leave_with_the_machine()
        context.progress(0.0, f"class {batch[0]}" if len(batch) == 1 else f"classes {batch[0]} to {batch[-1]}")
        noise = derive_seed(seed, batch[0], "noise")
        views = {None: target.view(attack.access, noise=noise)}
        views |= {role: other.view(attack.access, noise=noise) for role, other in others.items()}
        before = {role: view.queries for role, view in views.items()}
        inputs_with_views = replace(attack_inputs, targets={role: views[role] for role in others})
        reconstructions = attack.invert_batch(views[None], inputs_with_views, batch, seed=seed)
        queries = {_queries(role): (view.queries - before[role]) // len(batch) for role, view in views.items()}
        for target_class in missing:
            tensors = _tensors_of(attack, reconstructions[batch.index(target_class)], views[None], queries)
            save_class(class_file(context.work, target_class), tensors)


def collect_classes(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes reconstructions.safetensors (w, labels, scores and rows; best first within a class), rows.parquet (facts
    per class) and curves.safetensors (per class and step); of an attack that leaves images, images.safetensors too.
    There is no w of an attack that searches in no latents.
    """
    classes, attack = classes_of_stage(config, len(class_names_of(inputs))), attack_of(config)
    invert_classes(config, inputs, classes, context)  # whatever a lost shard left undone
    parts, kept = [], []
    for target_class in classes:
        tensors = finished_class(class_file(context.work, target_class))
        kept.append(len(tensors["row.w"] if "row.w" in tensors else tensors["images"]))
        parts.append(_without_images(tensors))
    labels = torch.tensor(classes).repeat_interleave(torch.tensor(kept))
    merged = {name: torch.cat([part[key] for part in parts]) for name, key in _named(parts[0], "row")}
    save_tensors(out / "reconstructions.safetensors", {**merged, "labels": labels})
    if attack.leaves_images:
        _pack_images(out / LEFT_IMAGES, classes, labels, context)
    curves = {name: torch.stack([part[key] for part in parts]) for name, key in _named(parts[0], "curve")}
    if curves:
        save_tensors(out / "curves.safetensors", curves)
    facts = torch.stack([part["facts"] for part in parts])
    counts = [QUERIES, *map(_queries, _others(attack, inputs))]
    queries = {name: torch.stack([part[name] for part in parts]) for name in counts}
    rows = pd.DataFrame(facts.numpy(), columns=list(attack.facts))
    columns = {name: counted.numpy() for name, counted in queries.items()}
    save_rows(out / "rows.parquet", rows.assign(**columns, **{"class": classes}))
    confidence = {"target_conf": merged["scores"].mean().item()} if "scores" in merged else {}
    mean_queries = {name: n.double().mean().item() for name, n in queries.items()} if attack.access != "none" else {}
    halved = {HALVED: torch.stack([part[HALVED] for part in parts]).max().item()}
    return {**confidence, **_summarise_facts(attack, facts), **mean_queries, **halved}


def _without_images(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What all classes together have room for in memory."""
    return {name: tensor for name, tensor in tensors.items() if name != "images"}


def _pack_images(path: Path, classes: Sequence[int], labels: Tensor, context: TaskContext) -> None:
    """The images of all classes in one file, one class after the other."""
    side, row = finished_class(class_file(context.work, classes[0]))["images"].shape[-1], 0
    with pack_images(path, labels, side, torch.float16) as put:
        for target_class in classes:
            for image in finished_class(class_file(context.work, target_class))["images"].numpy():
                put(row, image)
                row += 1


def _summarise_facts(attack: Attack, facts: Tensor) -> dict[str, float | None]:
    """Facts [classes, F] as one number each, as the attack says; None where no class has one."""
    means: dict[str, float | None] = {}
    for column, (name, how) in enumerate(attack.facts.items()):
        values = facts[:, column]
        summed = values.nanmean() if how == "mean" else values.nansum()
        means[name] = None if values.isnan().all() else summed.item()
    return means


def _others(attack: Attack, inputs: Inputs) -> list[str]:
    """The attack's settings that name another target, where one was named."""
    return [role for role in attack.other_targets if role in inputs]


def _queries(role: str | None) -> str:
    """Where the images shown to a target are counted: the attacked one, or that of a setting."""
    return QUERIES if role is None else f"{QUERIES}_{role}"


def _tensors_of(
    attack: Attack, reconstructions: Reconstructions, view: View, queries: Mapping[str, int]
) -> dict[str, Tensor]:
    if set(reconstructions.facts) != set(attack.facts):
        raise ValueError(f"facts: expected {sorted(attack.facts)}, got {sorted(reconstructions.facts)}")
    if (reconstructions.images is not None) != attack.leaves_images:
        raise ValueError(f"images: expected {'some' if attack.leaves_images else 'none'}, got the opposite")
    rows = {"w": reconstructions.w, "scores": reconstructions.scores, **reconstructions.rows}
    return {
        "facts": torch.tensor([float(reconstructions.facts[name]) for name in attack.facts], dtype=torch.float32),
        **{name: torch.tensor(count) for name, count in queries.items()},
        HALVED: torch.tensor(view.execution.batch_halvings),
        **({} if reconstructions.images is None else {"images": reconstructions.images}),
        **{f"row.{name}": tensor for name, tensor in rows.items() if tensor is not None},
        **{f"curve.{name}": tensor for name, tensor in reconstructions.curves.items()},
    }


def _named(tensors: Mapping[str, Tensor], group: str) -> list[tuple[str, str]]:
    """(name, key) of the tensors of a group, such as row."""
    return [(key.removeprefix(f"{group}."), key) for key in sorted(tensors) if key.startswith(f"{group}.")]
