"""What the audit of one model found: each attack's leak and cost, who is exposed, and the sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, cast

import pandas as pd

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.intervals import TOP
from smoothsweep.core.metrics.leak_comparisons import REDUCES, LeakComparison
from smoothsweep.core.metrics.metric import FIRST as FALSE_ACCEPTS
from smoothsweep.core.metrics.metric import RATES, Metric, strangers_needed
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.orchestrator.result.audit_membership import AuditMembership, Role
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import PLACE, WORDING, reduction_words, settling
from smoothsweep.orchestrator.result.estimates import NOTHING, Checks, Comparison, compare, labelled, untold
from smoothsweep.orchestrator.result.format import count, duration, listing, named, number, start
from smoothsweep.orchestrator.result.leaks import AMONG, Exposed, among_words, exposed, rate_words
from smoothsweep.orchestrator.result.standing import APART, FIRST, SEES, Standing, standing_lines, standings
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.orchestrator.result.sweep_result import plain

MOST_SEEDS = 5
"""Most seeds of attacks and trainings in one audit."""
HALF = 0.5
"""Fraction of a person's reconstructions that must be hits for the person to count as matched."""


@dataclass(frozen=True, kw_only=True)
class AuditNotes:
    """Facts and sentences beside the numbers: of the run, and of what the store holds.

    Attributes:
        effort: How much was tried.
        untried: Sentences on attacks that need more access or queries than the model gives.
        unfit: Sentences on what a larger effort would try.
        own_test: Whether the data mark test images.
        planned: Recipe -> forecast device-seconds of its first seed.
        strangers: Public images for the thresholds of verification; None where they are rendered.
        told: Sentences on public images that may not fit.
        unmeasured: Why membership was not measured, where it was asked.
        access: What the attacker sees of the model.
        judge_name: The independent judge's network; empty without one.
        names: Names of the people, by label.
        classes: Number of the model's classes.
        recipe: Name of the model's recipe in the sweep; None where it is the only one.
        architecture, epochs: Of the trainings of the reference and the fixes.
        is_program: Whether the model is a program, which cannot be trained here.
        is_enrolled: Whether its classes are people enrolled with an embedder.
        asked_once: Trial -> queries sent by the parts of its attack.
        membership: Results of membership attacks; None where membership was not measured.
    """

    effort: str = ""
    untried: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    own_test: bool = False
    planned: Mapping[str, float] = field(default_factory=dict, repr=False)
    strangers: int | None = None
    told: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    access: str = "gradients"
    judge_name: str = ""
    names: Sequence[str] = field(default=(), repr=False)
    classes: int = 0
    recipe: str | None = None
    architecture: str = ""
    epochs: int = 0
    is_program: bool = False
    is_enrolled: bool = False
    asked_once: Mapping[str, float] = field(default_factory=dict, repr=False)
    membership: AuditMembership | None = None


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The leak and the cost of one attack or control.

    Attributes:
        access: What it sees of the model.
        leak: Fraction of its reconstructions that the judge matches with the person, or a distance.
        low, high: Ends of the interval of the leak, NaN without one.
        seeds: Number of runs.
        queries: Images sent to the model per person, with a share of parts that serve all people; None without queries.
        seconds: Device-seconds per person, with a share of such parts.
        row: Its row in the summary's frame.
    """

    attack: str
    access: str
    control: bool
    leak: float
    low: float
    high: float
    seeds: int
    queries: float | None
    seconds: float
    row: int = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Person(Exposed):
    """A person among the model's classes, under the strongest attack.

    Attributes:
        label: Number of the class.
        control: Fraction of the control's images that the judge matches with this person; None where not measured.
        verified: Fraction of the attack's images that a recogniser accepts at 1 % false accepts; None likewise.
    """

    name: str
    label: int
    control: float | None = None
    verified: float | None = None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The model, the reference (plain training) or a fix, with its accuracy and its leak.

    Attributes:
        recipe: The recipe in words.
        reached: The attack that works best against it.
        leak: Comparison of its leak with the reference's; None for the reference and where the two were not compared.
        accuracy: Its test accuracy minus that of the reference.
        training_s, attacking_s: Device-seconds of its trainings, and of its attacks with their judging; None for the
            model.
        planned_s: Forecast device-seconds of its first seed; None without a forecast.
    """

    recipe: str
    role: Role
    test_acc: float
    reached: Reached
    leak: LeakComparison | None = None
    accuracy: Comparison = NOTHING
    training_s: float | None = None
    attacking_s: float | None = None
    planned_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Audit(AuditNotes):
    """The numbers of an audit, with its notes.

    Attributes:
        judge: The metric that decides.
        ceiling: Its value on real photographs; None where not measured.
        reached: All attacks, then all controls, the strongest first.
        beyond: The strongest attack minus the best control, paired by person and seed.
        people: The person who is most probably among the most exposed comes first.
        test_acc: The model's accuracy on the test images.
        chance: One over the number of classes.
        beside: The model, the reference and the fixes, in the order of the sweep; empty without trainings.
        standing: The strongest attack by every judge, compared with chance, control, the prior's reach and the ceiling.
        second: The same attack by a second embedder; empty without one.
        second_name: Name of the second embedder.
        can_tell: Whether some judge can tell a leak; else nobody is named and nothing compared.
        checks: What the judges say of real photographs.
    """

    judge: str
    ceiling: float | None
    reached: tuple[Reached, ...]
    beyond: Comparison
    people: tuple[Person, ...]
    test_acc: float
    chance: float
    beside: tuple[Trained, ...] = ()
    standing: tuple[Standing, ...] = ()
    second: tuple[Standing, ...] = ()
    second_name: str = ""
    can_tell: bool = True
    checks: Checks = field(default_factory=dict, repr=False)

    @property
    def spec(self) -> Metric:
        """The metric that decides, with its judge's accuracy in the label unless that is good."""
        return labelled(metric_of(self.judge), self.checks)

    @property
    def model(self) -> Trained | None:
        return next((one for one in self.beside if one.role == "model"), None)

    @property
    def reference(self) -> Trained | None:
        return next((one for one in self.beside if one.role == "reference"), None)

    @property
    def fixes(self) -> tuple[Trained, ...]:
        return tuple(one for one in self.beside if one.role == "fix")

    @property
    def attacks(self) -> tuple[Reached, ...]:
        return tuple(one for one in self.reached if not one.control)

    @property
    def controls(self) -> tuple[Reached, ...]:
        return tuple(one for one in self.reached if one.control)

    @property
    def strongest(self) -> Reached:
        """The strongest attack; without any attack, the strongest control."""
        return self.reached[0]

    def by_access(self) -> dict[str, Reached]:
        """Access level -> the strongest attack that needs no more access; levels without an attack are left out."""
        strongest: dict[str, Reached] = {}
        for place, level in enumerate(ACCESS_LEVELS):
            within = [one for one in self.attacks if ACCESS_LEVELS.index(one.access) <= place]
            if within and any(one.access == level for one in self.attacks):
                strongest[level] = within[0]
        return strongest

    @property
    def matched(self) -> int:
        """Number of people matched in half or more of the strongest attack's reconstructions of them."""
        return sum(person.share >= HALF for person in self.people)

    @property
    def ranks_people(self) -> bool:
        """Whether enough people were attacked to say who is exposed most."""
        return len(self.people) > TOP

    @property
    def judged(self) -> tuple[Standing, ...]:
        """The standings by both embedders; beside a second one those of the first have its name, too."""
        both = {one.metric for one in self.second} if self.judge_name else set()
        named = (
            replace(one, words=f"{one.words}, by {self.judge_name}") if one.metric in both else one
            for one in self.standing
        )
        return (*named, *self.second)

    def dump(self) -> dict[str, Any]:
        """The audit as JSON has it; without attacks on membership where no claim is made."""
        found = {part.name: getattr(self, part.name) for part in fields(self) if part.repr}
        if (members := self.membership) is not None:
            shown = members if members.holds else replace(members, recipes=(), shadowed=None)
            chosen = members.beforehand.attack
            found["membership"] = {"holds": members.holds, "chosen_beforehand": chosen, **plain(shown)}
        found["by_access"] = {level: one.attack for level, one in self.by_access().items()}
        return plain({**found, "said": audit_sentences(self)})


