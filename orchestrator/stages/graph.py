"""The stages that come before the judges: data, prior, candidate pool, target, attack, loot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.attacks.base import Attack, Part
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.errors import InputError
from smoothsweep.core.network_card import NetworkCard
from smoothsweep.core.priors.card import read_prior_card
from smoothsweep.core.priors.kinds import PriorFolder
from smoothsweep.orchestrator.stages.fingerprints import content_of, normalised
from smoothsweep.orchestrator.stages.listed_classes import refuse_listed_classes
from smoothsweep.orchestrator.stages.memo import remembered
from smoothsweep.orchestrator.stages.public_overlap import refuse_same_people
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.data import PublishedData, PublishedPublic
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.sweeps.training import Recipe, Training

PLAIN_DEFENSE = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


@remembered
def data_stage(settings: InversionSweep, image_size: int, *, for_judges: bool = False) -> Stage:
    """The private images as a network of `image_size` pixels gets them.

    A published set is reduced from its files to each network's own size, as the official code does; of Stanford Dogs
    the judges see the cropped pictures. Other data have one size, and networks reduce them. A target trained on few
    images of each class is still judged by all of them.
    """
    data = settings.data
    if for_judges and data.samples_per_class is not None:
        data = data.model_copy(update={"samples_per_class": None})
    made = _file_stage(data, "data.path")
    if not isinstance(data, PublishedData):
        return Stage(name="data", **made)
    kind = "stanford_dogs_cropped" if data.kind == "stanford_dogs" and for_judges else data.kind
    return Stage(name="data", config={**made["config"], "kind": kind, "size": image_size}, hints=made["hints"])


@remembered
def prior_stage(settings: InversionSweep) -> Stage:
    """The generative prior: fitted on public images, shipped, or read from a folder."""
    prior = settings.prior
    config, files = normalised(prior, without={"path"}), prior.built.files
    if files is None:
        refuse_same_people(settings)
        return Stage(name="prior", config=config, inputs={"public": public_stage(settings)})
    config |= content_of(files.weights, files.key)
    if not isinstance(prior.built, PriorFolder):
        return Stage(name="prior", config=config)
    config["card"] = read_prior_card(files.description).plain
    if "discriminator" in settings.attack.built.needs:
        config["discriminator"] = content_of(files.discriminator, "attack.discriminator_weight")["content"]
    return Stage(name="prior", config=config, hints={"path": prior.path})


@remembered
def public_stage(settings: InversionSweep) -> Stage:
    """The public images that priors, and parts of attacks, learn from."""
    return Stage(name="public", **_file_stage(settings.public, "public.path"))


def target_stage(settings: InversionSweep, seed: int) -> Stage:
    """The classifier under attack: trained under the sweep's recipe, or brought in."""
    recipe, reference = settings.recipe, settings.reference()
    data = data_stage(settings, recipe.image_size)
    if isinstance(recipe, ImportedClassifier):
        return imported_stage(recipe, data, settings.protocol)
    return Stage(
        name="target",
        config={**_target_config(recipe, settings), "seed": seed},
        hints={"checkpoint_every": recipe.checkpoint_every},
        inputs={
            "data": data,
            **({"reference": target_stage(reference, seed)} if reference else {}),
            **({"poison": poison_stage(settings, data, seed)} if recipe.poison else {}),
        },
    )


def poison_stage(settings: InversionSweep, data: Stage, seed: int) -> Stage:
    """Which training images carry the backdoor's trigger, and the trigger."""
    poison = normalised(settings.recipe.poison)
    seeds = [poison.pop("seed"), seed]
    return Stage(
        name="poison",
        config={"poison": poison, "image_size": settings.recipe.image_size, "seeds": seeds},
        inputs={"data": data},
    )


@remembered
def judging_model_stage(model: Training | ImportedClassifier, data: Stage, protocol: str) -> Stage:
    """A judge's classifier: a target like any other, plainly trained, one for the whole sweep; or brought in."""
    if isinstance(model, ImportedClassifier):
        return imported_stage(model, data, protocol)
    config = normalised(model, without={"checkpoint_every"})
    return Stage(
        name="target",
        config={**config, "defense": PLAIN_DEFENSE, "workers": 1, "protocol": protocol},
        hints={"checkpoint_every": model.checkpoint_every},
        inputs={"data": data},
    )


