"""What it costs to run a program in a process of its own: `python -m benchmarks.isolated_programs`.

ResNet-18 as TorchScript, forward and backward, through the isolated process and in this one, in turn; and how long
opening takes. One thread. Ratio: the median over the rounds of the isolated time by the other of the same round, with
half the distance of the quartiles.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
from torch import Tensor

from smoothsweep.core.external.opening import open_external

CASES = ((32, 16), (64, 32), (128, 8))  # pixels, images
ROUNDS = 11
CPU = torch.device("cpu")


def step(program: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """The gradient of a loss, as an attack asks for it."""
    shown = images.clone().requires_grad_(True)
    return torch.autograd.grad(program(shown).logsumexp(1).sum(), shown)[0]


def measure(path: Path, side: int, count: int) -> tuple[float, float, float, bool]:
    """Seconds in this process, the ratio with its spread, and whether every gradient is the same to the bit."""
    here = torch.jit.load(path).eval()
    for parameter in here.parameters():
        parameter.requires_grad_(False)
    there = open_external("torchscript", path, {}, CPU).answer
    seconds, ratios, same = [], [], True
    for number in range(ROUNDS + 3):
        images = torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(number))
        taken, found = [], []
        for program in (here, there):
            start = time.perf_counter()
            found.append(step(program, images))
            taken.append(time.perf_counter() - start)
        same &= torch.equal(*found)
        if number >= 3:  # TorchScript optimises in its first calls
            seconds.append(taken[0])
            ratios.append(taken[1] / taken[0])
    low, _, high = statistics.quantiles(ratios, n=4)
    return statistics.median(seconds), statistics.median(ratios), (high - low) / 2, same


def main() -> None:
    """Print a row for every size of images."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(action="ignore"):
        path = Path(place) / "program.pt"
        torch.jit.script(torchvision.models.resnet18().eval()).save(path)
        opening = []
        for _ in range(5):
            start = time.perf_counter()
            open_external("torchscript", path, {}, CPU)
            opening.append(time.perf_counter() - start)
        print(f"opening: {statistics.median(opening):.2f} s")
        for side, count in CASES:
            seconds, ratio, spread, same = measure(path, side, count)
            print(
                f"{count} images of {side} pixels: {1e3 * seconds:.1f} ms in process, times {ratio:.3f} +- "
                f"{spread:.3f} isolated, gradients {'the same' if same else 'DIFFERENT'}"
            )


if __name__ == "__main__":
    main()