def read_audit(data: ReportData, summary: Summary, notes: AuditNotes) -> Audit | None:
    """The result of an audit; None while no reconstruction of the model's people has been judged.

    Where only controls ran, no person is named: a control knows nothing of the model.
    """
    told = summary.primary is not None
    if not told:
        judged = (key for key in CLASS_METRICS if key in summary.measured)
        summary = replace(summary, primary=next(judged, None))
    if summary.primary is None:
        return None
    measured = summary.frame[summary.frame[summary.primary].notna()]
    recipe = summary.recipes[0] if notes.recipe is None else notes.recipe
    frame = measured[measured["recipe"] == recipe]
    reached = [_reached(data, summary, int(row), notes.asked_once) for row in frame.index]
    ordered = sorted(reached, key=lambda one: (one.control, -summary.spec.sign * one.leak))
    if not ordered or not (summary.rows(summary.primary) or summary.frame["control"].all()):
        return None  # attacks that failed are no answer
    strongest, control = ordered[0], next((one.row for one in ordered if one.control), None)
    ceiling = frame[summary.spec.ceiling].mean() if summary.spec.ceiling in summary.measured else math.nan
    compares = told and not strongest.control
    notes = replace(notes, told=(*notes.told, *(line.rstrip(".") for line in data.warnings)))
    return Audit(
        **vars(notes),
        judge=summary.primary,
        can_tell=told,
        checks=summary.checks,
        ceiling=None if pd.isna(ceiling) else float(ceiling),
        reached=tuple(ordered),
        beyond=_beyond(summary, strongest.row, control) if compares else NOTHING,
        people=_people(summary, strongest.row, control, notes.names) if compares else (),
        standing=() if strongest.control else standings(summary, strongest.row, control, notes.classes),
        test_acc=float(frame["test_acc"].mean()),
        chance=1 / notes.classes,
        beside=_beside(data, summary, recipe, notes),
    )


