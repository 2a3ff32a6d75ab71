"""Everything that only a GPU can show, in nine minutes at most: `python -m benchmarks.gpu [--smoke] [--table FILE]`.

Each section runs in a process of its own with a time limit, so that one that fails or hangs costs no other its result.
`--smoke` runs the same code at tiny sizes on any device. `--table` replaces the part of a page between its two marks.
The goals were set beforehand (for an H100 or H200): 150 latent steps a second in TF32, 400 in bf16. The only published
anchor for the official code is 14 hours on an A100 for 500 classes, about 35 a second (issues of
LukasStruppek/Plug-and-Play-Attacks).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import Timer

from benchmarks import yardstick
from benchmarks.attack_full import TARGET_CLASS, optimised
from benchmarks.yardstick import Case
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import DeviceBatch, ExecutionConfig, arithmetic
from smoothsweep.core.files import write_file
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import Precision, TrainingRecipe
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_ops import fir_kernel, low_pass
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.classifier import train_classifier
from tools.marked import with_tables

GOALS = {"ours, tf32, measured rows": 150.0, "ours, bf16, measured rows": 400.0}
REPOSITORY = Path(__file__).resolve().parents[1]
GPU_MARK = "@pytest.mark.gpu"
MARK = "row "  # before a row that a section's process prints
SINGLE = 1e-5  # relative error below which a product is one of single precision; TF32 has about 3e-4
PASSES = 10  # timed


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. met: whether a goal, or what has to hold, holds; None where nothing was asked for."""

    what: str
    value: str
    met: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Training:
    """Size of a training: one epoch to warm up, one that counts."""

    architecture: str
    images: int
    side: int
    batch: int
    classes: int


FULL = Training(architecture="resnet152", images=2048, side=224, batch=128, classes=530)
SMALL = Training(architecture="resnet18", images=512, side=64, batch=64, classes=20)  # where two are compared
SMOKE = Training(architecture="resnet18", images=32, side=32, batch=16, classes=4)


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def wait() -> None:
    if device().type == "cuda":
        torch.cuda.synchronize()


def seconds_of(run: Callable[[], object]) -> float:
    """Of one pass; some warm up."""
    return Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads()).timeit(PASSES).mean


def trained(size: Training, precision: Precision, epochs: int, **more: Any) -> torch.nn.Module:
    """A network after a training on random images."""
    draw = generator(0, "gpu")
    images = torch.randint(0, 256, (size.images, 3, size.side, size.side), generator=draw, dtype=torch.uint8)
    labels = torch.arange(size.images) % size.classes
    data = ImageSet(images=images, labels=labels, names=tuple(map(str, range(size.classes))))
    settings: dict[str, Any] = {"architecture": size.architecture, "batch_size": size.batch, "image_size": size.side}
    recipe = TrainingRecipe(epochs=epochs, precision=precision, **settings)
    model = build_classifier(recipe.architecture, size.classes, protocol="clean")
    train_classifier(model, data, recipe, seed=0, device=device(), **more)
    return model


PAPER = Case(image=224, crop=800, target="resnet152", candidates=100, steps=2)
TINY = Case(image=32, crop=50, target="resnet18", candidates=6, batch=3, steps=2)
BANDWIDTHS = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
"""Bytes per second by the device's name (vendor's data sheets, SXM)."""

Descent = Callable[..., object]
"""Stage 2 for a number of steps, on the first `rows` of the candidates (None: on all)."""


