"""The sentences of the audit of one model."""

from __future__ import annotations

from smoothsweep.core.audit.portfolio import MOST_SEEDS
from smoothsweep.core.audit.verified import CLOSED_SET_NOTE, few_strangers_note
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.exposure import TOP
from smoothsweep.core.metrics.leak_comparisons import REDUCES, LeakComparison
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.orchestrator.reading.audit.member_sentences import membership_lines
from smoothsweep.orchestrator.reading.audit.result import HALF, Audit, Person, Reached, Trained
from smoothsweep.orchestrator.reading.audit.second import second_lines
from smoothsweep.orchestrator.reading.leak.exposure import AMONG, among_words, rate_words
from smoothsweep.orchestrator.reading.numbers.format import count, duration, listing, named, number, start
from smoothsweep.orchestrator.reading.numbers.wording import WORDING, reduction_words, settling
from smoothsweep.orchestrator.reading.standing.access import SEES
from smoothsweep.orchestrator.reading.standing.judged import standing_lines


def more_seeds(seeds: int) -> str:
    """A remark such as ` (--seeds 3, or more --minutes, adds some)`; empty at the maximum number of seeds."""
    return f" (--seeds {min(seeds + 2, MOST_SEEDS)}, or more --minutes, adds some)" if seeds < MOST_SEEDS else ""


def audit_sentences(audit: Audit, *, anonymous: bool = False) -> dict[str, tuple[str, ...]]:
    """The sentences of an audit, by section of its page.

    `answer`: the finding, then its uncertainty. `beside`: the comparison with the reference and the fixes.
    `membership`: empty where it was not asked for. `trainings`: their cost, their limits, and what there was no time
    for. `access`: the leak by access level. `people`: who is exposed most. `unknown`: what the audit does not show.
    anonymous: write no names.
    """
    return {
        "answer": _answer(audit),
        "beside": (*_reference(audit), *_fixes(audit)),
        "membership": membership_lines(audit.membership) if audit.membership else audit.unmeasured,
        "trainings": (*_spent(audit), *_seen_before(audit), *audit.unfit),
        "access": tuple(_of_access(audit, level, one) for level, one in audit.by_access().items()),
        "people": _exposed(audit, anonymous=anonymous),
        "unknown": _unknown(audit),
    }


def share(audit: Audit, value: float) -> str:
    """A leak by this audit's judge as text, such as `48 %`."""
    return number(metric_of(audit.judge), value)


def person_name(person: Person, *, anonymous: bool) -> str:
    """The name of a person, or `person N` where names are left out."""
    return f"person {person.label}" if anonymous else person.name


def _answer(audit: Audit) -> tuple[str, ...]:
    if not audit.attacks:
        return (
            "No attack was tried on this model: what it leaks is not known.",
            "What the controls draw, which know nothing of it, is all that was judged. The end says what was left out, "
            "and what to say to try it.",
        )
    best, judge = audit.strongest, metric_of(audit.judge).label
    line = audit.controls[0] if audit.controls else None
    control_text = (
        f"; of images drawn without knowing the model ({line.attack}), {share(audit, line.leak)}" if line else ""
    )
    first = (
        f"Of what the strongest attack ({best.attack}) draws from this model, the {judge} matches "
        f"{share(audit, best.leak)} with the right one of {audit.classes} people (chance: {share(audit, audit.chance)})"
        f"{control_text}. {audit.matched} of {count(len(audit.people), 'person', 'people')} are matched "
        "in half or more of their images."
    )
    if audit.beyond.verdict == HIGHER:
        sure = "The model gives away more to the strongest attack than to any control."
    elif audit.beyond.n < 2:
        sure = (
            "Whether the strongest attack reaches more than a control is inconclusive with one run of the attacks: add "
            "--seeds 3, or more --minutes."
        )
    else:
        more = more_seeds(audit.beyond.n)
        sure = f"Whether the strongest attack reaches more than a control is inconclusive{more}."
    return (
        first,
        *standing_lines(audit.standing),
        *second_lines(audit),
        *_not_verified(audit),
        sure,
        *(f"{start(line)}." for line in audit.told),
    )


def _not_verified(audit: Audit) -> tuple[str, ...]:
    """A sentence on why no face recogniser verified the reconstructions; empty where one did."""
    if any(one.spec.verifies for one in audit.standing):
        return ()
    if audit.judge == "attack_acc1":
        return (f"{CLOSED_SET_NOTE}. Name a face embedder with --judge.",)
    if audit.strangers is None:
        return ()
    return (f"{few_strangers_note(audit.strangers)}.",)


def _reference(audit: Audit) -> tuple[str, ...]:
    """Sentences on the reference's leak and the model's relative to it; empty without a reference."""
    model, plain = audit.model, audit.reference
    if model is None or plain is None:
        return ()
    network = f"{audit.architecture}, {count(audit.epochs, 'epoch')}"
    first = (
        f"A reference, trained here on the same images without any defense ({network}), leaks {_leak(audit, plain)} at "
        f"{accuracy(plain)} test accuracy; this model leaks {_leak(audit, model)} at {accuracy(model)}."
    )
    return first, _model_uncertainty(audit, model.leak)


def _leak(audit: Audit, one: Trained) -> str:
    return share(audit, one.reached.leak)


def accuracy(one: Trained) -> str:
    """The test accuracy as text, such as `94.1 %`."""
    return number(metric_of("test_acc"), one.test_acc)


