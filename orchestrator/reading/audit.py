"""What the audit of one model found: what each attack reaches beside the controls, at what cost, and who is exposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from core.attacks.access import ACCESS_LEVELS
from core.attacks.registry import PARTS
from core.metrics.table import metric_of
from core.metrics.verdicts import HIGHER
from orchestrator.reading.findings.findings import SEES
from orchestrator.reading.numbers.estimates import NOTHING, Comparison, compare
from orchestrator.reading.numbers.format import count, duration, number
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary

JSON_VERSION = 1
HALF = 0.5
"""Share of its reconstructions from which on a person counts as recognised."""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What one attack reaches. leak: share of its reconstructions that the judge takes for the person, with its
    interval (NaN without one); queries: images shown to the model per person, None where the attack asks nothing;
    seconds: of a device, per person, parts that serve all people included; row: of the summary's frame."""

    attack: str
    access: str
    control: bool
    leak: float
    low: float
    high: float
    seeds: int
    queries: float | None
    seconds: float
    row: int


@dataclass(frozen=True, kw_only=True)
class Person:
    """A person in the model. share: of the reconstructions by the strongest attack that the judge takes for them, mean
    over the seeds; label: the class's number."""

    name: str
    label: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Audit:
    """judge: the metric that decides, and ceiling what it says of real photographs (None: not measured). reached: all
    attacks, then all controls, the strongest first; beyond: the strongest attack minus the best control, by person and
    seed. people: the most exposed first. test_acc: of the model on the test images; chance: one over the classes.
    untried: sentences on the attacks that the model could not be put under.
    """

    judge: str
    ceiling: float | None
    reached: tuple[Reached, ...]
    beyond: Comparison
    people: tuple[Person, ...]
    test_acc: float
    chance: float
    classes: int
    untried: tuple[str, ...] = ()

    @property
    def attacks(self) -> tuple[Reached, ...]:
        return tuple(one for one in self.reached if not one.control)

    @property
    def controls(self) -> tuple[Reached, ...]:
        return tuple(one for one in self.reached if one.control)

    @property
    def strongest(self) -> Reached:
        return self.attacks[0]

    def by_access(self) -> dict[str, Reached]:
        """Access level -> the strongest attack that sees no more, lowest first; levels without attack left out."""
        found: dict[str, Reached] = {}
        for place, level in enumerate(ACCESS_LEVELS):
            within = [one for one in self.attacks if ACCESS_LEVELS.index(one.access) <= place]
            if within and any(one.access == level for one in self.attacks):
                found[level] = within[0]
        return found

    @property
    def recognised(self) -> int:
        """How many people are recognised in half or more of what the strongest attack drew of them."""
        return sum(person.share >= HALF for person in self.people)


def read_audit(
    data: ReportData, summary: Summary, *, names: Sequence[str], classes: int, untried: tuple[str, ...] = ()
) -> Audit | None:
    """The findings; None while no attack has been judged. names: the people by label; classes: of the model."""
    if summary.primary is None or not len(summary.evidence.rows if summary.evidence else ()):
        return None
    frame = summary.frame[summary.frame[summary.primary].notna()]
    reached = [_reached(data, summary, int(row)) for row in frame.index]
    ordered = sorted(reached, key=lambda one: (one.control, -summary.spec.sign * one.leak))
    strongest, controls = ordered[0], [one for one in ordered if one.control]
    ceiling = frame[summary.spec.ceiling].mean() if summary.spec.ceiling in summary.measured else float("nan")
    return Audit(
        judge=summary.primary, ceiling=None if pd.isna(ceiling) else float(ceiling), reached=tuple(ordered),
        beyond=_beyond(summary, strongest, controls), people=_people(data, summary, strongest, names),
        test_acc=float(frame["test_acc"].mean()), chance=1 / classes, classes=classes, untried=untried,
    )  # fmt: skip


def _reached(data: ReportData, summary: Summary, row: int) -> Reached:
    cell, metric = summary.frame.loc[row], summary.primary
    of_attack = [
        sum(link.seconds * link.devices for link in data.links.get(trial, ()) if link.stage in (*PARTS, "attack"))
        for trial in cell["trials"]
    ]
    people = data.judged_classes or 1
    return Reached(
        attack=cell["attack"] or "attack", access=cell["access"], control=bool(cell["control"]),
        leak=float(cell[metric]), low=float(cell[f"{metric}_low"]), high=float(cell[f"{metric}_high"]),
        seeds=int(cell["n"]), queries=None if pd.isna(cell["queries"]) else float(cell["queries"]),
        seconds=sum(of_attack) / max(1, len(of_attack)) / people, row=row,
    )  # fmt: skip


def _beyond(summary: Summary, strongest: Reached, controls: Sequence[Reached]) -> Comparison:
    if not controls:
        return NOTHING
    mine, theirs = (summary.samples[one.row][summary.primary] for one in (strongest, controls[0]))
    return compare(mine, theirs, summary.settings, among=max(1, len(summary.attacks)))