def attack(*, smoke: bool) -> Iterator[Row]:
    """Latents x steps per second of stage 2, protocol "paper", at the paper's size, for each way of running it.

    Beside it the ratio to what the official code does, in fp32, peak memory, and the share of the memory's bandwidth,
    counted as if every operation read its inputs and wrote its result once.
    """
    case = TINY if smoke else PAPER
    tiny = StyleGAN2Config(resolution=64, z_dim=64, w_dim=64, channel_base=1024, channel_max=32)
    torch.manual_seed(0)
    prior = StyleGAN2(tiny if smoke else StyleGAN2Config()).requires_grad_(False).to(device())
    target = torchvision.models.get_model(case.target, weights=None, num_classes=530).eval().to(device())
    w0 = prior.map(torch.from_numpy(prior.sample_z(case.candidates, 0)).to(device()), psi=0.5, cutoff=8)[:, :1]
    name = torch.cuda.get_device_name() if device().type == "cuda" else "cpu"
    bandwidth = next((most for kind, most in BANDWIDTHS.items() if kind in name), None)
    base = None
    for mode, (run, rows) in _modes(prior, target, w0, case).items():
        moved = traffic(lambda run=run, rows=rows: run(1, rows)) / rows if rows else None
        rate, peak = _timed(run, case)
        base = base or rate
        goal = None if smoke else GOALS.get(mode)
        said = [f"{rate:.1f} latent steps/s{f' (goal {goal:g})' if goal else ''}", f"{rate / base:.2f}x"]
        if moved is not None and bandwidth is not None:
            said.append(f"{rate * moved / bandwidth:.1%} of the bandwidth")
        elif moved is not None:
            said.append(f"{rate * moved / 1e9:.1f} GB/s")
        yield Row(what=mode, value=", ".join([*said, *peak]), met=None if goal is None else rate >= goal)


def _modes(prior: StyleGAN2, target: nn.Module, w0: Tensor, case: Case) -> Mapping[str, tuple[Descent, int]]:
    """By name the descent, and how many rows to count its traffic with (0: cannot be counted)."""
    paper = {"rows_per_batch": case.batch}
    ways: dict[str, dict[str, Any]] = {
        "fp32, batches of the paper": paper,
        "fp32, measured rows": {},
        "bf16, batches of the paper": {"precision": "bf16", **paper},
        "bf16, measured rows": {"precision": "bf16"},
    }
    if device().type == "cuda":
        ways["tf32, measured rows"] = {"precision": "tf32"}
        ways["bf16, CUDA graphs"] = {"precision": "bf16", "cuda_graphs": True, **paper}
        ways["fp32, compiled"] = {"compile": True, **paper}
        ways["bf16, compiled"] = {"precision": "bf16", "compile": True, **paper}
    official, collecting = yardstick.OfficialSynthesis(prior), target.requires_grad_(True)

    def plain(steps: int, rows: int | None = None) -> object:
        return yardstick.optimise(official, collecting, w0[:rows], TARGET_CLASS, replace(case, steps=steps))

    def single(steps: int, rows: int | None = None) -> object:
        with arithmetic("fp32"):
            return plain(steps, rows)

    def ours(run: Execution, steps: int, rows: int | None = None) -> object:
        return optimised(prior, target, w0[:rows], run, replace(case, steps=steps))

    modes: dict[str, tuple[Descent, int]] = {"yardstick, fp32": (single, 2)}
    if device().type == "cuda":  # as the official script runs: torch allows TF32 in convolutions unless told not to
        modes["yardstick, torch's default (TF32 convolutions)"] = (plain, 2)
    for name, options in ways.items():
        eager = not (options.get("compile") or options.get("cuda_graphs"))
        run = Execution(ExecutionConfig(**options), device())
        modes[f"ours, {name}"] = partial(ours, run), 2 if eager else 0
    return modes


def _timed(run: Descent, case: Case) -> tuple[float, list[str]]:
    """Latent steps per second, and peak memory in words (on a GPU)."""
    run(1)  # prepares, measures and compiles
    wait()
    if device().type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    run(case.steps)
    wait()
    rate = case.candidates * case.steps / (time.perf_counter() - start)
    if device().type != "cuda":
        return rate, []
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.empty_cache()
    return rate, [f"peak memory {peak:.1f} GiB"]


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


def precision(*, smoke: bool) -> list[Row]:
    """How far products are from double precision: single precision on a GPU must be that, and TF32 what it says."""
    draw = generator(0, "gpu")
    images = torch.randn(4, 64, 32, 32, generator=draw, dtype=torch.float64).to(device())
    weights = torch.randn(64, 64, 3, 3, generator=draw, dtype=torch.float64).to(device())
    products: dict[str, Callable[[torch.dtype], Tensor]] = {
        "convolution": lambda kind: F.conv2d(images.to(kind), weights.to(kind)),
        "matrices": lambda kind: images.to(kind).flatten(2) @ images.to(kind).flatten(2).transpose(1, 2),
    }
    rows = []
    for name, product in products.items():
        exact = product(torch.float64)
        for mode in ("fp32", "tf32"):
            with arithmetic(mode):
                gap = float((product(torch.float32).double() - exact).norm() / exact.norm())
            single = gap < SINGLE
            met = single if mode == "fp32" else None if device().type != "cuda" else not single
            rows.append(Row(what=f"error of a product, {name}, {mode}", value=f"{gap:.1e}", met=met))
    return rows


