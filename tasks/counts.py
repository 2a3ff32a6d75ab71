"""How many images a stage's data have, told from its configuration and the labels alone: no picture is read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from smoothsweep.core.checks import require_room
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned

CHANNELS = 3


def training_counts(data: Config) -> tuple[int, ...] | None:
    """Training images by class, at most; None where only reading the pictures tells, or nothing is there yet.

    Raises InputError for what is wrong with labels and splits, as the stage `data` does.
    """
    if data["kind"] == "synthetic":
        return (data.get("samples_per_class", data["train_per_class"]),) * data["identities"]
    if data["kind"] == "labelled":
        names, place = ("test_fraction", "split_seed", "largest_classes", "samples_per_class"), planned(data)
        return _labelled(place, **{name: data.get(name) for name in names}) if place.is_there else None
    if not (place := planned(data, any_files=True)).is_folder:
        return None
    names = ("kind", "classes", "pictures", "split_seed", "samples_per_class")
    return _published(place, **{name: data.get(name) for name in names})


def test_count(data: Config) -> int | None:
    """Test images of all classes; None where only reading the pictures tells."""
    return data["identities"] * data["test_per_class"] if data["kind"] == "synthetic" else None


def check_data(config: Config, inputs: object) -> None:
    """Raise InputError for private images that could not be split as asked, or would be more than a machine keeps."""
    if config["kind"] == "synthetic":
        images = config["identities"] * (config["train_per_class"] + config["test_per_class"])
        require_room("images", images, CHANNELS * config["size"] ** 2)
    elif names_a_file(config) and (config["kind"] == "labelled" or config.get("samples_per_class")):
        training_counts(config)  # a published set is long to list, and agrees with itself


def check_public(config: Config, inputs: object) -> None:
    """Raise InputError for public images that would be more than a machine keeps."""
    each = CHANNELS * config["size"] ** 2
    if config["kind"] == "synthetic":
        require_room("public images", config["identities"] * config["per_identity"], each)


@lru_cache(maxsize=8)
def _labelled(data: PlannedFile, **options: Any) -> tuple[int, ...]:
    from smoothsweep.core.data.labelled import training_labels  # brings torch

    return tuple(data.read(lambda path: training_labels(path, **options)).bincount().tolist())


@lru_cache(maxsize=8)
def _published(data: PlannedFile, **options: Any) -> tuple[int, ...]:
    from smoothsweep.core.data.published import published_training_labels  # brings torch

    return tuple(data.read(lambda path: published_training_labels(path=path, **options)).bincount().tolist())
