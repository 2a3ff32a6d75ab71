"""What an attack, a judge and an audit leave for whoever calls them: tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from smoothsweep.core.audit.attacking import Inverted
from smoothsweep.core.audit.judging import Judge
from smoothsweep.core.audit.statistics import LEVEL, Tally
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import result_slots
from smoothsweep.core.metrics.comparisons import Pair
from smoothsweep.core.metrics.exposure import exposures
from smoothsweep.core.metrics.verdicts import HIGHER, LOWER

HALF = 0.5
"""Share of the reconstructions from which on a person counts as matched."""


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What one attack drew of some classes. inverted: tensors and what they took; seed: of the attack."""

    inverted: Inverted
    seed: int

    @property
    def name(self) -> str:
        """The attack with what tells it from others of its kind."""
        return " ".join(filter(None, (self.inverted.kind, self.inverted.attack.variant)))

    @property
    def table(self) -> pd.DataFrame:
        """A row per image: class, rank (0 is the best of its class), score (the model's own word, NaN: not asked)."""
        labels, scores = self.inverted.labels, self.inverted.scores
        score = np.full(len(labels), np.nan) if scores is None else scores.double().numpy()
        return pd.DataFrame({"class": labels.numpy(), "rank": result_slots(labels).numpy(), "score": score})

    def images(self, target_class: int) -> np.ndarray:
        """uint8 [k, R, R, 3], best first. Raises InputError for a class that was not attacked."""
        found = self.inverted.images[self.inverted.labels == target_class]
        if not len(found):
            raise InputError(f"class: expected one that was attacked, got {target_class}")
        return np.ascontiguousarray(found.permute(0, 2, 3, 1).numpy())

    def pictures(self, target_class: int) -> list[Image.Image]:
        """The same as PIL images."""
        return [Image.fromarray(pixels) for pixels in self.images(target_class)]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a judge says of reconstructions. images: a row per image: class, name, rank, predicted, hit; leak: share of
    hits in [0, 1]; real: the same judge on real test images."""

    images: pd.DataFrame
    leak: float
    real: float

    @property
    def people(self) -> pd.DataFrame:
        """A row per class, first who is most probably among the five most exposed: class, name, share of its images
        that are hits, rate with low and high (shrunk towards the mean of all, 95 %), among_five (that probability)."""
        hits = self.images.groupby(["class", "name"], sort=True)["hit"].agg(["mean", "size"]).reset_index()
        tally = Tally(classes=tuple(hits["class"]), shares=hits[["mean"]].to_numpy().T, images=hits["size"].to_numpy())
        return _people(tally, hits["name"])


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the audit of one model found.

    attacks: a row per attack, the strongest first, then the controls: attack, access, control, leak with low and high
    (95 %, over seeds and people; NaN without an interval), corrected with corrected_low and corrected_high (without
    the judge's known error), seeds, queries and seconds per person. people: a row per person attacked, first who
    is most probably among the five most exposed: class, name, share (of the strongest attack's images that the judge
    takes for them), rate with low and high (the share shrunk towards the mean of all, 95 %), among_five (that
    probability). beyond: the strongest attack minus the best control, paired by person and seed. reconstructions: the
    strongest attack's, first seed. judge: its metric as a sweep names it, real: how often it is right about real test
    images; test_acc: the model's. strongest: the share of hits of the strongest attack by seed and class, tallies: the
    same of every attack, controls left out, by: the judge itself, seeds: of the attacks; published: which of them
    follow gradients as published; with all these models are compared (`smoothsweep.compare`).
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

    def __str__(self) -> str:
        best, control = self.attacks.iloc[0], self.attacks[self.attacks["control"]].iloc[0]
        sure = {
            HIGHER: "more than images of people in general give away",
            LOWER: "less than images drawn without any attack",
        }.get(self.beyond.verdict, "whether that is more than images of people in general give away is inconclusive")
        known = int((self.people["share"] >= HALF).sum())
        return (
            f"Of what {best['attack']} draws from this model, the judge matches {best['leak']:.0%} with the right one "
            f"of {len(self.by.names)} people (chance: {1 / len(self.by.names):.0%}); of what {control['attack']} draws "
            f"without knowing it, {control['leak']:.0%}: {sure}. {known} of {len(self.people)} people are matched in "
            f"half or more of their images; of real photographs the judge matches {self.real:.0%}. A stronger attack "
            "may find more."
        )


def verdict_of(reconstructions: AttackResult, by: Judge) -> Verdict:
    """Whom a judge takes reconstructions for. Raises InputError for those of a class that the judge does not know."""
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


def read_audit(reconstructions: Sequence[Sequence[AttackResult]], ruler: Judge, test_acc: float) -> Audit:
    """The statistics of attacks x seeds."""
    tallies = [
        Tally.of([ruler.hits(one.inverted.images, one.inverted.labels)[1] for one in seeds], seeds[0].inverted.labels)
        for seeds in reconstructions
    ]
    order = sorted(
        range(len(reconstructions)),
        key=lambda at: (reconstructions[at][0].inverted.attack.control, -tallies[at].leak.mean),
    )
    attacks = [at for at in order if not reconstructions[at][0].inverted.attack.control]
    best, control = order[0], order[len(attacks)]
    return Audit(
        attacks=pd.DataFrame([_row(reconstructions[at], tallies[at], tallies[control], ruler) for at in order]),
        people=_people(tallies[best], [ruler.names[label] for label in tallies[best].classes]),
        beyond=tallies[best].beyond(tallies[control], among=len(attacks)),
        reconstructions=reconstructions[best][0],
        judge=ruler.metric,
        real=ruler.sensitivity.share,
        test_acc=test_acc,
        strongest=tallies[best],
        tallies={reconstructions[at][0].name: tallies[at] for at in attacks},
        by=ruler,
        seeds=tuple(one.seed for one in reconstructions[best]),
        published=tuple(
            reconstructions[at][0].name for at in attacks if reconstructions[at][0].inverted.attack.published
        ),
    )


def _people(tally: Tally, names: Sequence[str]) -> pd.DataFrame:
    """A row per class of the tally; names: of them, in its order."""
    found = exposures(tally.shares, tally.images, level=LEVEL)
    columns = {
        "share": found.share,
        "rate": found.rate,
        "low": found.low,
        "high": found.high,
        "among_five": found.among_top,
    }
    who = pd.DataFrame({"class": tally.classes, "name": list(names), **columns})
    order = who.round({"among_five": 9, "rate": 9})
    order = order.sort_values(["among_five", "rate", "class"], ascending=[False, False, True]).index
    return who.loc[order].reset_index(drop=True)


def _row(seeds: Sequence[AttackResult], tally: Tally, control: Tally, ruler: Judge) -> dict[str, Any]:
    first, leak = seeds[0].inverted, tally.leak
    corrected = tally.without_error(ruler.sensitivity, control)
    ends = (None, None, None) if corrected is None else (corrected.value, corrected.low, corrected.high)
    return {
        "attack": seeds[0].name,
        "access": first.attack.access,
        "control": first.attack.control,
        "leak": leak.mean,
        "low": _known(leak.low),
        "high": _known(leak.high),
        **dict(zip(("corrected", "corrected_low", "corrected_high"), map(_known, ends), strict=True)),
        "seeds": len(seeds),
        "queries": float(np.mean([one.inverted.queries for one in seeds])),
        "seconds": float(np.mean([one.inverted.seconds for one in seeds])),
    }


def _known(value: float | None) -> float:
    return np.nan if value is None else float(value)
