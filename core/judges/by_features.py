"""Judges in features learnt elsewhere (`core.models.embedder_kinds`), with a linear head on the private classes.

The independent judge has face features, the general one those of pictures of anything. Beside either stand stages of
their own that reuse its features of the real images: verification (would a face recogniser accept a reconstruction as
that person?) and the reach of the prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self

from smoothsweep.core.bounds import FilePath
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import (
    BALANCED,
    FIRST,
    PROJECTED,
    RATES,
    STRANGERS,
    Metric,
    distance,
    leak,
    spread,
)
from smoothsweep.core.models.embedder_kinds import FACES, GENERAL, KINDS, FaceNetwork, GeneralNetwork

SIDE = 160
"""Pixels of the real images, where a published set is reduced from its files."""


@dataclass(frozen=True, kw_only=True)
class ByFeatures(Judge):
    """A judge by a linear head on the features of a network that learnt on other images.

    Attributes:
        name: The network.
        weights: File of the network's weights, None for the shipped or staged one.
        verify: Whether it says too if a face recogniser accepts reconstructions as the person, by thresholds from the
            public images, and what the prior can show (its reach). false: neither; null: where there are public images
            enough; true: fewer than 50 are refused.
        networks: Networks that `name` may be.
    """

    networks: ClassVar[tuple[str, ...]] = ()
    size = SIDE
    independent = True

    name: str
    weights: FilePath | None = None
    verify: bool | None = False

    @property
    def citations(self) -> tuple[str, ...]:
        return (*self.cites, *KINDS[self.name].cites)

    @property
    def staged(self) -> str | None:
        return self.name if self.weights is None and KINDS[self.name].is_staged else None

    @property
    def reads_public(self) -> bool:
        """They are the strangers of verification."""
        return self.verify is not False

    @property
    def reconstruction_size(self) -> int:
        return KINDS[self.name].size

    def check(self, sweep: Any) -> None:
        if self.verify and sweep.public is None:
            raise InputError("verify: expected public images, which are its strangers, got none")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """The real images' features; where staged weights lie the worker knows, and checks."""
        weights_source = builder.staged(self.name) if KINDS[self.name].is_staged else KINDS[self.name].shipped_file
        config = {"network": self.name, **builder.content(self.weights or weights_source, "weights")}
        hints = {"path": self.weights} if self.weights is not None else {}
        real = builder.embeddings({"data": builder.data(self.size)}, config, hints)
        return Planned(config=config, hints=hints, inputs={"real": real, RECONSTRUCTIONS: RECONSTRUCTIONS})


def _columns(prefix: str, judge: str, description: str) -> tuple[Metric, ...]:
    """The columns of a linear head. prefix: of their keys; judge: its name in labels; description: of the first."""
    return (
        leak(
            key=f"{prefix}_acc1",
            label=judge,
            ceiling=f"{prefix}_real_acc",
            reach=f"{prefix}_reach",
            counted="reconstructions",
            description=description,
        ),
        leak(
            key=f"{prefix}_acc5",
            label=f"{judge}, top 5",
            counted="reconstructions",
            description=f"As the {judge}, counting the attacked class among its five best guesses.",
        ),
        spread(
            key=f"{prefix}_acc1_std",
            label=f"{judge}, spread over classes",
            description=f"Standard deviation of the {judge}'s hit rate over the classes.",
        ),
        Metric(
            key=f"{prefix}_real_acc",
            label=f"{judge} on real images",
            counted="test images",
            description=f"How often the {judge} names real images of the private classes correctly: the ceiling of its "
            "verdict on reconstructions.",
        ),
        Metric(
            key=f"{prefix}_real_acc_balanced",
            label=f"{judge} on real images, balanced",
            counted="test images",
            description=BALANCED,
        ),
    )


