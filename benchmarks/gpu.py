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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import DeviceBatch, arithmetic
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import Precision, TrainingRecipe
from smoothsweep.core.priors.stylegan2_ops import fir_kernel, low_pass
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.classifier import train_classifier

BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"
GOALS = {"ours, tf32, measured rows": 150.0, "ours, bf16, measured rows": 400.0}
REPOSITORY = Path(__file__).resolve().parents[1]
GPU_MARK = "@pytest.mark.gpu"
SINGLE = 1e-5
"""Relative error below which a product is one of single precision; TF32 has about 3e-4."""


PASSES = 10
"""Timed passes, after three that warm up."""


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
    """Of one pass."""
    started = 0.0
    for number in range(3 + PASSES):
        if number == 3:
            wait()
            started = time.perf_counter()
        run()
    wait()
    return (time.perf_counter() - started) / PASSES


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


def attack(*, smoke: bool) -> Iterator[Row]:
    """Latent steps a second at the paper's size, and what the official loop reaches on the same device."""
    from benchmarks.attack_full import rates

    for rate in rates(smoke=smoke):
        goal = None if smoke else GOALS.get(rate.mode)
        met = None if goal is None else rate.per_second >= goal
        asked = "" if goal is None else f" (goal {goal:g})"
        said = f"{rate.per_second:.1f} latent steps/s{asked}, {rate.ratio:.2f}x, {rate.shares}"
        yield Row(what=rate.mode, value=said, met=met)


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
    ways: dict[str, tuple[Precision, Literal["fp32", "tf32"]]] = {
        "fp32": ("fp32", "fp32"),
        "TF32": ("fp32", "tf32"),
        "bf16": ("bf16", "fp32"),
    }
    for name, (kind, mode) in ways.items():
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


def determinism(*, smoke: bool) -> list[Row]:
    """Whether two trainings with one seed give the same weights."""
    size = SMOKE if smoke else SMALL
    first, second = (trained(size, "fp32", epochs=1).state_dict() for _ in range(2))
    gap = max(float((first[name].double() - second[name].double()).abs().max()) for name in first)
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
    gap = max(float((plain[name].double() - ranked[name].double()).abs().max()) for name in plain)
    return [
        Row(
            what=f"DDP of one rank ({backend}) beside a plain training",
            value=f"largest difference {gap:g}",
            met=gap < 1e-4,
        )
    ]


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
    limit = SECTIONS[name][1]
    try:
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as error:
        return [*_rows(_text(error.stdout)), Row(what=name, value=f"not within {limit:g} s", met=False)]
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no word"])[-1]
        return [*_rows(ran.stdout), Row(what=name, value=f"failed: {last[:200]}", met=False)]
    return _rows(ran.stdout)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _rows(output: str) -> list[Row]:
    lines = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    return [Row(**json.loads(line)) for line in lines]


MARK = "row "


def table(rows: list[Row]) -> str:
    """The rows in Markdown, with device, versions and date."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU (smoke)"
    head = f"{name}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}"
    words = {True: "yes", False: "**no**", None: ""}
    lines = [f"| {row.what} | {row.value} | {words[row.met]} |" for row in rows]
    return "\n".join([head, "", "| what | measured | holds |", "| --- | --- | --- |", *lines])


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
    print(table(rows))
    if options.table:
        _replace(options.table, table(rows))
    sys.exit(1 if any(row.met is False for row in rows) else 0)


def _replace(page: Path, text: str) -> None:
    before, mark, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise InputError(f"{page}: expected the marks {BEGIN} and {END}, got none")
    write_file(page, f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
