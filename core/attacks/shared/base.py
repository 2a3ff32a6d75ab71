"""What an attack is: its parameters, what it may see, what it needs beforehand, and how it inverts classes.

An attack is a frozen dataclass of its parameters that overrides the methods it needs. Reading its fields loads no
torch, so that planning stays light: methods that compute import what they need when they are called.
docs/new-attack.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, get_args

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Latents, Seed
from smoothsweep.core.cards import NetworkKind
from smoothsweep.core.checks import present, require
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError
from smoothsweep.core.named_code import load_named

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smoothsweep.core.attacks.optimisation.descent import Protocol as AttackProtocol
    from smoothsweep.core.attacks.shared.view import GradientView
    from smoothsweep.core.cards import NetworkCard
    from smoothsweep.core.priors.base import Prior

Access = Literal["none", "labels", "scores", "gradients"]
ACCESS_LEVELS: tuple[Access, ...] = get_args(Access)
"""Each level with all of those before it."""

Aggregate = Literal["mean", "sum"]

DESCENT_FACTS: Mapping[str, Aggregate] = {
    "loss_first": "mean",
    "loss_last": "mean",
    "gradient_cosine": "mean",
    "num_frozen": "sum",
}
"""What is told of a descent, a class at a time (`core.attacks.optimisation.descent`), and how classes are summed up."""


@dataclass(frozen=True, kw_only=True)
class PartKind:
    """One kind of part.

    Attributes:
        version: Raised when the same settings would give other numbers.
        make: "module:function" of (settings, inputs, view, part_context) -> MadePart.
        access: What it sees of the target.
        trains: Whether it trains a network, and so may take a training's share of a device.
        told_protocol: Whether it depends on the protocol itself. Else `inputs.protocol` is None, and one artifact
            serves both protocols.
        distilled: Whether it learns answers of a target, and so has the target's classes without seeing the target.
        layers: Whether it reads layers of the target below the last one.
        networks: Kinds of the networks that it may leave, by their names on cards. One that decodes latents has
            `resolution` and `synthesize`.
        title: Its label for people, where that is not the name with spaces.
    """

    version: int
    make: str
    title: str = ""
    access: Access = "none"
    trains: bool = False
    told_protocol: bool = True
    distilled: bool = False
    layers: bool = False
    networks: Mapping[str, NetworkKind] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether it numbers the target's classes."""
        return self.distilled or self.access != "none"

    def function(self) -> Callable[..., Any]:
        return load_named(self.make)


@dataclass(frozen=True, kw_only=True)
class StatedWork:
    """What an attack computes for a class, and how fast its kind runs by a published statement.

    Attributes:
        latents: Latents that it optimises per class, in `steps` steps.
        crop: Pixels of the prior's pictures that it keeps, None for whole ones.
        rate_hours: Hours that one `device` took for `rate_latents` latents with a prior of `side` pixels.
        source: Who says so, and where to read it.
    """

    latents: int
    steps: int
    crop: int | None
    device: str
    rate_hours: float
    rate_latents: int
    side: int
    source: str

    @property
    def hours(self) -> float:
        """Device-hours of one class."""
        return self.rate_hours * self.latents / self.rate_latents