def imported_stage(model: ImportedClassifier, data: Stage, protocol: str) -> Stage:
    """A brought-in classifier, tested on our data: its content and its card count, not where it lies."""
    config = {**model.checked.reading, **content_of(model.file, "imported")}
    config |= {"seed": 0, "protocol": protocol}
    return Stage(name="imported", config=config, hints={"path": model.imported}, inputs={"data": data})


def attack_stage(settings: InversionSweep, seed: int, target: Stage) -> Stage:
    """Every class inverted by itself. Which parts it needs, the attack says; each becomes a stage of its own.

    A stage has as inputs what it names and no more: an attack that sees nothing of the target is one for all recipes.
    Another trial's target does the stage that the attack's setting says.
    """
    attack, made = settings.attack.built, {"target": target}
    if settings.reads_prior:
        made["prior"] = prior_stage(settings)
    if "public" in attack.reads:
        refuse_same_people(settings)
        made["public"] = public_stage(settings)
    refuse_listed_classes(settings)
    others = {role: target_stage(other, seed) for role, other in settings.swapped_targets().items()}
    asked = {attack.other_targets[role]: {"target": stage} for role, stage in others.items()}
    swapped = {role: stage for role, stage in others.items() if attack.other_targets[role] is None and stage != target}
    _check_crop(settings, attack)
    if "prior" in attack.reads:
        attack.check_prior(lambda: _prior_card(settings))
    for part in attack.parts:
        made[part.name] = _part_stage(settings, part, {**made, **asked.get(part.name, {})})
    needs = [name for name in attack.needs if name != "discriminator"]  # which lies beside the prior
    if attack.access == "none":  # it still has to know the classes
        made["data"] = data_stage(settings, settings.recipe.image_size)
    seen = "data" if attack.access == "none" else "target"
    config = dict(_attack_config(settings))
    if (class_batch := attack.class_batch(settings.protocol)) > 1:
        config["class_batch"] = class_batch
    classes = "all" if settings.classes == "all" else list(settings.classes)
    return Stage(
        name="attack",
        config={
            **config, "classes": classes, "image_size": settings.recipe.image_size,
            "seed": [settings.attack.seed, seed], "protocol": settings.protocol, **_execution(settings),
        },
        inputs={name: made[name] for name in (seen, *needs)} | swapped,
    )  # fmt: skip


@remembered
def _attack_config(settings: InversionSweep) -> Mapping[str, Any]:
    """What the attack's stage is told of it. Who trains its parts, and where one lies, is the inputs' matter."""
    config = normalised(settings.attack, without={"seed", "loot_size", *settings.attack.built.other_targets})
    for key in {"gan", "students"} & config.keys():
        config[key] = {name: value for name, value in config[key].items() if name not in ("imported", "workers")}
    return config


def _part_stage(settings: InversionSweep, part: Part, made: Mapping[str, Stage]) -> Stage:
    inputs = {name: made[name] for name in part.needs}
    if part.imported is not None:
        return _imported_part(part, settings.recipe.image_size, inputs)
    return Stage(name=part.name, config=_part_config(settings, part), inputs=inputs)


@remembered
def _part_config(settings: InversionSweep, part: Part) -> Mapping[str, Any]:
    config: dict[str, Any] = {
        "part": part.name,
        "settings": dict(part.settings),
        "image_size": settings.recipe.image_size,
    }
    if part.workers > 1:
        config["workers"] = part.workers
    if PARTS[part.name].told_protocol:
        config["protocol"] = settings.protocol
    return {**config, **_passes(settings, "target" in part.needs), **_execution(settings)}


def _imported_part(part: Part, image_size: int, inputs: Mapping[str, Stage]) -> Stage:
    """Networks that somebody else trained: their content counts, not where they lie, and nothing of a training."""
    content = content_of(part.imported, "attack.gan.imported", any_files=True)
    return Stage(
        name=part.name, config={"part": part.name, "image_size": image_size, **content},
        hints={"path": part.imported}, inputs=inputs,
    )  # fmt: skip


