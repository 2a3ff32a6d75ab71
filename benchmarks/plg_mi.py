"""PLG-MI's search against a plain restatement of the official loop: `python -m benchmarks.plg_mi`.

The plain loop goes as `LetheSec/PLG-MI-Attack`, reconstruct.py, for one class: one restart after the other, one view
after the other through the target, networks whose weights collect gradients, views by torch's resizing and sampling.
Networks at full size with random weights (generator of 64 pixels and 1,000 classes, VGG-16 for 64 pixels), the
same draws for both. Times are CPU time of one thread. Beside them stands how far apart the latents end, relative to
the way they went: Adam's first steps have one length whatever the gradient, so that a coordinate whose gradient is next
to nothing goes wherever rounding sends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator
from smoothsweep.core.attacks.optimisation.losses import max_margin_loss
from smoothsweep.core.attacks.plg.augment import Distortion, jittered
from smoothsweep.core.attacks.plg.inversion import VIEWS, Search, draw_views, search, starts
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier

_CLASSES, _SIDE, _RESTARTS, _STEPS, _ROUNDS = 1000, 64, 5, 4, 3
_TARGET = "vgg16_bn"


def networks() -> tuple[ConditionalGenerator, nn.Module]:
    """Generator and target in eval mode; their weights want gradients, as the official ones do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator = ConditionalGenerator(ConditionalConfig(classes=_CLASSES)).eval()
    return generator, build_classifier(_TARGET, _CLASSES, pretrained=False, protocol="paper", seed=0).eval()


def plainly(generator: nn.Module, target: nn.Module, wanted: Search) -> Tensor:
    """The last latents z [restarts, z_dim] of the plain loop."""
    found, labels = [], torch.tensor([wanted.target_class])
    for restart, start in enumerate(starts(generator.config.z_dim, wanted)):
        z = start[None].clone().requires_grad_(True)
        adam = torch.optim.Adam([z], lr=wanted.lr)
        for step in range(wanted.steps):
            image = (generator(z, labels) + 1) / 2
            loss = torch.zeros(())
            for place in range(VIEWS):
                draw = draw_views(step, place, _SIDE, wanted).of(slice(restart, restart + 1))
                loss = loss + max_margin_loss(target(2 * _viewed(image, draw) - 1), labels).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        found.append(z.detach())
    return torch.cat(found)


def _viewed(image: Tensor, draw: Distortion) -> Tensor:
    top, left, side = (int(part) for part in (draw.top, draw.left, draw.side))
    box = image[..., top : top + side, left : left + side]
    image = F.interpolate(box, size=(_SIDE, _SIDE), mode="bilinear", align_corners=True)
    image = jittered(image, draw) if draw.jitter else image
    image = image.flip(3) if draw.mirror else image
    if not draw.rotate:
        return image
    cos, sin = torch.cos(draw.degrees.deg2rad()), torch.sin(draw.degrees.deg2rad())
    matrix = torch.stack([cos, -sin, 0 * cos, sin, cos, 0 * cos], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(matrix, list(image.shape), align_corners=True)
    return F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def measure() -> tuple[list[float], list[float], float]:
    """CPU seconds of the plain loop and of ours in every round, in turns; how far apart the latents end."""
    generator, target = networks()
    wanted = Search(
        target_class=7, restarts=_RESTARTS, steps=_STEPS, lr=0.1, loss="max_margin", seed=0, protocol="clean"
    )
    view = view_of(
        target, "gradients", num_classes=_CLASSES, image_size=_SIDE, execution=Execution(ExecutionConfig(), "cpu")
    )
    frozen, _ = networks()
    frozen.requires_grad_(False)
    plain, ours, gap = [], [], 0.0
    for _ in range(_ROUNDS):
        seconds, expected = _timed(lambda: plainly(generator, target, wanted))
        plain.append(seconds)
        seconds, found = _timed(lambda: search(frozen, view, wanted).w)
        ours.append(seconds)
        way = (expected - starts(generator.config.z_dim, wanted)).norm()
        gap = max(gap, ((found - expected).norm() / way).item())
    return plain, ours, gap


def _timed(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def main() -> None:
    """Print the CPU time of a step of a class both ways."""
    torch.set_num_threads(1)
    plain, ours, gap = measure()
    best_plain, best_ours = (min(times) / _STEPS for times in (plain, ours))
    print(
        f"plg_mi, a step of {_RESTARTS} restarts of one class: plain loop {best_plain:.2f} CPU s, "
        f"here {best_ours:.2f} CPU s, {best_plain / best_ours:.2f} times as fast; latents {gap:.1g} of their way apart"
    )


if __name__ == "__main__":
    main()
