"""Knowledge extraction score: what the reconstructions alone can teach about the private classes.

A surrogate classifier is trained on the reconstructions; its accuracy on the target's real training and
test images is the score (paper section 4.1; knowledge_extraction_score.py and datasets/attack_latents.py of
LukasStruppek/Plug-and-Play-Attacks). This file has the scoring; the training is that of any classifier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import top1_accuracy


def score_surrogate(
    logits_train: Tensor,
    labels_train: Tensor,
    logits_test: Tensor,
    labels_test: Tensor,
    *,
    attacked: Tensor | None = None,
) -> dict[str, float]:
    """Top-1 accuracies of the surrogate on the target's real images: {"xi_train", "xi_test"} in [0, 1].

    logits_*: float [N, C] of the surrogate on the target's training and test split; labels_*: int64 [N].
    attacked: int64 classes that the surrogate has seen; rows of other classes, which it cannot know, are left
    out. None: all classes were attacked. Raises InputError if a split then has no image.
    """
    scores = {}
    for split, logits, labels in (("train", logits_train, labels_train), ("test", logits_test, labels_test)):
        if attacked is not None:
            known = torch.isin(labels, attacked.to(labels.device))
            logits, labels = logits[known], labels[known]
        if not len(labels):
            raise InputError(f"knowledge extraction: no image of an attacked class in the {split} split")
        scores[f"xi_{split}"] = top1_accuracy(logits, labels)
    return scores
