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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from smoothsweep.core.attacks.optimisation.seeds import generator
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import DeviceBatch, arithmetic
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import Precision, TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier

BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"
GOALS = {"ours, tf32, measured rows": 150.0, "ours, bf16, measured rows": 400.0}
REPOSITORY = Path(__file__).resolve().parents[1]
GPU_MARK = "@pytest.mark.gpu"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. met: whether a goal, or what has to hold, holds; None where nothing was asked for."""

    what: str
    value: str
    met: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Training:
    """Size of the timed training: one epoch to warm up, one that counts."""

    architecture: str
    images: int
    side: int
    batch: int
    classes: int = 530


FULL = Training(architecture="resnet152", images=2048, side=224, batch=128)
SMOKE = Training(architecture="resnet18", images=32, side=32, batch=16, classes=4)


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def attack(*, smoke: bool) -> list[Row]:
    """Latent steps a second at the paper's size, and what the official loop reaches on the same device."""
    from benchmarks.attack_paper import report

    rows = []
    for rate in report(smoke=smoke):
        goal = None if smoke else GOALS.get(rate.mode)
        met = None if goal is None else rate.per_second >= goal
        asked = "" if goal is None else f" (goal {goal:g})"
        rows.append(
            Row(what=rate.mode, value=f"{rate.per_second:.1f} latent steps/s, {rate.ratio:.2f}x{asked}", met=met)
        )
    return rows


def training(*, smoke: bool) -> list[Row]:
    """Images a second of a target's training, by arithmetic."""
    size = SMOKE if smoke else FULL
    rows = []
    ways: dict[str, tuple[Precision, str]] = {
        "fp32": ("fp32", "fp32"),
        "TF32": ("fp32", "tf32"),
        "bf16": ("bf16", "fp32"),
    }
    for name, (precision, mode) in ways.items():
        with arithmetic(mode):
            seconds = _second_epoch(size, precision)
        rows.append(Row(what=f"training {size.architecture}, {name}", value=f"{size.images / seconds:.0f} images/s"))
    return rows


def _second_epoch(size: Training, precision: Precision) -> float:
    marks: list[float] = []

    def mark(*_: object) -> None:
        if device().type == "cuda":
            torch.cuda.synchronize()
        marks.append(time.perf_counter())

    _trained(size, precision, epochs=2, on_epoch=mark)
    return marks[1] - marks[0]


def _trained(size: Training, precision: Precision, epochs: int, **more: object) -> torch.nn.Module:
    draw = generator(0, "gpu")
    images = torch.randint(0, 256, (size.images, 3, size.side, size.side), generator=draw, dtype=torch.uint8)
    labels = torch.arange(size.images) % size.classes
    data = ImageSet(images=images, labels=labels, names=tuple(map(str, range(size.classes))))
    recipe = TrainingRecipe(
        architecture=size.architecture,  # ty: ignore[invalid-argument-type]  # one of the literals, above
        epochs=epochs,
        batch_size=size.batch,
        image_size=size.side,
        precision=precision,
    )
    model = build_classifier(recipe.architecture, size.classes, protocol="clean")
    train_classifier(model, data, recipe, seed=0, device=device(), **more)  # ty: ignore[invalid-argument-type]
    return model


def determinism(*, smoke: bool) -> list[Row]:
    """Whether two trainings with one seed give the same weights."""
    size = SMOKE if smoke else Training(architecture="resnet18", images=512, side=64, batch=64, classes=20)
    first, second = (_trained(size, "fp32", epochs=1).state_dict() for _ in range(2))
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

    size = SMOKE if smoke else Training(architecture="resnet18", images=512, side=64, batch=64, classes=20)
    plain = _trained(size, "fp32", epochs=1).state_dict()
    with tempfile.TemporaryDirectory() as folder:
        backend = "nccl" if device().type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, init_method=f"file://{folder}/meet", rank=0, world_size=1)
        try:
            ranked = _trained(size, "fp32", epochs=1, wrap=DistributedDataParallel).state_dict()
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


SECTIONS: dict[str, tuple[Callable[..., list[Row]], float]] = {
    "tests": (tests, 90),
    "attack": (attack, 270),
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