def gradients_stage(settings: InversionSweep, target: Stage) -> Stage:
    """The target's gradients, followed from random latents of every attacked class; whatever the attack is."""
    asked = settings.judges.gradients
    _check_prior_crop(settings, asked.crop, "judges.gradients.crop")
    classes = "all" if settings.classes == "all" else list(settings.classes)
    return Stage(
        name="judge_gradients",
        config={
            "settings": normalised(asked), "classes": classes, "image_size": settings.recipe.image_size,
            "protocol": settings.protocol, **_passes(settings, asks=True), **_execution(settings),
        },
        inputs={"target": target, "prior": prior_stage(settings)},
    )  # fmt: skip


def loot_stage(settings: InversionSweep, sizes: list[int], attack: Stage, *, decoded: bool) -> Stage:
    """The final images, synthesised once. sizes: of the judges' inputs, which protocol `paper` keeps one by one.

    decoded: whether it keeps them as they were decoded too, at the target's size.
    """
    config: dict[str, Any] = {"protocol": settings.protocol, "crop": settings.attack.built.crop}
    if settings.protocol == "paper":
        config |= {"sizes": sizes} | ({"decoded": settings.recipe.image_size} if decoded else {})
    elif settings.attack.loot_size is not None:
        config["side"] = settings.attack.loot_size
    built = settings.attack.built
    if settings.protocol == "paper" and built.enlarging is not None:
        config["enlarging"] = built.enlarging
    rows = {key: value for key, value in _execution(settings).items() if key == "rows_per_batch"}
    decoder = {} if built.leaves_images else {built.decoder: attack.inputs[built.decoder]}
    return Stage(name="loot", config={**config, **rows}, inputs={**decoder, "attack": attack})


def _check_crop(settings: InversionSweep, attack: Attack) -> None:
    """Say at once if the crop is larger than what is decoded: 800 pixels suit a 1024-pixel prior only."""
    if attack.decoder == "prior":
        _check_prior_crop(settings, attack.crop, attack.crop_key)
    elif attack.crop is not None and attack.crop > (side := settings.recipe.image_size):  # what the target takes
        raise InputError(f"{attack.crop_key}: expected at most the generator's {side} pixels, got {attack.crop}")


def _check_prior_crop(settings: InversionSweep, crop: int | None, key: str) -> None:
    if crop is None:
        return
    side = _prior_card(settings).config.resolution
    if crop > side:
        raise InputError(f"{key}: expected at most the prior's {side} pixels, got {crop}")


def _prior_card(settings: InversionSweep) -> NetworkCard:
    """What the prior's network is, or will be, built from."""
    return settings.prior.built.network_card(settings.public.size if settings.public else None)


def _passes(settings: InversionSweep, asks: bool) -> dict[str, str]:
    """How networks are run, and how the target is read by a part that asks it."""
    attack = settings.attack
    precision = {"precision": attack.precision} if attack.precision else {}
    return {**precision, **({"readout": attack.readout} if asks and attack.readout else {})}


def _execution(settings: InversionSweep) -> dict[str, Any]:
    """How an attack's networks run, where the sweep says so: it changes rounding, and a descent makes much of that."""
    resources = settings.resources
    wishes = {
        "rows_per_batch": resources.attack_rows,
        "compile": resources.attack_compile,
        "cuda_graphs": resources.attack_cuda_graphs,
    }
    return {key: value for key, value in wishes.items() if value}


@remembered
def _target_config(recipe: Recipe, settings: InversionSweep) -> Mapping[str, Any]:
    # How often we save does not change what is learnt, and what is poisoned comes as an input.
    config = normalised(recipe, without={"checkpoint_every", "poison"})
    if not isinstance(config.get("stop_at_test_acc"), float):  # another trial's accuracy comes as an input
        config.pop("stop_at_test_acc", None)
    defense = recipe.defense.resolved(settings.protocol)
    return {**config, "defense": defense, "protocol": settings.protocol}


def _file_stage(settings: BaseModel, key: str) -> dict[str, dict[str, Any]]:
    """Configuration and hints of a stage that may read a file: its content counts, not where it lies."""
    path = settings.path
    config = normalised(settings, without={"path"})
    content = content_of(path, key, any_files=isinstance(settings, PublishedData | PublishedPublic))
    return {"config": {**config, **content}, "hints": {"path": path} if path is not None else {}}