def low_pass_filter(*, smoke: bool) -> Iterator[Row]:
    """What the filter of the 1024-pixel generator's last layer takes, 25 images in bf16, in each of its forms."""
    shape = (1, 4, 19, 19) if smoke else (25, 32, 1027, 1027)
    kernel = fir_kernel().to(device(), torch.bfloat16)
    x = torch.randn(shape, generator=generator(0, "filter")).to(device(), torch.bfloat16)
    x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()

    def convolution(x: Tensor) -> Tensor:
        return F.conv2d(x, kernel.expand(shape[1], 1, 4, 4), padding=1, groups=shape[1])

    def sums(x: Tensor) -> Tensor:
        return low_pass(x, kernel, padding=1)

    compiled: Callable[[Tensor], Tensor] = torch.compile(sums, backend="eager" if smoke else "inductor", dynamic=False)
    forms = {"depthwise convolution": convolution, "sums of shifted images": sums, "the same, compiled": compiled}
    for name, form in forms.items():
        ones = torch.ones_like(form(x.detach()))
        forward = seconds_of(lambda form=form: form(x.detach()))
        both = seconds_of(lambda form=form, ones=ones: torch.autograd.grad(form(x), x, ones))
        said = f"{1000 * forward:.2f} ms; with its gradient {1000 * both:.2f} ms"
        yield Row(what=f"low-pass filter, {name}", value=said)


def training(*, smoke: bool) -> Iterator[Row]:
    """Images a second by arithmetic: of a target's training, and of forward and backward passes alone."""
    size = SMOKE if smoke else FULL
    ways: Any = (("fp32", "fp32", "fp32"), ("TF32", "fp32", "tf32"), ("bf16", "bf16", "fp32"))
    for name, kind, mode in ways:
        marks: list[float] = []

        def mark(*_: object, marks: list[float] = marks) -> None:
            wait()
            marks.append(time.perf_counter())

        with arithmetic(mode):
            model = trained(size, kind, epochs=2, on_epoch=mark).to(memory_format=torch.channels_last).train()
            images = torch.rand(size.batch, 3, size.side, size.side, device=device())
            images = images.contiguous(memory_format=torch.channels_last)

            def one_pass(model: torch.nn.Module = model, images: Tensor = images, kind: str = kind) -> None:
                with torch.autocast(device().type, torch.bfloat16, enabled=kind == "bf16"):
                    loss = model(images).float().square().mean()
                loss.backward()

            alone = seconds_of(one_pass)
        rates = f"{size.images / (marks[1] - marks[0]):.0f} images/s; the network alone {size.batch / alone:.0f}"
        yield Row(what=f"training {size.architecture}, {name}", value=rates)


def largest_gap(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    """Between the weights of two networks."""
    return max(float((first[name].double() - second[name].double()).abs().max()) for name in first)


def determinism(*, smoke: bool) -> list[Row]:
    """Whether two trainings with one seed give the same weights."""
    size = SMOKE if smoke else SMALL
    first, second = (trained(size, "fp32", epochs=1).state_dict() for _ in range(2))
    gap = largest_gap(first, second)
    return [Row(what="same seed, same weights", value=f"largest difference {gap:g}", met=gap == 0.0)]


def memory(*, smoke: bool) -> list[Row]:
    """Whether a batch that does not fit is halved until it does, on a real out-of-memory error of the device."""
    if device().type != "cuda":
        return [Row(what="batches are halved when memory runs out", value="needs a GPU")]
    total = torch.cuda.mem_get_info()[1]
    per_row = total // 6  # six rows can never fit beside anything else
    batch = DeviceBatch(rows=8, what="benchmark")

    def fill(rows: slice) -> int:
        held = torch.empty((rows.stop - rows.start) * per_row, dtype=torch.uint8, device="cuda")
        return len(held)

    done = sum(batch.run(fill, 8))
    met = done == 8 * per_row and batch.halved > 0
    return [Row(what="batches are halved when memory runs out", value=f"8 rows to {batch.rows}", met=met)]


def distributed(*, smoke: bool) -> list[Row]:
    """One rank of DistributedDataParallel (NCCL on a GPU) against a plain training."""
    from torch.nn.parallel import DistributedDataParallel

    size = SMOKE if smoke else SMALL
    plain = trained(size, "fp32", epochs=1).state_dict()
    with tempfile.TemporaryDirectory() as folder:
        backend = "nccl" if device().type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, init_method=f"file://{folder}/meet", rank=0, world_size=1)
        try:
            ranked = trained(size, "fp32", epochs=1, wrap=DistributedDataParallel).state_dict()
        finally:
            torch.distributed.destroy_process_group()
    gap = largest_gap(plain, ranked)
    what = f"DDP of one rank ({backend}) beside a plain training"
    return [Row(what=what, value=f"largest difference {gap:g}", met=gap < 1e-4)]


