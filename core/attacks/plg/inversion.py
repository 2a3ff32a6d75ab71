"""PLG-MI on one class: Adam on latents of the conditional generator, the target's loss under two random views.

LetheSec/PLG-MI-Attack, reconstruct.py. No discriminator, no prior term, no clipping; the last latents count, and all
restarts are results. Protocol `paper` keeps what makes numbers there:

* five batches of 60 labels, all with the same starts: that of a class is row (class modulo 60) of its restart's draw;
* the loss is a batch mean. Adam makes nothing of the factor 1/60 but beside its epsilon;
* the order of the colour changes is drawn once for the 60 of a batch, anew in every restart, step and view;
* colours change in every view, for there ColorJitter has its default chance of 1; while the GAN was trained it had 0.5.

Under `clean` a class draws all of it by itself, and colours change as often as the generator was trained for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator, with_class
from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, Target, descend, target_logits
from smoothsweep.core.attacks.optimisation.losses import Protocol, attack_loss
from smoothsweep.core.attacks.plg.augment import Distortion, distort, draw_distortion
from smoothsweep.core.attacks.plg.draws import JITTER
from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.attacks.shared.base import Reconstructions
from smoothsweep.core.attacks.shared.execution import Synthesize
from smoothsweep.core.attacks.shared.view import GradientView, ScoreView
from smoothsweep.core.seeds import generator

REFERENCE_BATCH = 60  # labels that the official attack inverts together
VIEWS = 2  # per step
ADAM_BETAS = (0.9, 0.999)


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched, for one class: restarts, each `steps` of Adam at `lr` on `loss`; seed: of the attack."""

    target_class: int
    restarts: int
    steps: int
    lr: float
    loss: str
    seed: int
    protocol: Protocol


def search(made: ConditionalGenerator, view: GradientView, wanted: Search) -> Descent:
    """The descent, its w being the last latents z [restarts, z_dim], on the device."""
    execution, start = view.execution, starts(made.config.z_dim, wanted)
    objective = _Objective(synthesize=execution.synthesizer(made), target=view.logits, wanted=wanted)

    def views_at(step: int) -> list[Distortion]:
        return [draw_views(step, place, made.resolution, wanted) for place in range(VIEWS)]

    def probe(rows: int) -> None:
        with torch.enable_grad():
            objective(start[:rows].to(execution.device), views_at(0), slice(0, rows))

    with execution.arithmetic():
        batch = execution.gradient_batch("inversion", (made, view.logits), probe, most=wanted.restarts)

        def gradient_at(z: Tensor, step: int) -> StepGradient:
            views = views_at(step)
            parts = batch.run(lambda rows: objective(z[rows], views, rows), len(z))
            return StepGradient(**{name: torch.cat([getattr(p, name) for p in parts]) for name in vars(parts[0])})

        return descend(
            start.to(execution.device), gradient_at, steps=wanted.steps, lr_at=lambda step: wanted.lr, betas=ADAM_BETAS
        )


def starts(z_dim: int, wanted: Search) -> Tensor:
    """Standard normal z [restarts, z_dim]."""
    if wanted.protocol == "clean":
        stream = generator(wanted.seed, wanted.target_class, "plg start")
        return torch.randn(wanted.restarts, z_dim, generator=stream)
    row = wanted.target_class % REFERENCE_BATCH
    batches = (
        torch.randn(REFERENCE_BATCH, z_dim, generator=generator(wanted.seed, "plg start", restart))
        for restart in range(wanted.restarts)
    )
    return torch.stack([batch[row] for batch in batches])


def draw_views(step: int, place: int, side: int, wanted: Search) -> Distortion:
    """How the target is shown every restart's image in a view of a step; place: 0, 1, which view."""
    paper = wanted.protocol == "paper"
    stream = generator(wanted.seed, wanted.target_class, "plg views", step, place)
    drawn = draw_distortion(wanted.restarts, side, stream, jitter=1.0 if paper else JITTER)
    if not paper:
        return drawn
    batch = wanted.target_class // REFERENCE_BATCH
    orders = [
        torch.randperm(4, generator=generator(wanted.seed, "plg order", batch, restart, step, place))
        for restart in range(wanted.restarts)
    ]
    return replace(drawn, order=torch.stack(orders))


@dataclass(frozen=True, kw_only=True)
class _Objective:
    """Some rows of z [B, z_dim] under the views of all restarts -> losses and gradients."""

    synthesize: Synthesize
    target: Target
    wanted: Search

    def __call__(self, z: Tensor, views: list[Distortion], rows: slice) -> StepGradient:
        """Both views go through the target in one pass."""
        z, paper = z.detach().requires_grad_(True), self.wanted.protocol == "paper"
        images = self.synthesize(with_class(z, self.wanted.target_class))
        distorted = torch.cat([2 * distort((images + 1) / 2, view.of(rows)) - 1 for view in views])
        logits = target_logits(self.target, distorted, None)
        labels = torch.full((len(distorted),), self.wanted.target_class, device=logits.device)
        per_view = attack_loss(self.wanted.loss, self.wanted.protocol)(logits, labels)
        losses = per_view.unflatten(0, (len(views), -1)).sum(0)
        (at_image,) = torch.autograd.grad(losses.sum() / (REFERENCE_BATCH if paper else 1), images)
        (at_latent,) = torch.autograd.grad(images, z, grad_outputs=at_image)
        # Copies: a recorded graph (core.attacks.shared.execution) writes its results to the same place at every call.
        return StepGradient(loss=losses.detach(), latent=at_latent.clone(), image=at_image.clone())


def reconstructions(
    made: ConditionalGenerator, view: ScoreView, descent: Descent, target_class: int
) -> Reconstructions:
    """Every restart, ordered by the target's confidence in its image as it is. rows: restart, the number of each."""
    execution, w = view.execution, with_class(descent.w, target_class)
    with torch.no_grad(), execution.arithmetic():
        images = execution.synthesizer(made)(w)
    scores = view.scores(images)[:, target_class]
    order, curve = best_first(scores), descent.loss.nanmean(1).cpu()
    return Reconstructions(
        w=w.cpu()[order],
        scores=scores[order],
        rows={"restart": order},
        curves={"loss": curve},
        facts={
            "loss_first": float(curve[0]),
            "loss_last": float(curve[-1]),
            "gradient_cosine": float(descent.image_cosine.nanmean()),
            "num_frozen": float(descent.frozen.sum()),
        },
    )
