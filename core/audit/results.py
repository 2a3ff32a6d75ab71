"""The results of the library's attacks, judges and audits: tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.audit.attack_result import AttackResult
from smoothsweep.core.audit.attacking import Attacker, OnProgress, ignore_progress
from smoothsweep.core.audit.judging import Judge
from smoothsweep.core.audit.membership import MembershipAudit
from smoothsweep.core.audit.standing import LeakReferences, compare_with_references
from smoothsweep.core.audit.statistics import LEVEL, Tally
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import result_slots
from smoothsweep.core.metrics.comparisons import Pair
from smoothsweep.core.metrics.intervals import JudgeCheck, check_judge, exposures
from smoothsweep.core.metrics.metric import FIRST
from smoothsweep.core.metrics.verdicts import HIGHER, LOWER

HALF = 0.5
"""Fraction of hits from which on a person counts as matched."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judge's verdict on reconstructions.

    Attributes:
        images: One row per image: class, name, rank, predicted, hit.
        leak: Fraction of hits, in [0, 1].
        real: The same judge's accuracy on real test images.
    """

    images: pd.DataFrame
    leak: float
    real: float

    @property
    def people(self) -> pd.DataFrame:
        """One row per class, the most probable member of the five most exposed first.

        Columns: class, name, share (fraction of hits), rate with low and high (share shrunk towards the mean of all,
        95 %), among_five (probability of being among the five most exposed).
        """
        hits = self.images.groupby(["class", "name"], sort=True)["hit"].agg(["mean", "size"]).reset_index()
        tally = Tally(classes=tuple(hits["class"]), shares=hits[["mean"]].to_numpy().T, images=hits["size"].to_numpy())
        return _people(tally, hits["name"])


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the audit of one model found.

    Attributes:
        attacks: A row per attack, the strongest first, then the controls: attack, words (what a page calls it), access,
            control, leak with low and high (95 %, over seeds and people; NaN without an interval), seeds, queries and
            seconds per person.
        people: A row per person attacked, first who is most probably among the five most exposed: class, name, share
            (of the strongest attack's images that the judge takes for them), rate with low and high (the share shrunk
            towards the mean of all, 95 %), among_five (that probability), control (the share of the control's images
            that the judge takes for this very person), verified (the share of the strongest attack's that a face
            recogniser accepts at 1 % false accepts, NaN where it was not measured).
        membership: How well an attacker tells training from test images, None where that was not asked for.
        standing: The strongest attack by every way of judging it, beside chance, the control, the reach of the prior
            and the ceiling (`core.audit.standing`).
        notes: Sentences on what was not verified and on public images that may not fit.
        beyond: The strongest attack minus the best control, paired by person and seed.
        reconstructions: The strongest attack's, of the first seed.
        judge: The judge's metric as a sweep names it.
        real: How often the judge is right about real test images.
        test_acc: The model's test accuracy.
        strongest: The strongest attack's share of hits by seed and class.
        tallies: Attack -> its share of hits by seed and class, controls left out.
        by: The judge itself.
        seeds: Seeds of the attacks.
        published: The attacks that follow gradients as published, for `smoothsweep.compare`.
    """

    attacks: pd.DataFrame
    people: pd.DataFrame
    beyond: Pair
    reconstructions: AttackResult
    judge: str
    real: float
    test_acc: float
    strongest: Tally
    tallies: Mapping[str, Tally]
    by: Judge
    seeds: tuple[int, ...]
    published: tuple[str, ...] = ()
    standing: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    membership: MembershipAudit | None = None

    @property
    def check(self) -> JudgeCheck:
        """What the judge says of real photographs; with a reason in `why`, no leak can be told by it."""
        images, people = self.by.sensitivity.trials, len(self.by.names)
        return check_judge(self.real, images=images, chance=1 / people, targets=self.test_acc)

    def __str__(self) -> str:
        if self.check.why:
            told = (f"No leak can be told by this judge: {self.check.words}. Judge by another", *self.notes)
            return "\n".join(f"{line}." for line in (*told, *(self.membership.lines if self.membership else ())))
        best, control = self.attacks.iloc[0], self.attacks[self.attacks["control"]].iloc[0]
        sure = {
            HIGHER: "more than images of people in general give away",
            LOWER: "less than images drawn without any attack",
        }.get(self.beyond.verdict, "whether that is more than images of people in general give away is inconclusive")
        known = int((self.people["share"] >= HALF).sum())
        lines = (
            f"Of what the strongest attack ({best['words']}) draws from this model, the judge matches "
            f"{_percent(best['leak'])} with the right one of {len(self.by.names)} people (chance: "
            f"{_percent(1 / len(self.by.names))}); of images drawn without knowing it ({control['words']}), "
            f"{_percent(control['leak'])}: {sure}",
            f"{known} of {len(self.people)} people are matched in half or more of their images; of real photographs "
            f"the judge matches {_percent(self.real)}",
            *self._verified(),
            *self.notes,
            *(self.membership.lines if self.membership else ()),
            "A stronger attack may find more",
        )
        return "\n".join(f"{line}." for line in lines)

    def _verified(self) -> tuple[str, ...]:
        """A sentence on verification; empty where nothing was verified."""
        rows = self.standing[self.standing["metric"].str.endswith(f"verified_{FIRST}")] if len(self.standing) else ()
        if not len(rows):
            return ()
        verified = rows.iloc[0]
        return (
            f"A face recogniser that accepts 1 % of strangers accepts {_percent(verified['leak'], 1)} of these images "
            f"as the person; of the control's, {_percent(verified['control'], 1)}; of real photographs, "
            f"{_percent(verified['ceiling'])}; of these photographs as the attacker's prior can draw them, "
            f"{_percent(verified['reach'])}",
        )


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def verdict_of(reconstructions: AttackResult, by: Judge) -> Verdict:
    """Judge reconstructions. Raises InputError for a class that the judge does not know."""
    labels = reconstructions.inverted.labels
    if int(labels.max()) >= len(by.names):
        raise InputError(f"judge: expected classes below {len(by.names)}, which it knows, got {int(labels.max())}")
    predicted, hits = by.hits(reconstructions.inverted.images, labels)
    rows = {
        "class": labels.numpy(),
        "name": [by.names[label] for label in labels.tolist()],
        "rank": result_slots(labels).numpy(),
        "predicted": predicted.numpy(),
        "hit": hits.numpy(),
    }
    return Verdict(images=pd.DataFrame(rows), leak=hits.double().mean().item(), real=by.sensitivity.share)


