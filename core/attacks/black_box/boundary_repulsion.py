"""BREP-MI's walk (Kahla et al., CVPR 2022): away from the boundary of a class that is known by labels alone.

m-kahla/Label-Only-Model-Inversion-Attacks-via-Boundary-Repulsion, brep_mi.py (commit 8a2e200). A pass asks for the
labels of points on a sphere around a latent of the class. Enough of them inside: the sphere grows. The latent then
steps away from those outside, and stays where it is should that leave the class.

Traps of the official code that make numbers, all kept:

* "Enough" is a sum of +1 and -1 above 0.75 of the number of points: 29 of 32 inside, not three quarters.
* A step is min(radius / 3, 3) long by the radius before the pass, its direction divided by the radius after it. The
  direction is a mean over all points, those inside counted as 0, so it shortens as fewer are outside.
* A rejected step keeps what its pass did to the sphere, and counts for nothing: only accepted steps without growth
  lead to the end. Where every step is rejected the official loop never ends; here `max_passes` ends it.
* The points of the sphere are not clamped, though the latent is: from the eighth growth on (with 100 dimensions) all
  lie outside the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

LabelsOf = Callable[[Tensor], Tensor]
"""Latents [N, D] -> the target's labels int64 [N] of their images, on the CPU."""

MOST_STEP = 3.0
MOST_RADIUS = 1e6  # a class that still fills all of the sphere has no boundary to be found


class WalkSettings(Protocol):
    """How to walk; described with `core.attacks.black_box.brep_mi.BREPMI`."""

    @property
    def probes(self) -> int: ...

    @property
    def inside(self) -> float: ...

    @property
    def radius(self) -> float: ...

    @property
    def expansion(self) -> float: ...

    @property
    def clamp(self) -> float: ...

    @property
    def patience(self) -> int: ...

    @property
    def max_passes(self) -> int: ...

    @property
    def repulsion_only(self) -> bool: ...


@dataclass(kw_only=True)
class Walks:
    """Walks of k latents, each by itself.

    Attributes:
        z: [k, D], where they are.
        radii: float64 [k]; iterations, grown_at (the iteration of the last growth), passes: int64 [k].
        growths: Accepted points at which the sphere grew, in order, per walk.
        capped: bool [k], ended by `max_passes`, or because the sphere outgrew `MOST_RADIUS`.
    """

    z: Tensor
    radii: Tensor
    iterations: Tensor
    grown_at: Tensor
    passes: Tensor
    growths: list[list[Tensor]]
    capped: Tensor

    @property
    def last_growths(self) -> list[Tensor | None]:
        """The point at each walk's last accepted growth: the official result; None where the sphere never grew."""
        return [points[-1] if points else None for points in self.growths]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass of the walks `rows` [a], for a caller who watches.

    Attributes:
        decisions: +1 or -1 [a, probes].
        directions, candidates: [a, D].
        steps, radii_after: float64 [a].
        grown, accepted: bool [a].
    """

    rows: Tensor
    decisions: Tensor
    steps: Tensor
    radii_after: Tensor
    directions: Tensor
    candidates: Tensor
    grown: Tensor
    accepted: Tensor


def on_sphere(centers: Tensor, normals: Tensor, radii: Tensor) -> tuple[Tensor, Tensor]:
    """Points on spheres, and their directions from the centers: both [a, P, D].

    centers: [a, D]; normals: Gaussian [a, P, D], scaled to the radii [a].
    """
    directions = normals * (radii.to(normals)[:, None, None] / normals.square().sum(2, keepdim=True).sqrt())
    return centers[:, None] + directions, directions


def enough_inside(decisions: Tensor, inside: float) -> Tensor:
    """Whether the sphere grows, bool [a]: decisions +1 or -1 [a, P] whose sum exceeds `inside` * P."""
    return decisions.sum(1) > inside * decisions.shape[1]


def walk(
    labels_of: LabelsOf,
    starts: Tensor,
    labels: Tensor,
    settings: WalkSettings,
    draw: Callable[[int], Tensor],
    *,
    watch: Callable[[Pass], None] | None = None,
) -> Walks:
    """Walk from the latents `starts` [k, D] until each has ended, all of a pass in one batch.

    labels: int64 [k], the class of each walk; draw: walk -> Gaussian [probes, D] for its next pass. Each walk asks for
    probes + 1 labels in each of its passes.
    """
    count = len(starts)
    none = torch.zeros(count, dtype=torch.int64)
    walks = Walks(
        z=starts.clone(),
        radii=torch.full((count,), settings.radius, dtype=torch.float64),
        iterations=none.clone(),
        grown_at=none.clone(),
        passes=none.clone(),
        growths=[[] for _ in range(count)],
        capped=none.bool(),
    )
    while len(rows := _going(walks, settings)):
        seen = _pass(labels_of, walks, rows, labels, settings, torch.stack([draw(row) for row in rows.tolist()]))
        _settle(walks, seen)
        if watch is not None:
            watch(seen)
    return walks


def _going(walks: Walks, settings: WalkSettings) -> Tensor:
    unfinished = walks.iterations - walks.grown_at < settings.patience
    walks.capped = unfinished & ((walks.passes >= settings.max_passes) | (walks.radii > MOST_RADIUS))
    return (unfinished & ~walks.capped).nonzero()[:, 0]


def _pass(
    labels_of: LabelsOf, walks: Walks, rows: Tensor, labels: Tensor, settings: WalkSettings, normals: Tensor
) -> Pass:
    z, radii, batch_labels = walks.z[rows], walks.radii[rows], labels[rows]
    steps = (radii / 3).clamp_max(MOST_STEP)
    points, directions = on_sphere(z, normals, radii)
    answered = labels_of(points.flatten(0, 1)).view(len(rows), -1)
    decisions = torch.where(answered == batch_labels[:, None], 1, -1)
    grown = enough_inside(decisions, settings.inside)
    radii = torch.where(grown, radii * settings.expansion, radii)
    weights = (decisions - 1) / 2 if settings.repulsion_only else decisions.to(z)
    direction = (weights[:, :, None] * directions).mean(1) / radii.to(z)[:, None]
    candidates = (z + steps.to(z)[:, None] * direction).clamp(-settings.clamp, settings.clamp)
    return Pass(
        rows=rows,
        decisions=decisions,
        steps=steps,
        radii_after=radii,
        directions=direction,
        candidates=candidates,
        grown=grown,
        accepted=labels_of(candidates) == batch_labels,
    )


def _settle(walks: Walks, seen: Pass) -> None:
    rows, accepted = seen.rows, seen.accepted
    walks.passes[rows] += 1
    walks.radii[rows] = seen.radii_after
    walks.grown_at[rows] = torch.where(seen.grown, walks.iterations[rows], walks.grown_at[rows])
    walks.z[rows] = torch.where(accepted[:, None], seen.candidates, walks.z[rows])
    walks.iterations[rows] += (accepted & ~seen.grown).long()
    for place in (accepted & seen.grown).nonzero()[:, 0].tolist():
        walks.growths[int(rows[place])].append(seen.candidates[place])
