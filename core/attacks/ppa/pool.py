"""Stage 1 of Plug & Play Attacks: a pool of latents, scored by the target, and the best of them for a class.

Behaviour of `LukasStruppek/Plug-and-Play-Attacks` attacks/initial_selection.py. What is made once for a target, the
parts of attacks that begin with a pool, is here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import target_logits
from smoothsweep.core.attacks.ppa.config import CandidateConfig, Pool, Restarts
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.attacks.shared.view import FORWARD_ROWS, GradientView, ScoreView, View
from smoothsweep.core.checks import present, require
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.seeds import generator

DECODE_BATCH = 64  # images at once at most
_HALVINGS = 200  # of the bracket in log T: far beyond what float64 can tell apart
_BRACKET = 60.0  # log T within +- this of the logits' own scale

Starts = tuple[Tensor, Tensor, Tensor]
"""What stage 1 leaves: w0 [K, 1 or num_ws, w_dim], indices int64 [K] into the pool, confidences [K]."""


def make_pool(settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext) -> MadePart:
    """w [S, num_ws, w_dim], and images [S, 3, image_size, image_size] as a target will be shown them: clipped."""
    pool = Pool(**settings)
    shape = Preprocess(size=view.image_size, crop=pool.crop)
    prior = present(inputs.prior, "prior")
    w, images = decode_pool(prior, pool, lambda decoded: shape(decoded.clamp(-1, 1)), view.execution)
    return MadePart(tensors={"w": w, "images": images}, facts={"pool_size": len(w)})


def decode_pool(prior: Prior, pool: Pool, shape: Callable[[Tensor], Tensor], run: Execution) -> tuple[Tensor, Tensor]:
    """Draw the pool and decode it once: neither the latents nor the images depend on any target.

    Returns w float32 [S, num_ws, w_dim] and what `shape` makes of the decoded images, on the CPU. The prior must
    already be on the execution's device.
    """
    z = torch.from_numpy(prior.sample_z(pool.size, pool.seed)).to(torch.float32).to(run.device)
    with torch.no_grad(), frozen(prior), run.arithmetic():
        w = prior.map(z, psi=pool.truncation_psi, cutoff=pool.truncation_cutoff)
        synthesize = run.synthesizer(prior, pool.crop)
        batch = run.forward_batch("synthesis", synthesize, most=DECODE_BATCH)
        images = batch.run(lambda rows: shape(synthesize(w[rows])).cpu(), len(w))
    return w.cpu(), torch.cat(images)


def make_candidates(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """confidences [S, C]: the target's softmax on every pool image, averaged over the image and its mirror."""
    images = inputs.parts["pool"]["images"]
    spans = DeviceBatch(FORWARD_ROWS).run(lambda rows: rows, len(images))
    parts = [(view.scores(images[rows]) + view.scores(images[rows].flip(3))) / 2 for rows in spans]
    return MadePart(tensors={"confidences": torch.cat(parts)})


