"""What a judge is: its settings, what its stage is made of, its columns, what it measures. Reading it loads no torch.

docs/new-judge.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from smoothsweep.core.attacks.shared.base import Access, Attack
from smoothsweep.core.metrics.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import View
    from smoothsweep.core.data.images import ImageSet
    from smoothsweep.core.priors.base import Prior


@dataclass(frozen=True, kw_only=True)
class JudgeInputs:
    """What the judge declares that it reads, each read when it is asked for.

    Attributes:
        reconstructions: (side in pixels or None for any) -> float32 [M, 3, S, S] in about [-1, 1], and the class int64
            [M] that each is of, best first within a class.
        real: ("train" or "test") -> the private images.
        target: The view of it that the judge's access gives.
        weights: What a reader of its staged file makes of it.
        progress: (share done, words).
    """

    protocol: str
    device: str
    reconstructions: Callable[[int | None], tuple[Tensor, Tensor]]
    real: Callable[[str], ImageSet]
    target: Callable[[], View]
    prior: Callable[[], Prior]
    weights: Callable[[Callable[[Path], object]], object]
    progress: Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a judge measured.

    Attributes:
        metrics: Column -> number, None where there was nothing to measure; every one of its columns.
        tables: Name of a file -> columns of equal length.
        hits: bool [M], whether each reconstruction is taken for its class, of a judge that says so: the column with a
            ceiling then has an interval over classes.
    """

    metrics: Mapping[str, float | None]
    tables: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    hits: Tensor | None = None


STAGING = "smoothsweep weights stage"
"""The command that brings published weights here."""

MEASURED = "smoothsweep.tasks.judging:measure"
"""The task of a judge that has a `measure`."""

RECONSTRUCTIONS = "loot"
"""The stage that decodes an attack's reconstructions, and the input of other stages that read them, in every store."""


