"""What the audit of one model found: each attack's leak and cost, who is exposed, membership, and the sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import pandas as pd

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.measuring import BY_LABELS, WITH_SHADOWS, WITHOUT, Attacked, is_chance
from smoothsweep.core.membership.measuring import RATES as FALSE_POSITIVES
from smoothsweep.core.metrics.intervals import TOP
from smoothsweep.core.metrics.leak_comparisons import REDUCES
from smoothsweep.core.metrics.metric import FIRST as FALSE_ACCEPTS
from smoothsweep.core.metrics.metric import RATES, Metric, strangers_needed
from smoothsweep.core.metrics.verdicts import HIGHER, INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import PLACE, WORDING, reduction_words, settling
from smoothsweep.orchestrator.result.estimates import NOTHING, Checks, Comparison, compare, labelled, untold
from smoothsweep.orchestrator.result.findings import share as probability
from smoothsweep.orchestrator.result.format import count, duration, estimate, is_null, listing, named, number, start
from smoothsweep.orchestrator.result.leaks import AMONG, exposed
from smoothsweep.orchestrator.result.standing import (
    APART,
    FIRST,
    LESS,
    MORE,
    SEES,
    SHORT,
    UNCLEAR,
    WORDS,
    Standing,
    membership_frame,
    standings,
)
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.orchestrator.result.sweep_result import plain

MOST_SEEDS = 5
"""Most seeds of attacks and trainings in one audit."""
HALF = 0.5
"""Fraction of a person's reconstructions that must be hits for the person to count as matched."""

Row = dict[str, Any]
"""A row of a table, under the names that docs/audit.md has."""


Role = Literal["model", "reference", "fix"]
Found = TypeVar("Found", bound=Attacked)


@dataclass(frozen=True, kw_only=True)
class AttackFound(Attacked):
    """The result of one membership attack over all images; the mean over trainings where there are several.

    found: Fraction of training images found at 1 % false positives; None with fewer than 100 test images.
    """

    access: str
    found: float | None


