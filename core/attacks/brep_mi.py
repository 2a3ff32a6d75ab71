"""BREP-MI (Kahla et al., CVPR 2022): away from the boundary of a class that is known by the target's labels alone.

m-kahla/Label-Only-Model-Inversion-Attacks-via-Boundary-Repulsion, brep_mi.py (commit 8a2e200), whose settings
(config2.yaml) are the defaults, but for the two ends that it does not have: `max_passes` of a walk, and
`starts.max_batches` of the search for latents to begin with. A pass asks for the labels of points on a sphere around a
latent of the class. Enough of them inside: the sphere grows. The latent then steps away from those outside, and stays
where it is should that leave the class.

Traps of the official code that make numbers, all kept:

* "Enough" is a sum of +1 and -1 above 0.75 of the number of points: 29 of 32 inside, not three quarters.
* A step is min(radius / 3, 3) long by the radius before the pass, its direction divided by the radius after it. The
  direction is a mean over all points, those inside counted as 0, so it shortens as fewer are outside.
* A rejected step keeps what its pass did to the sphere, and counts for nothing: only accepted steps without growth
  lead to the end. Where every step is rejected the official loop never ends; here `max_passes` ends it.
* The points of the sphere are not clamped, though the latent is: from the eighth growth on (with 100 dimensions) all
  lie outside the box.

A class without a result leaves a latent that was drawn at random, which a judge will hardly credit: one that the
generator never hit (fact `never_hit`) and, under protocol `paper` with the result at the last expansion, one whose
sphere never grew, which the official code counts as a failure (`never_expanded`). Under `clean` that walk leaves the
point that it came to. The official code attacks whatever 300 labels its generator hits first; here the classes are
the sweep's, and `start_batch` says how soon each was hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from smoothsweep.core.attacks.latent_images import LatentAttack, LatentImages, LatentSettings, generator_of
from smoothsweep.core.attacks.ppa.config import CropRule
from smoothsweep.core.attacks.shared.base import (
    Aggregate,
    AttackInputs,
    MadePart,
    Part,
    PartContext,
    Reconstructions,
)
from smoothsweep.core.bounds import Count, Latents, Positive, Seed
from smoothsweep.core.checks import present, require
from smoothsweep.core.declared import check_fields

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.optimisation.descent import Protocol
    from smoothsweep.core.attacks.shared.view import LabelView

    LabelsOf = Callable[[Tensor], Tensor]
    """Latents [N, D] -> the target's labels int64 [N] of their images, on the CPU."""

