"""What the mapping of features refuses before anything is trained: fewer images than t-SNE needs."""

from __future__ import annotations

from smoothsweep.core.analysis.embedding_settings import spread_over
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.counts import training_counts
from smoothsweep.tasks.settings import InputConfigs, embedding_settings


def check_features(config: Config, inputs: InputConfigs) -> None:
    """Raise InputError where the data have fewer images to map than the perplexity allows.

    Pictures are counted by their labels, none is read: where broken ones may be left out, the stage itself counts what
    is there, and of a published set that is not on this machine (a plan needs none) nothing is known.
    """
    settings, counts = embedding_settings(config), training_counts(inputs["data"])
    if counts is not None:
        settings.check_samples(sum(counts[place] for place in spread_over(len(counts), settings.classes)))
