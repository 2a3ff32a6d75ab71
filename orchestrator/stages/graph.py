"""The stages of a trial before its judges: images, prior, target, parts of the attack, attack, reconstructions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.registry import part_kind
from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.plugins import plugin_version
from smoothsweep.core.priors.kinds import brings_network, network_card
from smoothsweep.core.priors.settings import PriorFolder
from smoothsweep.orchestrator.stages.stage import Stage, content_of, is_absent, normalised
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.parts import AnyData, LabelledData, PublishedData, PublishedPublic, UnlabelledPublic
from smoothsweep.sweeps.schema import InversionSweep, known_classes
from smoothsweep.sweeps.training import Recipe, Training


def data_stage(settings: InversionSweep, image_size: int, *, for_judges: bool = False) -> Stage:
    """The private images as a network of `image_size` pixels gets them.

    A published set is reduced from its files to each network's own size, as the official code does; the judges of
    Stanford Dogs see the cropped pictures. Other data have one size, and networks reduce them. A target trained on
    few images of each class is still judged by all of them.
    """
    data = settings.data
    if for_judges and data.samples_per_class is not None:
        data = data.model_copy(update={"samples_per_class": None})
    made = _file_stage(data, "data.path", plugin_version("data", data.kind))
    if not isinstance(data, PublishedData):
        return Stage(name="data", **made)
    kind = (for_judges and PUBLISHED_NAMES[data.kind].judged_as) or data.kind
    config = {**made["config"], "kind": kind, "size": image_size}
    return Stage(name="data", config=config, hints=made["hints"])


def prior_stage(settings: InversionSweep) -> Stage:
    """The generative prior: fitted on public images, shipped, or read from a folder."""
    prior: Any = settings.prior  # with the keys of its kind
    config, files = normalised(prior, without={"path"}) | plugin_version("priors", prior.kind), prior.built.files
    if files is None:
        refuse_same_people(settings)
        return Stage(name="prior", config=config, inputs={"public": public_stage(settings)})
    config |= content_of(files.weights, files.key)
    if not isinstance(prior.built, PriorFolder):
        return Stage(name="prior", config=config)
    if is_absent(files.weights, files.key):
        return Stage(name="prior", config=config, hints={"path": prior.path})
    config["card"] = (card := prior_card(settings)).plain
    config |= plugin_version("priors", brings_network(card.kind))
    if "discriminator" in settings.inverted_by.built.needs:
        config["discriminator"] = content_of(files.discriminator, "attack.discriminator_weight")["content"]
    return Stage(name="prior", config=config, hints={"path": prior.path})


def public_stage(settings: InversionSweep) -> Stage:
    """The public images that priors, and parts of attacks, learn from."""
    return Stage(name="public", **_file_stage(present(settings.public, "public"), "public.path"))


def _file_stage(settings: Any, key: str, source: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Configuration and hints of a stage that may read a file: its content counts, not where it lies."""
    path = settings.path
    config = normalised(settings, without={"path"})
    content = content_of(path, key, any_files=isinstance(settings, PublishedData | PublishedPublic | AnyData))
    return {
        "config": {**config, **content, **(source or {})},
        "hints": {"path": path} if path is not None else {},
    }


def check_crop(settings: InversionSweep, attack: Attack) -> None:
    """Say at once if the crop is larger than what is decoded: 800 pixels suit a 1024-pixel prior only."""
    if attack.decoder == "prior":
        check_prior_crop(settings, attack.crop, attack.crop_key)
    elif attack.crop is not None and attack.crop > (side := settings.recipe.image_size):  # what the target takes
        raise InputError(f"{attack.crop_key}: expected at most the generator's {side} pixels, got {attack.crop}")


def check_prior_crop(settings: InversionSweep, crop: int | None, key: str) -> None:
    """Say at once if the crop is larger than what the prior makes. key: of the crop in a sweep file."""
    if crop is None or prior_is_absent(settings):
        return
    side = prior_card(settings).config.resolution
    if crop > side:
        raise InputError(f"{key}: expected at most the prior's {side} pixels, got {crop}")


def prior_is_absent(settings: InversionSweep) -> bool:
    """Whether the prior's files are nowhere, and a plan is made without them: what they would say is not known then."""
    files = present(settings.prior, "prior").built.files
    return files is not None and is_absent(files.weights, files.key)


