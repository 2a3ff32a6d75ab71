"""`smoothsweep doctor --calibrate`: about a minute of the paper's work on this device, timed per unit.

Networks have random weights, so nothing need be there. Every time is that of the code that a run uses: the descent of
Plug & Play with a target of no cost (so what is left is the prior's), classifiers as an attack prepares them, and
epochs of training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothsweep.core import screen
from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.ppa.config import OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from smoothsweep.core.seeds import generator
from smoothsweep.core.text import counted, printable
from smoothsweep.core.training.classifier import train_classifier
from smoothsweep.orchestrator.planning.rates.calibration import (
    Calibration,
    NetworkRate,
    PriorRate,
    write_calibration,
)

CLASSES = 530  # FaceScrub's; the heads cost next to nothing


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is timed.

    Attributes:
        networks: Architecture -> pixels of its images.
        rows: Images at once.
        seconds: Seconds that each of the measurements goes on for at least, once it has begun; one unit is always
            measured whole.
    """

    prior: StyleGAN2Config
    crop: int
    image_size: int
    networks: dict[str, int]
    rows: int
    seconds: float


NETWORKS = {"resnet152": 224, "resnext50": 224, "densenet121": 224, "resnet50": 224, "inception_v3": 299}
"""Targets, surrogate and evaluator of the paper's tables."""


def paper_size(device: torch.device) -> Size:
    """The paper's prior, crop and networks, in batches that suit the device."""
    rows = 25 if device.type == "cuda" else 2
    return Size(prior=StyleGAN2Config(), crop=800, image_size=224, networks=NETWORKS, rows=rows, seconds=2.0)


def calibrate(place: Path) -> None:
    """Measure this machine's first device, print the rates, write them to a file."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = counted(torch.get_num_threads(), "thread")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {threads}"
    screen.out(printable(f"calibrating {name}: about a minute"))
    calibration = measure(paper_size(device), device, name)
    write_calibration(place, calibration)
    for line in calibration_lines(calibration):
        screen.out(line)
    screen.out(printable(f"written to {place}; smoothsweep plan SWEEP.yaml --rates {place} counts by these rates"))


def calibration_lines(calibration: Calibration) -> list[str]:
    """The rates for a terminal: units a second."""
    prior = calibration.prior
    lines = [f"prior of {prior.side} pixels: {1 / prior.step_s:.3g} latent steps/s, {1 / prior.image_s:.3g} images/s"]
    for name, rate in calibration.networks.items():
        attacked = 1 / (prior.step_s + rate.gradient_s)
        lines.append(
            f"{name} at {rate.image_size} pixels: {1 / rate.train_s:.3g} images/s trained, {1 / rate.forward_s:.3g} "
            f"looked at, {attacked:.3g} latent steps/s attacked"
        )
    return lines


def measure(size: Size, device: torch.device, name: str) -> Calibration:
    """Time every unit. name: of the device, as the file tells it."""
    execution = Execution(ExecutionConfig(rows_per_batch=size.rows), device)
    torch.manual_seed(0)
    prior = _prior(size, execution)
    networks = {kind: _network(kind, side, size, execution) for kind, side in size.networks.items()}
    date = time.strftime("%Y-%m-%d")
    return Calibration(device=name, torch=str(torch.__version__), date=date, prior=prior, networks=networks)


def _prior(size: Size, execution: Execution) -> PriorRate:
    device, config = execution.device, size.prior
    prior = StyleGAN2(config).requires_grad_(False).to(device).eval()
    w0 = prior.map(torch.from_numpy(prior.sample_z(size.rows, 0)).to(device), psi=0.5, cutoff=8)[:, :1]
    transform = Preprocess(size=size.image_size, crop=size.crop)

    def descend() -> None:
        optimise(
            prior,
            _no_target,
            w0,
            0,
            OptimiseConfig(steps=1, batch_size=size.rows),
            seed=0,
            protocol="paper",
            transform=transform,
            device=device,
            execution=execution,
        )

    synthesise = execution.synthesizer(prior, size.crop)

    def draw() -> None:
        with torch.no_grad(), execution.arithmetic():
            transform(synthesise(w0))

    step_s, image_s = (_seconds_per_row(work, size, device) for work in (descend, draw))
    return PriorRate(side=config.resolution, crop=size.crop, step_s=step_s, image_s=image_s)


def _no_target(images: Tensor) -> Tensor:
    """A target of no cost: three means of an image as its logits."""
    return images.mean((2, 3))


def _network(kind: str, side: int, size: Size, execution: Execution) -> NetworkRate:
    device = execution.device
    model = build_classifier(kind, CLASSES, protocol="paper").to(device).eval()
    answer = execution.target(model)
    images = torch.rand((size.rows, 3, side, side), generator=generator(0, "calibration")).to(device) * 2 - 1

    def look() -> None:
        with torch.no_grad(), execution.arithmetic():
            answer(images)

    def back() -> None:
        with execution.arithmetic():
            leaf = images.clone().requires_grad_(True)
            torch.autograd.grad(answer(leaf).sum(), leaf)

    forward_s, gradient_s = (_seconds_per_row(work, size, device) for work in (look, back))
    train_s = _trained(model, kind, side, size, device)
    return NetworkRate(image_size=side, train_s=train_s, gradient_s=gradient_s, forward_s=forward_s)


def _trained(model: nn.Module, kind: str, side: int, size: Size, device: torch.device) -> float:
    """Seconds per image of the second of two epochs: the first one warms up."""
    count = size.rows * (8 if device.type == "cuda" else 1)
    draw = generator(0, "calibration")
    pixels = torch.randint(0, 256, (count, 3, side, side), generator=draw, dtype=torch.uint8)
    data = ImageSet(images=pixels, labels=torch.arange(count) % CLASSES, names=tuple(map(str, range(CLASSES))))
    recipe = TrainingRecipe(
        architecture=kind,  # ty: ignore[invalid-argument-type]  # one of the literals
        epochs=2,
        batch_size=size.rows,
        image_size=side,
    )
    marks: list[float] = []

    def mark(*_: object) -> None:
        _wait_for(device)
        marks.append(time.perf_counter())

    train_classifier(model, data, recipe, seed=0, device=device, on_epoch=mark)
    return (marks[1] - marks[0]) / count


def _seconds_per_row(work: Callable[[], object], size: Size, device: torch.device) -> float:
    """Time of `size.rows` rows per row, after a first time that prepares: the median of what fits into the seconds."""
    work()
    _wait_for(device)
    began, times = time.perf_counter(), []
    while not times or time.perf_counter() - began < size.seconds:
        start = time.perf_counter()
        work()
        _wait_for(device)
        times.append((time.perf_counter() - start) / size.rows)
    return sorted(times)[len(times) // 2]


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
