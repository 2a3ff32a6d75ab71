"""The sentences of the audit of one model: what audit.txt, members.txt and shadows.txt need, which hold the words."""

from __future__ import annotations

from functools import partial

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.membership.measuring import RATES
from smoothsweep.core.metrics.intervals import TOP
from smoothsweep.core.metrics.leak_comparisons import REDUCES
from smoothsweep.core.metrics.metric import FIRST, Metric, strangers_needed
from smoothsweep.core.metrics.metric import RATES as FALSE_ACCEPTS
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.audit import MOST_SEEDS
from smoothsweep.orchestrator.reading.audit.members import CHOSEN_BY_RESULT, LEAST_OTHERS, AuditMembership
from smoothsweep.orchestrator.reading.audit.result import HALF, Audit, Person, Trained, second_lines
from smoothsweep.orchestrator.reading.audit.shadows import ByShadows
from smoothsweep.orchestrator.result.display import WORDING, reduction_words, settling
from smoothsweep.orchestrator.result.format import count, duration, listing, named, number, start
from smoothsweep.orchestrator.result.leaks import AMONG, among_words, rate_words
from smoothsweep.orchestrator.result.membership import UNCLEAR, WORDS
from smoothsweep.orchestrator.result.standing import SEES, standing_lines

PLACE = "smoothsweep.orchestrator.reading.audit"
CLOSED_SET_NOTE = (
    "Not verified: the judge is a second classifier of the same images, which cannot say whom a face recogniser would "
    "accept"
)
SECTIONS = ("answer", "beside", "membership", "trainings", "access", "people", "unknown")
"""Of an audit's page, apart from the advice."""


def few_strangers_note(images: int) -> str:
    """A sentence on why too few public images allow no verification."""
    needed = strangers_needed(FALSE_ACCEPTS[FIRST])
    return f"Not verified: a threshold of 1 % false accepts takes {needed} public images or more, there are {images}"


def more_seeds(seeds: int) -> str:
    """A remark such as ` (--seeds 3, or a larger --effort, adds some)`; empty at the maximum number of seeds."""
    return f" (--seeds {min(seeds + 2, MOST_SEEDS)}, or a larger --effort, adds some)" if seeds < MOST_SEEDS else ""


def audit_sentences(audit: Audit, *, anonymous: bool = False) -> dict[str, tuple[str, ...]]:
    """The sentences of an audit, by section of its page.

    `answer`: the finding, then its uncertainty. `beside`: the comparison with the reference and the fixes.
    `membership`: empty where it was not asked for. `trainings`: their cost, their limits, and what there was no time
    for. `access`: the leak by access level. `people`: who is exposed most. `unknown`: what the audit does not show.
    anonymous: write no names.
    """
    said = _said(audit, anonymous=anonymous)
    said["membership"] = membership_lines(audit.membership) if audit.membership else audit.unmeasured
    return {name: said[name] for name in SECTIONS}


def advice(audit: Audit) -> tuple[str, ...]:
    """What to do after an audit, in sentences, as far as its tables say."""
    return _said(audit, anonymous=True)["advice"]


def membership_lines(membership: AuditMembership) -> tuple[str, ...]:
    """Sentences on membership, the finding first; where training and test images differ, why no claim is made."""
    known = {
        "found": membership,
        "best": membership.strongest,
        "plain": membership.reference,
        "shadows": membership.shadows,
        "shadow_lines": shadow_lines,
    }
    return sections(PLACE, "members.txt", _WORDS | known)["membership"]


def shadow_lines(shadows: ByShadows) -> tuple[str, ...]:
    """Sentences on attacks by shadow models: the finding, rates, the reference, and the limits of the attack."""
    return sections(PLACE, "shadows.txt", _WORDS | {"shadows": shadows})["shadows"]


def _said(audit: Audit, *, anonymous: bool) -> dict[str, tuple[str, ...]]:
    spec, seen = audit.spec, [person for person in audit.people if person.share > 0]
    compared = [one for one in audit.fixes if one.leak is not None]
    known = {
        "audit": audit,
        "spec": spec,
        "best": audit.strongest,
        "model": audit.model,
        "plain": audit.reference,
        "compared": compared,
        "fewest": min((one.leak.seeds for one in compared if one.leak), default=0),
        "seen": seen,
        "ranked": ranks_people(audit),
        "sure": [person for person in seen if person.among_top > HALF][:TOP],
        "tried": [named(one.attack) for one in audit.attacks],
        "share": partial(share, audit),
        "name": partial(person_name, anonymous=anonymous),
        "matched": partial(_matched, spec),
    }
    return sections(PLACE, "audit.txt", _WORDS | known)


def share(audit: Audit, value: float) -> str:
    """A leak by this audit's judge as text, such as `48 %`."""
    return number(audit.spec, value)


def person_name(person: Person, *, anonymous: bool) -> str:
    """The name of a person, or `person N` where names are left out."""
    return f"person {person.label}" if anonymous else person.name


def ranks_people(audit: Audit) -> bool:
    """Whether enough people were attacked to say who is exposed most."""
    return len(audit.people) > TOP


def accuracy(one: Trained) -> str:
    """The test accuracy as text, such as `94.1 %`."""
    return number(metric_of("test_acc"), one.test_acc)


def shown_rate(value: float | None) -> str:
    """A rate as text, such as `5.2 %`; `too few test images` for None."""
    return "too few test images" if value is None else f"{100 * value:.1f}{NBSP}%"


def _rate(value: float) -> str:
    """A round rate as text, such as `0.1 %`."""
    return f"{100 * value:g}{NBSP}%"


def _matched(spec: Metric, person: Person) -> str:
    """A phrase such as `matched in 74 % [52, 90], the control's images in 17.5 %`."""
    control_text = "" if person.control is None else f", the control's images in {number(spec, person.control)}"
    return f"matched in {rate_words(spec, person)}{control_text}"


_WORDS = {
    one.__name__: one
    for one in (
        accuracy,
        among_words,
        count,
        duration,
        few_strangers_note,
        listing,
        more_seeds,
        reduction_words,
        second_lines,
        settling,
        shown_rate,
        standing_lines,
        start,
    )
} | {
    "AMONG": AMONG,
    "HIGHER": HIGHER,
    "INCONCLUSIVE": INCONCLUSIVE,
    "CLOSED_SET_NOTE": CLOSED_SET_NOTE,
    "LEAST_OTHERS": LEAST_OTHERS,
    "LEAST_SEEDS": LEAST_SEEDS,
    "CHOSEN_BY_RESULT": CHOSEN_BY_RESULT,
    "RATES": RATES,
    "REDUCES": REDUCES,
    "SEES": SEES,
    "UNCLEAR": UNCLEAR,
    "WORDING": WORDING,
    "WORDS": WORDS,
    "rate": _rate,
}
"""Names that all three files know."""
