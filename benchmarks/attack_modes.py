"""What each way of running the attack changes in its results: `python -m benchmarks.attack_modes [--compile]`.

A small trained case (synthetic faces, resnet_small, the shipped generator, protocol "paper") is attacked in single
precision under three seeds, and under the first seed in each accelerated mode and by the yardstick. Printed: the
difference of the final latents to the single-precision run, the target's confidence after stage 3, and Acc@1 of an
evaluation model. A mode is harmless if it moves Acc@1 by no more than the seeds do.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise, select
from smoothsweep.core.attacks.ppa.pool import decode_pool, sample_candidates, score_pool
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.priors.registry import load_shipped_prior
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.classifier import train_classifier

_SIZE = 64
_IDENTITIES = 30
_ATTACKED = 10
_CANDIDATES, _SELECTED, _STEPS, _VIEWS, _POOL = 10, 4, 30, 20, 200
_SEEDS = (0, 1, 2)
_ROUNDING = 1.2e-7  # the distance of neighbouring single-precision numbers


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """w: final latents [classes, K, w_dim]; confidence: mean of the selected; acc1: the evaluation model's."""

    w: Tensor
    confidence: float
    acc1: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A trained target, an evaluation model that saw other images of the same people, a prior, its decoded pool."""

    target: nn.Module
    evaluator: nn.Module
    prior: StyleGAN2
    pool: tuple[Tensor, Tensor]
    confidences: Tensor


def prepare() -> Setting:
    """Train both classifiers and decode the pool, from fixed seeds."""
    data = synthetic_faces(population="private", identities=_IDENTITIES, per_identity=24, size=_SIZE, seed=7)
    recipe = TrainingRecipe(epochs=14, batch_size=50, image_size=_SIZE)
    half = torch.arange(len(data)) % 2 == 0
    networks = []
    for architecture, rows in (("resnet_small", half), ("vgg_small", ~half)):
        network = build_classifier(architecture, _IDENTITIES, protocol="clean")
        train_classifier(network, data.subset(rows), recipe, seed=0)
        held_out = data.subset(~rows)
        with torch.no_grad():
            predicted = network.eval()(held_out.images.float() / 127.5 - 1).argmax(1)
        print(f"{architecture}: accuracy {(predicted == held_out.labels).float().mean():.2f}", flush=True)
        networks.append(network)
    prior = load_shipped_prior("stylegan2_synthetic64")
    config = PoolConfig(size=_POOL, crop=None, image_size=_SIZE)
    pool = decode_pool(prior, config, device="cpu", batch_size=25)
    confidences = score_pool(networks[0], pool[1], hflip=True, batch_size=50, device="cpu")
    return Setting(target=networks[0], evaluator=networks[1], prior=prior, pool=pool, confidences=confidences)


def attack(setting: Setting, seed: int, execution: ExecutionConfig | None, nudge: float = 0.0) -> Outcome:
    """Stages 2 and 3 on the first classes; execution None: the yardstick's stage 2, with the same crops.

    nudge: the start is multiplied by 1 + nudge.
    """
    run = Execution(execution or ExecutionConfig(), "cpu")
    common = {"seed": seed, "protocol": "paper", "transform": Preprocess(size=_SIZE), "device": "cpu"}
    latents, confidence, hits = [], [], []
    for c in range(_ATTACKED):
        w0, *_ = sample_candidates(setting.confidences, setting.pool[0], c, CandidateConfig(candidates=_CANDIDATES))
        w0 = w0 * (1 + nudge)
        if execution is None:
            w = yardstick.optimise(
                yardstick.OfficialSynthesis(setting.prior),
                setting.target,
                w0,
                c,
                steps=_STEPS,
                lr=0.005,
                crop=_SIZE,
                size=_SIZE,
                batch=_CANDIDATES,
                draw=lambda c, stage, batch, step: _box(seed, c, batch, step),
            )
        else:
            config = OptimiseConfig(steps=_STEPS, batch_size=_CANDIDATES)
            w = optimise(setting.prior, setting.target, w0, c, config, execution=run, **common).w
        best = select(
            setting.prior,
            setting.target,
            w,
            c,
            SelectConfig(selected=_SELECTED, selection_repeats=_VIEWS),
            keep={"evaluator": Preprocess(size=_SIZE)},
            execution=run,
            **common,
        )
        latents.append(w)
        confidence.append(best.scores.mean().item())
        with torch.no_grad():
            predicted = setting.evaluator.eval()(best.images["evaluator"][best.order]).argmax(1)
        hits.append((predicted == c).float().mean().item())
    return Outcome(w=torch.stack(latents), confidence=statistics.fmean(confidence), acc1=statistics.fmean(hits))


def _box(seed: int, target_class: int, batch: int, step: int) -> Crops:
    source = generator(seed, target_class, "optimise", batch, step)
    return draw_shared_crop(CropRule(scale=(0.9, 1.0)), 1, _SIZE, _SIZE, source)


def main() -> None:
    """Print one line per mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="also the compiled mode: minutes of compilation")
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    setting = prepare()
    single = ExecutionConfig()
    runs: list[tuple[str, int, ExecutionConfig | None, float]] = [
        *(("single precision", seed, single, 0.0) for seed in _SEEDS),
        ("yardstick", 0, None, 0.0),
        ("yardstick from a start one rounding away", 0, None, _ROUNDING),
        ("5 rows at once", 0, ExecutionConfig(rows_per_batch=5), 0.0),
        *(("bf16", seed, ExecutionConfig(precision="bf16"), 0.0) for seed in _SEEDS),
        *([("compiled", 0, ExecutionConfig(compile=True), 0.0)] if arguments.compile else []),
    ]
    reference: dict[int, Outcome] = {}
    for name, seed, execution, nudge in runs:
        start = time.process_time()
        found = attack(setting, seed, execution, nudge)
        gap = (found.w - reference.setdefault(seed, found).w).abs()
        print(
            f"{name}, seed {seed}: Acc@1 {found.acc1:.3f}, target confidence {found.confidence:.4f}, latents differ "
            f"from single precision by {gap.mean():.1e} (mean), {gap.max():.1e} (largest), more than 2e-3 in "
            f"{(gap > 2e-3).float().mean():.1%}; {time.process_time() - start:.0f} CPU s",
            flush=True,
        )
    apart = (reference[0].w - reference[1].w).abs()
    print(f"seeds 0 and 1: latents differ by {apart.mean():.1e} (mean), {apart.max():.1e} (largest)")


if __name__ == "__main__":
    main()
