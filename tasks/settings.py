"""The settings of core from a stage's configuration, and what they refuse, without the work. Loads no torch.

A task builds its settings here, and so does the planner: `check_*(config, inputs)` raises the InputError that the
task would raise, for the configurations of the stage and of its inputs (name -> configuration), hints included.
What needs the networks themselves imports torch where a sweep names such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.analysis.backdoors import POISONED_ROWS, PoisonSettings, poisoned_labels, poisoned_rows
from smoothsweep.core.attacks.registry import attack_class, make_attack
from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.bounds import MOST
from smoothsweep.core.checks import present, require_room
from smoothsweep.core.data.base import DataKind
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.declared import build
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.defenses.schedules import AlphaSchedule, alpha_at
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.features import Features, spread_over
from smoothsweep.core.judges.fidelity import PublishedFid
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.robustness import Robustness
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.membership.base import check_part
from smoothsweep.core.models.architectures import check_image_size
from smoothsweep.core.models.recipe import LEAST_OF_A_WORKER, TrainingRecipe
from smoothsweep.core.priors.kinds import PRIORS, make_settings
from smoothsweep.core.priors.settings import PriorSettings
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned, prior_files

if TYPE_CHECKING:
    from torch import Tensor

InputConfigs = Mapping[str, Config]


def _stated(declared: type[Any], config: Config) -> dict[str, Any]:
    """What a configuration says of a dataclass's fields."""
    return {field.name: config[field.name] for field in fields(declared) if field.name in config}


def recipe_from(config: Config) -> TrainingRecipe:
    """The training settings within a stage's configuration."""
    return build(TrainingRecipe, _stated(TrainingRecipe, config), what="training", prefix="training ")


def smoothing_of_epoch(defense: Config, epochs: int) -> Callable[[int], float]:
    """Zero-based epoch -> effective alpha, from a resolved `defense` configuration."""
    parameters = dict(defense["schedule"])
    if "points" in parameters:
        parameters["points"] = tuple(tuple(point) for point in parameters["points"])
    schedule = AlphaSchedule(**parameters)
    return lambda epoch: alpha_at(schedule, alpha=defense["alpha"], epoch=epoch, epochs=epochs)


def attack_of(config: Config) -> Attack:
    """The attack whose parameters stand in an attack stage's configuration."""
    of_trial = {"seed", "reconstruction_size"}
    stated = _stated(attack_class(config["kind"]), {key: config[key] for key in config.keys() - of_trial})
    return make_attack(config["kind"], **stated)


def prior_settings(config: Config) -> PriorSettings:
    """The settings of the prior in its stage's configuration."""
    return make_settings(config["kind"], **_stated(PRIORS[config["kind"]].settings, config))


def check_training(config: Config, inputs: InputConfigs) -> None:
    """A target, an evaluator or a surrogate. Raises InputError."""
    recipe = recipe_from(config)
    check_image_size(recipe.architecture, recipe.image_size)
    if "defense" in config:
        smoothing_of_epoch(config["defense"], recipe.epochs)(recipe.epochs - 1)
        if "data" in inputs:
            _check_images(config, recipe, inputs["data"], inputs.get("poison"))


def _check_images(config: Config, recipe: TrainingRecipe, data: Config, poison: Config | None) -> None:
    """The images that are trained on, where their number is known: enough for the defense, and for every worker."""
    plain = config["defense"]["kind"] == "label_smoothing"
    if plain and data["kind"] in PUBLISHED_NAMES:  # published sets suffice, and their lists are long
        return
    if (counts := training_counts(data)) is None:
        return
    images, workers = sum(counts), config.get("workers", 1)
    if not plain:
        defense = make_defense(config["defense"]["kind"], **config["defense"].get("parameters", {}))
        if poison is not None:
            counts = _counts_under_poison(defense, config, data, poison, len(counts))
        images = defense.check_data(counts, recipe)
    if images < LEAST_OF_A_WORKER * workers:
        expected = f"expected at least {LEAST_OF_A_WORKER} images per worker in a batch"
        raise InputError(f"training: {expected}, got {images} images for {workers} workers")


def _counts_under_poison(
    defense: Defense, config: Config, data: Config, poison: Config, classes: int
) -> tuple[int, ...]:
    """Images by class as the poison labels them. Raises InputError where the defense could learn nothing of those that
    it holds out and the poison leaves alone."""
    from smoothsweep.core.training.batches import held_out_rows

    labels, chosen = present(poisoned_training(data, poison), "training images")
    held_out_rows(defense, labels, chosen, classes=classes, seed=config["seed"])
    return tuple(labels.bincount(minlength=classes).tolist())


