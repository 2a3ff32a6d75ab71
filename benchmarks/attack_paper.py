"""The attack at the paper's size on a GPU: `python -m benchmarks.attack_full --paper`.

ResNet-152 at 224 pixels and StyleGAN2 at 1024, both with random weights, protocol "paper": latents x steps per second
of stage 2 for the yardstick and for each way of running it, the share of the bf16 peak and of the memory bandwidth
(counted as if every operation read its inputs and wrote its result once), and peak memory. Needs torch, torchvision and
numpy alone. `--smoke` runs the same code at tiny sizes on any device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torchvision
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import yardstick
from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.ppa.config import OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig, arithmetic
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, window_margins
from smoothsweep.core.seeds import generator

PEAKS: dict[str, tuple[float, float]] = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.0e12)}
"""Dense bf16 operations per second and bytes per second by the device's name (vendor's data sheets, SXM)."""


class Descent(Protocol):
    """Stage 2 for a number of steps, on the first rows of the candidates (None: on all)."""

    def __call__(self, steps: int, rows: int | None = None) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Size:
    """candidates: computed in the paper's batches of `batch`; steps: timed, after one to warm up."""

    resolution: int
    crop: int
    image: int
    target: str
    candidates: int
    batch: int
    steps: int


PAPER = Size(resolution=1024, crop=800, image=224, target="resnet152", candidates=100, batch=25, steps=2)
SMOKE = Size(resolution=64, crop=50, image=32, target="resnet18", candidates=6, batch=3, steps=2)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One way of running the descent. per_second: latents x steps; ratio: to the yardstick in fp32; shares: of what the
    device can do, and peak memory, in words."""

    mode: str
    per_second: float
    ratio: float
    shares: str = ""


def report(*, smoke: bool) -> list[Rate]:
    """Print one line per mode; return their rates. Raises InputError where there is no GPU, unless `smoke`."""
    return list(rates(smoke=smoke))


def rates(*, smoke: bool) -> Iterator[Rate]:
    """The same one by one, as they are measured, so that a run that is cut short keeps those before."""
    if not smoke and not torch.cuda.is_available():
        raise InputError("--paper: expected a CUDA device, found none (add --smoke to run tiny sizes on the CPU)")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = SMOKE if smoke else PAPER
    torch.manual_seed(0)
    prior = StyleGAN2(_prior_config(size)).requires_grad_(False).to(device)
    target = torchvision.models.get_model(size.target, weights=None, num_classes=530).eval().to(device)
    w0 = prior.map(torch.from_numpy(prior.sample_z(size.candidates, 0)).to(device), psi=0.5, cutoff=8)[:, :1]
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}; {size}")
    macs = {"yardstick": count_macs(prior, target, size, crop=None), "ours": count_macs(prior, target, size, size.crop)}
    for side, (synthesis, classifier) in macs.items():
        print(f"{side}: {synthesis / 1e9:.2f} GMAC per image of the prior, {classifier / 1e9:.2f} of the target")
    base = None
    for mode, (run, rows) in _modes(prior, target, w0, size, device).items():
        moved = traffic(lambda run=run, rows=rows: run(1, rows)) / rows if rows else None
        rate, peak = _timed(run, size, device)
        base = base or rate
        side = "yardstick" if mode.startswith("yardstick") else "ours"
        shares = _shares(name, rate, macs[side], passes=3 if side == "yardstick" else 2, moved=moved)
        print(f"{mode}: {rate:.2f} latent steps/s, {rate / base:.2f}x, {shares}{peak}", flush=True)
        yield Rate(mode=mode, per_second=rate, ratio=rate / base, shares=f"{shares}{peak}")


def _prior_config(size: Size) -> StyleGAN2Config:
    if size.resolution == 1024:
        return StyleGAN2Config()
    return StyleGAN2Config(resolution=size.resolution, z_dim=64, w_dim=64, channel_base=1024, channel_max=32)


def _modes(
    prior: StyleGAN2, target: nn.Module, w0: Tensor, size: Size, device: torch.device
) -> dict[str, tuple[Descent, int]]:
    """By name: (steps, first rows) -> the descent, and how many rows to count its traffic with (0: cannot be counted).

    The rows computed at once are measured on the device unless a mode says otherwise.
    """
    cuda = device.type == "cuda"
    configs = {
        "ours, fp32, batches of the paper": ExecutionConfig(rows_per_batch=size.batch),
        "ours, fp32, measured rows": ExecutionConfig(),
        "ours, bf16, batches of the paper": ExecutionConfig(precision="bf16", rows_per_batch=size.batch),
        "ours, bf16, measured rows": ExecutionConfig(precision="bf16"),
    }
    if cuda:
        configs["ours, tf32, measured rows"] = ExecutionConfig(precision="tf32")
        configs["ours, bf16, CUDA graphs"] = ExecutionConfig(
            precision="bf16", cuda_graphs=True, rows_per_batch=size.batch
        )
        configs["ours, fp32, compiled"] = ExecutionConfig(compile=True, rows_per_batch=size.batch)
        configs["ours, bf16, compiled"] = ExecutionConfig(precision="bf16", compile=True, rows_per_batch=size.batch)
    official = yardstick.OfficialSynthesis(prior)
    target_of_yardstick = target.requires_grad_(True)

    def draw(target_class: int, stage: str, batch: int, step: int) -> Crops:
        return draw_shared_crop(
            CropRule(scale=(0.9, 1.0)), 1, size.image, size.image, generator(target_class, stage, batch, step)
        )

    def plain(steps: int, rows: int | None = None) -> object:
        return yardstick.optimise(
            official,
            target_of_yardstick,
            w0[:rows],
            0,
            steps=steps,
            lr=0.005,
            crop=size.crop,
            size=size.image,
            batch=size.batch,
            draw=draw,
        )

    def single(steps: int, rows: int | None = None) -> object:
        with arithmetic("fp32"):
            return plain(steps, rows)

    modes: dict[str, tuple[Descent, int]] = {"yardstick, fp32": (single, 2)}
    if cuda:  # what the official script runs at: torch allows TF32 in convolutions unless it is told not to
        modes["yardstick, torch's default (TF32 convolutions)"] = (plain, 2)
    for name, config in configs.items():
        eager = not (config.compile or config.cuda_graphs)
        modes[name] = _ours(prior, target, w0, size, Execution(config, device)), 2 if eager else 0
    return modes


def _ours(prior: StyleGAN2, target: nn.Module, w0: Tensor, size: Size, execution: Execution) -> Descent:
    def run(steps: int, rows: int | None = None) -> object:
        return optimise(
            prior,
            target,
            [w0[:rows]],
            [0],
            OptimiseConfig(steps=steps, batch_size=size.batch),
            seed=0,
            protocol="paper",
            transform=Preprocess(size=size.image, crop=size.crop),
            run=execution,
        )

    return run


def _timed(run: Descent, size: Size, device: torch.device) -> tuple[float, str]:
    run(1)  # prepares, measures and compiles
    _synchronise(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    run(size.steps)
    _synchronise(device)
    rate = size.candidates * size.steps / (time.perf_counter() - start)
    if device.type != "cuda":
        return rate, ""
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.empty_cache()
    return rate, f", peak memory {peak:.1f} GiB"


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _shares(name: str, rate: float, macs: tuple[float, float], *, passes: int, moved: float | None) -> str:
    """Shares of the peaks. Two operations per MAC and pass: forward, gradient by the input, for some by the weights."""
    operations, written = rate * 2 * passes * sum(macs), rate * (moved or 0.0)
    for device, (peak, bandwidth) in PEAKS.items():
        if device in name:
            share = f"{operations / peak:.1%} of the bf16 peak"
            return share if moved is None else f"{share}, {written / bandwidth:.1%} of the bandwidth"
    return f"{operations / 1e12:.3f} TFLOP/s" + ("" if moved is None else f", {written / 1e9:.1f} GB/s")


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


def count_macs(prior: StyleGAN2, target: nn.Module, size: Size, crop: int | None) -> tuple[float, float]:
    """Multiply-accumulates per image of the convolutions of the prior and of the target, forward."""
    config, total = prior.config, 0.0
    margins = window_margins(config.sides, crop)
    for index, side in enumerate(config.sides):
        outputs = config.channels(side)
        window = side - 2 * (2 * margins[index - 1] if index else 0)
        if index:  # the transposed convolution works on the smaller map
            total += 9 * config.channels(side // 2) * outputs * (window / 2) ** 2
            total += 16 * outputs * window**2
        total += (9 * outputs * outputs + 3 * outputs) * window**2
    counted = 0.0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal counted
        if isinstance(module, nn.Conv2d):
            counted += output[0].numel() * module.weight[0].numel()

    hooks = [module.register_forward_hook(count) for module in target.modules() if isinstance(module, nn.Conv2d)]
    with torch.no_grad():
        target(torch.zeros(1, 3, size.image, size.image, device=next(target.parameters()).device))
    for hook in hooks:
        hook.remove()
    return total, counted