_ACC1, _ACC5, *_CHECKS = _columns(
    "embedder",
    "independent judge",
    "Share of reconstructions taken for the attacked class by a judge whose face features were learnt on other people, "
    "with a linear head for the private classes. What fools a classifier trained like the target does not fool this "
    "one: it wants likeness.",
)
_DISTANCES = (
    distance(
        key="dist_face",
        label="face distance",
        description="Squared distance between a reconstruction and the nearest training image of its class, in the "
        "feature space of a face embedder. Smaller means a closer likeness.",
    ),
    distance(
        key="dist_face_plain",
        label="face distance, not squared",
        description="The nearest-image distance in the face embedder's features, as a plain L2 distance.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Embedder(ByFeatures):
    """An independent judge: face features learnt on other people, with a linear head on the private classes.

    name: the network whose features are used; without `weights` its shipped or staged file is used (`smoothsweep
    weights stage`), and where that is absent the judge's columns stay empty, with the reason.
    """

    work = StageWork(version=4, run="smoothsweep.tasks.judges:judge_by_embedder", labelled=("real", RECONSTRUCTIONS))
    networks = FACES
    columns = (_ACC1, _ACC5, *_DISTANCES, *_CHECKS)
    cites = ()  # those of its network are all
    example: ClassVar[Mapping[str, Any]] = {"name": "synthetic"}

    name: FaceNetwork

    def __post_init__(self) -> None:
        kind = KINDS[self.name]
        if self.weights is None and not kind.is_staged and kind.shipped_file is None:
            raise InputError(f"weights: expected the file of {self.name}, got none")


@dataclass(frozen=True, kw_only=True)
class General(ByFeatures):
    """A third judge, of another family: features learnt on pictures of anything, with a linear head as the embedder's.

    Without `weights` the staged file is used; where that is absent the columns stay empty, with the reason.

    name: the network whose features are used.
    """

    work = StageWork(
        version=2, run="smoothsweep.tasks.judges:judge_by_general_features", labelled=("real", RECONSTRUCTIONS)
    )
    networks = GENERAL
    columns = _columns(
        "general",
        "general judge",
        "As the independent judge, in the features of a network of another family that never learnt faces: a vision "
        "transformer trained on the hashtags of pictures of anything.",
    )
    cites = ()  # those of its network are all

    name: GeneralNetwork = GENERAL[0]


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
            leak(
                key=f"{prefix}verified_{name}",
                label=f"verified at {wording}{judge}",
                ceiling=f"{prefix}verified_{name}_real",
                reach=f"{prefix}verified_{FIRST}_reach" if name == FIRST else None,
                chance=RATES[name],
                verifies=True,
                counted="reconstructions",
                null=_NULLS[name],
                description=f"Fraction of reconstructions that a face recogniser{using} accepts as the attacked "
                f"person, at a threshold at which it accepts {wording} of photographs of strangers.",
            ),
            Metric(
                key=f"{prefix}verified_{name}_real",
                label=f"real photographs verified at {wording}{judge}",
                counted="test images",
                null=_NULLS[name],
                description="The same of real test images of the person: the ceiling.",
            ),
        )
    ]
    rank = partial(Metric, unit="plain", bounds=(1.0, 501.0), null=_NULLS["far01"])
    return (
        *rates,
        Metric(
            key=f"{prefix}verified_far1_others",
            label=f"other private people accepted at 1 %{judge}",
            counted="test images",
            null=_NULLS["far1"],
            description="Fraction of real test images of the other private people that are accepted as a person, at "
            "the threshold of 1 %: far above 1 % where the public images are easier to tell from the private people "
            "than these are from each other, and the threshold is then too low.",
        ),
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
            description="The same of real test images of the person.",
        ),
    )


def _reach(prefix: str, closed: str, judge: str) -> tuple[Metric, ...]:
    """The columns of the reach by one judge. closed: those of the judge itself begin so."""
    description = (
        f"Of {PROJECTED} real photographs, projected into the prior with the photographs at hand, the fraction that "
        "the judge still {}: what an attack could show at most with this prior."
    )
    return (
        Metric(
            key=f"{closed}_reach",
            label=f"reach of the prior{judge}",
            null=NO_REACH,
            counted="own images",
            description=description.format("matches with the right person"),
        ),
        Metric(
            key=f"{prefix}verified_far1_reach",
            label=f"reach of the prior, verified at 1 %{judge}",
            null=NO_REACH,
            counted="own images",
            description=description.format("accepts as the person at 1 % false accepts"),
        ),
        Metric(
            key=f"{prefix}reach_images",
            label=f"photographs of the reach{judge}",
            unit="plain",
            bounds=(0.0, float(PROJECTED)),
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
        return self.verify is not False and sweep.public is not None

    def check(self, sweep: Any) -> None:
        """Nothing: the judge that it accompanies has been checked."""

    def _beginning(self, builder: StageBuilder, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Configuration, hints and inputs that both have: the judge's network, its real features, strangers."""
        planned = super().plan(builder, name)
        config, hints = dict(planned.config), dict(planned.hints)
        requirements = {"least": 50} if self.verify else {}
        strangers = builder.strangers({**config, "most": STRANGERS}, {**hints, **requirements})
        inputs = {"real": planned.inputs["real"], "strangers": strangers}
        return {**config, "prefix": self.prefix}, hints, inputs


@dataclass(frozen=True, kw_only=True)
class VerifiedByEmbedder(Accompanying):
    """Whether a face recogniser with the embedder judge's features accepts reconstructions as the attacked person."""

    accompanies = "embedder"
    requested_by = "judges.embedder"
    work = StageWork(run="smoothsweep.tasks.judges:verify", labelled=("real", RECONSTRUCTIONS))
    columns = _verified("", "")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
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
    work = StageWork(run="smoothsweep.tasks.judges:reach", labelled=("real", "projected"))
    columns = _reach("", "embedder", "")
    answers = "photographs.parquet"

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        return {column.key: len(answers) for column in cls.columns if column.unit == "percent"}

    def wanted(self, sweep: Any) -> bool:
        return super().wanted(sweep) and sweep.reads_prior

    def plan(self, builder: StageBuilder, name: str) -> Planned:
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