def check_poison(config: Config, inputs: InputConfigs) -> None:
    """The images that are poisoned, where their number is known. Raises InputError."""
    settings = poison_settings(config)
    data = inputs["data"]
    if settings.placed == "before_augmentation":
        settings.check_image_size(min(data.get("size", config["image_size"]), config["image_size"]))
    if (counts := training_counts(data)) is not None:
        settings.count_of(sum(counts))
        settings.check_classes(len(counts))


def check_robustness(config: Config, inputs: InputConfigs) -> None:
    """The images and classes that are attacked, where their number is known. Raises InputError."""
    settings = build(Robustness, config["settings"], what="robustness", prefix="judges.robustness.")
    if (counts := training_counts(inputs["data"])) is not None:
        settings.check_classes(len(counts))
    if (images := test_count(inputs["data"])) is not None:
        settings.check_images(images)


def check_attack(config: Config, inputs: InputConfigs) -> None:
    """The attack's own parameters. Raises InputError."""
    attack_of(config)


def embedding_settings(config: Config) -> Features:
    """How features are mapped and measured."""
    return build(Features, dict(config), what="features", prefix="features ")


def check_features(config: Config, inputs: InputConfigs) -> None:
    """Raise InputError where the data have fewer images to map than the perplexity allows.

    Pictures are counted by their labels, none is read: where broken ones may be left out, the stage itself counts what
    is there, and of a published set that is not on this machine (a plan needs none) nothing is known.
    """
    settings, counts = embedding_settings(config), training_counts(inputs["data"])
    if counts is not None:
        settings.check_samples(sum(counts[place] for place in spread_over(len(counts), settings.classes)))


def check_shadow(config: Config, inputs: Mapping[str, Config]) -> None:
    """The recipe, and the images of every class that the model would have. Raises InputError."""
    check_training(config, inputs)
    _check_counts(inputs, float(config["part"]["share"]))


def check_membership(config: Config, inputs: Mapping[str, Config]) -> None:
    """The settings, and images of every class, where their number is known. Raises InputError."""
    settings = build(Membership, dict(config["settings"]), what="judges.membership", prefix="judges.membership.")
    if settings.shadows:
        _check_counts(inputs, settings.share)


def _check_counts(inputs: Mapping[str, Config], share: float) -> None:
    data = inputs.get("data")
    counts = training_counts(data) if data is not None and data["kind"] == "synthetic" else None
    if data is not None and counts is not None:  # else the images tell when they are read
        check_part(tuple(count + data["test_per_class"] for count in counts), share, "judges.membership")


def check_prior(config: Config, inputs: InputConfigs) -> None:
    """A prior that is trained, or read from a folder. Raises InputError."""
    settings = prior_settings(config)
    if files := settings.files:
        for file in prior_files(config, files):
            file.read(_check_safetensors)
    else:
        settings.check_public(count=public_count(inputs["public"]), size=inputs["public"].get("size"))


def check_judge(config: Config, inputs: InputConfigs) -> None:
    """The weights file of a judge: read as the judge will read it. Raises InputError."""
    network = config["network"]
    if network == "fid_inception" or issubclass(JUDGES.get(network, Judge), PublishedFid):
        _load_inception(network, planned(config), config.get("sha256"))
    elif names_a_file(config):
        _load_embedder(network, planned(config))


def check_strangers(config: Config, inputs: InputConfigs) -> None:
    """The judge's weights, and strangers enough where verification is asked for. Raises InputError."""
    check_judge(config, inputs)
    count, minimum = public_count(inputs["public"]), config.get("least", 0)
    if count is not None and count < minimum:
        raise few_strangers_error(count, minimum)


def few_strangers_error(count: int, minimum: int) -> InputError:
    """The error that says that there are fewer strangers than were asked for."""
    return InputError(
        f"public: expected {minimum} or more strangers, for a threshold of 1 % false accepts, got {count}"
    )


def _check_safetensors(path: Path) -> None:
    from smoothsweep.core.readers.tensors import UnreadableTensors, read_header

    try:
        names = read_header(path)
    except (OSError, UnreadableTensors) as error:
        raise InputError(f"{path}: expected a safetensors file, got: {error}") from None
    if not names:
        raise InputError(f"{path}: expected tensors, got none")


@lru_cache(maxsize=8)
def _load_inception(network: str, file: PlannedFile, sha256: str | None) -> None:
    from smoothsweep.core.models.fid import load_inception

    file.read(lambda path: load_inception(network, path, sha256=sha256))


@lru_cache(maxsize=8)
def _load_embedder(name: str, file: PlannedFile) -> None:
    from smoothsweep.core.models.embedders import load_embedder

    file.read(lambda path: load_embedder(name, path))


