"""Plug & Play beside the official code's way of running it: `python -m benchmarks.attack_full [--paper] [--smoke]`.

On the CPU (`--pixels 64`): all three stages in the paper's proportions (half as many steps as views of stage 3, a
quarter of the candidates kept, crop 800 of 1024, a prior of six times the target's operations), stage by stage in turn
on one thread; compared is process CPU time. `--target resnet18` makes the target as heavy as the prior. On a GPU
(`--paper`): ResNet-152 at 224 pixels and StyleGAN2 at 1024, protocol "paper": latents x steps per second of stage 2 for
each way of running it, its share of the memory bandwidth (counted as if every operation read its inputs and wrote its
result once), and peak memory. `--smoke` runs that at tiny sizes on any device. Weights are random, which costs what
trained ones do. Needs torch, torchvision and numpy alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, Pool, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.pool import decode_pool, make_candidates, sample_candidates
from smoothsweep.core.attacks.ppa.selection import Selection, select
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig, arithmetic
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import SmallResNet
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.seeds import generator

CLASSES, TARGET_CLASS = 50, 3
RULES = {"optimise": CropRule(scale=(0.9, 1.0)), "select": CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)}
BANDWIDTHS = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
"""Bytes per second by the device's name (vendor's data sheets, SXM)."""


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


PAPER = Case(image=224, crop=800, target="resnet152", candidates=100, steps=2)
SMOKE = Case(image=32, crop=50, target="resnet18", candidates=6, batch=3, steps=2)


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


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One way of running stage 2. per_second: latents x steps; ratio: to the yardstick in fp32; shares: of the memory's
    bandwidth, and peak memory, in words."""

    mode: str
    per_second: float
    ratio: float
    shares: str = ""


Descent = Callable[..., object]
"""Stage 2 for a number of steps, on the first `rows` of the candidates (None: on all)."""


def rates(*, smoke: bool) -> Iterator[Rate]:
    """Each way as it is measured, printed too, so that a run that is cut short keeps those before.

    Raises InputError where there is no GPU, unless `smoke`.
    """
    if not smoke and not torch.cuda.is_available():
        raise InputError("--paper: expected a CUDA device, found none (add --smoke to run tiny sizes on the CPU)")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    case = SMOKE if smoke else PAPER
    tiny = StyleGAN2Config(resolution=64, z_dim=64, w_dim=64, channel_base=1024, channel_max=32)
    torch.manual_seed(0)
    prior = StyleGAN2(tiny if smoke else StyleGAN2Config()).requires_grad_(False).to(device)
    target = torchvision.models.get_model(case.target, weights=None, num_classes=530).eval().to(device)
    w0 = prior.map(torch.from_numpy(prior.sample_z(case.candidates, 0)).to(device), psi=0.5, cutoff=8)[:, :1]
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}; {case}")
    bandwidth = next((most for kind, most in BANDWIDTHS.items() if kind in name), None)
    base = None
    for mode, (run, rows) in _modes(prior, target, w0, case, device).items():
        moved = traffic(lambda run=run, rows=rows: run(1, rows)) / rows if rows else None
        rate, peak = _timed(run, case, device)
        base = base or rate
        bytes_moved = "" if moved is None else f"{rate * moved / 1e9:.1f} GB/s"
        if moved is not None and bandwidth is not None:
            bytes_moved = f"{rate * moved / bandwidth:.1%} of the bandwidth"
        shares = ", ".join(filter(None, [bytes_moved, peak]))
        print(f"{mode}: {rate:.2f} latent steps/s, {rate / base:.2f}x, {shares}", flush=True)
        yield Rate(mode=mode, per_second=rate, ratio=rate / base, shares=shares)


def _modes(
    prior: StyleGAN2, target: nn.Module, w0: Tensor, case: Case, device: torch.device
) -> Mapping[str, tuple[Descent, int]]:
    """By name the descent, and how many rows to count its traffic with (0: cannot be counted)."""
    paper = {"rows_per_batch": case.batch}
    ways: dict[str, dict[str, Any]] = {
        "fp32, batches of the paper": paper,
        "fp32, measured rows": {},
        "bf16, batches of the paper": {"precision": "bf16", **paper},
        "bf16, measured rows": {"precision": "bf16"},
    }
    if device.type == "cuda":
        ways["tf32, measured rows"] = {"precision": "tf32"}
        ways["bf16, CUDA graphs"] = {"precision": "bf16", "cuda_graphs": True, **paper}
        ways["fp32, compiled"] = {"compile": True, **paper}
        ways["bf16, compiled"] = {"precision": "bf16", "compile": True, **paper}
    official, collecting = yardstick.OfficialSynthesis(prior), target.requires_grad_(True)

    def plain(steps: int, rows: int | None = None) -> object:
        told = {**case.official, "steps": steps, "lr": 0.005}
        return yardstick.optimise(official, collecting, w0[:rows], TARGET_CLASS, **told)

    def single(steps: int, rows: int | None = None) -> object:
        with arithmetic("fp32"):
            return plain(steps, rows)

    def ours(run: Execution, steps: int, rows: int | None = None) -> object:
        return optimised(prior, target, w0[:rows], run, case, steps=steps)

    modes: dict[str, tuple[Descent, int]] = {"yardstick, fp32": (single, 2)}
    if device.type == "cuda":  # as the official script runs: torch allows TF32 in convolutions unless told not to
        modes["yardstick, torch's default (TF32 convolutions)"] = (plain, 2)
    for name, options in ways.items():
        eager = not (options.get("compile") or options.get("cuda_graphs"))
        run = Execution(ExecutionConfig(**options), device)
        modes[f"ours, {name}"] = partial(ours, run), 2 if eager else 0
    return modes


def _timed(run: Descent, case: Case, device: torch.device) -> tuple[float, str]:
    """Latent steps per second, and peak memory in words (on a GPU)."""
    run(1)  # prepares, measures and compiles
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    run(case.steps)
    if device.type == "cuda":
        torch.cuda.synchronize()
    rate = case.candidates * case.steps / (time.perf_counter() - start)
    if device.type != "cuda":
        return rate, ""
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.empty_cache()
    return rate, f"peak memory {peak:.1f} GiB"


class _Traffic(TorchDispatchMode):
    """Adds up the bytes of the tensors that operations read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, Tensor)]
            self.bytes += sum(x.numel() * x.element_size() for x in tensors)
        return result


def traffic(run: Callable[[], object]) -> float:
    """Bytes that the operations of `run` read and write."""
    with _Traffic() as mode:
        run()
    return float(mode.bytes)


def main() -> None:
    """Read the command line and print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", type=int, choices=(32, 64, 128), action="append", help="default: 64 and 128")
    parser.add_argument("--target", choices=("resnet_small", "resnet18"), default="resnet_small")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--paper", action="store_true", help="ResNet-152 and 1024 pixels, on a GPU")
    parser.add_argument("--smoke", action="store_true", help="with --paper: the same code at tiny sizes, on any device")
    options = parser.parse_args()
    if options.paper:
        try:
            for _ in rates(smoke=options.smoke):
                pass
        except InputError as error:
            parser.error(str(error))
        return
    torch.set_num_threads(1)
    for pixels in options.pixels or (64, 128):
        stages(pixels, options.target, options.steps)


if __name__ == "__main__":
    main()