@dataclass(frozen=True, kw_only=True)
class Reconstructions:
    """The best k of one class, best first; all tensors on the CPU.

    Attributes:
        w: [k, 1 or num_ws, w_dim], latents of the attack's decoder; None where it searches in none and leaves images.
        images: float16 [k, 3, R, R], unclipped, of the attack's crop, where the attack says that it leaves them, else
            None: they are made of the latents.
        scores: [k], the target's own, None where the attack asked for none.
        rows: Name -> [k, ...], whatever belongs to each of them (where in the pool it started).
        curves: Name -> [steps], means over the candidates.
        facts: Name -> number, those that `Attack.facts` announces.
    """

    w: Tensor | None = None
    images: Tensor | None = None
    scores: Tensor | None = None
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    curves: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many there are. Raises ValueError where there are neither latents nor images."""
        return len(present(self.images, "images") if self.w is None else self.w)


class PartContext(Protocol):
    """Where a part that takes long keeps its state, so that the next attempt after a crash goes on from there."""

    def last_state(self) -> dict[str, Any] | None:
        """The state kept last, tensors and plain values on the CPU; None at the beginning."""

    def keep_state(self, state: Mapping[str, Any]) -> None:
        """Replace the kept state as a whole."""

    def progress(self, fraction: float, text: str) -> None:
        """How far it is, in [0, 1], and a few words."""


@dataclass(frozen=True, kw_only=True)
class AttackInputs:
    """What the attack's `needs` name; the rest is None. Networks are frozen and on the execution's device.

    Attributes:
        protocol: "paper" or "clean", None for a part that it does not reach.
        public: uint8 [N, 3, S, S].
        parts: Name -> its tensors, read when they are looked at.
        networks: Name of a part -> its networks by name, of kinds of its own, read likewise.
        discriminator: Gives the prior's own discriminator.
        targets: Setting -> view of its target, for those of the attack's `other_targets` that are not the attacked one.
    """

    protocol: AttackProtocol | None
    prior: Prior | None = None
    public: Tensor | None = None
    discriminator: Callable[[], nn.Module] | None = None
    parts: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Mapping[str, GradientView] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MadePart:
    """A part: its tensors and its networks by name, each kept in a file of its own, and numbers to record.

    networks: of kinds in `core.attacks.registry.PART_NETWORKS`.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    facts: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What an attack needs once, before it inverts any class. The orchestrator makes a stage of it.

    Attributes:
        name: A row of `core.attacks.registry.PARTS`, which says what makes it.
        needs: "public", "prior", "target" or the names of earlier parts.
        settings: JSON values, whatever of the attack decides what it holds. Attacks whose parts agree in all of that
            share one artifact.
        imported: A folder of networks that were trained elsewhere, which it is then a copy of: `settings` are empty.
    """

    name: str
    needs: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    imported: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack that sees nothing and needs nothing; a kind of attack overrides what it changes.

    Attributes:
        title: What a page calls the kind.
        cites: Its sources, as `core.citations` has them.
        access: What it sees of the target.
        control: Whether it is no attack but the line that a leak must exceed.
        crop_key: What of a sweep file sets `crop`.
        facts: What `invert` reports of a class -> how classes are summed up. `PREFIX: parameter` begins every refusal.
        leaves_images: Whether it leaves images itself, since the latents beside them do not make them.
        other_targets: Settings of a sweep that name another target than the attacked one -> the part that asks it
            instead, None where `invert` does, which then finds its view in `AttackInputs.targets`.
        own_parts: Rows of `core.attacks.registry.PARTS` that an attack from another package brings; their
            names begin with `own_`.
        revision: Raised where the same settings give other numbers, so that this attack alone runs again.
        selected: Reconstructions to keep per class.
        seed: Seed of the attack's random draws, mixed with the trial's.
        readout: How a target whose answers are noisy (defense mid) is read, None as the protocol does.
        precision: Precision of the networks' passes, None for fp32 (tf32 is CUDA's).
        reconstruction_size: Side in pixels that reconstructions are stored at, protocol clean alone, None as decoded.
    """

    title: ClassVar[str] = "an attack"
    cites: ClassVar[tuple[str, ...]] = ()
    access: ClassVar[Access] = "none"
    control: ClassVar[bool] = False
    crop_key: ClassVar[str] = "attack.pool.crop"
    leaves_images: ClassVar[bool] = False
    facts: ClassVar[Mapping[str, Aggregate]] = {}
    other_targets: ClassVar[Mapping[str, str | None]] = {}
    own_parts: ClassVar[Mapping[str, PartKind]] = {}
    revision: ClassVar[int] = 1
    paper_columns: ClassVar[Mapping[str, str]] = {}
    """Metric of the paper's Table 8 -> our column of what its evaluation of this attack really printed."""

    selected: Latents = 50
    seed: Seed = 42
    readout: Literal["noisy", "mean", "expectation"] | None = None
    precision: Literal["fp32", "tf32", "bf16"] | None = None
    reconstruction_size: Annotated[int, Ge(16), Le(4096)] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.")
        expected = "none: this attack asks nothing"
        require(self.readout is None or self.access != "none", "attack.readout", expected, self.readout)

    @property
    def variant(self) -> str | None:
        """What tells it from others of its kind in a table, in a word or two; None where the kind says it all."""
        return None

    @property
    def citations(self) -> tuple[str, ...]:
        """What to cite for it: the sources of its kind, and of what its settings add."""
        return self.cites

    @property
    def words(self) -> str:
        """What a page calls it: `Plug & Play, cross entropy`."""
        return ", ".join(filter(None, (self.title, (self.variant or "").replace("_", " "))))

    @property
    def published(self) -> bool:
        """Whether it follows the target's gradients as published: what defenses are usually measured with, and what
        one that only hides can blind. False for settings made to get past that, and for attacks without gradients."""
        return self.access == "gradients"

    @property
    def stated_work(self) -> StatedWork | None:
        """Its size by a rate that others state; None where none is stated."""
        return None

    def most_queries(self, protocol: str) -> int | None:
        """Images that the target is shown for one class at most; None where no bound is stated."""
        return 0 if self.access == "none" else None

    @property
    def most_queries_once(self) -> int:
        """Images that its parts show the target at most, once for all classes."""
        return 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """What must be made before, in order."""
        return ()

    @property
    def needs(self) -> tuple[str, ...]:
        """What `invert` reads beside the view: "prior", "discriminator" (of the prior), "public", names of parts."""
        return ("prior", *(part.name for part in self.parts))

    @property
    def decoder(self) -> str:
        """What makes images of the latents: "prior", or the name of a part, which then has a network "generator"."""
        return "prior"

    @property
    def pretrained(self) -> tuple[str, ...]:
        """Architectures whose published ImageNet weights its parts begin with."""
        return ()

    @property
    def enlarging(self) -> str | None:
        """How protocol `paper` brings its images to a judge's size: a row of `core.data.images.ENLARGING`.

        None for the official way of Plug & Play: in float, antialiased, not clipped.
        """
        return None

    @property
    def report(self) -> tuple[str, int] | None:
        """The report that protocol `paper` counts the evaluator's verdicts by as well, and classes of a batch there.

        A name that `tasks.judges` knows; None for none.
        """
        return None

    def class_batch(self, protocol: str) -> int:
        """How many classes, in the order of the sweep's list, are inverted at once because they share numbers."""
        return 1

    def side_by_side(self, device: str) -> int:
        """How many classes `invert_batch` computes at once at most on a device ("cpu", "cuda") because that is faster.

        A matter of execution alone: it changes no number of any class. It counts where `class_batch` is 1.
        """
        return 1

    @property
    def crop(self) -> int | None:
        """Side in pixels of the centre crop that the decoder's images get before they are shown; None for none."""
        return None

    @cached_property
    def reads(self) -> frozenset[str]:
        """All that it or its parts read: "prior", "public", "target", names of parts."""
        named = {*self.needs, *(name for part in self.parts for name in part.needs)}
        return frozenset(named | {"prior"} if "discriminator" in named else named)

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError if the attack cannot be tried: target's input in pixels, kind of prior, public images.

        prior_kind: None where the sweep names no prior, which then nothing may read.
        """
        if prior_kind is None and "prior" in self.reads:
            raise InputError("prior: expected what this attack decodes its latents with, got none")
        if not has_public and any("public" in part.needs for part in self.parts):
            raise InputError("public: expected the images that this attack learns from, got none")

    def check_prior(self, card: Callable[[], NetworkCard]) -> None:
        """Raise InputError for a prior that it reads and whose network it cannot use. card: says what that is."""

    def check_public(self, count: int) -> None:
        """Raise InputError if that many public images are too few for its parts."""

    def check_classes(self, count: int) -> None:
        """Raise InputError if a target of that many classes cannot be tried."""

    def invert(self, view: Any, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Reconstruct one class. The numbers depend on the seed and the class: not on other classes, nor on the place.

        view: all that it gets of the target, of its own access level; inputs: what `needs` names, and the protocol.
        An attack overrides this, or `invert_batch` alone where it has a way for several classes: one is a list of one.
        """
        if type(self).invert_batch is Attack.invert_batch:
            raise TypeError(f"{type(self).__name__} says nothing of how it inverts a class")
        (reconstructions,) = self.invert_batch(view, inputs, [target_class], seed=seed)
        return reconstructions

    def invert_batch(
        self, view: Any, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> Sequence[Reconstructions]:
        """Reconstruct a list of classes: this is what a stage calls.

        Either `class_batch` of them or what is left of the sweep's list, which share numbers. Or at most `side_by_side`
        classes that share nothing, each with the numbers that it has by itself.
        """
        return [self.invert(view, inputs, target_class, seed=seed) for target_class in classes]
