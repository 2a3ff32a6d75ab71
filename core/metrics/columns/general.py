"""Columns of the judges that learnt on pictures of anything: of features, and of answers to questions."""

from __future__ import annotations

from functools import partial

from smoothsweep.core.metrics.columns.metric import BALANCED, Metric

UNANSWERED = "it answered nothing of the kind with yes or no, or there was nothing of the kind to ask about"

_leak = partial(Metric, unit="percent", better="low", group="leak", searched=True)
_check = partial(Metric, unit="percent", better=None, group="check")


GENERAL_JUDGES: tuple[Metric, ...] = (
    _leak(
        key="general_acc1",
        label="general judge",
        measured_by="general",
        ceiling="general_real_acc",
        counted="reconstructions",
        description=(
            "As the independent judge, in the features of a network of another family that never learnt faces: a "
            "vision transformer trained on the hashtags of pictures of anything."
        ),
    ),
    _leak(
        key="general_acc5",
        label="general judge, top 5",
        measured_by="general",
        counted="reconstructions",
        description=("As the general judge, counting the attacked class among its five best guesses."),
    ),
    Metric(
        key="general_acc1_std",
        label="general judge, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        measured_by="general",
        spread=True,
        description="Standard deviation of the general judge's hit rate over the classes.",
    ),
    _check(
        key="general_real_acc",
        label="general judge on real images",
        measured_by="general",
        counted="test images",
        description=(
            "How often the general judge names real images of the private classes correctly: the ceiling of its "
            "verdict on reconstructions."
        ),
    ),
    _check(
        key="general_real_acc_balanced",
        label="general judge on real images, balanced",
        measured_by="general",
        counted="test images",
        description=BALANCED,
    ),
    _leak(
        key="asked_acc1",
        label="vision-language judge",
        measured_by="asked",
        ceiling="asked_real_acc",
        counted="reconstructions",
        null=UNANSWERED,
        description=(
            "Share of reconstructions of which a vision-language model says that they show the person of four training "
            "photographs, among those of which it says yes or no."
        ),
    ),
    _check(
        key="asked_unclear",
        label="vision-language judge, no answer",
        measured_by="asked",
        description=("Share of its questions that the vision-language model answered with neither yes nor no."),
    ),
    _check(
        key="asked_real_acc",
        label="vision-language judge on real images",
        measured_by="asked",
        null=UNANSWERED,
        description=(
            "How often the vision-language model says yes to a real test image of the person, by the same words: the "
            "ceiling of its verdict on reconstructions."
        ),
    ),
    _check(
        key="asked_false",
        label="vision-language judge on others",
        measured_by="asked",
        null=UNANSWERED,
        description="How often it says yes to a real test image of another attacked person.",
    ),
)
