"""Verification beside an embedder judge: would a face recogniser accept a reconstruction as that person?

A stage of its own beside the judge's, which reuses its features of the real images. It adds columns and changes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self

from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.metrics.metric import FIRST, PROJECTED, RATES, STRANGERS, Metric

_FEW = "needs the judge's key verify, and {} or more public images of the sweep as strangers"
_NULLS = {"far1": _FEW.format(50), "far01": _FEW.format(500)}
_SAID = {"far1": "1 %", "far01": "0.1 %"}
NO_REACH = f"{_NULLS['far1']}, and an attack that draws with the sweep's prior"


def _verified(prefix: str, judge: str) -> tuple[Metric, ...]:
    """The columns of one judge. prefix: of the columns; judge: its name in labels."""
    using = " with the general judge's features" if prefix else ""
    rates = [
        metric
        for name, wording in _SAID.items()
        for metric in (
            Metric(
                key=f"{prefix}verified_{name}",
                label=f"verified at {wording}{judge}",
                unit="percent",
                better="low",
                group="leak",
                ceiling=f"{prefix}verified_{name}_real",
                reach=f"{prefix}verified_{FIRST}_reach" if name == FIRST else None,
                chance=RATES[name],
                searched=True,
                verifies=True,
                counted="reconstructions",
                null=_NULLS[name],
                description=f"Fraction of reconstructions that a face recogniser{using} accepts as the attacked "
                f"person, at a threshold at which it accepts {wording} of photographs of strangers.",
            ),
            Metric(
                key=f"{prefix}verified_{name}_real",
                label=f"real photographs verified at {wording}{judge}",
                unit="percent",
                better=None,
                group="check",
                counted="test images",
                null=_NULLS[name],
                description="The same of real test images of the person: the ceiling.",
            ),
        )
    ]
    return (*rates, _others(prefix, judge), *_ranks(prefix, judge))


def _others(prefix: str, judge: str) -> Metric:
    """Whether the threshold fits the private people."""
    return Metric(
        key=f"{prefix}verified_far1_others",
        label=f"other private people accepted at 1 %{judge}",
        unit="percent",
        better=None,
        group="check",
        counted="test images",
        null=_NULLS["far1"],
        description="Fraction of real test images of the other private people that are accepted as a person, at "
        "the threshold of 1 %: far above 1 % where the public images are easier to tell from the private people "
        "than these are from each other, and the threshold is then too low.",
    )


def _ranks(prefix: str, judge: str) -> tuple[Metric, ...]:
    """Where a search finds the person, by a reconstruction and by a photograph."""
    rank = partial(Metric, unit="plain", bounds=(1.0, 501.0), null=_NULLS["far01"])
    return (
        rank(
            key=f"{prefix}gallery_rank",
            label=f"gallery rank{judge}",
            better="high",
            group="leak",
            searched=True,
            chance=251.0,
            description="Rank at which a search by a reconstruction finds a photograph of the attacked person among "
            "those of 500 strangers: 1 is found first, 251 the middle. Median over the reconstructions.",
        ),
        rank(
            key=f"{prefix}gallery_rank_real",
            label=f"gallery rank of real photographs{judge}",
            better=None,
            group="check",
            description="The same of real test images of the person.",
        ),
    )


def _reach(prefix: str, closed: str, judge: str) -> tuple[Metric, ...]:
    """The columns of the reach by one judge. closed: those of the judge itself begin so."""
    description = (
        f"Of {PROJECTED} real photographs, projected into the prior by somebody who has them, the fraction that the "
        "judge still {}: what an attack could show at most with this prior."
    )
    return (
        Metric(
            key=f"{closed}_reach",
            label=f"reach of the prior{judge}",
            unit="percent",
            better=None,
            group="check",
            null=NO_REACH,
            counted="own images",
            description=description.format("matches with the right person"),
        ),
        Metric(
            key=f"{prefix}verified_far1_reach",
            label=f"reach of the prior, verified at 1 %{judge}",
            unit="percent",
            better=None,
            group="check",
            null=NO_REACH,
            counted="own images",
            description=description.format("accepts as the person at 1 % false accepts"),
        ),
        Metric(
            key=f"{prefix}reach_images",
            label=f"photographs of the reach{judge}",
            unit="plain",
            bounds=(0.0, float(PROJECTED)),
            better=None,
            group="check",
            null=NO_REACH,
            description="Private photographs that were projected into the prior.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Accompanying(ByFeatures):
    """What stands beside an embedder judge, with that one's settings."""

    prefix: ClassVar[str] = ""
    cites = ("edpb2024opinion", "klare2015pushing")

    @classmethod
    def accompanying(cls, judge: Judge) -> Self:
        """Make one with the settings of the judge that it accompanies."""
        return cls(**{field.name: getattr(judge, field.name) for field in fields(cls)})

    def wanted(self, sweep: Any) -> bool:
        """Whether there are strangers."""
        return self.verify is not False and sweep.public is not None

    def check(self, sweep: Any) -> None:
        """Nothing: the judge that it accompanies has been checked."""

    def _beginning(self, builder: StageBuilder, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Configuration, hints and inputs that both have: the judge's network, its real features, strangers."""
        planned = super().plan(builder, name)
        config, hints = dict(planned.config), dict(planned.hints)
        requirements = {"least": strangers_least(self.verify)} if self.verify else {}
        strangers = builder.strangers({**config, "most": STRANGERS}, {**hints, **requirements})
        inputs = {"real": planned.inputs["real"], "strangers": strangers}
        return {**config, "prefix": self.prefix}, hints, inputs


def strangers_least(verify: bool | None) -> int:
    """How many strangers there must be where verification is asked for explicitly."""
    return 50 if verify else 0


@dataclass(frozen=True, kw_only=True)
class VerifiedByEmbedder(Accompanying):
    """Whether a face recogniser with the embedder judge's features accepts reconstructions as the attacked person."""

    accompanies = "embedder"
    requested_by = "judges.embedder"
    work = StageWork(run="smoothsweep.tasks.verification:verify", labelled=("real", RECONSTRUCTIONS))
    columns = _verified("", "")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """The reconstructions against real images and strangers."""
        config, hints, inputs = self._beginning(builder, name)
        return Planned(config=config, hints=hints, inputs={**inputs, RECONSTRUCTIONS: RECONSTRUCTIONS})


@dataclass(frozen=True, kw_only=True)
class VerifiedByGeneral(VerifiedByEmbedder):
    """Verification in the general judge's features."""

    accompanies = "general"
    requested_by = "judges.general"
    prefix = "general_"
    columns = _verified("general_", ", general judge")


@dataclass(frozen=True, kw_only=True)
class ReachByEmbedder(Accompanying):
    """What the prior can show of the private people, by the embedder judge: the same for all trials that have both."""

    accompanies = "embedder"
    requested_by = "judges.embedder"
    closed: ClassVar[str] = "embedder"
    cites = ("edpb2024opinion", "abdal2019image2stylegan", "klare2015pushing")
    work = StageWork(run="smoothsweep.tasks.verification:reach", labelled=("real", "projected"))
    columns = _reach("", "embedder", "")
    answers = "photographs.parquet"

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """The photographs that were projected."""
        return {column.key: len(answers) for column in cls.columns if column.unit == "percent"}

    def wanted(self, sweep: Any) -> bool:
        """Strangers, and a prior."""
        return super().wanted(sweep) and sweep.reads_prior

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """Private photographs that were projected, against real images and strangers."""
        config, hints, inputs = self._beginning(builder, name)
        projected = builder.projected(builder.data(self.size), PROJECTED)
        return Planned(config={**config, "closed": self.closed}, hints=hints, inputs={**inputs, "projected": projected})


@dataclass(frozen=True, kw_only=True)
class ReachByGeneral(ReachByEmbedder):
    """The prior's reach in the general judge's features."""

    accompanies = "general"
    requested_by = "judges.general"
    prefix = "general_"
    closed = "general"
    columns = _reach("general_", "general", ", general judge")
