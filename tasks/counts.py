"""Count a stage's images from its configuration and the labels, without reading a picture."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothsweep.core.analysis.backdoors import POISONED_ROWS, PoisonSettings, poisoned_labels, poisoned_rows
from smoothsweep.core.bounds import MOST
from smoothsweep.core.checks import require_room
from smoothsweep.core.data.base import DataKind
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.declared import build
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned

if TYPE_CHECKING:
    from torch import Tensor

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
    settings = {field.name: data[field.name] for field in fields(kind) if field.name in data}
    return build(kind, settings, what=f"data {data['kind']}", prefix="data.")


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


def image_counts(data: Config) -> tuple[int, ...] | None:
    """Training and test images by class; None where only reading the pictures can tell."""
    if data["kind"] != "synthetic" or (counts := training_counts(data)) is None:
        return None
    return tuple(count + data["test_per_class"] for count in counts)


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