def of_attack(told: Sequence[Found], attack: str) -> Found | None:
    """The result of a membership attack by its name; None where it did not run."""
    return next((one for one in told if one.attack == attack), None)


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """How well an attacker tells a model's training images from held-out images of the same people.

    Attributes:
        shift: AUC of a classifier that distinguishes training from test images by their pixels, without the model.
        members, others: Training images, and test images that are no copies of them.
        copies: Test images that are copies; they were left out.
        drawn: Images whose labels were queried, where these are fewer than all; else None.
        drawn_members: Training images among them.
        recipes: The model first, then the other recipes: the attacks on each, the strongest first, means over its
            trainings.
        shadowed: The results of attacks by shadow models, within persons; None where none were trained.
        without_shadows: A sentence on why none were trained.
    """

    access: str = field(repr=False)
    shift: float
    members: int
    others: int
    copies: int
    drawn: int | None
    drawn_members: int | None
    recipes: tuple[Row, ...]
    shadowed: Row | None = None
    without_shadows: str = "No shadow model was trained: a stronger attack may find more."

    @property
    def holds(self) -> bool:
        """Whether training and test images differ in nothing but membership, so that the numbers mean something."""
        return is_chance(self.shift, self.members, self.others)

    @property
    def told(self) -> tuple[AttackFound, ...]:
        """The attacks on the model, the strongest first."""
        return self.recipes[0]["told"]

    @property
    def beforehand(self) -> AttackFound:
        """The attack that was chosen before any result: on scores where they are seen, else on labels."""
        return of_attack(self.told, WITHOUT) or of_attack(self.told, BY_LABELS) or self.told[0]

    @property
    def attacks(self) -> pd.DataFrame:
        """A row per attack without shadow models, the strongest first: attack, access, auc with low and high (95 %,
        over people), and tpr_fpr1, the training images found at 1 % false positives (None with fewer than 100 held-out
        images)."""
        table = pd.DataFrame([vars(one) for one in self.told]).rename(columns={"found": "tpr_fpr1"})
        return table[["attack", "access", "auc", "low", "high", "tpr_fpr1"]]

    @property
    def queries(self) -> int:
        """Pictures that the model received."""
        scored, judge = self.access != "labels", Membership(trained_on_data=True)
        return judge.most_pictures(self.members, self.others, scores=scored) + 2 * self.copies * scored

    @property
    def by_shadows(self) -> pd.DataFrame:
        """Rows of attacks with shadow models, one per attack that sees scores, the strongest first: attack,
        shadow_models (whether it needs them), auc_within (mean over persons of the AUC among the images of each) with
        low and high, found_at_1_percent and found_at_0_1_percent (None with fewer than 100 and 1,000 held-out images).
        """
        rates = {"found_at_1_percent": "fpr1", "found_at_0_1_percent": "fpr01"}
        return pd.DataFrame(
            {"attack": one.attack, "shadow_models": one.has_shadows, "auc_within": one.auc}
            | {"low": one.low, "high": one.high, **{name: one.found[rate] for name, rate in rates.items()}}
            for one in (self.shadowed["told"] if self.shadowed else ())
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Sentences, the finding first; where training and test images differ, why no claim is made."""
        best, tried = self.told[0], (self.members, self.others)
        if best.access == "labels" and self.drawn is not None and self.drawn_members is not None:
            tried = self.drawn_members, self.drawn - self.drawn_members
        reference = next((one for one in self.recipes if one["role"] == "reference"), None)
        known = {"found": self, "best": best, "tried": tried, "plain": reference, "shadows": self.shadowed}
        return sections(PLACE, "audit_membership.txt", _WORDS | known)["membership"]

    def __str__(self) -> str:
        return " ".join(self.lines)


def membership_words(data: ReportData, summary: Summary, access: str) -> dict[str, str]:
    """Recipe -> its verdict relative to the baseline, by scores and labels, or by labels where only those are seen."""
    frame, verdicts = membership_frame(data, summary), {}
    for row in () if frame is None else frame.to_dict("records"):
        if row["word"] != "baseline" and access != "labels":
            verdicts[row["recipe"]] = row["word"]
        elif not is_null(row["less_by_labels"]):
            low, high = row["less_by_labels_low"], row["less_by_labels_high"]
            verdicts[row["recipe"]] = UNCLEAR if is_null(low) or low <= 0 <= high else LESS if low > 0 else MORE
    return verdicts


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The result of an audit, as `audit.json` has it: docs/audit.md says what is in it. Here what is not said there.

    Attributes:
        untried: Sentences on attacks that need more access or queries than the model gives.
        unfit: Sentences on what a larger effort would try.
        own_test: Whether the data mark test images.
        strangers: Public images for the thresholds of verification; None where they are rendered.
        told: Sentences on public images that may not fit.
        unmeasured: Why membership was not measured, where it was asked.
        recipe: Name of the model's recipe in the sweep; None where it is the only one.
        is_program: Whether the model is a program, which cannot be trained here.
        is_enrolled: Whether its classes are people enrolled with an embedder.
        rows: The rows of `reached` in the summary's frame.
        checks: What the judges say of real photographs.
    """

    effort: str = ""
    untried: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    own_test: bool = False
    strangers: int | None = None
    told: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    access: str = "gradients"
    judge_name: str = ""
    classes: int
    recipe: str | None = None
    architecture: str = ""
    epochs: int = 0
    is_program: bool = False
    is_enrolled: bool = False
    membership: MembershipAudit | None = None
    judge: str
    ceiling: float | None
    reached: tuple[Row, ...]
    rows: tuple[int, ...] = field(default=(), repr=False)
    beyond: Comparison = NOTHING
    people: tuple[Row, ...] = ()
    test_acc: float
    chance: float
    beside: tuple[Row, ...] = ()
    standing: tuple[Standing, ...] = ()
    second: tuple[Standing, ...] = ()
    second_name: str = ""
    can_tell: bool = True
    checks: Checks = field(default_factory=dict, repr=False)

    @property
    def spec(self) -> Metric:
        """The metric that decides, with its judge's accuracy in the label unless that is good."""
        return labelled(metric_of(self.judge), self.checks)

    def beside_as(self, role: Role) -> list[Row]:
        """Of the recipes side by side those in this role."""
        return [one for one in self.beside if one["role"] == role]

    @property
    def attacks(self) -> list[Row]:
        return [one for one in self.reached if not one["control"]]

    @property
    def controls(self) -> list[Row]:
        return [one for one in self.reached if one["control"]]

    @property
    def strongest(self) -> Row:
        """The strongest attack; without any attack, the strongest control."""
        return self.reached[0]

    @property
    def by_access(self) -> dict[str, Row]:
        """Access level -> the strongest attack that needs no more access; levels without an attack are left out."""
        levels = {level: place for place, level in enumerate(ACCESS_LEVELS)}
        return {
            level: next(one for one in self.attacks if levels[one["access"]] <= place)
            for level, place in levels.items()
            if any(one["access"] == level for one in self.attacks)
        }

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

    @cached_property
    def said(self) -> dict[str, tuple[str, ...]]:
        """The sentences, by section of the page.

        `answer`: the finding, then its uncertainty. `membership`: empty where it was not asked for. `trainings`: their
        cost, their limits, and what there was no time for. `unknown`: what the audit does not show.
        """
        seen = [person for person in self.people if person["share"] > 0]
        fixes = self.beside_as("fix")
        compared = [one for one in fixes if one["leak"] is not None]
        both = [(one, other) for one in self.standing for other in self.second if one.metric == other.metric]
        known = {
            "audit": self,
            "untold": untold(self.checks),
            "spec": self.spec,
            "best": self.strongest,
            "model": next(iter(self.beside_as("model")), None),
            "plain": next(iter(self.beside_as("reference")), None),
            "fixes": fixes,
            "compared": compared,
            "fewest": min((one["leak"].seeds for one in compared), default=0),
            "half": sum(person["share"] >= HALF for person in self.people),
            "seen": seen,
            "sure": [person for person in seen if person["among_top"] > HALF][:TOP],
            "tried": [named(one["attack"]) for one in self.attacks],
            "share": partial(number, self.spec),
            "estimate": partial(estimate, self.spec),
            "accuracy": lambda one: number(metric_of("test_acc"), one["test_acc"]),
            "both": sorted((pair for pair in both if pair[0].spec.reach), key=lambda pair: not pair[0].spec.verifies),
            "strangers_needed": strangers_needed(RATES[FALSE_ACCEPTS]),
        }
        said = sections(PLACE, "audit.txt", _WORDS | known)
        return said | {"membership": self.membership.lines if self.membership else self.unmeasured}

    def dump(self) -> dict[str, Any]:
        """The audit as JSON has it; without attacks on membership where no claim is made."""
        found = {part.name: getattr(self, part.name) for part in fields(self) if part.repr}
        if (members := self.membership) is not None:
            shown = members if members.holds else replace(members, recipes=(), shadowed=None)
            chosen = members.beforehand.attack
            found["membership"] = {"holds": members.holds, "chosen_beforehand": chosen, **plain(shown)}
        found["by_access"] = {level: one["attack"] for level, one in self.by_access.items()}
        return plain({**found, "said": self.said})


def read_audit(
    data: ReportData,
    summary: Summary,
    *,
    names: Sequence[str],
    classes: int,
    recipe: str | None = None,
    planned: Mapping[str, float] | None = None,
    told: tuple[str, ...] = (),
    **known: Any,
) -> Audit | None:
    """The result of an audit; None while no reconstruction of the model's people has been judged.

    Args:
        names: Of the people, by label.
        recipe: The model's in the sweep; None where it is the only one.
        planned: Recipe -> forecast device-seconds of its first seed.
        known: Further attributes of the audit.

    Where only controls ran, no person is named: a control knows nothing of the model.
    """
    can_tell = summary.primary is not None
    if not can_tell:
        judged = (key for key in CLASS_METRICS if key in summary.measured)
        summary = replace(summary, primary=next(judged, None))
    if (metric := summary.primary) is None:
        return None
    frame, own = summary.frame, recipe or summary.recipes[0]
    frame = frame[frame[metric].notna() & (frame["recipe"] == own)]
    order = {"control": True, metric: summary.spec.sign < 0}
    rows = [int(row) for row in frame.sort_values([*order], ascending=[*order.values()], kind="stable").index]
    if not rows or not (summary.worst(metric) or summary.frame["control"].all()):
        return None  # attacks that failed are no answer
    strongest, control = rows[0], next((row for row in rows if frame.loc[row, "control"]), None)
    attacked, beyond = not frame.loc[strongest, "control"], NOTHING
    if can_tell and attacked and control is not None:
        sides = (summary.samples[row][metric] for row in (strongest, control))
        beyond = compare(summary.spec, *sides, among=max(1, len(summary.attacks)))
    ceiling = frame[summary.spec.ceiling].mean() if summary.spec.ceiling in summary.measured else math.nan
    return Audit(
        **known,
        told=(*told, *(line.rstrip(".") for line in data.warnings)),
        classes=classes,
        recipe=recipe,
        judge=metric,
        can_tell=can_tell,
        checks=summary.checks,
        ceiling=None if pd.isna(ceiling) else float(ceiling),
        reached=tuple(_reached(data, summary, row) for row in rows),
        rows=tuple(rows),
        beyond=beyond,
        people=_people(summary, strongest, control, names) if can_tell and attacked else (),
        standing=standings(summary, strongest, control, classes) if attacked else (),
        test_acc=float(frame["test_acc"].mean()),
        chance=1 / classes,
        beside=_beside(data, summary, own, planned or {}),
    )


def _reached(data: ReportData, summary: Summary, row: int) -> Row:
    """The leak of an attack or control with its interval, and what it takes per person of queries and device-seconds,
    with a share of parts that serve all people."""
    cell, people, parts = summary.cells[row], data.judged_classes or 1, (*PARTS, "attack")
    trials, leak = cell["trials"], summary.estimate(row, summary.deciding)
    of_attack = [link for trial in trials for link in data.links.get(trial, ()) if link.stage in parts]
    once = sum(data.asked.get(trial, 0.0) for trial in trials) / max(1, len(trials))
    return {
        "attack": cell["attack"] or "attack",
        "access": cell["access"],
        "control": bool(cell["control"]),
        **{"leak": leak.value, "low": leak.low, "high": leak.high},
        "seeds": int(cell["n"]),
        "queries": None if pd.isna(cell["queries"]) else float(cell["queries"]) + once / people,
        "seconds": sum(link.seconds * link.devices for link in of_attack) / max(1, len(trials)) / people,
    }


def _people(summary: Summary, strongest: int, control: int | None, names: Sequence[str]) -> tuple[Row, ...]:
    """How exposed each person is, what is credited to the control of them, and what a recogniser accepts."""

    def by_class(row: int | None, metric: str) -> dict[Any, float]:
        """Label -> the metric's mean over seeds."""
        seeds = () if row is None else summary.samples[row].get(metric, {}).values()
        by_class = [one.by_class for one in seeds if one.by_class is not None]
        return pd.concat(by_class, axis=1).mean(axis=1).to_dict() if by_class else {}

    credited, verified, people = by_class(control, summary.deciding), by_class(strongest, FIRST), []
    for person in exposed(summary, strongest, summary.deciding):
        label = int(person.pop("class"))  # classes are their numbers
        beside = {"control": credited.get(label), "verified": verified.get(label)}
        people.append({"name": names[label], "label": label, **person, **beside})
    return tuple(people)


def _beside(data: ReportData, summary: Summary, own: str, planned: Mapping[str, float]) -> tuple[Row, ...]:
    """The model, the reference and the fixes, each under the attack that works best against it; may be empty.

    Device-seconds leave out stages that are shared with the model (data, prior, the judges' networks).
    """
    rows, reference = summary.worst(summary.deciding), summary.baseline_recipe
    if reference is None or reference not in rows or own not in rows or len(rows) < 2:
        return ()
    links = {
        str(recipe): {link.path: link for cell in trials for trial in cell for link in data.links.get(trial, ())}
        for recipe, trials in summary.frame.groupby("recipe", sort=False)["trials"]
    }
    found = []
    for recipe in (recipe for recipe in summary.recipes if recipe in rows):
        seconds = {True: 0.0, False: 0.0}  # of trainings, and of the rest
        for path, link in links[recipe].items():
            if path not in links[own]:
                seconds[link.stage == "target"] += link.seconds * link.devices
        versus = NOTHING if recipe == reference else summary.compare("test_acc", rows[recipe], rows[reference])
        found.append(
            {
                "recipe": recipe,
                "role": "model" if recipe == own else "reference" if recipe == reference else "fix",
                "test_acc": float(summary.frame.loc[rows[recipe], "test_acc"]),
                "reached": _reached(data, summary, rows[recipe]),
                "leak": summary.verdict(recipe),
                "accuracy": versus,
                "training_s": None if recipe == own else seconds[True],
                "attacking_s": None if recipe == own else seconds[False],
                "planned_s": planned.get(recipe),
            }
        )
    return tuple(found)


def with_second(audit: Audit, summary: Summary, name: str) -> Audit:
    """Add to an audit how the second embedder `name` judges the strongest attack.

    summary: of the sweep in which it judges. The audit is returned unchanged where that holds no such attack.
    """
    frame = summary.frame
    if summary.primary is None or summary.primary not in frame:
        told = tuple(f"By {name}: {line.rstrip('.')}" for line in untold(summary.checks))
        return replace(audit, told=(*audit.told, *told))
    rows = frame[(frame["attack"] == audit.strongest["attack"]) & frame[summary.primary].notna()]
    rows = rows[rows["recipe"] == summary.recipes[0]] if len(rows) > 1 else rows
    controls = frame[frame["attack"].isin([one["attack"] for one in audit.controls[:1]])].index
    if not len(rows):
        return audit
    second = standings(summary, int(rows.index[0]), int(controls[0]) if len(controls) else None, audit.classes)
    return replace(
        audit, second=tuple(replace(one, words=f"{one.words}, by {name}") for one in second), second_name=name
    )


def shown_rate(value: float | None) -> str:
    """A rate as text, such as `5.2 %`; `too few test images` for None."""
    return "too few test images" if value is None else f"{100 * value:.1f}{NBSP}%"


_TOLD_BY = (count, duration, listing, of_attack, number, reduction_words, settling, start)
_WORDS = {one.__name__: one for one in (*_TOLD_BY, shown_rate)} | {
    "probability": probability,
    "rate": lambda value: f"{100 * value:g}{NBSP}%",  # a round one
    "AMONG": AMONG,
    "APART": APART,
    "FIRST": FIRST,
    "SHORT": SHORT,
    "BY_LABELS": BY_LABELS,
    "CHOSEN_BY_RESULT": "picked by this result, which tends to make the number too high",
    "HIGHER": HIGHER,
    "INCONCLUSIVE": INCONCLUSIVE,
    "LEAST_OTHERS": 100,  # fewest test images that can show a false positive rate of 1 %
    "LEAST_SEEDS": LEAST_SEEDS,
    "MOST_SEEDS": MOST_SEEDS,
    "RATES": FALSE_POSITIVES,
    "REDUCES": REDUCES,
    "SEES": SEES,
    "UNCLEAR": UNCLEAR,
    "WITH_SHADOWS": WITH_SHADOWS,
    "WORDING": WORDING,
    "WORDS": WORDS,
}
"""Names that the texts know."""
