"""The sentences of an audit on membership: a claim with its interval, or why no claim is made."""

from __future__ import annotations

from smoothsweep.core.audit.membership import CHOSEN_BY_RESULT
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.audit.members import LEAST_OTHERS, AuditMembership, Membership
from smoothsweep.orchestrator.reading.audit.shadow_sentences import shadow_lines, shown_rate
from smoothsweep.orchestrator.reading.leak.membership import UNCLEAR, WORDS
from smoothsweep.orchestrator.reading.numbers.format import count

CHANCE = 0.5

ONE = "What another training of this model would give away is not known."


def membership_lines(membership: AuditMembership) -> tuple[str, ...]:
    """Sentences on membership, the finding first; where training and test images differ, why no claim is made."""
    if not membership.holds:
        return (
            f"No claim about membership is made: a classifier that never asks the model distinguishes "
            f"{_images(membership.members, membership.others)} by their pixels (AUC {membership.shift:.2f}; 0.5 is "
            "chance). They differ in more than membership, for example in camera or day, and whatever "
            "an attack finds may be that difference.",
            *_left_out(membership),
        )
    return (
        _finding(membership),
        *_at_low_rates(membership),
        *_by_labels(membership),
        *_beside_reference(membership),
        *_left_out(membership),
        *(shadow_lines(membership.shadows) if membership.shadows else ()),
        f"{'' if membership.shadows else membership.without_shadows + ' '}A classifier that never asks the model does "
        f"not distinguish training from test images by their pixels (AUC {membership.shift:.2f}).",
    )


def _images(members: int, others: int) -> str:
    return f"{count(members, 'training image')} from {count(others, 'test image')}"


def _finding(membership: AuditMembership) -> str:
    best, before = membership.strongest, membership.beforehand
    sure = "is better than chance" if best.low > CHANCE else "is not shown to be better than chance"
    picked = ""
    if before is not best:
        picked = f" It was {CHOSEN_BY_RESULT}; the attack chosen beforehand, {before.title}, reaches {before.words}."
    return (
        f"Membership: from this model's {best.access}, the strongest of {count(len(membership.model.told), 'attack')} "
        f"({best.title}) distinguishes {_images(*membership.tried_on(best))} of the same people with an AUC of "
        f"{best.words}. That {sure} (0.5; the interval is over people).{picked}"
    )


def _at_low_rates(membership: AuditMembership) -> tuple[str, ...]:
    best = membership.strongest
    if best.found is None:
        _, others = membership.tried_on(best)
        return (f"So few test images ({others}) show no false positive rate of 1{NBSP}%: that takes {LEAST_OTHERS}.",)
    return (
        f"At 1{NBSP}% false positives the attack ({best.title}) finds {shown_rate(best.found)} of the training images "
        f"(1{NBSP}% is chance).",
    )


def _by_labels(membership: AuditMembership) -> tuple[str, ...]:
    one = membership.model.by_labels
    if one is None or one is membership.strongest:
        return ()
    return (f"By labels alone ({one.title}) the AUC is {one.words}.",)


def _beside_reference(membership: AuditMembership) -> tuple[str, ...]:
    """A sentence that compares the model with the reference under the same attack; empty without a reference."""
    plain = membership.reference
    same = None if plain is None else plain.by(membership.strongest.attack)
    if plain is None or same is None:
        return ()
    labels = plain.by_labels
    apart = f", and by labels alone {labels.words}" if labels is not None and labels is not same else ""
    mean = f" (mean of {plain.trainings} trainings)" if plain.trainings > 1 else ""
    return (
        f"Of the reference, trained here on the same images, the same attack reaches an AUC of {same.words}{apart}"
        f"{mean}. {_compared(membership.model, plain)}",
    )


def _compared(model: Membership, plain: Membership) -> str:
    if plain.trainings < LEAST_SEEDS or model.word in ("", UNCLEAR):
        few = f" with {count(plain.trainings, 'training')} of the reference" if plain.trainings < LEAST_SEEDS else ""
        return f"Which of the two gives away more membership is inconclusive{few}."
    return f"Beside the reference this model {model.word}: {WORDS[model.word].replace('baseline', 'reference')}. {ONE}"


def _left_out(membership: AuditMembership) -> tuple[str, ...]:
    lines = []
    if membership.copies:
        verb = "is a copy" if membership.copies == 1 else "are copies"
        lines.append(f"{count(membership.copies, 'test image')} {verb} of training images and left out.")
    if membership.drawn is not None:
        every = _images(membership.members, membership.others).replace(" from ", " and ")
        lines.append(f"Labels were asked of {membership.drawn} images, drawn from {every}: --queries allows no more.")
    return tuple(lines)
