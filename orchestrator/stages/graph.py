"""The stages between the images and the judges: target, parts of the attack, attack, reconstructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smoothsweep.core.attacks.registry import part_kind
from smoothsweep.core.attacks.shared.base import Part
from smoothsweep.core.checks import present
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.plugins import plugin_version
from smoothsweep.orchestrator.stages.fingerprints import content_of, normalised
from smoothsweep.orchestrator.stages.images import (
    check_crop,
    data_stage,
    prior_card,
    prior_is_absent,
    prior_stage,
    public_stage,
    refuse_listed_classes,
    refuse_same_people,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.sweeps.training import Poison, Recipe, Training

PLAIN_DEFENSE = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def target_stage(settings: InversionSweep, seed: int) -> Stage:
    """The classifier under attack: trained under the sweep's recipe, or brought in."""
    recipe, reference = settings.recipe, settings.reference()
    data = data_stage(settings, recipe.image_size)
    if isinstance(recipe, ImportedClassifier):
        return imported_stage(recipe, data, settings.protocol)
    config, hints = target_config(recipe, settings.protocol)
    return Stage(
        name="target",
        config={**config, "seed": seed},
        hints=hints,
        inputs={
            "data": data,
            **({"reference": target_stage(reference, seed)} if reference else {}),
            **({"poison": poison_stage(settings, data, seed)} if recipe.poison else {}),
        },
    )


def poison_stage(settings: InversionSweep, data: Stage, seed: int) -> Stage:
    """Which training images carry the backdoor's trigger, and the trigger."""
    config, own = _poison_config(present(settings.recipe.poison, "poison"), settings.recipe.image_size)
    return Stage(name="poison", config={**config, "seeds": [own, seed]}, inputs={"data": data})


def _poison_config(poison: Poison, image_size: int) -> tuple[dict[str, Any], int]:
    """Configuration but for the seeds, and its own seed."""
    config = normalised(poison)
    seed = config.pop("seed")
    return {"poison": config, "image_size": image_size}, seed


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
    reading = model.checked.reading
    config = {**reading, **content_of(model.file, "imported"), **plugin_version("models", reading["architecture"])}
    config |= {"seed": 0, "protocol": protocol}
    return Stage(name="imported", config=config, hints={"path": model.imported}, inputs={"data": data})


def attack_stage(settings: InversionSweep, seed: int, target: Stage) -> Stage:
    """Every class inverted by itself. Which parts it needs, the attack says; each becomes a stage of its own.

    A stage has as inputs what it names and no more: an attack that sees nothing of the target is one for all recipes.
    Another trial's target does the stage that the attack's setting says.
    """
    attack, made = settings.inverted_by.built, {"target": target}
    if settings.reads_prior:
        present(settings.prior, "prior").built.check_shown(settings.recipe.image_size)
        made["prior"] = prior_stage(settings)
    if "public" in attack.reads:
        refuse_same_people(settings)
        made["public"] = public_stage(settings)
    refuse_listed_classes(settings)
    others = {role: target_stage(other, seed) for role, other in settings.swapped_targets().items()}
    target_inputs = {attack.other_targets[role]: {"target": stage} for role, stage in others.items()}
    swapped = {role: stage for role, stage in others.items() if attack.other_targets[role] is None and stage != target}
    check_crop(settings, attack)
    if "prior" in attack.reads and not prior_is_absent(settings):
        attack.check_prior(lambda: prior_card(settings))
    for part in attack.parts:
        made[part.name] = _part_stage(settings, part, {**made, **target_inputs.get(part.name, {})})
    needs = [name for name in attack.needs if name != "discriminator"]  # which lies beside the prior
    if attack.access == "none":  # it still has to know the classes
        made["data"] = data_stage(settings, settings.recipe.image_size)
    seen = "data" if attack.access == "none" else "target"
    inputs = {name: made[name] for name in (seen, *needs)} | swapped
    config = {**_attack_config(settings), "seed": [settings.inverted_by.seed, seed]}
    return Stage(name="attack", config=config, inputs=inputs)


