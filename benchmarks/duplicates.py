"""How many photographs that are in both sets are found in another frame, and how many others are taken for one.

python -m benchmarks.duplicates                                   # drawn faces
python -m benchmarks.duplicates --private FACES --public OTHERS   # labelled and unlabelled pictures of yours
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data.own.aligned import same_photographs
from smoothsweep.core.data.own.scanning import scan_pictures
from smoothsweep.core.data.sources import list_labelled, list_unlabelled
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.data.transforms import resize

COPIES, STRANGERS, SIDE = 100, 3000, 64


def turned(images: Tensor, degrees: float) -> Tensor:
    """Images float [N, 3, S, S] turned about their middle."""
    angle = torch.tensor(np.deg2rad(degrees))
    rows = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    grid = torch.nn.functional.affine_grid(
        torch.cat([rows, torch.zeros(2, 1)], dim=1).float().expand(len(images), 2, 3),
        list(images.shape),
        align_corners=False,
    )
    return torch.nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def cut(images: Tensor, first: float, last: float) -> Tensor:
    """The square from `first` to `last` of either side, fractions of it."""
    side = images.shape[-1]
    return images[..., round(first * side) : round(last * side), round(first * side) : round(last * side)]


def shifted(images: Tensor) -> Tensor:
    """By 2 of 64 pixels right and up; what comes in repeats the border."""
    by = round(2 * images.shape[-1] / SIDE)
    padded = torch.nn.functional.pad(images, (by, 0, 0, by), mode="replicate")
    return padded[..., by:, : images.shape[-1]]


FRAMES: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda images: images,
    "shifted by 2 of 64 pixels": shifted,
    "middle 85 %": lambda images: cut(images, 0.075, 0.925),
    "upper left 90 %": lambda images: cut(images, 0.0, 0.9),
    "turned by 6 degrees": lambda images: turned(images, 6),
    "mirrored": lambda images: images.flip(3),
    "shifted, turned and mirrored": lambda images: turned(shifted(images), 6).flip(3),
}


def small(images: Tensor) -> np.ndarray:
    """As the program keeps pictures to compare them, uint8 [N, 32, 32, 3]."""
    return resize(images, 32).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()


def drawn(population: str, people: int) -> np.ndarray:
    """A picture of each, float32 [N, 64, 64, 3]."""
    faces = synthetic_faces(population=population, identities=people, per_identity=1, size=SIDE, spread=0.6, seed=7)
    return faces.images.permute(0, 2, 3, 1).float().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--private", type=Path)
    parser.add_argument("--public", type=Path)
    options = parser.parse_args()
    if options.private:
        private = scan_pictures(list_labelled(options.private)[0][::10]).small.astype(np.float32)
        public = scan_pictures(list_unlabelled(options.public)[:STRANGERS]).small
    else:
        private, public = drawn("private", 300), small(torch.from_numpy(drawn("public", STRANGERS)).permute(0, 3, 1, 2))
    images = torch.from_numpy(private).permute(0, 3, 1, 2)
    own = small(images)
    started = time.process_time()
    found, likeness = same_photographs(own, public)
    spent = time.process_time() - started
    print(
        f"{(found >= 0).sum()} of {len(own)} are taken for one of {len(public)} others; most alike {likeness.max():.3f}"
    )
    print(f"{spent:.1f} CPU-seconds for {len(own) * len(public):,} pairs")
    for name, frame in FRAMES.items():
        copies = small(frame(images[:COPIES]))
        index, _ = same_photographs(own[:COPIES], np.concatenate([public[:500], copies]))
        right = int((index == 500 + np.arange(len(copies))).sum())
        print(f"{name}: {right} of {len(copies)} found")


if __name__ == "__main__":
    main()