def _model_uncertainty(audit: Audit, gap: LeakComparison | None) -> str:
    if gap is None:
        return "The two were not met by the same attacks and seeds, so they are not compared."
    if gap.seeds < LEAST_SEEDS:
        return f"Which of the two leaks more is inconclusive with one seed{more_seeds(gap.seeds)}."
    text = f"reduction {reduction_words(metric_of(audit.judge), gap)}, {count(gap.seeds, 'seed')}"
    if gap.word == INCONCLUSIVE:
        return f"Which of the two leaks more is inconclusive ({'; '.join(filter(None, (text, settling(gap))))})."
    return (
        f"Against trainings like the reference this model {WORDING[gap.word].as_verb} ({text}); what another training "
        "of it would leak is not known."
    )


def _seen_before(audit: Audit) -> tuple[str, ...]:
    if audit.own_test or not audit.beside:
        return ()
    return (
        "This model's accuracy may be of images that it has learnt from: the data do not say which are for testing, "
        "and the tenth that was drawn here is new to the other trainings alone.",
    )


def _spent(audit: Audit) -> tuple[str, ...]:
    plain = audit.reference
    if plain is None:
        return ()
    expected = f" (expected of its first seed, both together: {duration(plain.planned_s)})" if plain.planned_s else ""
    seeds = f" with {count(plain.reached.seeds, 'seed')}" if plain.reached.seeds > 1 else ""
    return (
        f"The reference took {duration(plain.training_s or 0)} of a device to train{seeds} and "
        f"{duration(plain.attacking_s or 0)} to attack and judge{expected}.",
    )


def _fixes(audit: Audit) -> tuple[str, ...]:
    """Sentences on which fixes reduce the leak, as far as the seeds show."""
    gaps = [(one, one.leak) for one in audit.fixes if one.leak is not None]
    if not gaps:
        return ()
    seeds, spec = min(gap.seeds for _, gap in gaps), metric_of(audit.judge)
    if seeds < LEAST_SEEDS:
        return (f"Whether a recipe reduces the leak is inconclusive with one seed{more_seeds(seeds)}.",)
    sample = count(seeds, "seed")
    less = [(one, gap) for one, gap in gaps if gap.word == REDUCES]
    rest = [f"{one.recipe}: {gap.word} ({reduction_words(spec, gap)})" for one, gap in gaps if gap.word != REDUCES]
    sentences = [
        f"{start(one.recipe)} {WORDING[gap.word].as_verb} of plain training on these images, by the attacks tried, at "
        f"{sample}: {_leak(audit, one)} at {accuracy(one)} test accuracy, reduction {reduction_words(spec, gap)}."
        for one, gap in less
    ]
    if rest:
        more = more_seeds(seeds) if any(gap.word == INCONCLUSIVE for _, gap in gaps) else ""
        more = more and f" More seeds may settle what is inconclusive{more}."
        first = "Of the others" if less else f"At {sample} no recipe is shown to reduce the leak of plain training"
        sentences.append(f"{first}: {'; '.join(rest)}.{more}")
    return tuple(sentences)


def _of_access(audit: Audit, level: str, one: Reached) -> str:
    queries_text = f"{one.queries:,.0f} queries" if one.queries else "no queries"
    return (
        f"Of what an attacker who sees {SEES[level]} reconstructs, the judge matches {share(audit, one.leak)} "
        f"({one.attack}; {queries_text} and {duration(one.seconds)} of device time per person)."
    )


def _exposed(audit: Audit, *, anonymous: bool) -> tuple[str, ...]:
    """Sentences on the people who are probably among the most exposed, and on how to read their rates."""
    if not audit.people:
        return ("No person is named, since no attack was tried.",)
    if not any(person.share > 0 for person in audit.people):
        return ("No person was matched in any image.",)
    spec, runs = metric_of(audit.judge), audit.strongest.seeds
    sure = [person for person in audit.people if person.share > 0 and person.among_top > HALF][:TOP]
    listed = ", ".join(
        f"{person_name(p, anonymous=anonymous)} (probability {among_words(p)}; {_matched(spec, p)})" for p in sure
    )
    first = f"Probably among the {AMONG} most exposed: {listed}."
    if len(audit.people) <= TOP:
        seen = [person for person in audit.people if person.share > 0]
        matched = ", ".join(f"{person_name(p, anonymous=anonymous)} ({_matched(spec, p)})" for p in seen)
        first = (
            f"Only {count(len(audit.people), 'person', 'people')} were attacked, too few to say who is exposed most: "
            f"{matched}."
        )
    elif not sure:
        first = (
            f"No person is among the {AMONG} most exposed with a probability above one half; the highest is "
            f"{among_words(audit.people[0])}."
        )
    how = "Rates are shrunk towards the mean of all people: with few images per person the highest tend to be too high."
    if runs < LEAST_SEEDS:
        how += " With one run of the attack, how much people vary between runs is assumed, not measured."
    return first, how


def _matched(spec: Metric, person: Person) -> str:
    """A phrase such as `matched in 74 % [52, 90], the control's images in 17.5 %`."""
    control_text = "" if person.control is None else f", the control's images in {number(spec, person.control)}"
    return f"matched in {rate_words(spec, person)}{control_text}"


def _unknown(audit: Audit) -> tuple[str, ...]:
    lines = []
    if audit.judge == "attack_acc1":
        lines.append(
            "The judge is a second classifier of the same images, which accepts what only classifiers accept: the true "
            "likeness is lower. Give an independent judge with --judge."
        )
    if audit.ceiling is not None:
        lines.append(
            f"Of real photographs of these people the judge matches {share(audit, audit.ceiling)} with the right one."
        )
    tried = listing(named(one.attack) for one in audit.attacks) or "nothing"
    lines.append(f"Tried: {tried}. A stronger attack may find more; nothing here says that a model is safe.")
    return (*lines, *audit.untried)