MOST_STEP = 3.0
MOST_RADIUS = 1e6  # a class that still fills all of the sphere has no boundary to be found
ROBUST_VIEWS = 32
VIEWS = CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)
"""The crops under which Plug & Play selects (LukasStruppek/Plug-and-Play-Attacks, attacks/final_selection.py)."""


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
class BREPMI(LatentAttack):
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

    title = "BREP-MI"
    cites = ("kahla2022label",)
    access = "labels"
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
        super().__post_init__()
        read = self.result == "robust" or self.robust_views == ROBUST_VIEWS
        require(read, "attack.robust_views", "the default where result is not robust", self.robust_views)

    @property
    def variant(self) -> str | None:
        return None if self.result == "last_expansion" else f"{self.result} point"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The generator, where it is not the sweep's prior; the first latents of every label, for all classes."""
        others = {"clamp": self.clamp, "per_label": self.selected, "generator": self.generator}
        settings = {**asdict(self.starts), **self.latent, **others}
        return (*super().parts, Part(name="starts", needs=(self.generator, "target"), settings=settings))

    @property
    def needs(self) -> tuple[str, ...]:
        return self.generator, "starts"

    def most_queries(self, protocol: str) -> int:
        """Every walk's start and passes, each of them the probes and a step, and the views of its robust points."""
        views = self.robust_views * (self.max_passes + 2) if self.result == "robust" else 0
        return self.selected * (1 + self.max_passes * (self.probes + 1) + views)

    @property
    def most_queries_once(self) -> int:
        return self.starts.batch * self.starts.max_batches

    def invert(self, view: LabelView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        import torch

        from smoothsweep.core.seeds import generator

        images = LatentImages(generator_of(inputs, self.generator), view, **self.latent)
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
        protocol = present(inputs.protocol, "protocol")
        z = torch.randn(self.selected, images.z_dim, generator=generator(seed, target_class, "nowhere"))
        z = z.clamp(-self.clamp, self.clamp)
        for slot, (end, growths) in enumerate(zip(walks.z, walks.growths, strict=True)):
            if self.result == "robust":
                z[slot] = most_robust(
                    [*growths, end], images, view, target_class, views=self.robust_views, seed=seed, protocol=protocol
                )
            elif self.result == "last_expansion" and growths:
                z[slot] = growths[-1]
            elif self.result == "end" or protocol == "clean":
                z[slot] = end
        order = walks.radii.argsort(descending=True, stable=True)
        order = torch.cat([order, torch.arange(len(starts), self.selected)])
        radii = torch.cat([walks.radii.float(), torch.full((self.selected - len(starts),), torch.nan)])
        grown = [len(points) for points in walks.growths]
        mean = len(grown) or float("nan")  # not a number where there was no walk
        return Reconstructions(
            w=images.w_of(z[order]).cpu(),
            rows={"radius": radii[order]},
            facts={
                "start_batch": float(batches[0]) or float("nan"),
                "never_hit": float(not grown),
                "never_expanded": float(grown.count(0)),
                "capped": float(walks.capped.sum()),
                "passes": float(walks.passes.sum()) / mean,
                "expansions": sum(grown) / mean,
                "radius": float(walks.radii.sum()) / mean,
            },
        )


class Walks:
    """Walks of k latents, each by itself.

    Attributes:
        z: [k, D], where they are.
        radii: float64 [k]; iterations, grown_at (the iteration of the last growth), passes: int64 [k].
        growths: Accepted points at which the sphere grew, in order, per walk.
        capped: bool [k], ended by `max_passes`, or because the sphere outgrew `MOST_RADIUS`.
    """

    def __init__(self, labels_of: LabelsOf, starts: Tensor, labels: Tensor, settings: BREPMI) -> None:
        """starts: [k, D]; labels: int64 [k], the class of each walk."""
        import torch

        self._labels_of, self._labels, self._settings = labels_of, labels, settings
        count = len(starts)
        self.z = starts.clone()
        self.radii = torch.full((count,), settings.radius, dtype=torch.float64)
        self.iterations, self.grown_at, self.passes = torch.zeros(3, count, dtype=torch.int64)
        self.growths: list[list[Tensor]] = [[] for _ in range(count)]
        self.capped = torch.zeros(count, dtype=torch.bool)

    def going(self) -> Tensor:
        """The walks that have not ended, int64 [a]."""
        settings = self._settings
        unfinished = self.iterations - self.grown_at < settings.patience
        self.capped = unfinished & ((self.passes >= settings.max_passes) | (self.radii > MOST_RADIUS))
        return (unfinished & ~self.capped).nonzero()[:, 0]

    def advance(self, rows: Tensor, normals: Tensor) -> dict[str, Tensor]:
        """One pass of the walks `rows` [a], normals Gaussian [a, probes, D]: probes + 1 queries of each.

        Returns what it came to: decisions, +1 or -1 [a, probes]; directions, candidates [a, D]; steps, radii_after
        float64 [a]; grown, accepted bool [a].
        """
        import torch

        settings, z, radii, labels = self._settings, self.z[rows], self.radii[rows], self._labels[rows]
        steps = (radii / 3).clamp_max(MOST_STEP)
        directions = normals * (radii.to(normals)[:, None, None] / normals.square().sum(2, keepdim=True).sqrt())
        answered = self._labels_of((z[:, None] + directions).flatten(0, 1)).view(len(rows), -1)
        decisions = torch.where(answered == labels[:, None], 1, -1)
        grown = decisions.sum(1) > settings.inside * decisions.shape[1]
        radii = torch.where(grown, radii * settings.expansion, radii)
        weights = (decisions - 1) / 2 if settings.repulsion_only else decisions.to(z)
        direction = (weights[:, :, None] * directions).mean(1) / radii.to(z)[:, None]
        candidates = (z + steps.to(z)[:, None] * direction).clamp(-settings.clamp, settings.clamp)
        accepted = self._labels_of(candidates) == labels
        self.passes[rows] += 1
        self.radii[rows] = radii
        self.grown_at[rows] = torch.where(grown, self.iterations[rows], self.grown_at[rows])
        self.z[rows] = torch.where(accepted[:, None], candidates, z)
        self.iterations[rows] += (accepted & ~grown).long()
        for place in (accepted & grown).nonzero()[:, 0].tolist():
            self.growths[int(rows[place])].append(candidates[place])
        return {
            "decisions": decisions,
            "steps": steps,
            "radii_after": radii,
            "directions": direction,
            "candidates": candidates,
            "grown": grown,
            "accepted": accepted,
        }


def walk(labels_of: LabelsOf, starts: Tensor, labels: Tensor, settings: BREPMI, draw: Callable[[int], Tensor]) -> Walks:
    """Walk from the latents `starts` [k, D] until each has ended, all of a pass in one batch.

    labels: int64 [k], the class of each walk; draw: walk -> Gaussian [probes, D] for its next pass.
    """
    import torch

    walks = Walks(labels_of, starts, labels, settings)
    while len(rows := walks.going()):
        walks.advance(rows, torch.stack([draw(row) for row in rows.tolist()]))
    return walks


def most_robust(
    points: Sequence[Tensor],
    images: LatentImages,
    view: LabelView,
    target_class: int,
    *,
    views: int,
    seed: int,
    protocol: Protocol,
) -> Tensor:
    """The one of a walk's latents [D], in their order, whose image keeps its label in most of `views` random views.

    Among equals it is the last, which lies deepest in the class. Each view of each point is a query. Under "paper" all
    points share a draw, under "clean" each has its own.
    """
    import torch

    from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, apply_crops
    from smoothsweep.core.seeds import generator

    pictures = images(torch.stack(list(points)))
    votes = torch.zeros(len(points), dtype=torch.int64)
    for number in range(views):
        source = generator(seed, target_class, "robust", number)
        crops = DRAW_CROPS[protocol](VIEWS, len(points), view.image_size, view.image_size, source)
        votes += view.labels(apply_crops(pictures, crops, view.image_size)) == target_class
    return points[int((votes == votes.max()).nonzero()[-1])]


def first_latents(
    labels_of: LabelsOf,
    draw: Callable[[int], Tensor],
    *,
    num_classes: int,
    per_label: int,
    size: int,
    clamp: float,
    max_batches: int,
    on_batch: Callable[[int, int], None] = lambda hit, drawn: None,
) -> tuple[dict[str, Tensor], int]:
    """Draw batches until there are `per_label` latents of every label, or `max_batches` were drawn.

    draw: batch (from 0) -> Gaussian latents [B, size], clamped here to [-clamp, clamp]. Of a batch the first of each
    label is kept first, as in gen_initial_points_targeted and _untargeted of the official code (brep_mi_utils.py,
    commit 8a2e200), which has no end where a label is never found. on_batch: is told how many labels were hit in how
    many batches.

    Returns z [C, k, size], 0 where there is none; batches int64 [C, k], in which batch (from 1) each was drawn, 0 for
    none; order int64 [C, k], how many latents had been kept before it, -1 for none, which tells which labels the
    official untargeted attack would have taken: those found first; and how many batches were drawn.
    """
    import torch

    batches = torch.zeros(num_classes, per_label, dtype=torch.int64)
    order, z, accepted, drawn = batches - 1, torch.zeros(num_classes, per_label, size), 0, 0
    while drawn < max_batches and (batches == 0).any():
        latents = draw(drawn).clamp(-clamp, clamp)
        drawn += 1
        missing = (batches == 0).sum(1).tolist()
        for latent, label in zip(latents, labels_of(latents).tolist(), strict=True):
            if label >= 0 and missing[label]:  # below 0: the target accepts it as nobody
                place = label, per_label - missing[label]
                z[place], batches[place], order[place] = latent, drawn, accepted
                missing[label], accepted = missing[label] - 1, accepted + 1
        on_batch(int((batches[:, 0] > 0).sum()), drawn)
    return {"z": z, "batches": batches, "order": order}, drawn


def make_starts(
    settings: Mapping[str, Any], inputs: AttackInputs, view: LabelView, part_context: PartContext
) -> MadePart:
    """The part `starts`: z, batches and order of `first_latents`; as facts the batches drawn and the labels never hit.

    settings: those of `StartSearch`, with clamp, per_label, generator and the fields of `LatentSettings`.
    """
    import torch

    from smoothsweep.core.seeds import generator

    latent, classes = {name: settings[name] for name in LatentSettings().latent}, view.num_classes
    images = LatentImages(generator_of(inputs, settings["generator"]), view, **latent)
    starts, drawn = first_latents(
        lambda z: view.labels(images(z)),
        lambda n: torch.randn(settings["batch"], images.z_dim, generator=generator(settings["seed"], "starts", n)),
        num_classes=classes,
        per_label=settings["per_label"],
        size=images.z_dim,
        clamp=settings["clamp"],
        max_batches=settings["max_batches"],
        on_batch=lambda hit, n: part_context.progress(hit / classes, f"{hit}/{classes} labels hit in {n} batches"),
    )
    never = float((starts["batches"][:, 0] == 0).sum())
    return MadePart(tensors=starts, facts={"batches": float(drawn), "labels_never_hit": never})
