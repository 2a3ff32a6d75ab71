"""What the mapping of features refuses before anything is trained: fewer images than t-SNE needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.analysis.embedding_settings import spread_over
from tasks.context import Config
from tasks.settings import InputConfigs, embedding_settings


def check_features(config: Config, inputs: InputConfigs) -> None:
    """Raise InputError where the data have fewer images to map than the perplexity allows.

    Rendered and the user's own pictures are counted. Of a published set, and where broken pictures may be left out, the
    stage itself counts what is there.
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
        return _counted(data["path"], **{name: data.get(name) for name in names})
    return None


@lru_cache(maxsize=8)
def _counted(path: str, **options: Any) -> tuple[int, ...]:
    from core.data.labelled import training_labels  # brings torch

    return tuple(training_labels(Path(path).expanduser(), **options).bincount().tolist())
