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
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
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
from smoothsweep.core.seeds import generator

CLASSES, TARGET_CLASS = 50, 3
RULES = {"optimise": CropRule(scale=(0.9, 1.0)), "select": CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """image: side of what the target is shown; crop: of the prior's image; batch: the paper's rows of a pass."""

    image: int
    crop: int
    target: str
    steps: int
    batch: int = 25
    candidates: int = 25
    selected: int = 6
    pool: int = 50

    @property
    def transform(self) -> Preprocess:
        return Preprocess(size=self.image, crop=self.crop)

    @property
    def official(self) -> dict[str, Any]:
        """What the yardstick's stages 2 and 3 are told."""
        return {"crop": self.crop, "size": self.image, "batch": self.batch, "draw": partial(draw_box, self.image)}


def draw_box(side: int, stage: str, step: int) -> Crops:
    """The crop of one step of a stage, the same for both sides."""
    return draw_shared_crop(RULES[stage], 1, side, side, generator("benchmark", step))


class StatedCrops:
    """Replaces the attack's draws by those of `draw_box`, step after step."""

    def __init__(self, stage: str, side: int) -> None:
        self.stage, self.side, self.step = stage, side, -1

    def __call__(self, rule: CropRule, count: int, height: int, width: int, source: torch.Generator) -> Crops:
        self.step += 1
        return draw_box(self.side, self.stage, self.step)


def candidates(prior: StyleGAN2, target: nn.Module, run: Execution, case: Case) -> Tensor:
    """Our stage 1: the start latents [n, 1, w_dim]."""
    pool = Pool(size=case.pool, crop=case.crop)
    w, images = decode_pool(prior, pool, lambda decoded: case.transform(decoded.clamp(-1, 1)), run)
    part_context: Any = None  # it is short: it keeps no state
    view: Any = view_of(target, "scores", num_classes=CLASSES, image_size=case.image, execution=run)
    inputs = AttackInputs(protocol="paper", parts={"pool": {"images": images}})
    confidences = make_candidates({}, inputs, view, part_context).tensors["confidences"]
    return sample_candidates(confidences, w, TARGET_CLASS, CandidateConfig(candidates=case.candidates))[0]


def optimised(prior: StyleGAN2, target: nn.Module, w0: Tensor, run: Execution, case: Case, **more: Any) -> Tensor:
    """Our stage 2: what it makes of the start latents. more: other steps than the case's."""
    settings = {"steps": case.steps, "batch_size": case.batch, **more}
    told: dict[str, Any] = {"seed": 0, "protocol": "paper", "transform": case.transform, "run": run}
    crops = StatedCrops("optimise", case.image)
    (found,) = optimise(prior, target, [w0], [TARGET_CLASS], OptimiseConfig(**settings), draw_crops=crops, **told)
    return found.w


def selected(prior: StyleGAN2, target: nn.Module, w: Tensor, run: Execution, case: Case) -> Selection:
    """Our stage 3: the best latents and the scores of all."""
    settings = SelectConfig(selected=case.selected, selection_repeats=2 * case.steps)
    told: dict[str, Any] = {"seed": 0, "protocol": "paper", "transform": case.transform, "run": run}
    crops = StatedCrops("select", case.image)
    (best,) = select(prior, target, [w], [TARGET_CLASS], settings, draw_crops=crops, **told)
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
    run.target(target)(case.transform(run.synthesizer(prior, case.crop)(torch.zeros(2, 1, 128))))  # prepares both
    seconds: dict[str, list[float]] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds.setdefault(stage, []).append(time.process_time() - start)
        return result

    starts = {key: value for key, value in case.official.items() if key != "draw"}
    starts |= {"pool": case.pool, "candidates": case.candidates}
    start = timed("stage 1", lambda: yardstick.find_candidates(prior, official, target, [TARGET_CLASS], **starts))
    ours = timed("stage 1", lambda: candidates(prior, target, run, case))
    differences = {"start": start - ours}
    told: dict[str, Any] = {**case.official, "steps": steps, "lr": 0.005}
    w = timed("stage 2", lambda: yardstick.optimise(official, target, start, TARGET_CLASS, **told))
    ours = timed("stage 2", lambda: optimised(prior, target, ours, run, case))
    differences["optimised w"] = w - ours
    told = {**case.official, "selected": case.selected, "repeats": 2 * steps}
    _, scores = timed("stage 3", lambda: yardstick.select(official, target, w, TARGET_CLASS, **told))
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
