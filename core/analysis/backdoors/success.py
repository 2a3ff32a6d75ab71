"""What a backdoor reached: how often the trigger decides, and whether the training came to anything at all."""

from __future__ import annotations

from torch import Tensor

from smoothsweep.core.errors import InputError


def backdoor_metrics(clean: Tensor, triggered: Tensor, labels: Tensor, target: int) -> dict[str, float | None]:
    """Column -> value, of a classifier's answers int64 [N] to test images as they are, and with the trigger.

    backdoor_success: share answered with the target class under the trigger, images of that class left out (paper,
    Appendix C.9); backdoor_false: the same without the trigger, what success must exceed to mean anything. None where
    all images are of that class. backdoor_collapsed: see `collapsed`. Raises InputError without images.
    """
    if not len(labels):
        raise InputError("backdoor: expected test images, got none")
    others = labels != target
    shares = [
        answers[others].eq(target).double().mean().item() if others.any() else None for answers in (triggered, clean)
    ]
    return {
        "backdoor_success": shares[0],
        "backdoor_false": shares[1],
        "backdoor_collapsed": float(collapsed(clean, labels)),
    }


def collapsed(answers: Tensor, labels: Tensor) -> bool:
    """Whether the classifier gives nearly every clean image one class: the training failed, trigger or none.

    Nearly: the commonest answer's share is beyond half-way between the commonest class's share and all images (0.55
    with ten classes of one size).
    """
    answered, true = (values.bincount().max().item() / len(values) for values in (answers, labels))
    return answered > (1 + true) / 2