CHANNELS = 3


def training_counts(data: Config) -> tuple[int, ...] | None:
    """The most training images by class; None where only reading the pictures can tell, or none are there yet.

    Raises InputError for what is wrong with labels and splits, as the stage `data` does.
    """
    if data["kind"] == "synthetic":
        return (data.get("samples_per_class", data["train_per_class"]),) * data["identities"]
    if data["kind"] in DATA:
        return data_kind(data).training_counts()
    labels = _labels(data)
    return None if labels is None else tuple(labels.bincount().tolist())


def data_kind(data: Config) -> DataKind:
    """The settings of a kind of `core.data.kinds`, in its stage's configuration."""
    kind = DATA[data["kind"]]
    return build(kind, _stated(kind, data), what=f"data {data['kind']}", prefix="data.")


def _labels(data: Config) -> Tensor | None:
    """The class of every training image int64 [N], in the order of the images; None as in `training_counts`."""
    if data["kind"] in DATA:
        return None
    if data["kind"] == "synthetic":
        import torch

        each = data.get("samples_per_class", data["train_per_class"])
        return torch.arange(data["identities"]).repeat_interleave(each)
    if data["kind"] == "labelled":
        names, place = ("test_fraction", "split_seed", "largest_classes", "samples_per_class"), planned(data)
        return _labelled(place, **{name: data.get(name) for name in names}) if place.is_there else None
    if not (place := planned(data, any_files=True)).is_folder:
        return None
    names = ("kind", "classes", "pictures", "split_seed", "samples_per_class")
    return _published(place, **{name: data.get(name) for name in names})


def poisoned_training(data: Config, poison: Config) -> tuple[Tensor, Tensor] | None:
    """The labels int64 [N] after poisoning, and which images are poisoned, bool [N]. Imports torch.

    A class may be left without images. None as in `training_counts`.

    poison: configuration of the stage. Raises InputError as the stage does.
    """
    import torch

    from smoothsweep.core.seeds import generator

    if (counts := training_counts(data)) is None or (labels := _labels(data)) is None:
        return None
    settings = poison_settings(poison)
    settings.check_classes(len(counts))
    rows = poisoned_rows(settings, len(labels), generator(*poison["seeds"], POISONED_ROWS))
    chosen = torch.zeros(len(labels), dtype=torch.bool).scatter(0, rows, True)
    return poisoned_labels(labels, rows, settings.target), chosen


def poison_settings(config: Config) -> PoisonSettings:
    """The settings in a poison stage's configuration."""
    return build(PoisonSettings, dict(config["poison"]), what="poison", prefix="recipe.poison.")


def test_count(data: Config) -> int | None:
    """Number of test images of all classes; None where only reading the pictures can tell."""
    return data["identities"] * data["test_per_class"] if data["kind"] == "synthetic" else None


def public_count(public: Config) -> int | None:
    """Number of public images; None where only reading them can tell, or none are there yet."""
    if public["kind"] == "synthetic":
        return public["identities"] * public["per_identity"]
    if public["kind"] != "unlabelled" or not (place := planned(public)).is_folder:
        return None
    return min(_listed(place), public.get("limit") or MOST)


def check_data(config: Config, inputs: object) -> None:
    """Raise InputError for private images that could not be split as asked, or would be more than a machine keeps."""
    if config["kind"] == "synthetic":
        images = config["identities"] * (config["train_per_class"] + config["test_per_class"])
        require_room("images", images, CHANNELS * config["size"] ** 2)
    elif names_a_file(config) and (config["kind"] == "labelled" or config.get("samples_per_class")):
        training_counts(config)  # a published set takes long to list and has consistent labels


def check_public(config: Config, inputs: object) -> None:
    """Raise InputError for public images that would be more than a machine keeps."""
    each = CHANNELS * config["size"] ** 2
    if config["kind"] == "synthetic":
        require_room("public images", config["identities"] * config["per_identity"], each)


@lru_cache(maxsize=8)
def _listed(public: PlannedFile) -> int:
    from smoothsweep.core.data.sources import list_unlabelled

    return public.read(lambda path: len(list_unlabelled(path)))


@lru_cache(maxsize=8)
def _labelled(data: PlannedFile, **options: Any) -> Tensor:
    from smoothsweep.core.data.labelled import training_labels  # imports torch

    return data.read(lambda path: training_labels(path, **options))


@lru_cache(maxsize=8)
def _published(data: PlannedFile, **options: Any) -> Tensor:
    from smoothsweep.core.data.published import published_training_labels  # imports torch

    return data.read(lambda path: published_training_labels(path=path, **options))
