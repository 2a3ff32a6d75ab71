"""Plug & Play beside the official code's way of running it, on the CPU: `python -m benchmarks.attack_full --pixels 64`.

All three stages in the paper's proportions (half as many steps as views of stage 3, a quarter of the candidates kept,
crop 800 of 1024, a prior of six times the target's operations), stage by stage in turn on one thread; compared is
process CPU time. `--target resnet18` makes the target as heavy as the prior. Weights are random, which costs what
trained ones do. Needs torch, torchvision and numpy alone. On a GPU, at the paper's size: benchmarks/gpu.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest.mock import patch

import torch
import torchvision
from torch import Tensor, nn

from benchmarks import yardstick
from benchmarks.yardstick import Case
from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, Crops, Preprocess
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, Pool, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.pool import decode_pool, make_candidates, sample_candidates
from smoothsweep.core.attacks.ppa.selection import Selection, select
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import SmallResNet
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

CLASSES, TARGET_CLASS = 50, 3


def transform_of(case: Case) -> Preprocess:
    """What the target is shown of an image of the prior."""
    return Preprocess(size=case.image, crop=case.crop)


def stated_crops(stage: str, case: Case) -> Callable[..., Crops]:
    """What replaces the attack's draws by those of the case, step after step."""
    steps = count()
    return lambda *_: case.draw(stage, next(steps))


def candidates(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> Tensor:
    """Our stage 1: the start latents [n, 1, w_dim]."""
    pool = Pool(size=case.pool, crop=case.crop)
    w, images = decode_pool(prior, pool, lambda decoded: transform_of(case)(decoded.clamp(-1, 1)), run)
    part_context: Any = None  # it is short: it keeps no state
    view: Any = view_of(target, "scores", num_classes=CLASSES, image_size=case.image, execution=run)
    inputs = AttackInputs(protocol="paper", parts={"pool": {"images": images}})
    confidences = make_candidates({}, inputs, view, part_context).tensors["confidences"]
    return sample_candidates(confidences, w, TARGET_CLASS, CandidateConfig(candidates=case.candidates))[0]


def optimised(prior: StyleGAN2, target: nn.Module, w0: Tensor, run: Execution, case: Case) -> Tensor:
    """Our stage 2: what it makes of the start latents."""
    settings: dict[str, Any] = {"steps": case.steps, "batch_size": case.batch, "lr": case.lr}
    told: dict[str, Any] = {"seed": 0, "protocol": "paper", "transform": transform_of(case), "run": run}
    with patch.dict(DRAW_CROPS, paper=stated_crops("optimise", case)):
        (found,) = optimise(prior, target, [w0], [TARGET_CLASS], OptimiseConfig(**settings), **told)
    return found.w


def selected(prior: StyleGAN2, target: nn.Module, w: Tensor, run: Execution, case: Case) -> Selection:
    """Our stage 3: the best latents and the scores of all."""
    settings = SelectConfig(selected=case.selected, selection_repeats=2 * case.steps)
    told: dict[str, Any] = {"seed": 0, "protocol": "paper", "transform": transform_of(case), "run": run}
    with patch.dict(DRAW_CROPS, paper=stated_crops("select", case)):
        (best,) = select(prior, target, [w], [TARGET_CLASS], settings, **told)
    return best


def stages(pixels: int, target_name: str, steps: int) -> None:
    """Print the CPU seconds of both sides, and the largest differences of what they found."""
    torch.manual_seed(0)
    case = Case(image=pixels, crop=pixels * 800 // 1024, target=target_name, steps=steps)
    config = StyleGAN2Config(
        resolution=pixels, z_dim=128, w_dim=128, mapping_layers=2, channel_base=32 * pixels, channel_max=128
    )
    prior = StyleGAN2(config).requires_grad_(False)
    small = nn.Sequential(SmallResNet(), nn.Linear(128, CLASSES))
    target = (small if target_name == "resnet_small" else torchvision.models.resnet18(num_classes=CLASSES)).eval()
    run, official = Execution(ExecutionConfig(), "cpu"), yardstick.OfficialSynthesis(prior)
    run.target(target)(transform_of(case)(run.synthesizer(prior, case.crop)(torch.zeros(2, 1, 128))))  # prepares both
    seconds: dict[str, list[float]] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds.setdefault(stage, []).append(time.process_time() - start)
        return result

    start = timed("stage 1", lambda: yardstick.find_candidates(prior, official, target, [TARGET_CLASS], case))
    ours = timed("stage 1", lambda: candidates(prior, target, run, case))
    differences = {"start": start - ours}
    w = timed("stage 2", lambda: yardstick.optimise(official, target, start, TARGET_CLASS, case))
    ours = timed("stage 2", lambda: optimised(prior, target, ours, run, case))
    differences["optimised w"] = w - ours
    _, scores = timed("stage 3", lambda: yardstick.select(official, target, w, TARGET_CLASS, case))
    best = timed("stage 3", lambda: selected(prior, target, ours, run, case))
    differences["scores"] = scores - best.all_scores
    print(f"{pixels} pixels, {target_name}: CPU seconds, yardstick / ours, ratio")
    for stage, (yard, own) in {
        **seconds,
        "attack": [sum(side) for side in zip(*seconds.values(), strict=True)],
    }.items():
        print(f"  {stage}: {yard:.2f} / {own:.2f}, {yard / own:.2f}")
    print("  largest differences: " + ", ".join(f"{name} {gap.abs().max():.1e}" for name, gap in differences.items()))


def main() -> None:
    """Read the command line and print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", type=int, choices=(32, 64, 128), action="append", help="default: 64 and 128")
    parser.add_argument("--target", choices=("resnet_small", "resnet18"), default="resnet_small")
    parser.add_argument("--steps", type=int, default=25)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for pixels in options.pixels or (64, 128):
        stages(pixels, options.target, options.steps)


if __name__ == "__main__":
    main()
