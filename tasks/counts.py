"""How many images a stage's data have, told from its configuration and the labels alone: no picture is read."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from core.checks import require_room
from tasks.context import Config

CHANNELS = 3


def training_counts(data: Config) -> tuple[int, ...] | None:
    """Training images by class, at most; None where only reading the pictures tells, or nothing is there yet.

    Raises InputError for what is wrong with labels and splits, as the stage `data` does.
    """
    if data["kind"] == "synthetic":
        return (data.get("samples_per_class", data["train_per_class"]),) * data["identities"]
    path = Path(data["path"]).expanduser()
    if data["kind"] == "labelled":
        names = ("test_fraction", "split_seed", "largest_classes", "samples_per_class")
        return _labelled(path, **{name: data.get(name) for name in names}) if path.exists() else None
    if not path.is_dir():
        return None
    names = ("kind", "classes", "pictures", "split_seed", "samples_per_class")
    return _published(path, **{name: data.get(name) for name in names})


def test_count(data: Config) -> int | None:
    """Test images of all classes; None where only reading the pictures tells."""
    return data["identities"] * data["test_per_class"] if data["kind"] == "synthetic" else None


def check_data(config: Config, inputs: object) -> None:
    """Raise InputError for private images that could not be split as asked, or would be more than a machine keeps."""
    if config["kind"] == "synthetic":
        images = config["identities"] * (config["train_per_class"] + config["test_per_class"])
        require_room("images", images, CHANNELS * config["size"] ** 2)
    elif config["path"] and (config["kind"] == "labelled" or config.get("samples_per_class")):
        training_counts(config)  # a published set is long to list, and agrees with itself


def check_public(config: Config, inputs: object) -> None:
    """Raise InputError for public images that would be more than a machine keeps."""
    each = CHANNELS * config["size"] ** 2
    if config["kind"] == "synthetic":
        require_room("public images", config["identities"] * config["per_identity"], each)


@lru_cache(maxsize=8)
def _labelled(path: Path, **options: object) -> tuple[int, ...]:
    from core.data.labelled import training_labels  # brings torch

    return tuple(training_labels(path, **options).bincount().tolist())


@lru_cache(maxsize=8)
def _published(path: Path, **options: object) -> tuple[int, ...]:
    from core.data.published import published_training_labels  # brings torch

    return tuple(published_training_labels(path=path, **options).bincount().tolist())