def read_audit(
    reconstructions: Sequence[Sequence[AttackResult]],
    ruler: Judge,
    test_acc: float,
    *,
    attacker: Attacker | None = None,
    notes: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> Audit:
    """Compute the statistics of an audit from its reconstructions, [attacks][seeds].

    Args:
        ruler: The judge.
        test_acc: The model's accuracy in [0, 1].
        attacker: The attacker, whose prior and public images give the reach of the prior and the thresholds of
            verification; None leaves both out.
        notes: Sentences on the public images.
    """
    tallies = [
        Tally.of(
            [ruler.hits(seed.inverted.images, seed.inverted.labels)[1] for seed in seeds], seeds[0].inverted.labels
        )
        for seeds in reconstructions
    ]
    order = sorted(
        range(len(reconstructions)),
        key=lambda at: (reconstructions[at][0].inverted.attack.control, -tallies[at].leak.mean),
    )
    attacks = [at for at in order if not reconstructions[at][0].inverted.attack.control]
    best, control = order[0], order[len(attacks)]
    standing = None
    if attacker is not None:
        standing = _compare_with_references(reconstructions, tallies, best, control, ruler, attacker, on_progress)
    return Audit(
        attacks=pd.DataFrame([_row(reconstructions[at], tallies[at]) for at in order]),
        people=_of_people(tallies[best], tallies[control], ruler, standing),
        standing=pd.DataFrame() if standing is None else standing.table,
        notes=(*([standing.why_not] if standing is not None and standing.why_not else []), *notes),
        beyond=tallies[best].beyond(tallies[control], among=len(attacks)),
        reconstructions=reconstructions[best][0],
        judge=ruler.metric,
        real=ruler.sensitivity.share,
        test_acc=test_acc,
        strongest=tallies[best],
        tallies={reconstructions[at][0].name: tallies[at] for at in attacks},
        by=ruler,
        seeds=tuple(result.seed for result in reconstructions[best]),
        published=tuple(
            reconstructions[at][0].name for at in attacks if reconstructions[at][0].inverted.attack.published
        ),
    )


def _compare_with_references(
    reconstructions: Sequence[Sequence[AttackResult]],
    tallies: Sequence[Tally],
    best: int,
    control: int,
    ruler: Judge,
    attacker: Attacker,
    on_progress: OnProgress,
) -> LeakReferences:
    attack = reconstructions[best][0].inverted.attack
    drawn, drawn_by_control = (
        [(result.inverted.images, result.inverted.labels) for result in reconstructions[at]] for at in (best, control)
    )
    return compare_with_references(
        by=ruler.recogniser,
        metric=ruler.metric,
        ceiling=ruler.sensitivity.share,
        strongest=tallies[best],
        control=tallies[control],
        drawn=drawn,
        drawn_by_control=drawn_by_control,
        attacker=attacker,
        crop=attack.crop if attack.decoder == "prior" else None,
        classes=len(ruler.names),
        on_progress=on_progress,
    )


def _of_people(tally: Tally, control: Tally, ruler: Judge, standing: LeakReferences | None) -> pd.DataFrame:
    """One row per class of the tally, with the control's hits and the verified fraction."""
    people = _people(tally, [ruler.names[label] for label in tally.classes])
    credited = dict(zip(control.classes, control.shares.mean(axis=0).tolist(), strict=True))
    verified = {} if standing is None else standing.verified
    return people.assign(
        control=[credited.get(label, np.nan) for label in people["class"]],
        verified=[verified.get(label, np.nan) for label in people["class"]],
    )


def _people(tally: Tally, names: Sequence[str]) -> pd.DataFrame:
    """One row per class of the tally. names: of its classes, in its order."""
    exposure = exposures(tally.shares, tally.images, level=LEVEL)
    columns = {
        "share": exposure.share,
        "rate": exposure.rate,
        "low": exposure.low,
        "high": exposure.high,
        "among_five": exposure.among_top,
    }
    who = pd.DataFrame({"class": tally.classes, "name": list(names), **columns})
    order = who.round({"among_five": 9, "rate": 9})
    order = order.sort_values(["among_five", "rate", "class"], ascending=[False, False, True]).index
    return who.loc[order].reset_index(drop=True)


def _row(seeds: Sequence[AttackResult], tally: Tally) -> dict[str, Any]:
    first, leak = seeds[0].inverted, tally.leak
    return {
        "attack": seeds[0].name,
        "words": first.attack.words,
        "access": first.attack.access,
        "control": first.attack.control,
        "leak": leak.mean,
        "low": _known(leak.low),
        "high": _known(leak.high),
        "seeds": len(seeds),
        "queries": float(np.mean([tally.inverted.queries for tally in seeds])),
        "seconds": float(np.mean([tally.inverted.seconds for tally in seeds])),
    }


def _known(value: float | None) -> float:
    return np.nan if value is None else float(value)
