"""Gradient descent on a batch of latents: what a step minimises, and the steps.

Row by row: a row that breaks is stopped, its neighbours go on. A new objective is one function, one value per sample,
and one entry of `ATTACK_LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self
from typing import Protocol as TypedProtocol

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Crops, RowViews, apply_crops
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.errors import InputError

Protocol = Literal["paper", "clean"]

_NO_LOGITS = 1e-20  # a row whose largest |logit| is below this counts as all zero


def poincare_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    xi: float = 1e-4,
    norm: Literal["analytic", "computed"] = "analytic",
) -> Tensor:
    """Hyperbolic distance between the normalised logits and the (slightly shrunk) one-hot target.

    With u = logits / ||logits||_1 (raw, signed) and v = one-hot - xi clipped to [0, 1]: arcosh(1 + 2 ||u - v||^2 / ((1
    - ||u||^2)(1 - ||v||^2))). Paper appendix B.4, eq. 16.

    Args:
        logits: Float [N, C], any scale.
        targets: int64 [N].
        xi: How far v's largest entry lies below 1, in (0, 1).

    Returns float [N], in float32 at least. The value does not depend on the scale of the logits.

    `norm` says how the two factors of the denominator come about. "computed" subtracts squared norms from 1 in single
    precision, as `LukasStruppek/Plug-and-Play-Attacks` losses/poincare.py does: 1 - ||v||^2 is then 1.9999e-4 only up
    to rounding, which shifts the loss by about 2.2e-4. "analytic" uses xi (2 - xi) and a form of 1 - ||u||^2 without
    cancellation.

    Values and gradients are finite for finite logits: all-zero logits give u = 0 (the value of an undecided model,
    9.903), and 1 - ||u||^2 is not allowed below the machine epsilon (a single non-zero logit).
    """
    _check_logits(logits, targets)
    if not 0 < xi < 1:
        raise InputError(f"xi: expected a number in (0, 1), got {xi}")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    u = _unit_l1(logits)
    one_hot = F.one_hot(targets, logits.shape[1])
    v = (one_hot.to(torch.float32) - xi).clamp(0, 1) if norm == "computed" else one_hot.to(u.dtype) * (1 - xi)
    if norm == "computed":
        gap_u, gap_v = 1 - u.square().sum(1), 1 - v.square().sum(1)
    else:
        gap_u, gap_v = _one_minus_square_norm(u), torch.full_like(u[:, 0], xi * (2 - xi))
    gap_u = gap_u.clamp_min(torch.finfo(u.dtype).eps)
    excess = (2 * (u - v).square().sum(1) / (gap_u * gap_v)).clamp_min(torch.finfo(u.dtype).tiny)
    # arcosh(1 + e), in the form that stays exact for a small e
    return torch.log1p(excess + (excess * (excess + 2)).sqrt())


def cross_entropy_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-log softmax(logits)[target] per sample (the variant of the paper's Fig. 7).

    logits: float [N, C]; targets: int64 [N]. Returns float [N].
    """
    _check_logits(logits, targets)
    return F.cross_entropy(logits, targets, reduction="none")


def max_margin_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The largest logit of another class minus the target's own (LetheSec/PLG-MI-Attack, losses.py).

    logits: float [N, C], C at least 2; targets: int64 [N]. Returns float [N]; it has no bottom, and never saturates.
    """
    _check_logits(logits, targets)
    if logits.shape[1] < 2:
        raise InputError(f"logits: expected at least 2 classes for a margin, got {logits.shape[1]}")
    others = logits.scatter(1, targets[:, None], -torch.inf)
    return others.amax(1) - logits.gather(1, targets[:, None])[:, 0]


def logit_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Minus the target's logit, whatever the others are (sutd-visual-computing-group/Re-thinking_MI, attack.py).

    logits: float [N, C]; targets: int64 [N]. Returns float [N]; it has no bottom, and never saturates.
    """
    _check_logits(logits, targets)
    return -logits.gather(1, targets[:, None])[:, 0]


