"""The stages of IF-GMI on one class, and which of them counts.

Stage 0 is Plug & Play's descent in w. Every further one begins where the last has ended, one block later, and moves the
features that enter the block beside w, within an L1 ball and by an Adam of its own. The crops, the losses, the batches
and the views by which a stage is graded are Plug & Play's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import Descent, LatentObjective, Protocol, Target, attack_loss
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import batches_of, descend_batches, gradient_batch
from smoothsweep.core.attacks.ppa.selection import DECODE_ROWS, Selection, confidence_and_margin, graded_views, ranked
from smoothsweep.core.attacks.shared.base import Reconstructions
from smoothsweep.core.attacks.shared.execution import Execution, Synthesize, frozen
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import centre_crop
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.priors.base import spread_over_places
from smoothsweep.core.priors.stylegan2 import FrozenSynthesis, StyleGAN2


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The synthesis from `block` on. A row of its states is [w | features that enter the block | RGB sum before it].

    Stage 0 has w alone. rgb: whether the RGB sum of the blocks before is kept; without it, as in the official code,
    their part of the image is gone, and a stage begins with another image than the one before has left.
    """

    prior: StyleGAN2
    synthesis: FrozenSynthesis
    block: int
    rgb: bool

    @property
    def optimised_columns(self) -> tuple[slice, ...]:
        """The columns of w, and those of the features. The RGB sum is no variable."""
        w = slice(0, self.prior.w_dim)
        if self.block == 0:
            return (w,)
        channels, side = self.synthesis.entering(self.block)
        return w, slice(w.stop, w.stop + channels * side**2)

    def images(self, states: Tensor) -> Tensor:
        """states [N, ...] -> images float32 [N, 3, S, S], unclipped; differentiable in what is moved."""
        ws, features, rgb = self._split_states(states)
        return self.synthesis.through(ws, features, rgb, first=self.block)[1]

    def next_states(self, states: Tensor) -> Tensor:
        """The states of the next stage: the same w, and what leaves this one's block."""
        ws, features, rgb = self._split_states(states)
        features, rgb = self.synthesis.through(ws, features, rgb, first=self.block, last=self.block + 1)
        parts = [ws[:, 0], features.flatten(1).to(states.dtype), *([rgb.flatten(1)] if self.rgb else [])]
        return torch.cat(parts, 1)

    def _split_states(self, states: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """w [N, num_ws, w_dim], features [N, C, r, r] and the RGB sum [N, 3, r, r], None where there is none."""
        w, *spans = self.optimised_columns
        ws = spread_over_places(states[:, None, w], num_ws=self.prior.num_ws, w_dim=self.prior.w_dim)
        if not spans:
            return ws, None, None
        (channels, side), (span,) = self.synthesis.entering(self.block), spans
        features = states[:, span].unflatten(1, (channels, side, side))
        rgb = states[:, span.stop :].detach().unflatten(1, (3, side, side)) if self.rgb else None
        return ws, features.contiguous(memory_format=torch.channels_last), rgb


def make_stage(
    run: Execution, prior: StyleGAN2, crop: int | None, *, block: int, rgb: bool
) -> tuple[Stage, Synthesize]:
    """The stage that begins at `block`, and its images in the form to use; the same one whenever it is asked for.

    crop: of the central crop alone, as of `Execution.synthesizer`.
    """
    stage = Stage(prior=prior, synthesis=run.frozen_synthesis(prior, crop), block=block, rgb=rgb)
    return stage, run.once(("stage", crop, block, rgb), (prior,), lambda: run.accelerated(stage.images))


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """What a stage has come to.

    Attributes:
        descent: Of all candidates; the next stage begins with its last iterates.
        selectable: The iterates whose images count, [K, ...].
    """

    stage: Stage
    descent: Descent
    selectable: Tensor


@dataclass(frozen=True, kw_only=True)
class StagedSearch:
    """IF-GMI against one target.

    Attributes:
        transform: The way from the prior's images to the target's input.
        descents, radii: How each stage moves its states, and the radius of its L1 balls of w and of the features.
        rgb: Whether stages keep the RGB sum of the blocks before theirs.
    """

    prior: StyleGAN2
    target: Target
    descents: Sequence[OptimiseConfig]
    radii: Sequence[float]
    select: SelectConfig
    transform: Preprocess
    rgb: bool
    protocol: Protocol
    run: Execution

    def invert(self, w0: Tensor, pool_index: Tensor, target_class: int, *, seed: int) -> Reconstructions:
        """All stages, from the latents w0 [K, 1, w_dim], which lie at `pool_index` [K] in the pool.

        The stage that counts is the one whose best `selected` have the largest mean margin, of equals the earlier; NaN
        counts as the lowest. Raises InputError where not even one image fits into the device's memory.
        """
        reached, kept, chosen, worth, course = None, None, 0, [], []
        with frozen(self.prior, self.target), self.run.arithmetic():
            for block in range(len(self.descents)):
                states = w0[:, 0].to(self.run.device) if reached is None else self.next_states(reached)
                reached = self.run_stage(block, states, target_class, seed=seed)
                graded = self.select_best(reached, target_class, seed=seed)
                mean = float(graded[0].rows["margin"].mean())
                worth.append(-math.inf if math.isnan(mean) else mean)
                if kept is None or worth[-1] > worth[chosen]:
                    kept, chosen = graded, block
                ran = reached.descent  # whose states are large: only its course is kept
                course.append((ran.loss.cpu(), ran.image_cosine.cpu(), ran.frozen.cpu()))
        best, images = present(kept, "a stage")
        loss, cosine, stopped = zip(*course, strict=True)
        curve = torch.cat(loss).nanmean(1)
        return Reconstructions(
            w=best.w,
            images=images,
            scores=best.scores,
            rows={"pool_index": pool_index[best.order], **best.rows},
            curves={"loss": curve, "stage_margin": torch.tensor(worth)},
            facts={
                "chosen_stage": float(chosen),
                "loss_first": float(curve[0]),
                "loss_last": float(curve[-1]),
                "gradient_cosine": float(torch.cat(cosine).nanmean()),
                "num_frozen": float(torch.stack(stopped).any(0).sum()),
            },
        )

    def run_stage(self, block: int, states: Tensor, target_class: int, *, seed: int) -> StageResult:
        """The descent of the stage that begins at `block`, from states [K, ...]; networks must be frozen."""
        config, rows, (stage, synthesize) = self.descents[block], self._rows(states), self._stage(block)
        key = (seed, target_class, "optimise", *(("stage", block) if block else ()))
        descent = descend_batches(
            states,
            batches_of(target_class, key, len(states), config.batch_size),
            partial(self._objective, synthesize, rows, config.loss),
            config,
            # Feature maps are large, and a descent has half a dozen of each: one batch at a time.
            together=1 if block else max(1, rows.rows // config.batch_size),
            protocol=self.protocol,
            steps=config.steps,
            within=partial(l1_balls, spans=stage.optimised_columns, radius=self.radii[block]),
        )
        # The official code stores the images of its last step's forward pass, and the state behind that step.
        selectable = descent.last_evaluated if self.protocol == "paper" else descent.w
        return StageResult(stage=stage, descent=descent, selectable=selectable)

    def next_states(self, reached: StageResult) -> Tensor:
        """The states with which the stage after this one begins."""
        return self._by_rows(reached.stage.next_states, reached.descent.w)

    def select_best(self, reached: StageResult, target_class: int, *, seed: int) -> tuple[Selection, Tensor]:
        """The best of a stage by the target's own word, under the random views of Plug & Play's selection.

        And their images float16 [k, 3, S, S], unclipped.
        """
        images, crop = self._by_rows(reached.stage.images, reached.selectable), self.transform.crop
        images = images if crop is None else centre_crop(images, crop)
        with torch.no_grad():
            (grades,) = graded_views(
                self.run,
                self.target,
                [self.transform(images)],
                [target_class],
                self.select,
                confidence_and_margin,
                seed=seed,
                protocol=self.protocol,
            )
        best = ranked(reached.selectable[:, None, : self.prior.w_dim], *grades.unbind(1), self.select, "margin")
        return best, images[best.order.to(images.device)].half().cpu()

    def _stage(self, block: int) -> tuple[Stage, Callable[[Tensor], Tensor]]:
        return make_stage(self.run, self.prior, self.transform.crop, block=block, rgb=self.rgb)

    def _objective(
        self, synthesize: Callable[[Tensor], Tensor], rows: DeviceBatch, loss: str, **group: Any
    ) -> LatentObjective:
        return LatentObjective(
            synthesize=synthesize,
            target=self.run.target(self.target),
            transform=self.transform,
            batch=rows,
            loss=attack_loss(loss, self.protocol),
            **group,
        )

    def _rows(self, states: Tensor) -> DeviceBatch:
        """How many rows are computed at once: measured on stage 0, which synthesises more than those behind it."""
        networks = {
            "synthesize": self._stage(0)[1],
            "target": self.run.target(self.target),
            "transform": self.transform,
        }
        return gradient_batch(self.run, networks, states[:, : self.prior.w_dim], self.descents[0])

    @torch.no_grad()
    def _by_rows(self, function: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
        batch = self.run.forward_batch("stages", self.prior, most=DECODE_ROWS)
        return torch.cat(batch.run(lambda rows: function(states[rows]), len(states)))


def l1_balls(start: Tensor, spans: Sequence[slice], radius: float) -> Callable[[Tensor], Tensor]:
    """What brings rows [B, N] back to within `radius` of those of `start` [B, N], in each span of columns by itself.

    It is the L1 ball around where a stage began, which its latents and feature maps do not leave.

    The nearest point of the ball by Euclid's distance; what lies inside stays as it is, bit for bit.
    """

    def nearest(rows: Tensor) -> Tensor:
        for span in spans:
            moved = rows[:, span] - start[:, span]
            outside = moved.abs().sum(1, dtype=torch.float64) > radius
            if bool(outside.any()):
                rows = rows.clone()
                back = torch.stack([on_l1_ball(row, radius) for row in moved[outside]])
                rows[outside, span] = start[outside, span] + back
        return rows

    return nearest


def on_l1_ball(change: Tensor, radius: float) -> Tensor:
    """The point of L1 norm `radius` that is nearest to a `change` [N] of a larger norm: every entry shrunk by as much.

    By how much is found without sorting (Michelot 1986): the entries that the shrinking leaves grow fewer, in at most N
    rounds and rarely more than ten, since a feature map has millions of them.
    """
    kept = change.abs().double()
    while True:
        shrunk_by = (kept.sum() - radius) / len(kept)
        left = kept[kept > shrunk_by]
        if len(left) in (0, len(kept)):
            break
        kept = left
    return change.sign() * (change.abs() - shrunk_by).clamp_min(0).to(change.dtype)
