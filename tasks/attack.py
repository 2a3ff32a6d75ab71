"""Attacks: the parts that one needs once before it inverts classes, and the classes, each by itself, then collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, overload

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.attacks.registry import PARTS, WEIGHTS, load_network, network_names, save_network
from smoothsweep.core.attacks.shared.base import Access, Attack, AttackInputs, Reconstructions
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import GradientView, View, view_of
from smoothsweep.core.attacks.training_settings import NETWORKS, check_imported
from smoothsweep.core.data.images import pack_images
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.priors.registry import load_discriminator, load_prior
from smoothsweep.core.seeds import combined_seed, derive_seed
from smoothsweep.tasks.classes import batches, class_file, class_names_of, classes_of_stage
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import LEFT_IMAGES, config_of, load_tensors, save_rows, save_tensors
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.settings import attack_of
from smoothsweep.tasks.training import defense_from, load_target
from smoothsweep.tasks.unfinished import finished_class, load_checkpoint, load_class, save_checkpoint, save_class

CHECKPOINT = "checkpoint.pt"
QUERIES, HALVED = "queries", "rows_halved"  # images the target was shown; times memory did not do for a batch
EXECUTION_KEYS = ("precision", "compile", "cuda_graphs", "rows_per_batch")


def execution_of(config: Config) -> ExecutionConfig:
    """How the networks run, as the stage's configuration says."""
    return ExecutionConfig(**{key: config[key] for key in EXECUTION_KEYS if key in config})


class OpenTarget:
    """A target on a device, of which views are cut. Networks are prepared once, unless their answers are noisy."""

    def __init__(self, folder: Path | None, config: Config, device: str) -> None:
        """folder: the target's artifact, None for an attack that sees none of it."""
        self._config, self._device = config, device
        self._network: Any = None  # a classifier, or whatever answers
        self._defense: Defense | None = None
        if folder is not None:
            trained = config_of(folder)
            self._network = load_target(folder, trained, device, readout=config.get("readout"))
            self._defense = defense_from(trained)
        self._execution = Execution(execution_of(config), device)
        self._views: dict[Access, View] = {}

    @property
    def steady(self) -> bool:
        """Whether an image gets the same answer whatever was asked before: true of our own networks without noise."""
        noisy = self._defense is not None and self._defense.seed_noise(self._network, 0)
        return not noisy and not isinstance(self._network, ExternalModel)

    @overload
    def view(self, access: Literal["gradients"], *, noise: int | None = None) -> GradientView: ...

    @overload
    def view(self, access: Access, *, noise: int | None = None) -> View: ...

    def view(self, access: Access, *, noise: int | None = None) -> View:
        """What may be seen of it. noise: seed of a noisy readout, which must not depend on what was asked before."""
        if noise is not None and self._defense is not None and self._defense.seed_noise(self._network, noise):
            self._execution, self._views = Execution(execution_of(self._config), self._device), {}
        if access not in self._views:
            classes = self._network.num_classes if self._network is not None else 0
            outside = isinstance(self._network, ExternalModel)
            self._views[access] = view_of(
                PreparedTarget(self._network) if outside else self._network,
                access,
                num_classes=classes,
                image_size=self._config["image_size"],
                execution=self._execution,
                gives=self._network.access if outside else "gradients",
                accepts=self._network.opened.accepts if outside else None,
            )
        return self._views[access]


def attack_inputs_of(needs: tuple[str, ...], config: Config, inputs: Inputs, device: str) -> AttackInputs:
    """What these names stand for, from the artifacts they came as."""
    prior = load_prior(inputs["prior"]).to(device) if "prior" in needs else None
    public = load_tensors(inputs["public"] / "images.safetensors")["images"] if "public" in needs else None
    plain = ("prior", "public", "target", "discriminator")
    return AttackInputs(
        protocol=config["protocol"] if "protocol" in config else None,  # noqa: SIM401 - a part may not be told it
        prior=prior,
        public=public,
        discriminator=(lambda: load_discriminator(inputs["prior"]).to(device)) if "discriminator" in needs else None,
        parts={name: _tensors_in(inputs[name]) for name in needs if name not in plain},
        networks={name: _networks_in(inputs[name], device) for name in needs if name not in plain},
    )


class LazyPart(Mapping[str, Any]):
    """What a part's artifact holds by name, each read when it is first looked at."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Any]) -> None:
        self._names, self._read = names, cache(read)

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _tensors_in(folder: Path) -> LazyPart:
    files = (path.name for path in sorted(folder.glob("*.safetensors")) if not path.name.endswith(WEIGHTS))
    names = [name.removesuffix(".safetensors") for name in files]
    return LazyPart(names, lambda name: load_tensors(folder / f"{name}.safetensors")[name])


def _networks_in(folder: Path, device: str) -> LazyPart:
    """Frozen, on a device."""
    return LazyPart(network_names(folder), lambda name: load_network(folder, name).to(device))


def make_part(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the part's tensors and networks into files of their names.

    Returns its facts, and how often it asked the target: over all attempts, where it goes on from a state it kept.

    config: part (a row of PARTS), image_size (of the target's input); of one that is imported, content and path of a
    folder of networks; else settings, protocol where it reaches the part (`PartKind.told_protocol`), how networks run.
    """
    kind = PARTS[config["part"]]
    if "content" in config:
        return adopt_networks(config, inputs, out)
    target = OpenTarget(inputs.get("target"), config, context.device)
    view = target.view(kind.access if "target" in inputs else "none")
    part_inputs = attack_inputs_of(tuple(inputs), config, inputs, context.device)
    part_context = WorkFolder(context, view)
    made = kind.function()(config["settings"], part_inputs, view, part_context)
    for name, tensor in made.tensors.items():
        save_tensors(out / f"{name}.safetensors", {name: tensor.detach().cpu().contiguous()})
    for name, network in made.networks.items():
        save_network(network, out, name)
    query_metric = {"queries": float(part_context.queries)} if "target" in inputs else {}
    return {**made.facts, **query_metric, "rows_halved": view.execution.batch_halvings}


def adopt_networks(config: Config, inputs: Inputs, out: Path) -> Metrics:
    """Writes the networks of the folder `path`, which were trained elsewhere, as if they had been made here.

    Raises InputError for networks of another part, size of images, or number of classes than the target's.
    """

    def adopt(folder: Path) -> None:
        classes = len(class_names_of(inputs)) if "target" in inputs else None
        check_imported(str(folder), config["part"], image_size=config["image_size"], classes=classes)
        for name in NETWORKS[config["part"]]:
            save_network(load_network(folder, name), out, name)

    planned(config, any_files=True).read(adopt)
    return {}


class WorkFolder:
    """A stage's work folder as an attack's `PartContext`; training counts on from a state that is read."""

    def __init__(self, context: TaskContext, view: View) -> None:
        self._context, self._view, self._shown_before = context, view, 0

    @property
    def queries(self) -> int:
        """How many images the target was shown for what is there now."""
        return self._shown_before + self._view.queries

    def last_state(self) -> dict[str, Any] | None:
        checkpoint = load_checkpoint(self._context.work / CHECKPOINT)
        if checkpoint is None:
            return None
        self._shown_before = int(checkpoint["queries"])
        return checkpoint["state"]

    def keep_state(self, state: Mapping[str, Any]) -> None:
        save_checkpoint(self._context.work / CHECKPOINT, {"state": dict(state), "queries": self.queries})
        self._context.leave_with_the_machine()

    def progress(self, fraction: float, text: str) -> None:
        self._context.progress(fraction, text)


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
        parts.append({name: tensor for name, tensor in tensors.items() if name != "images"})  # which fill the memory
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