@dataclass(frozen=True, kw_only=True)
class StageWork:
    """How a stage is done.

    Attributes:
        version: Raised when the same settings would give other numbers.
        run: 'module:function' of the whole stage.
        shard: 'module:function' of a part `(config, inputs, classes, context)`, for stages fanned out per class; `run`
            then only collects what the parts left in `context.work`.
        trains: Whether it may run on several workers under Ray Train.
        on_device: Whether it computes on a GPU where there is one.
        labelled: Its inputs that have classes, of a judge with a `measure` those that it reads; they must agree on them
            (`tasks.classes`), and its artifact has the same.
        check: 'module:function' of what the task refuses in its configuration, which needs none of its work.
        check_reads: The inputs whose configuration `check` looks at, which are all that it is shown.
        asks_elsewhere: Whether it asks a service outside, so that a trial does it after everything else.
        not_finite: What of its artifact may hold NaN or infinity, or nothing in a column of numbers: `file`,
            `file:tensor or column`, `metrics:name`.
    """

    version: int = 1
    run: str = MEASURED
    shard: str | None = None
    trains: bool = False
    on_device: bool = True
    labelled: tuple[str, ...] = ()
    check: str | None = None
    check_reads: tuple[str, ...] = ()
    asks_elsewhere: bool = False
    not_finite: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MissingRequirement:
    """Why a judge can measure nothing here.

    Attributes:
        weights: The weight file it lacks, None where it lacks something else.
        reason: What is missing.
        remedy: What to do.
    """

    weights: str | None
    reason: str
    remedy: str = STAGING


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a judge's stage is made of.

    Attributes:
        config: What decides its numbers.
        hints: What a worker needs beside it, and no number depends on.
        inputs: Name -> a stage, as `StageBuilder` makes them, or what of the trial it is: `RECONSTRUCTIONS`, `attack`,
            `target`, `target.INPUT`, or the name of another judge's stage.
    """

    config: Mapping[str, Any]
    hints: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)


class StageBuilder(Protocol):
    """What a judge plans its stage with. Stages are opaque to it."""

    protocol: str
    image_size: int
    """Side in pixels that the target sees."""
    classes: Any
    attack: Attack | None

    def stated(self, without: Collection[str] = ()) -> dict[str, Any]:
        """The judge's settings as plain values; what is null is left out."""

    def content(self, path: str | Path | None, key: str) -> dict[str, str]:
        """{'content': its SHA-256}, {} for none. Raises InputError naming `judges.<name>.<key>` where nothing is."""

    def staged(self, name: str) -> Path | None:
        """A published weight file that was staged here."""

    def data(self, size: int, *, as_trained: bool = False) -> Any:
        """The private images for inputs of `size` pixels; as_trained: those that targets are trained on."""

    def classifier(self, data: Any) -> Any:
        """The classifier that the settings describe, trained on `data` or brought in."""

    def embeddings(self, inputs: Mapping[str, Any], config: Mapping[str, Any], hints: Mapping[str, Any] = ...) -> Any:
        """Features of the real images; inputs: as of `Planned`."""

    def strangers(self, config: Mapping[str, Any], hints: Mapping[str, Any]) -> Any:
        """Features of the sweep's public images."""

    def projected(self, data: Any, images: int) -> Any:
        """So many private test images of `data`, projected into the sweep's prior."""

    def prior(self, crop: int | None, key: str) -> Any:
        """The sweep's prior. Raises InputError where the crop, a setting of that name, is larger than its images."""

    def passes(self, *, asks: bool) -> dict[str, Any]:
        """How networks run, as the sweep's attack and resources say; asks: and how the target is read."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A judge's settings, the keys of a sweep file's `judges.<name>`; a judge overrides what it changes.

    Attributes:
        stage: The name of its stage, where it is not `judge_<name>`.
        requested_by: The key of the sweep file that requests it, where that is not `judges.<name>`; it then has no
            settings.
        work: How the stage is done.
        columns: Its numbers, without who measures them.
        hints: Settings that no number depends on.
        needs_attack: Whether a sweep that inverts nothing cannot have it.
        independent: Whether its features learnt nothing of the target's images, so that its word comes first.
        learns_private: Whether it is trained on these images.
        requires: Judges that a sweep must have with it, each with the reason in words.
        sees: The most that it is shown of a target's answers.
        needs: What it cannot do without, where that is less than what it sees; None for all of that.
        layers: Whether it looks at the network's layers.
        accompanies: The judge whose settings it has, and beside which it is planned wherever it is `wanted`.
        weights_words: What the published weight file that it needs is called where it is missing.
        size: Side in pixels of the images that it compares, 0 for those of the target.
        draws: The figure that pages and MLflow draw of its artifact alone (`stage_that_draws` in the table), or empty.
        recipes: Settings that are a recipe, with the keys of a sweep file's `recipe`; None where none is stated.
        answers: The file of its artifact that `counts` is shown, empty for none.
        reads: What `measure` is shown, of `RECONSTRUCTIONS`, `data`, `target` and `prior`.
        cites: Its sources, as `core.citations` has them.
        example: Settings with which a test of seconds has it measure a handful of images.
        wrong: Settings that it refuses, each a change to the example.
    """

    stage: ClassVar[str] = ""
    requested_by: ClassVar[str] = ""
    work: ClassVar[StageWork] = StageWork()
    columns: ClassVar[tuple[Metric, ...]] = ()
    hints: ClassVar[tuple[str, ...]] = ()
    needs_attack: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    learns_private: ClassVar[bool] = False
    requires: ClassVar[Mapping[str, str]] = {}
    sees: ClassVar[Access] = "none"
    needs: ClassVar[Access | None] = None
    layers: ClassVar[bool] = False
    accompanies: ClassVar[str] = ""
    weights_words: ClassVar[str] = ""
    size: ClassVar[int] = 0
    draws: ClassVar[str] = ""
    recipes: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = (RECONSTRUCTIONS, "data")
    cites: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[Mapping[str, Any]] = {}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ()

    @property
    def citations(self) -> tuple[str, ...]:
        """What to cite for it: the sources of its kind, and of what its settings add."""
        return self.cites

    @property
    def staged(self) -> str | None:
        """The published weight file that it needs staged, None for none."""
        return None

    @property
    def reads_public(self) -> bool:
        """Whether it, or what accompanies it, looks at the sweep's public images."""
        return False

    @property
    def reconstruction_size(self) -> int | None:
        """The side in pixels at which protocol `paper` keeps the reconstructions for it; 0: as decoded, None: any."""
        return None

    def wants_decoded(self, attack: Attack, protocol: str) -> bool:
        """Whether under protocol `paper` it starts from the images as they were decoded, of no judge's size."""
        return False

    def lack(self, staged: Callable[[str], Path | None]) -> MissingRequirement | None:
        """Why it cannot measure anything here; None where it can. staged: a published file's place, None without."""
        if self.staged is None or staged(self.staged) is not None:
            return None
        what = self.weights_words or self.staged
        return MissingRequirement(weights=self.staged, reason=f"the weights of {what} are not here")

    def check(self, sweep: Any) -> None:
        """Raise InputError, one line naming the key, where it cannot judge what this sweep (its settings) makes."""

    @classmethod
    def accompanying(cls, judge: Judge) -> Judge:
        """This judge with the settings of the one that it accompanies."""
        raise NotImplementedError  # asked only of judges that name one in `accompanies`

    def wanted(self, sweep: Any) -> bool:
        """Whether this sweep has what it needs, of one that accompanies another."""
        return True

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Column -> how many images its rate is of, of a judge that has `answers`.

        answers: that file, a DataFrame with a row for each image or question; inputs: the configurations of its stage's
        inputs by name.
        """
        raise NotImplementedError  # asked only of judges that have `answers`, each of which has its own

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """What its stage is made of. name: its own. By default what `measure` needs."""
        inputs: dict[str, Any] = {role: role for role in self.reads if role in (RECONSTRUCTIONS, "target")}
        if "data" in self.reads:
            inputs["data"] = builder.data(self.size or builder.image_size)
        if "prior" in self.reads:
            inputs["prior"] = builder.prior(None, "")
        config = {"judge": name, "settings": builder.stated(self.hints), "image_size": builder.image_size}
        hints: dict[str, Any] = {key: getattr(self, key) for key in self.hints if getattr(self, key) is not None}
        if self.staged is not None:
            path = builder.staged(self.staged)
            config, hints = {**config, **builder.content(path, "weights")}, {**hints, "path": str(path)}
        return Planned(config={**config, "protocol": builder.protocol}, hints=hints, inputs=inputs)

    def measure(self, inputs: JudgeInputs) -> Measurement:
        """Its numbers. Of a judge whose `work` names no other task."""
        raise NotImplementedError  # asked only of judges that leave `work` as it is: a test measures each of them


@dataclass(frozen=True, kw_only=True)
class ClassifierJudge(Judge):
    """A judge that is a classifier, or trains one: its settings are those of a training, with a seed.

    Attributes:
        settings: As the sweep file has them.
        usual: The defaults that differ from a training's.
        where: Setting -> (another, the choice with which it has a default of its own, that default).
        importable: Whether an imported classifier may stand there.
        balanced: The column of its balanced accuracy on real images, read from the classifier's artifact; empty for
            none.
    """

    settings: Any
    usual: ClassVar[Mapping[str, Any]] = {}
    where: ClassVar[Mapping[str, tuple[str, str, Any]]] = {}
    importable: ClassVar[bool] = False
    balanced: ClassVar[str] = ""

    @property
    def reconstruction_size(self) -> int:
        return self.settings.image_size
