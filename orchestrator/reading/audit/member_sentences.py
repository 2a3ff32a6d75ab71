"""The sentences of an audit on membership: a claim with its interval, or why no claim is made."""

from __future__ import annotations

from smoothsweep.core.audit.membership import PICKED
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.audit.members import LEAST_OTHERS, AuditMembership, Membership
from smoothsweep.orchestrator.reading.audit.shadow_sentences import shadow_lines, shown_rate
from smoothsweep.orchestrator.reading.leak.membership import UNCLEAR, WORDS
from smoothsweep.orchestrator.reading.numbers.format import count

CHANCE = 0.5

ONE = "What another training of this model would give away is not known."


def membership_lines(found: AuditMembership) -> tuple[str, ...]:
    """Sentences on membership, the finding first; where training and test images differ, why no claim is made."""
    if not found.holds:
        return (
            f"No claim about membership is made: a classifier that never asks the model distinguishes "
            f"{_images(found.members, found.others)} by their pixels (AUC {found.shift:.2f}; 0.5 is chance). They "
            "differ in more than membership, for example in camera or day, and whatever an attack finds may be that "
            "difference.",
            *_left_out(found),
        )
    return (
        _finding(found),
        *_at_low_rates(found),
        *_by_labels(found),
        *_beside_reference(found),
        *_left_out(found),
        *(shadow_lines(found.shadows) if found.shadows else ()),
        f"{'' if found.shadows else found.without_shadows + ' '}A classifier that never asks the model does not "
        f"distinguish training from test images by their pixels (AUC {found.shift:.2f}).",
    )


def _images(members: int, others: int) -> str:
    return f"{count(members, 'training image')} from {count(others, 'test image')}"


def _finding(found: AuditMembership) -> str:
    best, before = found.strongest, found.beforehand
    sure = "is better than chance" if best.low > CHANCE else "is not shown to be better than chance"
    picked = ""
    if before is not best:
        picked = f" It was {PICKED}; the attack chosen beforehand, {before.title}, reaches {before.words}."
    return (
        f"Membership: from this model's {best.access}, the strongest of {count(len(found.model.told), 'attack')} "
        f"({best.title}) distinguishes {_images(*found.tried_on(best))} of the same people with an AUC of "
        f"{best.words}. That {sure} (0.5; the interval is over people).{picked}"
    )


def _at_low_rates(found: AuditMembership) -> tuple[str, ...]:
    best = found.strongest
    if best.found is None:
        _, others = found.tried_on(best)
        return (f"So few test images ({others}) show no false positive rate of 1{NBSP}%: that takes {LEAST_OTHERS}.",)
    return (
        f"At 1{NBSP}% false positives the attack ({best.title}) finds {shown_rate(best.found)} of the training images "
        f"(1{NBSP}% is chance).",
    )


def _by_labels(found: AuditMembership) -> tuple[str, ...]:
    one = found.model.by_labels
    if one is None or one is found.strongest:
        return ()
    return (f"By labels alone ({one.title}) the AUC is {one.words}.",)


def _beside_reference(found: AuditMembership) -> tuple[str, ...]:
    """A sentence that compares the model with the reference under the same attack; empty without a reference."""
    plain = found.reference
    same = None if plain is None else plain.by(found.strongest.attack)
    if plain is None or same is None:
        return ()
    labels = plain.by_labels
    apart = f", and by labels alone {labels.words}" if labels is not None and labels is not same else ""
    mean = f" (mean of {plain.trainings} trainings)" if plain.trainings > 1 else ""
    return (
        f"Of the reference, trained here on the same images, the same attack reaches an AUC of {same.words}{apart}"
        f"{mean}. {_compared(found.model, plain)}",
    )


def _compared(model: Membership, plain: Membership) -> str:
    if plain.trainings < LEAST_SEEDS or model.word in ("", UNCLEAR):
        few = f" with {count(plain.trainings, 'training')} of the reference" if plain.trainings < LEAST_SEEDS else ""
        return f"Which of the two gives away more membership is inconclusive{few}."
    return f"Beside the reference this model {model.word}: {WORDS[model.word].replace('baseline', 'reference')}. {ONE}"


def _left_out(found: AuditMembership) -> tuple[str, ...]:
    lines = []
    if found.copies:
        verb = "is a copy" if found.copies == 1 else "are copies"
        lines.append(f"{count(found.copies, 'test image')} {verb} of training images and left out.")
    if found.drawn is not None:
        every = _images(found.members, found.others).replace(" from ", " and ")
        lines.append(f"Labels were asked of {found.drawn} images, drawn from {every}: --queries allows no more.")
    return tuple(lines)