def feature_pull(features: Tensor, mean: Tensor) -> Tensor:
    """Mean squared distance to `mean` [D] over the dimensions, [N] of features [N, D]: LOMMA's term beside a loss.

    sutd-visual-computing-group/Re-thinking_MI (attack.py) draws a feature from the estimated distribution, and then
    overwrites it by the mean; so the mean alone is used.
    """
    return (features - mean).square().mean(1)


ATTACK_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy_loss,
    "logit": logit_loss,
    "max_margin": max_margin_loss,
    "poincare": poincare_loss,
}


def attack_loss(name: str, protocol: Protocol) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss called `name`: (logits [N, C], targets [N]) -> [N].

    Under protocol paper the Poincaré loss has the rounding of the official code.
    """
    if name == "poincare" and protocol == "paper":
        return partial(poincare_loss, norm="computed")
    return ATTACK_LOSSES[name]


def _unit_l1(logits: Tensor) -> Tensor:
    # The result does not depend on the scale, so dividing by a constant first changes neither value nor
    # gradient; it only keeps the L1 norm of very large or very small logits inside the range of the type.
    largest = logits.detach().abs().amax(1, keepdim=True)
    empty = largest < _NO_LOGITS
    scaled = logits / largest.masked_fill(empty, 1)
    return scaled / scaled.abs().sum(1, keepdim=True).masked_fill(empty, 1)


def _one_minus_square_norm(u: Tensor) -> Tensor:
    # For ||u||_1 = 1 and r = the mass outside the largest entry: 1 - ||u||^2 = 2r - r^2 - (squares of the
    # rest).
    magnitude = u.abs()
    total = magnitude.detach().sum(1)
    rest = magnitude.scatter(1, magnitude.argmax(1, keepdim=True), 0.0)
    mass = rest.sum(1)
    gap = 2 * mass - mass.square() - rest.square().sum(1)
    return torch.where(total > 0.5, gap, 1 - magnitude.square().sum(1))


def _check_logits(logits: Tensor, targets: Tensor) -> None:
    if logits.ndim != 2 or not logits.is_floating_point():
        raise InputError(f"logits: expected float [N, C], got {logits.dtype} {tuple(logits.shape)}")
    if targets.dtype != torch.int64 or targets.shape != logits.shape[:1]:
        raise InputError(f"targets: expected int64 [{len(logits)}], got {targets.dtype} {tuple(targets.shape)}")


Target = Callable[[Tensor], Tensor]
"""images float [N, 3, H, W] -> logits [N, C]; an nn.Module or a plain function."""

Answer = Any
"""Logits [N, C]; or, for a loss that looks at both, features [N, D] and logits."""

Transform = Callable[[Tensor], Tensor]
"""The fixed way from the prior's images [N, 3, R, R] to the target's input [N, 3, S, S], e.g. `Preprocess`."""


@dataclass(frozen=True, kw_only=True)
class StepGradient:
    """What one step needs.

    Attributes:
        loss: [B].
        latent: Gradient like w [B, ...].
        image: Gradient at the images [B, ...].
    """

    loss: Tensor
    latent: Tensor
    image: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(**{name: torch.cat([getattr(part, name) for part in parts]) for name in vars(parts[0])})


class Neighbours(TypedProtocol):
    """Images around an image. views: how many."""

    @property
    def views(self) -> int: ...

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        """One neighbour of each of the images [N, 3, S, S], differentiable; rows: which of the rows they show."""
        ...


@dataclass(frozen=True, kw_only=True)
class LatentObjective:
    """(w [B, ...], step) -> losses and gradients: synthesise, clip, transform, crop, target, loss.

    Attributes:
        labels: The class of each row, int64 [B].
        views: The random crops of each step, None for no crop.
        loss: (what the target answers, targets) -> [B].
        scale: Factor on the gradient of each row's loss, [B] (the reciprocal size of its batch for the gradient of the
            batch mean).
        batch: How many rows are computed at once, None for all.
        discriminator: Full-size unclipped images -> logits, its term softplus(-D(image)) weighted by
            discriminator_weight and not part of the losses reported. The image gradient is taken at the output of
            `transform`, from the target's loss alone.
        neighbours: Images around what the target would be shown, over which loss and gradient are then means; None for
            those at the image itself.
    """

    synthesize: Callable[[Tensor], Tensor]
    target: Callable[[Tensor], Answer]
    transform: Transform
    labels: Tensor
    loss: Callable[[Answer, Tensor], Tensor]
    views: RowViews | None
    scale: Tensor
    batch: DeviceBatch | None
    clip: bool = False
    discriminator: Target | None = None
    discriminator_weight: float = 0.0
    neighbours: Neighbours | None = None

    def __call__(self, w: Tensor, step: int) -> StepGradient:
        if self.batch is None:
            try:
                return self._of_rows(w, step, slice(0, len(w)))
            except torch.OutOfMemoryError as error:
                raise InputError(
                    f"optimise.batch_size: expected a number of images that fits into device memory, got {len(w)}, "
                    "which the discriminator must see together"
                ) from error
        return StepGradient.joined(self.batch.run(lambda rows: self._of_rows(w, step, rows), len(w)))

    def _of_rows(self, w: Tensor, step: int, rows: slice) -> StepGradient:
        w = w[rows].detach().requires_grad_(True)
        images = self.synthesize(w)
        target_inputs = self.transform(images.clamp(-1, 1) if self.clip else images)
        crops = None if self.views is None else self.views.at(step, target_inputs, rows)
        # Two half backward passes, through the target and then through the prior, cost what one would: no
        # parameter wants a gradient, and the gradient at the image is the quantity of the paper's eq. 4.
        if self.neighbours is None:
            losses = self._losses(target_inputs, crops, rows)
            (at_image,) = torch.autograd.grad(losses.sum(), target_inputs)
        else:
            losses, at_image = self._averaged(target_inputs, crops, self.neighbours, step, rows)
        scale = self.scale[rows]
        outputs, gradients = [target_inputs], [at_image * scale[:, None, None, None]]
        if self.discriminator is not None and self.discriminator_weight:
            realism = F.softplus(-self.discriminator(images)).flatten(1).mean(1)
            outputs.append(realism)
            gradients.append(self.discriminator_weight * scale)
        (at_latent,) = torch.autograd.grad(outputs, w, grad_outputs=gradients)
        # Copies: a recorded graph (core.attacks.shared.execution) writes its results to the same place at every call.
        return StepGradient(loss=losses.detach(), latent=at_latent.clone(), image=at_image.clone())

    def _losses(self, images: Tensor, crops: Crops | None, rows: slice) -> Tensor:
        return self.loss(target_logits(self.target, images, crops), self.labels[rows].to(images.device))

    def _averaged(
        self, shown: Tensor, crops: Crops | None, neighbours: Neighbours, step: int, rows: slice
    ) -> tuple[Tensor, Tensor]:
        """Losses and gradient at `shown`, means over the neighbours of its cropped form.

        The gradients are brought back to one image before they are added up: those of a turned neighbour lie in a frame
        of their own. One neighbour after the other, so that memory is that of a single one.
        """
        seen = shown if crops is None else apply_crops(shown, crops, shown.shape[-1])
        leaf, total, losses = seen.detach(), torch.zeros_like(seen), shown.new_zeros(len(shown))
        for view in range(neighbours.views):
            leaf.requires_grad_(True)
            view_losses = self._losses(neighbours.of(leaf, view, step, rows), None, rows)
            total = total + torch.autograd.grad(view_losses.sum(), leaf)[0]
            losses = losses + view_losses.detach()
        total = total / neighbours.views
        at_image = total if crops is None else torch.autograd.grad(seen, shown, grad_outputs=total)[0]
        return losses / neighbours.views, at_image


def target_logits(
    target: Callable[[Tensor], Answer], images: Tensor, crops: Crops | None, *, size: int | None = None
) -> Answer:
    """The target's logits [N, C] on the cropped images, resized to `size` (None: as large as the images).

    images: float [N, 3, S, S]. Without crops the images are shown as they are.
    """
    if crops is not None:
        images = apply_crops(images, crops, size or images.shape[-1])
    # Small convolutional targets are a fifth faster on CPUs in this layout.
    return target(images.contiguous(memory_format=torch.channels_last))


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Where a descent over B latents ended, and what was recorded on its way.

    Attributes:
        w: Last iterate, like the start.
        last_evaluated: The one before it, of which loss and gradient were last taken.
        loss: [steps, B], before each update, NaN once a row is frozen.
        image_cosine: [steps - 1, B], between the gradients at the image of neighbouring steps, NaN where one of them is
            zero or was not taken.
        frozen: bool [B].
    """

    w: Tensor
    last_evaluated: Tensor
    loss: Tensor
    image_cosine: Tensor
    frozen: Tensor

    def of(self, rows: slice) -> Descent:
        """The descent of these rows alone."""
        return Descent(**{name: value[:, rows] if _ROWS[name] else value[rows] for name, value in vars(self).items()})

    def to(self, device: torch.device | str) -> Descent:
        return Descent(**{name: value.to(device) for name, value in vars(self).items()})

    @property
    def curve(self) -> Tensor:
        """The mean loss before each update, [steps], on the CPU."""
        return self.loss.contiguous().nanmean(1).cpu()

    @property
    def facts(self) -> dict[str, float]:
        """Its mean loss at both ends, the paper's eq. 4 (NaN after a step), and how many rows were frozen."""
        curve = self.curve
        return {
            "loss_first": float(curve[0]),
            "loss_last": float(curve[-1]),
            "gradient_cosine": float(self.image_cosine.contiguous().nanmean()),
            "num_frozen": float(self.frozen.sum()),
        }