def _beside(data: ReportData, summary: Summary, own: str, notes: AuditNotes) -> tuple[Trained, ...]:
    """The model, the reference and the fixes, each under the attack that works best against it; may be empty."""
    rows, reference = summary.rows(summary.deciding), summary.baseline_recipe
    if reference not in rows or own not in rows or len(rows) < 2:
        return ()
    seconds = _seconds(data, summary, own)

    def trained(recipe: str) -> Trained:
        row, is_reference = rows[recipe], recipe == reference
        training, attacking = (None, None) if recipe == own else seconds[recipe]
        return Trained(
            recipe=recipe,
            role="model" if recipe == own else "reference" if is_reference else "fix",
            test_acc=float(summary.frame.loc[row, "test_acc"]),
            reached=_reached(data, summary, row, notes.asked_once),
            leak=None if is_reference else summary.verdict(recipe),
            accuracy=NOTHING if is_reference else summary.compare("test_acc", row, rows[reference]),
            training_s=training,
            attacking_s=attacking,
            planned_s=notes.planned.get(recipe),
        )

    return tuple(trained(recipe) for recipe in summary.recipes if recipe in rows)


def _seconds(data: ReportData, summary: Summary, own: str) -> dict[str, tuple[float, float]]:
    """Recipe -> device-seconds of its trainings, and device-seconds of its attacks and their judging.

    Stages shared with the model (data, prior, the judges' networks) are left out.
    """
    links = {
        str(recipe): {link.path: link for cell in trials for trial in cell for link in data.links.get(trial, ())}
        for recipe, trials in summary.frame.groupby("recipe", sort=False)["trials"]
    }
    seconds = {}
    for recipe, linked in links.items():
        mine = [link for path, link in linked.items() if path not in links[own]]
        by_kind = [
            sum(link.seconds * link.devices for link in mine if (link.stage == "target") == trains)
            for trains in (True, False)
        ]
        seconds[recipe] = (by_kind[0], by_kind[1])
    return seconds


