"""BREP-MI (Kahla et al., CVPR 2022) as a row of the attack family: the target says labels, and nothing else.

Defaults are the official code's (m-kahla/Label-Only-Model-Inversion-Attacks-via-Boundary-Repulsion, config2.yaml,
commit 8a2e200), but for the two ends that it does not have: `max_passes` of a walk, `starts.max_batches` of the search
for latents to begin with. The walk itself is core/attacks/black_box/boundary_repulsion.py, which names its traps.

A class without a result leaves a latent that was drawn at random, which a judge will hardly credit: one that the
generator never hit (fact `never_hit`) and, under protocol `paper` with the result at the last expansion, one whose
sphere never grew, which the official code counts as a failure (`never_expanded`). Under `clean` that walk leaves the
point that it came to. The official code attacks whatever 300 labels its generator hits first; here the classes are
the sweep's, and `start_batch` says how soon each was hit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from smoothsweep.core.attacks.black_box.latent_settings import GeneratorSettings, LatentSettings
from smoothsweep.core.attacks.shared.base import Access, Aggregate, Attack, AttackInputs, Part, Reconstructions
from smoothsweep.core.bounds import Count, Latents, Positive, Seed
from smoothsweep.core.checks import present, require
from smoothsweep.core.declared import check_fields

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.black_box.boundary_repulsion import Walks
    from smoothsweep.core.attacks.black_box.latent_images import LatentImages
    from smoothsweep.core.attacks.shared.view import LabelView

ROBUST_VIEWS = 32


@dataclass(frozen=True, kw_only=True)
class StartSearch:
    """The search for latents of each label.

    Attributes:
        batch: Latents drawn at once.
        max_batches: Batches that are drawn at most.
        seed: Seed of the drawn latents, which all classes share.
    """

    batch: Count = 256
    max_batches: Count = 200
    seed: Seed = 42

    def __post_init__(self) -> None:
        check_fields(self, "attack.starts.")


@dataclass(frozen=True, kw_only=True)
class BREPMI(GeneratorSettings, Attack):
    """`selected` walks per class, each from a latent of its own; the one with the largest sphere first.

    Attributes:
        starts: How the latents that walks begin with are searched.
        clamp: Latents stay within [-clamp, clamp].
        probes: Points on the sphere in each pass.
        inside: The sphere grows where the sum of the probes' +1 and -1 exceeds this fraction of their number.
        radius: Radius of the sphere at the beginning, in the latents' unit.
        expansion: Factor by which the radius grows.
        patience: Accepted steps without growth that end a walk.
        max_passes: Passes of one walk at most, probes + 1 queries each.
        repulsion_only: Whether probes inside the class count for nothing.
        result: The point of a walk that counts, "last_expansion", "end" or "robust", the one among those at the
            expansions and the end that keeps its label in most of `robust_views` random crops and mirrors.
        robust_views: Random crops and mirrors of each such point, of result robust alone.
    """

    title: ClassVar[str] = "BREP-MI"
    cites: ClassVar[tuple[str, ...]] = ("kahla2022label",)
    access: ClassVar[Access] = "labels"
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "start_batch": "mean",
        "never_hit": "sum",
        "never_expanded": "sum",
        "capped": "sum",
        "passes": "mean",
        "expansions": "mean",
        "radius": "mean",
    }

    selected: Latents = 1
    starts: StartSearch = field(default_factory=StartSearch)
    clamp: Positive = 1.5
    probes: Count = 32
    inside: Annotated[float, Ge(-1), Lt(1)] = 0.75
    radius: Positive = 2.0
    expansion: Annotated[float, Gt(1)] = 1.3
    patience: Count = 1000
    max_passes: Count = 5000
    repulsion_only: bool = True
    result: Literal["last_expansion", "end", "robust"] = "last_expansion"
    robust_views: Count = ROBUST_VIEWS

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        GeneratorSettings.__post_init__(self)
        require(
            self.result == "robust" or self.robust_views == ROBUST_VIEWS,
            "attack.robust_views",
            "the default where result is not robust",
            self.robust_views,
        )

    @property
    def variant(self) -> str | None:
        """Which point counts, where it is not the official one."""
        return None if self.result == "last_expansion" else f"{self.result} point"

    @property
    def enlarging(self) -> str:
        """The way of the official evaluation (utils.py, low2high)."""
        return "truncated_bytes"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The generator, where it is not the sweep's prior; the first latents of every label, for all classes."""
        latent = {f.name: getattr(self, f.name) for f in fields(LatentSettings)}
        settings = {
            **asdict(self.starts),
            **latent,
            "clamp": self.clamp,
            "per_label": self.selected,
            "generator": self.generator,
        }
        return (*self.generator_parts, Part(name="starts", needs=(self.generator, "target"), settings=settings))

    @property
    def needs(self) -> tuple[str, ...]:
        """What decodes its latents, and the first of them."""
        return self.generator, "starts"

    def most_queries(self, protocol: str) -> int:
        """Every walk's start and passes, each of them the probes and a step, and the views of its robust points."""
        views = self.robust_views * (self.max_passes + 2) if self.result == "robust" else 0
        return self.selected * (1 + self.max_passes * (self.probes + 1) + views)

    @property
    def most_queries_once(self) -> int:
        """The search for the first latents of every label."""
        return self.starts.batch * self.starts.max_batches

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError for a size that the generator cannot have, too."""
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        self.check_size(image_size)

    def invert(self, view: LabelView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Walk from the class's starts, all walks at once."""
        import torch

        from smoothsweep.core.attacks.black_box.boundary_repulsion import walk
        from smoothsweep.core.attacks.black_box.latent_images import LatentImages, generator_of
        from smoothsweep.core.seeds import generator

        decoder = generator_of(inputs, self.generator)
        images = LatentImages(decoder, self, view.execution, image_size=view.image_size)
        batches, ranks = (inputs.parts["starts"][name][target_class, : self.selected] for name in ("batches", "z"))
        starts = ranks[batches > 0]
        sources = [generator(seed, target_class, "walk", slot) for slot in range(len(starts))]
        walks = walk(
            lambda z: view.labels(images(z)),
            starts,
            torch.full((len(starts),), target_class),
            self,
            lambda slot: torch.randn(self.probes, images.z_dim, generator=sources[slot]),
        )
        nowhere = torch.randn(self.selected, images.z_dim, generator=generator(seed, target_class, "nowhere"))
        z = nowhere.clamp(-self.clamp, self.clamp)
        for slot, point in enumerate(self._results(walks, images, view, inputs, target_class, seed=seed)):
            z[slot] = z[slot] if point is None else point
        order = walks.radii.argsort(descending=True, stable=True)
        order = torch.cat([order, torch.arange(len(starts), self.selected)])
        radii = torch.cat([walks.radii.float(), torch.full((self.selected - len(starts),), torch.nan)])
        return Reconstructions(
            w=images.w_of(z[order]).cpu(), rows={"radius": radii[order]}, facts=_facts(walks, batches)
        )

    def _results(
        self, walks: Walks, images: LatentImages, view: LabelView, inputs: AttackInputs, target_class: int, *, seed: int
    ) -> list[Tensor | None]:
        """The point of each walk that counts; None where there is none."""
        if self.result == "end":
            return list(walks.z)
        if self.result == "last_expansion":
            ends = [None] * len(walks.z) if inputs.protocol == "paper" else list(walks.z)
            return [end if point is None else point for point, end in zip(walks.last_growths, ends, strict=True)]
        from smoothsweep.core.attacks.black_box.brep_robust import most_robust

        return [
            most_robust(
                [*points, end],
                images,
                view,
                target_class,
                views=self.robust_views,
                seed=seed,
                protocol=present(inputs.protocol, "protocol"),
            )
            for points, end in zip(walks.growths, walks.z, strict=True)
        ]


def _facts(walks: Walks, batches: Tensor) -> dict[str, float]:
    """Not a number where there was no walk; a mean over the walks, but for what is counted."""
    grown = [len(points) for points in walks.growths]
    mean = len(grown) or float("nan")
    return {
        "start_batch": float(batches[0]) or float("nan"),
        "never_hit": float(not grown),
        "never_expanded": float(grown.count(0)),
        "capped": float(walks.capped.sum()),
        "passes": float(walks.passes.sum()) / mean,
        "expansions": sum(grown) / mean,
        "radius": float(walks.radii.sum()) / mean,
    }
