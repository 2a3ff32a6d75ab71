"""Compare the leak of an audit in memory with chance, a control, the reach of the prior, and the ceiling.

The rows of the command's `standing`, computed by the same functions (`core.metrics.recognition`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.analysis.projected_photographs import projected_photographs, stranger_rows
from smoothsweep.core.audit.attacking import Attacker, OnProgress, ignore_progress
from smoothsweep.core.audit.statistics import Tally
from smoothsweep.core.audit.verified import CLOSED_SET_NOTE, few_strangers_note
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.metrics.accuracy import class_means
from smoothsweep.core.metrics.metric import FIRST, PROJECTED, RATES
from smoothsweep.core.metrics.recognition import (
    Head,
    Photographs,
    ProjectionVerdicts,
    RecognitionReport,
    judge_projections,
    recognise,
)

MIDDLE_RANK = 251.0
"""Expected gallery rank of a stranger's image among 500 strangers."""
COLUMNS = ("metric", "leak", "low", "high", "chance", "control", "reach", "ceiling")


@dataclass(frozen=True, kw_only=True)
class Recogniser:
    """A judge's features, by which reconstructions are verified.

    Attributes:
        embed: Maps images uint8 [M, 3, R, R] to features [M, D].
        real: Features of the private images.
        head: The linear head on these features.
        test: The test images.
        prefix: Prefix of its columns in the results of a sweep.
        closed: Prefix of the columns of its closed-set verdict.
    """

    embed: Callable[[Tensor], Tensor]
    real: Photographs
    head: Head
    test: ImageSet
    prefix: str
    closed: str


@dataclass(frozen=True, kw_only=True)
class LeakReferences:
    """The strongest attack by every metric, next to the values that it is compared with.

    Attributes:
        table: One row per metric: metric (a column of a sweep's results), leak with low and high, chance, control,
            reach and ceiling (NaN: not measured).
        verified: Class -> fraction of the strongest attack's images accepted at 1 % false accepts; may be empty.
        why_not: Why nothing was verified; empty where something was.
    """

    table: pd.DataFrame
    verified: dict[int, float]
    why_not: str = ""


def compare_with_references(
    *,
    by: Recogniser | None,
    metric: str,
    ceiling: float,
    strongest: Tally,
    control: Tally,
    drawn: Sequence[tuple[Tensor, Tensor]],
    drawn_by_control: Sequence[tuple[Tensor, Tensor]],
    attacker: Attacker,
    crop: int | None,
    classes: int,
    on_progress: OnProgress = ignore_progress,
) -> LeakReferences:
    """Compare the strongest attack with chance, the control, the reach of the prior and the ceiling.

    Args:
        by: The judge's features, None for a judge without any.
        metric, ceiling: The judge's metric and its ceiling.
        strongest, control: Hits of the strongest attack and of the control.
        drawn, drawn_by_control: Their pictures and labels, for every seed.
        crop: Crop of the strongest attack, in pixels.
        classes: Number of the model's classes.
    """
    first: dict[str, Any] = {"metric": metric, "leak": strongest.leak.mean, **_ends(strongest)}
    first |= {"chance": 1 / classes, "control": control.leak.mean, "ceiling": ceiling}
    if by is None:
        return LeakReferences(table=_table([first]), verified={}, why_not=CLOSED_SET_NOTE)
    strangers = by.embed(attacker.public[stranger_rows(len(attacker.public))])
    accepted, accepted_of_control = (
        [recognise(by.embed(images), labels, by.real, strangers) for images, labels in side]
        for side in (drawn, drawn_by_control)
    )
    of_prior = _reach(by, attacker, strangers, crop, on_progress)
    first["reach"] = of_prior.closed
    rows, labels = [first], drawn[0][1]
    for name, false_accepts in RATES.items():
        if accepted[0].rates[name] is not None:
            tally = Tally.of([report.hits[name] for report in accepted], labels)
            row = {"metric": f"{by.prefix}verified_{name}", "leak": tally.leak.mean, **_ends(tally)}
            row |= {
                "chance": false_accepts,
                "control": _mean(accepted_of_control, lambda report, of=name: report.rates[of]),
            }
            reach = of_prior.accepted if name == FIRST else None
            rows.append({**row, "reach": reach, "ceiling": accepted[0].real[name]})
    if accepted[0].rank is not None:
        ranks = {
            "leak": _mean(accepted, lambda report: report.rank),
            "control": _mean(accepted_of_control, lambda report: report.rank),
        }
        rank = {"metric": f"{by.prefix}gallery_rank", "chance": MIDDLE_RANK, "ceiling": accepted[0].rank_real}
        rows.append({**rank, **ranks})
    if FIRST not in accepted[0].hits:
        return LeakReferences(table=_table(rows), verified={}, why_not=few_strangers_note(len(strangers)))
    return LeakReferences(table=_table(rows), verified=_by_class([report.hits[FIRST] for report in accepted], labels))


def _reach(
    by: Recogniser, attacker: Attacker, strangers: Tensor, crop: int | None, on_progress: OnProgress
) -> ProjectionVerdicts:
    """The reach of the attacker's prior: the judge's verdict on real test images projected into it."""
    made = projected_photographs(
        attacker.prior,
        by.test,
        most=PROJECTED,
        crop=crop,
        seed=0,
        device=attacker.model.execution.device,
        on_progress=on_progress,
    )
    return judge_projections(by.embed(made.drawn), made.labels, by.real, strangers, by.head)


def _ends(tally: Tally) -> dict[str, float | None]:
    return {"low": tally.leak.low, "high": tally.leak.high}


def _mean(results: Sequence[RecognitionReport], number: Callable[[RecognitionReport], float | None]) -> float:
    """The mean of a number over the seeds where it was measured; NaN where it never was."""
    values = [value for result in results if (value := number(result)) is not None]
    return float(np.mean(values)) if values else float("nan")


def _by_class(hits: Sequence[Tensor], labels: Tensor) -> dict[int, float]:
    classes = class_means(hits[0], labels)[0].tolist()
    shares = torch.stack([class_means(hits_of_seed, labels)[1] for hits_of_seed in hits]).mean(dim=0).tolist()
    return dict(zip(classes, shares, strict=True))


def _table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    numbers = [column for column in COLUMNS if column != "metric"]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(numbers, float))
