"""The sentences of an audit on membership attacks by shadow models, compared with thresholds."""

from __future__ import annotations

from smoothsweep.core.audit.membership import CHOSEN_BY_RESULT
from smoothsweep.core.membership.measuring import RATES
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.audit.shadows import ByShadows
from smoothsweep.orchestrator.reading.numbers.format import count, duration


def shadow_lines(shadows: ByShadows) -> tuple[str, ...]:
    """Sentences on attacks by shadow models: the finding, rates, the reference, and the limits of the attack."""
    return (
        _finding(shadows),
        *_at_low_rates(shadows),
        *_of_reference(shadows),
        f"The shadow models are a {shadows.architecture} by {shadows.recipe}, {count(shadows.epochs, 'epoch')}. This "
        "model may have been trained otherwise, and an attacker who knows how may find more: the numbers are a lower "
        f"bound. Training the shadow models took {duration(shadows.seconds)} of a device.",
    )


def shown_rate(value: float | None) -> str:
    """A rate as text, such as `5.2 %`; `too few test images` for None."""
    return "too few test images" if value is None else f"{100 * value:.1f}{NBSP}%"


def _finding(shadows: ByShadows) -> str:
    best, before, plain = shadows.strongest, shadows.beforehand, shadows.threshold
    picked = ""
    if before is not best:
        picked = (
            f" {best.title} was {CHOSEN_BY_RESULT}; the attack chosen beforehand, {before.title}, reaches "
            f"{before.words}."
        )
    return (
        f"By shadow models: an attacker who has these images trains {count(shadows.count, 'model')} like the "
        "reference, each on a random half of them, and compares their scores with this model's. That distinguishes "
        f"a person's training images from their test images with an AUC of {best.words} ({best.title}; mean over "
        f"{count(shadows.persons, 'person', 'people')}; 0.5 is chance). The best threshold on the scores "
        f"({plain.title}) reaches {plain.words}.{picked}"
    )


def _at_low_rates(shadows: ByShadows) -> tuple[str, ...]:
    """Sentences on the images found at low false positive rates; empty where there are too few test images."""
    best, plain = shadows.strongest, shadows.threshold
    return tuple(
        f"At {100 * rate:g}{NBSP}% false positives the attack ({best.title}) finds {shown_rate(best.found[name])} of "
        f"the training images, the threshold {shown_rate(plain.found[name])}."
        for name, rate in RATES.items()
        if best.found[name] is not None
    )


def _of_reference(shadows: ByShadows) -> tuple[str, ...]:
    same = shadows.of_reference(shadows.strongest.attack)
    if same is None:
        return ()
    return (f"On the reference itself, whose recipe is that of the shadow models, it reaches {same.words}.",)