def prior_card(settings: InversionSweep) -> NetworkCard:
    """What the prior's network is, or will be, built from."""
    return network_card(present(settings.prior, "prior").built, settings.public.size if settings.public else None)


def refuse_same_people(settings: InversionSweep) -> None:
    """Raise InputError where data and public images share their files.

    By place: one and the same, one in the other, through links as well. By content: a copy of a labelled set.
    """
    private, public = settings.data.path, settings.public
    if private is None or not isinstance(public, UnlabelledPublic):
        return
    _compare(private, public.path, by_content=isinstance(settings.data, LabelledData))


@lru_cache(maxsize=64)
def _compare(private: str, public: str, *, by_content: bool) -> None:
    private_path, other = (Path(path).expanduser().resolve() for path in (private, public))
    contents = [content_of(path, key) for path, key in ((private, "data.path"), (public, "public.path")) if by_content]
    if not (private_path.exists() and other.exists()):
        return  # a plan of what is not there yet
    is_same = by_content and contents[0] == contents[1]
    if (
        is_same
        or os.path.samefile(private_path, other)
        or private_path.is_relative_to(other)
        or other.is_relative_to(private_path)
    ):
        raise InputError(f"public.path: expected images of other people than data.path, got {private_path} and {other}")


def refuse_listed_classes(settings: InversionSweep) -> None:
    """Raise InputError for an attack that does not suit the classes of a labelled set.

    What the sweep file says of their number was checked when it was read; attacks that take any number, and data that
    are not there yet (a plan may be made before they are), are let pass.
    """
    attack, data = settings.inverted_by.built, settings.data
    takes_any = type(attack).check_classes is Attack.check_classes
    if takes_any or known_classes(settings) is not None or not isinstance(data, LabelledData):
        return
    path = Path(data.path).expanduser()
    if path.exists():
        attack.check_classes(_counted(path.resolve()))


@lru_cache(maxsize=8)
def _counted(path: Path) -> int:
    return count_labelled(path).classes


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
    poison = normalised(present(settings.recipe.poison, "poison"))
    seeds = [poison.pop("seed"), seed]
    config = {"poison": poison, "image_size": settings.recipe.image_size, "seeds": seeds}
    return Stage(name="poison", config=config, inputs={"data": data})


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
    """One part. Networks that were trained elsewhere count by their content, and nothing of a training does."""
    inputs = {name: made[name] for name in part.needs}
    config: dict[str, Any] = {"part": part.name, "image_size": settings.recipe.image_size}
    if part.imported is not None:
        config |= content_of(part.imported, "attack.gan.imported", any_files=True)
        return Stage(name=part.name, config=config, hints={"path": part.imported}, inputs=inputs)
    config |= {"settings": dict(part.settings), **passes(settings, asks="target" in part.needs)}
    if part_kind(part.name).told_protocol:
        config["protocol"] = settings.protocol
    if part.name in settings.inverted_by.built.own_parts:
        config |= plugin_version("attacks", settings.inverted_by.kind)
    return Stage(name=part.name, config=config, inputs=inputs)


def reconstruction_stage(settings: InversionSweep, sizes: list[int], attack_made: Stage, *, decoded: bool) -> Stage:
    """The final images, synthesised once. sizes: of the judges' inputs, which protocol `paper` keeps one by one.

    decoded: whether it keeps them as they were decoded too, at the target's size.
    """
    attack, built = settings.inverted_by, settings.inverted_by.built
    decoder_input = {} if built.leaves_images else {built.decoder: attack_made.inputs[built.decoder]}
    config: dict[str, Any] = {"protocol": settings.protocol, "crop": built.crop}
    if settings.protocol == "paper":
        config |= {"sizes": sizes} | ({"decoded": settings.recipe.image_size} if decoded else {})
        config |= {} if built.enlarging is None else {"enlarging": built.enlarging}
    elif attack.reconstruction_size is not None:
        config["side"] = attack.reconstruction_size
    if settings.resources.attack_rows:
        config["rows_per_batch"] = settings.resources.attack_rows
    return Stage(name=RECONSTRUCTIONS, config=config, inputs={**decoder_input, "attack": attack_made})


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