_ROWS = {"w": 0, "last_evaluated": 0, "loss": 1, "image_cosine": 1, "frozen": 0}
"""Field of a `Descent` -> the axis of its rows."""


def joined_descents(parts: Sequence[Descent]) -> Descent:
    """The descents of all parts as one, in their order."""
    return Descent(**{name: torch.cat([getattr(part, name) for part in parts], axis) for name, axis in _ROWS.items()})


def walk(
    w0: Tensor,
    gradient_at: Callable[[Tensor, int], StepGradient],
    optimiser: Callable[[Tensor], torch.optim.Optimizer],
    *,
    steps: int,
    lr_at: Callable[[int], float],
    project: Callable[[Tensor], Tensor] | None = None,
) -> Descent:
    """`steps` steps from w0 [B, ...] by the optimiser made for the leaf; returns the last iterate.

    gradient_at(w, step) is given a leaf that requires gradients. project: where every step ends; the optimiser's own
    state does not hear of it. A row whose loss or gradient is not finite goes back to its last iterate where both were,
    stays there and is reported in `frozen`; nothing is copied to the host during the descent.
    """
    w = w0.detach().clone().requires_grad_(True)
    mover = optimiser(w)
    alive = torch.ones(len(w), dtype=torch.bool, device=w.device)
    good = w.detach().clone()
    losses, cosines, unit = [], [], None
    for step in range(steps):
        gradient = gradient_at(w, step)
        alive = alive & gradient.loss.isfinite() & gradient.latent.flatten(1).isfinite().all(1)
        losses.append(gradient.loss.masked_fill(~alive, torch.nan))
        previous, unit = unit, _unit_rows(gradient.image, alive)
        if previous is not None:
            cosines.append((unit * previous).sum(1))
        good = torch.where(_like(alive, w), w.detach(), good)
        for group in mover.param_groups:
            group["lr"] = lr_at(step)
        w.grad = gradient.latent.masked_fill(~_like(alive, w), 0.0)
        mover.step()
        with torch.no_grad():  # momentum and weight decay move a row even without a gradient
            moved = w if project is None else project(w)
            w.copy_(torch.where(_like(alive, w), moved, good))
    return Descent(
        w=w.detach(),
        last_evaluated=good,
        loss=torch.stack(losses),
        image_cosine=torch.stack(cosines) if cosines else good.new_empty(0, len(good)),
        frozen=~alive,
    )


def _unit_rows(gradient: Tensor, alive: Tensor) -> Tensor:
    # NaN for rows without a direction. Divided by the largest entry first: the gradients of a saturated
    # target are so small that their squares vanish in single precision.
    flat = gradient.detach().flatten(1)
    flat = flat / flat.abs().amax(1, keepdim=True)
    return (flat / flat.norm(dim=1, keepdim=True)).masked_fill(~alive[:, None], torch.nan)


def _like(mask: Tensor, other: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (other.ndim - 1))