def _people(data: ReportData, summary: Summary, strongest: Reached, names: Sequence[str]) -> tuple[Person, ...]:
    if data.per_class is None or summary.primary not in data.per_class:
        return ()
    trials = set(summary.frame.loc[strongest.row, "trials"])
    mine = data.per_class[data.per_class["trial"].isin(trials)]
    shares: Mapping[Any, float] = mine.groupby("class")[summary.primary].mean().to_dict()
    found = [Person(name=names[label], label=int(label), share=float(share)) for label, share in shares.items()]
    return tuple(sorted(found, key=lambda person: (-person.share, person.label)))


def audit_sentences(audit: Audit, *, anonymous: bool = False) -> dict[str, tuple[str, ...]]:
    """The words of the audit: `answer` (first the finding, then how sure), `access` (what each attacker gets),
    `people`, `unknown` (what this does not say). anonymous: no names."""
    return {
        "answer": _answer(audit),
        "access": tuple(_of_access(audit, level, one) for level, one in audit.by_access().items()),
        "people": _exposed(audit, anonymous=anonymous),
        "unknown": _unknown(audit),
    }


def share(audit: Audit, value: float) -> str:
    """A leak of this audit's judge for a sentence: `48 %`."""
    return number(metric_of(audit.judge), value)


def person_name(person: Person, *, anonymous: bool) -> str:
    return f"person {person.label}" if anonymous else person.name


def _answer(audit: Audit) -> tuple[str, ...]:
    best, judge = audit.strongest, metric_of(audit.judge).label
    line = audit.controls[0] if audit.controls else None
    beside = f"; of what the best control ({line.attack}) draws, {share(audit, line.leak)}" if line else ""
    first = (
        f"Of what the strongest attack ({best.attack}) draws from this model, the {judge} takes "
        f"{share(audit, best.leak)} for the person{beside}. {audit.recognised} of "
        f"{count(len(audit.people), 'person', 'people')} are recognised in half or more of their images."
    )
    if audit.beyond.verdict == HIGHER:
        sure = "The model gives away more to it than to any control: the difference is clear."
    elif audit.beyond.n < 2:
        sure = "One run of the attacks does not tell how much of that is chance: give it more --minutes."
    else:
        sure = "Whether that is more than a control reaches cannot be told from these numbers."
    return first, sure


def _of_access(audit: Audit, level: str, one: Reached) -> str:
    asked = f"{one.queries:,.0f} queries" if one.queries else "no queries"
    return (
        f"Whoever sees {SEES[level]} gets {share(audit, one.leak)} ({one.attack}), at {asked} and "
        f"{duration(one.seconds)} of a device per person."
    )


def _exposed(audit: Audit, *, anonymous: bool) -> tuple[str, ...]:
    top = [person for person in audit.people if person.share > 0][:5]
    if not top:
        return ("Nobody was recognised in a single image.",)
    listed = ", ".join(f"{person_name(p, anonymous=anonymous)} ({share(audit, p.share)})" for p in top)
    return (f"Exposed most: {listed}.",)


def _unknown(audit: Audit) -> tuple[str, ...]:
    lines = []
    if audit.judge == "attack_acc1":
        lines.append(
            "The judge is a second classifier of the same images, which accepts what only classifiers accept: the true "
            "likeness is lower. Give an independent judge with --judge."
        )
    if audit.ceiling is not None:
        lines.append(f"Of real photographs of these people the judge recognises {share(audit, audit.ceiling)}.")
    lines.append(
        f"Tried: {', '.join(one.attack for one in audit.attacks)}. A stronger attack may find more; nothing here says "
        "that a model is safe."
    )
    return (*lines, *audit.untried)


def audit_json(audit: Audit, card: Mapping[str, Any], *, anonymous: bool = False) -> dict[str, Any]:
    """audit.json, as docs/audit.md describes it."""
    return {
        "version": JSON_VERSION,
        "model": dict(card),
        "test_acc": audit.test_acc,
        "classes": audit.classes,
        "chance": audit.chance,
        "judge": {"metric": audit.judge, "real_photographs": audit.ceiling},
        "attacks": [_attack_json(one) for one in audit.reached],
        "beyond_control": {
            **{name: _known(getattr(audit.beyond, name)) for name in ("difference", "low", "high")},
            "verdict": audit.beyond.verdict or None,
        },
        "by_access": {level: one.attack for level, one in audit.by_access().items()},
        "people": [{"person": person_name(p, anonymous=anonymous), "label": p.label, "share": p.share}
                   for p in audit.people],
        "said": {name: list(lines) for name, lines in audit_sentences(audit, anonymous=anonymous).items()},
    }  # fmt: skip


def _attack_json(one: Reached) -> dict[str, Any]:
    return {
        "attack": one.attack, "access": one.access, "control": one.control, "leak": one.leak, "low": _known(one.low),
        "high": _known(one.high), "seeds": one.seeds, "queries_per_person": one.queries,
        "device_seconds_per_person": one.seconds,
    }  # fmt: skip


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value)
