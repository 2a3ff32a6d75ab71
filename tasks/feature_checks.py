"""What the mapping of features refuses before anything is trained: fewer images than t-SNE needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from core.analysis.embedding_settings import spread_over
from tasks.context import Config
from tasks.planned_files import PlannedFile, planned
from tasks.settings import InputConfigs, embedding_settings


def check_features(config: Config, inputs: InputConfigs) -> None:
    """Raise InputError where the data have fewer images to map than the perplexity allows.

    Pictures are counted by their labels, none is read: where broken ones may be left out, the stage itself counts what
    is there, and of a published set that is not on this machine (a plan needs none) nothing is known.
    """
    settings, counts = embedding_settings(config), _training_counts(inputs["data"])
    if counts is not None:
        settings.check_samples(sum(counts[place] for place in spread_over(len(counts), settings.classes)))


def _training_counts(data: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Training images by class, at most; None where only reading the pictures tells."""
    if data["kind"] == "synthetic":
        return (data.get("samples_per_class", data["train_per_class"]),) * data["identities"]
    if data["kind"] == "labelled":
        names = ("test_fraction", "split_seed", "largest_classes", "samples_per_class")
        return _counted(planned(data), **{name: data.get(name) for name in names})
    if not (place := planned(data, any_files=True)).is_folder:
        return None
    names = ("kind", "classes", "pictures", "split_seed", "samples_per_class")
    return _counted_published(place, **{name: data.get(name) for name in names})


@lru_cache(maxsize=8)
def _counted(data: PlannedFile, **options: Any) -> tuple[int, ...]:
    from core.data.labelled import training_labels  # brings torch

    return tuple(data.read(lambda path: training_labels(path, **options)).bincount().tolist())


@lru_cache(maxsize=8)
def _counted_published(data: PlannedFile, **options: Any) -> tuple[int, ...]:
    from core.data.published import published_training_labels  # brings torch

    return tuple(data.read(lambda path: published_training_labels(path=path, **options)).bincount().tolist())
