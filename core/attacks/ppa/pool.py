"""Stage 1 of Plug & Play Attacks: a pool of latents, scored by the target, and the best of them for a class.

Behaviour of `LukasStruppek/Plug-and-Play-Attacks` attacks/initial_selection.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.objective import Target, target_logits
from smoothsweep.core.attacks.ppa.config import CandidateConfig, PoolConfig
from smoothsweep.core.attacks.shared.execution import Execution, as_execution, frozen
from smoothsweep.core.attacks.shared.view import FORWARD_ROWS, ScoreView
from smoothsweep.core.devices import DeviceBatch, ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.seeds import generator

EXECUTION = ExecutionConfig()


def preprocess_of(config: PoolConfig) -> Preprocess:
    """The conversion of the prior's image to the target's input, the same in all three stages."""
    return Preprocess(size=config.image_size, crop=config.crop)


def decode_pool(
    prior: Prior,
    config: PoolConfig,
    *,
    device: torch.device | str,
    batch_size: int,
    execution: Execution | ExecutionConfig = EXECUTION,
) -> tuple[Tensor, Tensor]:
    """Draw the pool and decode it once: neither the latents nor the images depend on any target.

    Returns w [S, num_ws, w_dim] and images [S, 3, image_size, image_size] (clipped to [-1, 1] if the config
    says so, then centre-cropped, then resized), both float32 on the CPU. The prior must already be on
    `device`. batch_size: images at once at most; it does not change the result.
    """
    run, shape = as_execution(execution, device), preprocess_of(config)
    z = torch.from_numpy(prior.sample_z(config.size, config.seed)).to(torch.float32).to(device)
    with torch.no_grad(), frozen(prior), run.arithmetic():
        w = prior.map(z, psi=config.truncation_psi, cutoff=config.truncation_cutoff)
        synthesize = run.synthesizer(prior, config.crop)

        def decode(rows: slice) -> Tensor:
            decoded = synthesize(w[rows])
            return shape(decoded.clamp(-1, 1) if config.clip else decoded).cpu()

        images = run.forward_batch("synthesis", synthesize, most=batch_size).run(decode, len(w))
    return w.cpu(), torch.cat(images)


def score_pool(
    target: Target,
    images: Tensor,
    *,
    device: torch.device | str,
    execution: Execution | ExecutionConfig = EXECUTION,
    batch_size: int,
    hflip: bool,
) -> Tensor:
    """The target's softmax on every pool image, averaged over the image and its mirror if `hflip`.

    images: float [S, 3, H, W]. Returns float32 [S, C] on the CPU; nothing random. With hflip two passes of
    batch_size images are made, so the memory needed is that of one.
    """
    run = as_execution(execution, device)
    with torch.no_grad(), frozen(target), run.arithmetic():
        judge = run.target(target)

        def score(rows: slice) -> Tensor:
            batch = images[rows].to(device)
            confidence = target_logits(judge, batch, None).float().softmax(1)
            if hflip:
                confidence = (confidence + target_logits(judge, batch.flip(3), None).float().softmax(1)) / 2
            return confidence.cpu()

        return torch.cat(run.forward_batch("classification", judge, most=batch_size).run(score, len(images)))


def ask_pool(view: ScoreView, images: Tensor) -> Tensor:
    """As `score_pool` with mirrors, by a view that gives scores."""
    spans = DeviceBatch(FORWARD_ROWS).run(lambda rows: rows, len(images))
    parts = [(view.scores(images[rows]) + view.scores(images[rows].flip(3))) / 2 for rows in spans]
    return torch.cat(parts)


def sample_at_random(
    confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig, *, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Like `sample_candidates`, but draw K latents from the pool at random, without asking the target."""
    _check_request(confidences, w_pool, target_class, config)
    order = torch.randperm(len(w_pool), generator=generator(seed, target_class, "sample"))
    return _of_pool(confidences, w_pool, target_class, order[: config.candidates], config)


def sample_candidates(
    confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig, *, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """The K latents of the pool to which the target gives the highest confidence in `target_class`.

    confidences: [S, C] from `score_pool`; w_pool: [S, num_ws, w_dim]. Returns, best first, w0 [K, 1, w_dim]
    (the first w vector alone with config.single_w, else [K, num_ws, w_dim]), indices int64 [K] into the pool
    and confidences [K]; nothing is drawn, whatever the seed. A latent may serve several classes, but serves a class
    once.

    Equal confidences are ordered by pool index; the official code leaves their order to an unstable sort.
    Latents whose confidence is not a number come last. Raises InputError for S < K (where the official code
    silently repeats a latent) and for a class that the target does not have.
    """
    _check_request(confidences, w_pool, target_class, config)
    indices = best_first(confidences[:, target_class])[: config.candidates]
    return _of_pool(confidences, w_pool, target_class, indices, config)


def _check_request(confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig) -> None:
    size, classes = confidences.shape
    if len(w_pool) != size:
        raise InputError(f"candidate pool: {size} rows of confidences for {len(w_pool)} latents")
    if not 0 <= target_class < classes:
        raise InputError(f"target class: expected 0..{classes - 1}, got {target_class}")
    if config.candidates > size:
        raise InputError(f"candidates: expected at most the pool's {size}, got {config.candidates}")


def _of_pool(
    confidences: Tensor, w_pool: Tensor, target_class: int, indices: Tensor, config: CandidateConfig
) -> tuple[Tensor, Tensor, Tensor]:
    w0 = w_pool[indices.to(w_pool.device)]
    return w0[:, :1] if config.single_w else w0, indices, confidences[indices, target_class]


def best_first(scores: Tensor) -> Tensor:
    """Indices int64 [N] in descending order of scores [N]; equal ones keep their order, NaN comes last."""
    return torch.sort(scores.nan_to_num(nan=-torch.inf), descending=True, stable=True).indices