def _attack_config(settings: InversionSweep) -> dict[str, Any]:
    """What the stage is told whatever the seed. Who trains its parts, and where one lies, is the inputs' matter."""
    attack = settings.inverted_by
    config = normalised(attack, without={"seed", "reconstruction_size", *attack.built.other_targets})
    for key in {"gan", "students"} & config.keys():
        config[key] = {name: value for name, value in config[key].items() if name not in ("imported", "workers")}
    if attack.built.revision > 1:
        config["revision"] = attack.built.revision
    if (class_batch := attack.built.class_batch(settings.protocol)) > 1:
        config["class_batch"] = class_batch
    classes = "all" if settings.classes == "all" else list(settings.classes)
    return {
        **config,
        "classes": classes,
        "image_size": settings.recipe.image_size,
        "protocol": settings.protocol,
        **_execution(settings),
        **plugin_version("attacks", attack.kind),
    }


def _part_stage(settings: InversionSweep, part: Part, made: Mapping[str, Stage]) -> Stage:
    inputs = {name: made[name] for name in part.needs}
    if part.imported is not None:
        return _imported_part(part, settings.recipe.image_size, inputs)
    config = _part_config(settings, part)
    return Stage(name=part.name, config=config, inputs=inputs)


def _part_config(settings: InversionSweep, part: Part) -> dict[str, Any]:
    config: dict[str, Any] = {
        "part": part.name,
        "settings": dict(part.settings),
        "image_size": settings.recipe.image_size,
    }
    if part_kind(part.name).told_protocol:
        config["protocol"] = settings.protocol
    if part.name in settings.inverted_by.built.own_parts:
        config |= plugin_version("attacks", settings.inverted_by.kind)
    return {**config, **passes(settings, asks="target" in part.needs)}


def _imported_part(part: Part, image_size: int, inputs: Mapping[str, Stage]) -> Stage:
    """Networks that were trained elsewhere: their content counts, not where they lie, and nothing of a training."""
    content = content_of(part.imported, "attack.gan.imported", any_files=True)
    return Stage(
        name=part.name,
        config={"part": part.name, "image_size": image_size, **content},
        hints={"path": part.imported},
        inputs=inputs,
    )


def reconstruction_stage(settings: InversionSweep, sizes: list[int], attack: Stage, *, decoded: bool) -> Stage:
    """The final images, synthesised once. sizes: of the judges' inputs, which protocol `paper` keeps one by one.

    decoded: whether it keeps them as they were decoded too, at the target's size.
    """
    built = settings.inverted_by.built
    decoder = {} if built.leaves_images else {built.decoder: attack.inputs[built.decoder]}
    config = _reconstruction_config(settings, sizes, decoded)
    return Stage(name=RECONSTRUCTIONS, config=config, inputs={**decoder, "attack": attack})


def _reconstruction_config(settings: InversionSweep, sizes: list[int], decoded: bool) -> dict[str, Any]:
    attack, built = settings.inverted_by, settings.inverted_by.built
    config: dict[str, Any] = {"protocol": settings.protocol, "crop": built.crop}
    if settings.protocol == "paper":
        config |= {"sizes": sizes} | ({"decoded": settings.recipe.image_size} if decoded else {})
    elif attack.reconstruction_size is not None:
        config["side"] = attack.reconstruction_size
    if settings.protocol == "paper" and built.enlarging is not None:
        config["enlarging"] = built.enlarging
    rows = {key: value for key, value in _execution(settings).items() if key == "rows_per_batch"}
    return {**config, **rows}


def passes(settings: InversionSweep, *, asks: bool) -> dict[str, Any]:
    """How networks are run, and how the target is read by those who ask it."""
    attack = settings.inverted_by
    precision = {"precision": attack.precision} if attack.precision else {}
    return {**precision, **({"readout": attack.readout} if asks and attack.readout else {}), **_execution(settings)}


def _execution(settings: InversionSweep) -> dict[str, Any]:
    """How an attack's networks run, where the sweep says so: it changes rounding, and a descent makes much of that."""
    resources = settings.resources
    wishes = {
        "rows_per_batch": resources.attack_rows,
        "compile": resources.attack_compile,
        "cuda_graphs": resources.attack_cuda_graphs,
    }
    return {key: value for key, value in wishes.items() if value}


def target_config(recipe: Recipe, protocol: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration but for the seed, and hints."""
    # How often we save does not change what is learnt, and what is poisoned comes as an input.
    config = normalised(recipe, without={"checkpoint_every", "poison", "augmentation", "defense"})
    if not isinstance(config.get("stop_at_test_acc"), float):  # another trial's accuracy comes as an input
        config.pop("stop_at_test_acc", None)
    augmentation, defense = normalised(recipe.augmentation), recipe.defense.resolved(protocol)
    config |= {"augmentation": augmentation, "defense": defense, "protocol": protocol}
    return config, {"checkpoint_every": recipe.checkpoint_every}