def _reached(data: ReportData, summary: Summary, row: int, asked_once: Mapping[str, float]) -> Reached:
    cell, leak, people = summary.cells[row], summary.estimate(row, summary.deciding), data.judged_classes or 1
    trials, parts = cell["trials"], (*PARTS, "attack")
    of_attack = [link for trial in trials for link in data.links.get(trial, ()) if link.stage in parts]
    once = sum(asked_once.get(trial, 0.0) for trial in trials) / max(1, len(trials))
    return Reached(
        attack=cell["attack"] or "attack",
        access=cell["access"],
        control=bool(cell["control"]),
        leak=present(leak.value, "leak"),
        low=present(leak.low, "leak"),
        high=present(leak.high, "leak"),
        seeds=int(cell["n"]),
        queries=None if pd.isna(cell["queries"]) else float(cell["queries"]) + once / people,
        seconds=sum(link.seconds * link.devices for link in of_attack) / max(1, len(trials)) / people,
        row=row,
    )


def _beyond(summary: Summary, strongest: int, control: int | None) -> Comparison:
    if control is None:
        return NOTHING
    mine, theirs = (summary.samples[row][summary.deciding] for row in (strongest, control))
    return compare(summary.spec, mine, theirs, summary.settings, among=max(1, len(summary.attacks)))


def _people(summary: Summary, strongest: int, control: int | None, names: Sequence[str]) -> tuple[Person, ...]:
    credited = {} if control is None else _by_class(summary, control, summary.deciding)
    verified = _by_class(summary, strongest, FIRST)
    people = []
    for one in exposed(summary, strongest, summary.deciding):
        label = int(cast("int", one.key))  # classes are their numbers
        of_control, accepted = credited.get(label), verified.get(label)
        people.append(Person(name=names[label], label=label, control=of_control, verified=accepted, **vars(one)))
    return tuple(people)


def _by_class(summary: Summary, row: int, metric: str) -> dict[int, float]:
    """Label -> the metric's mean over seeds."""
    by_class = [one.by_class for one in summary.samples[row].get(metric, {}).values() if one.by_class is not None]
    means = pd.concat(by_class, axis=1).mean(axis=1) if by_class else pd.Series(dtype=float)
    return {int(label): float(mean) for label, mean in zip(means.index.to_numpy(), means, strict=True)}


def with_second(audit: Audit, summary: Summary, name: str) -> Audit:
    """Add to an audit how the second embedder `name` judges the strongest attack.

    summary: of the sweep in which it judges. The audit is returned unchanged where that holds no such attack.
    """
    frame = summary.frame
    if summary.primary is None or summary.primary not in frame:
        told = tuple(f"By {name}: {line.rstrip('.')}" for line in untold(summary.checks))
        return replace(audit, told=(*audit.told, *told))
    rows = frame[(frame["attack"] == audit.strongest.attack) & frame[summary.primary].notna()]
    rows = rows[rows["recipe"] == summary.recipes[0]] if len(rows) > 1 else rows
    controls = frame[frame["attack"].isin([one.attack for one in audit.controls[:1]])].index
    if not len(rows):
        return audit
    second = standings(summary, int(rows.index[0]), int(controls[0]) if len(controls) else None, audit.classes)
    return replace(
        audit, second=tuple(replace(one, words=f"{one.words}, by {name}") for one in second), second_name=name
    )


