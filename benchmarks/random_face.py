"""CPU seconds of random-face's images, forward and backward: `python -m benchmarks.random_face FOLDER`.

FOLDER: what `smoothsweep import prior random-face` wrote. Compared with a plain reading of the same graph: torch's own
convolutions one image at a time, to the features of as many pixels as the image, and a 1x1 read-out of them. All in one
process, one thread, the ways by turns; least of the rounds, because other processes only ever add.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face.making import framed
from smoothsweep.core.priors.registry import load_prior

IMAGES, ROUNDS = 4, 4
CROP = {"left_eye": [19, 20], "right_eye": [45, 20], "side": 64}
GOAL = 0.12


def main(folder: Path) -> None:
    """Print a table: CPU seconds of an image, and the ratio to the plain reading."""
    torch.set_num_threads(1)
    whole: Any = load_prior(folder / "1024")
    w = whole.map(torch.from_numpy(whole.sample_z(IMAGES, 0)), psi=0.7)
    rows = {}
    for side in (64, 128):
        ways: dict[str, Callable[[Tensor], Tensor]] = {"plain reading, batch 1": _plain(whole, side)}
        for name, crop in (("ours", None), ("ours, LFW's frame", CROP)):
            settings: Any = make_settings("random_face", path=str(folder), resolution=side, crop=crop)
            ways[name] = framed(settings).synthesize
        rows |= {(side, name): seconds for name, seconds in _measured(ways, w).items()}
    print("| pixels | way | forward | backward | both | of the plain reading |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for (side, name), (forward, backward) in rows.items():
        ratio = (forward + backward) / sum(rows[side, "plain reading, batch 1"])
        print(f"| {side} | {name} | {forward:.3f} | {backward:.3f} | {forward + backward:.3f} | {ratio:.2f} |")
    best = sum(rows[128, "ours"])
    print(f"goal at 128 pixels: at most {GOAL} CPU seconds; {'met' if best <= GOAL else 'missed'}: {best:.3f}")


def _measured(ways: dict[str, Callable[[Tensor], Tensor]], w: Tensor) -> dict[str, tuple[float, float]]:
    least = dict.fromkeys(ways, (float("inf"), float("inf")))
    for _ in range(ROUNDS):
        for name, make in ways.items():
            latents = w.clone().requires_grad_()
            start = time.process_time()
            images = make(latents)
            middle = time.process_time()
            images.square().mean().backward()
            end = time.process_time()
            found = ((middle - start) / len(w), (end - middle) / len(w))
            least[name] = min(least[name], found, key=sum)
    return least


def _plain(network: MobileStyleGAN, side: int) -> Callable[[Tensor], Tensor]:
    """The graph's layers one after the other, to features of that side, and a 1x1 convolution of them."""
    stages = next(n for n in range(len(network.stages)) if 8 * 2**n == side) + 1
    read_out = torch.randn(3, len(network.stages[stages - 1].conv2.bias), 1, 1)
    haar = torch.tensor([[[1.0, 1], [1, 1]], [[1, 1], [-1, -1]], [[1, -1], [1, -1]], [[1, -1], [-1, 1]]])

    def styled(conv: Any, x: Tensor, w: Tensor) -> Tensor:
        x = x * conv.style(w)[:, :, None, None]
        x = functional.conv2d(x, conv.depthwise, padding=1, groups=len(conv.depthwise))
        x = functional.conv2d(x, conv.pointwise[:, :, None, None])
        return functional.leaky_relu(x + conv.noise[:, :, 0] + conv.bias[:, None, None], 0.2)

    def one(w: Tensor) -> Tensor:
        x = network.first(w).permute(0, 3, 1, 2).contiguous()
        for stage in network.stages[:stages]:
            bands = (x * stage.up(w)[:, :, None, None]).chunk(4, dim=1)
            count = bands[0].shape[1]
            parts = [
                functional.conv_transpose2d(band, kernel.expand(count, 1, 2, 2) / 2, stride=2, groups=count)
                for band, kernel in zip(bands, haar, strict=True)
            ]
            x = styled(stage.conv2, styled(stage.conv1, sum(parts), w), w)
        return functional.conv2d(x, read_out)

    return lambda w: torch.cat([one(latent) for latent in w[:, 0].split(1)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