def make_pool_features(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """mean [D] over the pool's images: what the attacker has of the public images that the prior was trained on."""
    images = inputs.parts["pool"]["images"]
    with torch.no_grad(), view.execution.arithmetic():
        batches = images.split(DECODE_BATCH)
        features = [view.features(batch.to(view.execution.device))[0].float().cpu() for batch in batches]
    return MadePart(tensors={"mean": torch.cat(features).mean(0)}, facts={"pool_images": float(len(images))})


def make_temperature(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """temperature float64 [1]; every image of the pool is a query. Facts: it, and the mean confidence without it.

    It is fitted to what the target says of the prior's images, without labels: the likelihood of its own decisions
    would drive the temperature to 0.
    """
    images, run = inputs.parts["pool"]["images"], view.execution
    with torch.no_grad(), run.arithmetic():

        def answer(rows: slice) -> Tensor:
            return target_logits(view.logits, images[rows].to(run.device), None).double().cpu()

        batch = run.forward_batch("classification", view.logits, most=FORWARD_ROWS)
        logits = torch.cat(batch.run(answer, len(images)))
    temperature = fitted_temperature(logits, settings["mean_confidence"])
    return MadePart(
        tensors={"temperature": torch.tensor([temperature], dtype=torch.float64)},
        facts={"temperature": temperature, "pool_confidence": mean_confidence(logits, 1.0)},
    )


def mean_confidence(logits: Tensor, temperature: float) -> float:
    """Mean over the rows of logits [N, C] of the largest softmax of logits / temperature, in float64."""
    return float((logits.double() / temperature).softmax(1).amax(1).mean())


def fitted_temperature(logits: Tensor, wanted: float) -> float:
    """The temperature at which the mean top-1 softmax of logits [N, C] is `wanted`, by bisection of its logarithm.

    That mean falls from 1 to 1/C as the temperature rises. Raises InputError where no temperature gives it: not above
    1/C, or a target that does not decide.
    """
    centred = logits.double() - logits.double().mean(1, keepdim=True)
    scale = float(centred.abs().amax()) or 1.0
    low, high = math.log(scale) - _BRACKET, math.log(scale) + _BRACKET
    highest, lowest = (mean_confidence(centred, math.exp(end)) for end in (low, high))
    expected = f"more than {lowest:.4g} and less than {highest:.4g}, what this target reaches"
    require(lowest < wanted < highest, "attack.temperature.mean_confidence", expected, wanted)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_confidence(centred, math.exp(middle)) > wanted else (low, middle)
    return math.exp((low + high) / 2)


def sample_at_random(
    confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig, *, seed: int
) -> Starts:
    """Like `sample_candidates`, but draw K latents from the pool at random, without asking the target."""
    order = torch.randperm(len(w_pool), generator=generator(seed, target_class, "sample"))
    return _of_pool(confidences, w_pool, target_class, order, config)


def sample_candidates(
    confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig, *, seed: int = 0
) -> Starts:
    """The K latents of the pool to which the target gives the highest confidence in `target_class`.

    confidences: [S, C] from `make_candidates`; w_pool: [S, num_ws, w_dim]. Returns, best first, w0 [K, 1, w_dim]
    (the first w vector alone with config.single_w, else [K, num_ws, w_dim]), indices int64 [K] into the pool
    and confidences [K]; nothing is drawn, whatever the seed. A latent may serve several classes, but serves a class
    once.

    Equal confidences are ordered by pool index; the official code leaves their order to an unstable sort, and repeats
    a latent where there are fewer than K, which the settings refuse here. Latents whose confidence is not a number
    come last.
    """
    return _of_pool(confidences, w_pool, target_class, best_first(confidences[:, target_class]), config)


def _of_pool(confidences: Tensor, w_pool: Tensor, target_class: int, order: Tensor, config: CandidateConfig) -> Starts:
    indices = order[: config.candidates]
    w0 = w_pool[indices.to(w_pool.device)]
    return w0[:, :1] if config.single_w else w0, indices, confidences[indices, target_class]


def around(starts: Starts, w_pool: Tensor, restarts: Restarts, *, seed: int, target_class: int) -> Starts:
    """The starts, and further ones from around every candidate: one without a gradient is then not the last.

    What stage 1 left, `count` times one after the other. The first time as it is; then w0 moved by Gaussian noise of
    `spread` standard deviations of each coordinate over the pool w_pool [S, P or more, w_dim]. Indices and confidences
    remain those of the candidate in the middle.
    """
    w0, index, confidence = starts
    scale = restarts.spread * w_pool[:, : w0.shape[1]].std(0, unbiased=False).to(w0)
    moved = [
        w0 + scale * torch.randn(w0.shape, generator=generator(seed, target_class, "restart", number)).to(w0)
        for number in range(1, restarts.count)
    ]
    return torch.cat([w0, *moved]), index.repeat(restarts.count), confidence.repeat(restarts.count)


def best_first(scores: Tensor) -> Tensor:
    """Indices int64 [N] in descending order of scores [N]; equal ones keep their order, NaN comes last."""
    return torch.sort(scores.nan_to_num(nan=-torch.inf), descending=True, stable=True).indices
