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

from smoothsweep.core.attacks.if_gmi.l1_ball import l1_balls
from smoothsweep.core.attacks.if_gmi.states import Stage, make_stage
from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.losses import Protocol, attack_loss
from smoothsweep.core.attacks.optimisation.objective import LatentObjective, Target
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import descend_batches, gradient_batch
from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.attacks.ppa.selection import DECODE_ROWS, confidence_and_margin, graded_views
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import centre_crop
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.priors.stylegan2 import StyleGAN2


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """What a stage has come to.

    Attributes:
        states: [K, ...] after its last step, with which the next begins.
        selectable: The iterates whose images count.
        loss: [steps, K] before each update.
        image_cosine: [steps - 1, K].
        frozen: bool [K].
    """

    stage: Stage
    states: Tensor
    selectable: Tensor
    loss: Tensor
    image_cosine: Tensor
    frozen: Tensor


@dataclass(frozen=True, kw_only=True)
class StageSelection:
    """The best k of a stage, best first: w [k, 1, w_dim], images float16 [k, 3, S, S], unclipped, the mean softmax and
    the mean margin [k] under the views, order int64 [k] into the candidates.
    """

    w: Tensor
    images: Tensor
    scores: Tensor
    margins: Tensor
    order: Tensor

    @property
    def mean_margin(self) -> float:
        """The score by which stages are compared: the mean margin of the selected images; NaN counts as the lowest."""
        mean = float(self.margins.mean())
        return -math.inf if math.isnan(mean) else mean


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """The best of the stage `chosen`, and the course of all of them: worth [stages], loss [steps, K], image_cosine
    [steps - stages, K], frozen bool [K]. All on the CPU.
    """

    best: StageSelection
    chosen: int
    worth: Tensor
    loss: Tensor
    image_cosine: Tensor
    frozen: Tensor


@dataclass(frozen=True, kw_only=True)
class StagedSearch:
    """IF-GMI against one target.

    Attributes:
        transform: The way from the prior's images to the target's input.
        rgb: Whether stages keep the RGB sum of the blocks before theirs.
    """

    prior: StyleGAN2
    target: Target
    plans: Sequence[StagePlan]
    select: SelectConfig
    transform: Preprocess
    rgb: bool
    protocol: Protocol
    run: Execution

    def invert(self, w0: Tensor, target_class: int, *, seed: int) -> Inversion:
        """All stages, from the latents w0 [K, 1, w_dim].

        The stage that counts is the one whose best `selected` have the largest mean margin, of equals the earlier.
        Raises InputError where not even one image fits into the device's memory.
        """
        reached, best, chosen, worth, course = None, None, 0, [], []
        with frozen(self.prior, self.target), self.run.arithmetic():
            for block in range(len(self.plans)):
                states = w0[:, 0].to(self.run.device) if reached is None else self.next_states(reached)
                reached = self.run_stage(block, states, target_class, seed=seed)
                graded = self.select_best(reached, target_class, seed=seed)
                if best is None or graded.mean_margin > best.mean_margin:
                    best, chosen = graded, block
                worth.append(graded.mean_margin)
                course.append((reached.loss.cpu(), reached.image_cosine.cpu(), reached.frozen.cpu()))
        loss, cosine, stopped = zip(*course, strict=True)
        return Inversion(
            best=present(best, "a stage"),
            chosen=chosen,
            worth=torch.tensor(worth),
            loss=torch.cat(loss),
            image_cosine=torch.cat(cosine),
            frozen=torch.stack(stopped).any(0),
        )

    def run_stage(self, block: int, states: Tensor, target_class: int, *, seed: int) -> StageResult:
        """The descent of the stage that begins at `block`, from states [K, ...]; networks must be frozen."""
        plan, batch, (stage, synthesize) = self.plans[block], self._batch(states), self._stage(block)
        descents = descend_batches(
            states,
            partial(self._objective, synthesize, batch, target_class, plan.descent.loss),
            plan.descent,
            # Feature maps are large, and a descent has half a dozen of each: one batch at a time.
            together=1 if block else max(1, batch.rows // plan.descent.batch_size),
            protocol=self.protocol,
            key=(seed, target_class, "optimise", *(("stage", block) if block else ())),
            within=partial(l1_balls, spans=stage.optimised_columns, radius=plan.radius),
        )
        after = torch.cat([descent.w for descent in descents])
        return StageResult(
            stage=stage,
            states=after,
            # The official code stores the images of its last step's forward pass, and the state behind that step.
            selectable=torch.cat([descent.last_evaluated for descent in descents])
            if self.protocol == "paper"
            else after,
            loss=torch.cat([descent.loss for descent in descents], 1),
            image_cosine=torch.cat([descent.image_cosine for descent in descents], 1),
            frozen=torch.cat([descent.frozen for descent in descents]),
        )

    def next_states(self, reached: StageResult) -> Tensor:
        """The states with which the stage after this one begins."""
        return self._by_rows(reached.stage.next_states, reached.states)

    def select_best(self, reached: StageResult, target_class: int, *, seed: int) -> StageSelection:
        """A stage by the target's own word: its images under the random views of Plug & Play's selection."""
        images, crop = self._by_rows(reached.stage.images, reached.selectable), self.transform.crop
        images = images if crop is None else centre_crop(images, crop)
        with torch.no_grad():
            grades = graded_views(
                self.run,
                self.target,
                self.transform(images),
                target_class,
                self.select,
                confidence_and_margin,
                seed=seed,
                protocol=self.protocol,
            )
        scores, margins = grades.unbind(1)
        order = best_first(margins)[: self.select.selected]
        rows = order.to(images.device)
        return StageSelection(
            w=reached.selectable[rows, None, : self.prior.w_dim].cpu(),
            images=images[rows].half().cpu(),
            scores=scores[order],
            margins=margins[order],
            order=order,
        )

    def _stage(self, block: int) -> tuple[Stage, Callable[[Tensor], Tensor]]:
        return make_stage(self.run, self.prior, self.transform.crop, block=block, rgb=self.rgb)

    def _objective(
        self, synthesize: Callable[[Tensor], Tensor], batch: DeviceBatch, target_class: int, loss: str, **group: Any
    ) -> LatentObjective:
        return LatentObjective(
            synthesize=synthesize,
            target=self.run.target(self.target),
            transform=self.transform,
            batch=batch,
            target_class=target_class,
            loss=partial(attack_loss(loss), protocol=self.protocol),
            **group,
        )

    def _batch(self, states: Tensor) -> DeviceBatch:
        """How many rows are computed at once: measured on stage 0, which synthesises more than those behind it."""
        networks = {
            "synthesize": self._stage(0)[1],
            "target": self.run.target(self.target),
            "transform": self.transform,
        }
        return gradient_batch(self.run, networks, states[:, : self.prior.w_dim], self.plans[0].descent)

    @torch.no_grad()
    def _by_rows(self, function: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
        batch = self.run.forward_batch("stages", self.prior, most=DECODE_ROWS)
        return torch.cat(batch.run(lambda rows: function(states[rows]), len(states)))


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """How one stage moves its states. radius: of the L1 balls of w and of the features."""

    descent: OptimiseConfig
    radius: float