def tests(*, smoke: bool) -> list[Row]:
    """The tests that need a GPU, of the files that have some: a machine of GPUs alone may lack what others import."""
    files = [str(path) for path in sorted((REPOSITORY / "tests").rglob("test_*.py")) if GPU_MARK in path.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *files]
    command += ["--collect-only"] if smoke and device().type != "cuda" else []
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    last = (ran.stdout.strip().splitlines() or ["nothing"])[-1]
    return [Row(what="tests marked gpu", value=last.strip("= "), met=ran.returncode == 0)]


SECTIONS: dict[str, tuple[Callable[..., Iterable[Row]], float]] = {
    "tests": (tests, 60),
    "precision": (precision, 20),
    "low_pass": (low_pass_filter, 40),
    "attack": (attack, 240),
    "training": (training, 75),
    "determinism": (determinism, 30),
    "memory": (memory, 20),
    "distributed": (distributed, 45),
}
"""Name -> what it measures, and how many seconds it may take."""


def run_section(name: str, *, smoke: bool) -> list[Row]:
    """Its rows, from a process of its own; one row that says so where it failed or took too long."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--section", name, *(["--smoke"] if smoke else [])]
    limit, problem = SECTIONS[name][1], None
    try:
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=limit)
        output = ran.stdout
        if ran.returncode:
            last = (ran.stderr.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
            problem = f"failed: {last[:200]}"
    except subprocess.TimeoutExpired as error:
        output, problem = error.stdout or b"", f"not within {limit:g} s"
    lines = output.decode(errors="replace").splitlines()
    rows = [Row(**json.loads(line.removeprefix(MARK))) for line in lines if line.startswith(MARK)]
    return rows if problem is None else [*rows, Row(what=name, value=problem, met=False)]


def table(rows: list[Row]) -> str:
    """The rows in Markdown, with device, versions and date."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU (smoke)"
    head = f"{name}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}"
    words = {True: "yes", False: "**no**", None: ""}
    lines = [f"| {row.what} | {row.value} | {words[row.met]} |" for row in rows]
    return "\n".join([head, "", "| what | measured | holds |", "| --- | --- | --- |", *lines, ""])


def main() -> None:
    """Run all sections, print the table, write it where asked. Exit code 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, any device")
    parser.add_argument("--section", choices=SECTIONS, help="one section, in this process")
    parser.add_argument("--table", type=Path, help="a page whose part between the marks is replaced")
    options = parser.parse_args()
    if options.section:
        for row in SECTIONS[options.section][0](smoke=options.smoke):
            print(MARK + json.dumps(asdict(row)), flush=True)
        return
    if not options.smoke and not torch.cuda.is_available():
        sys.exit("benchmarks.gpu: expected a CUDA device, found none (--smoke runs tiny sizes on the CPU)")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    rows = [row for name in SECTIONS for row in run_section(name, smoke=options.smoke)]
    print(table(rows), end="")
    if options.table:
        text = options.table.read_text(encoding="utf-8")
        write_file(options.table, with_tables(text, {"gpu": table(rows)}, options.table))
    sys.exit(1 if any(row.met is False for row in rows) else 0)


if __name__ == "__main__":
    main()