# Sentences


def audit_sentences(audit: Audit) -> dict[str, tuple[str, ...]]:
    """The sentences of an audit, by section of its page.

    `answer`: the finding, then its uncertainty. `beside`: the comparison with the reference and the fixes.
    `membership`: empty where it was not asked for. `trainings`: their cost, their limits, and what there was no time
    for. `access`: the leak by access level. `people`: who is exposed most. `unknown`: what the audit does not show.
    `advice`: what to do, as far as the tables say. `frameworks`: where the usual ones ask for this.
    """
    spec, seen = audit.spec, [person for person in audit.people if person.share > 0]
    compared = [one for one in audit.fixes if one.leak is not None]
    known = {
        "audit": audit,
        "untold": untold(audit.checks),
        "spec": spec,
        "best": audit.strongest,
        "model": audit.model,
        "plain": audit.reference,
        "compared": compared,
        "fewest": min((one.leak.seeds for one in compared if one.leak), default=0),
        "seen": seen,
        "sure": [person for person in seen if person.among_top > HALF][:TOP],
        "tried": [named(one.attack) for one in audit.attacks],
        "share": partial(number, spec),
        "matched": partial(_matched, spec),
        "second": _second_line(audit),
        "strangers_needed": strangers_needed(RATES[FALSE_ACCEPTS]),
    }
    said = sections(PLACE, "audit.txt", _WORDS | known)
    return said | {"membership": audit.membership.lines if audit.membership else audit.unmeasured}


def _second_line(audit: Audit) -> str:
    """A sentence with the numbers of both embedders and whether they agree; empty without a second one."""
    pairs = [(one, other) for one in audit.standing for other in audit.second if one.metric == other.metric]
    verifying = [pair for pair in pairs if pair[0].spec.reach is not None]
    if not verifying:
        return ""
    one, other = next((pair for pair in verifying if pair[0].spec.verifies), verifying[0])
    apart = abs((one.leak.value or 0.0) - (other.leak.value or 0.0)) >= APART
    first = f"the first ({audit.judge_name})" if audit.judge_name else "the first"
    verb = "recognised" if other.spec.verifies else "matched"
    verdict = f"A second embedder ({audit.second_name}): {other.value_text('leak')} {verb}, {first}"
    agreed = "The two disagree: the truth may be either." if apart else "The two agree."
    return f"{verdict} {one.value_text('leak')}. {agreed}"


def more_seeds(seeds: int) -> str:
    """A remark such as ` (--seeds 3, or a larger --effort, adds some)`; empty at the maximum number of seeds."""
    return f" (--seeds {min(seeds + 2, MOST_SEEDS)}, or a larger --effort, adds some)" if seeds < MOST_SEEDS else ""


def accuracy(one: Trained) -> str:
    """The test accuracy as text, such as `94.1 %`."""
    return number(metric_of("test_acc"), one.test_acc)


def _matched(spec: Metric, person: Person) -> str:
    """A phrase such as `matched in 74 % [52, 90], the control's images in 17.5 %`."""
    control_text = "" if person.control is None else f", the control's images in {number(spec, person.control)}"
    return f"matched in {rate_words(spec, person)}{control_text}"


_FUNCTIONS = (
    accuracy,
    among_words,
    count,
    duration,
    listing,
    more_seeds,
    reduction_words,
    settling,
    standing_lines,
    start,
)
_WORDS = {one.__name__: one for one in _FUNCTIONS} | {
    "AMONG": AMONG,
    "HIGHER": HIGHER,
    "INCONCLUSIVE": INCONCLUSIVE,
    "LEAST_SEEDS": LEAST_SEEDS,
    "REDUCES": REDUCES,
    "SEES": SEES,
    "WORDING": WORDING,
}
"""Names that the text knows."""
