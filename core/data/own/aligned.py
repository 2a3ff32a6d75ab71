"""Find the same photograph under another crop, shift, rotation or mirroring, which a hash of the picture misses.

One set is shown in some dozen views (mirrored, shifted, cropped, turned), the other in a few crops. Views are compared
with the pictures of the set that is not viewed, by the low frequencies of their middle; what is near is aligned more
finely and compared pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import dctn
from torch import Tensor

from smoothsweep.core.data.own.perceptual import SIDE, grey_of

NEAR = 0.85
"""Cosine of the low frequencies from which on two pictures are aligned more finely."""
ALIGNED = 0.97
"""Correlation of the aligned middles from which on they are the same photograph (copies and false alarms:
docs/benchmarks.md)."""
_LOW, _EDGE = 8, 3  # frequencies of each direction; pixels at the borders that a shift or a turn may have invented
_MOST = 40  # pairs that are aligned for each picture, the nearest first
_PICTURES = 256  # at once
View = tuple[float, float, float, float]
"""Scale of what is shown, turn in degrees, shifts in pixels of 32."""
_CROPS: tuple[View, ...] = tuple((scale, 0.0, 0.0, 0.0) for scale in (0.94, 0.87, 0.8, 0.7, 0.6))
_VIEWS: tuple[View, ...] = (
    (1.0, 0.0, 0.0, 0.0),
    *((1.0, 0.0, x, y) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0) if x or y),
    *_CROPS,
    *((0.9, 0.0, x, y) for x in (-1.6, 1.6) for y in (-1.6, 1.6)),
    *((0.8, 0.0, x, y) for x in (-3.2, 3.2) for y in (-3.2, 3.2)),
    (1.0, 5.0, 0.0, 0.0),
    (1.0, -5.0, 0.0, 0.0),
    (1.0, 10.0, 0.0, 0.0),
    (1.0, -10.0, 0.0, 0.0),
)
_STEPS = ((0.05, 3.0, 0.7), (0.025, 1.5, 0.35), (0.012, 0.8, 0.2))  # of scale, turn and shift, ever finer


def same_photographs(some: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find for each of `some` the other picture of the same photograph, int64 [N], -1 for none; and how alike.

    Both uint8 [., 32, 32, 3]. The likeness is the correlation of the aligned middles, float64 [N], 0 where nothing is
    near.
    """
    partners, likeness = np.full(len(some), -1), np.zeros(len(some))
    if not len(some) or not len(others):
        return partners, likeness
    ours = _alike(some, others, _VIEWS)
    theirs = ((column, row, similarity) for row, column, similarity in _alike(others, some, _CROPS))
    for row, column, similarity in (*ours, *theirs):
        if similarity > likeness[row]:
            likeness[row] = similarity
            partners[row] = column if similarity >= ALIGNED else partners[row]
    return partners, likeness


def _alike(viewed: np.ndarray, known: np.ndarray, views: Sequence[View]) -> Iterator[tuple[int, int, float]]:
    """Yield the places of pictures that are near in one of these views of the first set, and how alike they are."""
    signatures, whole = _signatures(_greys(known)), _greys(known)
    for start in range(0, len(viewed), _PICTURES):
        greys = _greys(viewed[start : start + _PICTURES])
        rows, columns, nearest = _near(greys, signatures, views)
        yield from zip(
            (rows + start).tolist(),
            columns.tolist(),
            _aligned(greys[rows], whole[columns], nearest).tolist(),
            strict=True,
        )


def _greys(pictures: np.ndarray) -> Tensor:
    """Convert pictures to grey, float32 [N, 1, 32, 32]."""
    return torch.from_numpy(grey_of(pictures))[:, None] / 255


def _near(greys: Tensor, known: Tensor, views: Sequence[View]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and views [pairs, 5] of the pairs whose low frequencies are similar."""
    best = torch.full((len(greys), len(known)), -1.0)
    which = torch.zeros((len(greys), len(known)), dtype=torch.int64)
    everything = [(mirror, *view) for mirror in (1.0, -1.0) for view in views]
    for place, view in enumerate(everything):
        cosine = _signatures(_seen(greys, torch.tensor(view).expand(len(greys), 5))) @ known.T
        better = cosine > best
        best[better], which[better] = cosine[better], place
    nearest = best.topk(min(_MOST, len(known)), dim=1)
    row, rank = (nearest.values >= NEAR).nonzero(as_tuple=True)
    column = nearest.indices[row, rank]
    return row.numpy(), column.numpy(), np.array(everything)[which[row, column].numpy()].reshape(-1, 5)


def _seen(greys: Tensor, views: Tensor) -> Tensor:
    """Pictures float [N, 1, 32, 32] as these views [N, 5] show them: mirror, scale, turn, shifts."""
    mirror, scale, turn, right, down = views.float().unbind(1)
    angle = torch.deg2rad(turn)
    cosine, sine = scale * torch.cos(angle), scale * torch.sin(angle)
    rows = [
        torch.stack([mirror * cosine, -sine, 2 * right / SIDE], dim=1),
        torch.stack([mirror * sine, cosine, 2 * down / SIDE], dim=1),
    ]
    grid = F.affine_grid(torch.stack(rows, dim=1), list(greys.shape), align_corners=False)
    return F.grid_sample(greys, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _middle(greys: Tensor) -> Tensor:
    """Middles [N, P] of mean 0 and length 1; 0 for one shade."""
    flat = greys[:, 0, _EDGE:-_EDGE, _EDGE:-_EDGE].flatten(1)
    return F.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1, eps=1e-4)


def _signatures(greys: Tensor) -> Tensor:
    """Low frequencies of the middles [N, 63], of length 1."""
    side = SIDE - 2 * _EDGE
    low = dctn(_middle(greys).reshape(-1, side, side).numpy(), axes=(1, 2), norm="ortho")[:, :_LOW, :_LOW]
    flat = torch.from_numpy(np.ascontiguousarray(low)).flatten(1)[:, 1:]
    return F.normalize(flat, dim=1, eps=1e-4)


def _aligned(greys: Tensor, others: Tensor, views: np.ndarray) -> np.ndarray:
    """The correlation [pairs] reached by hill climbing from each view."""
    at, target = torch.from_numpy(views).float(), _middle(others)
    if not len(at):
        return np.zeros(0)
    best = (_middle(_seen(greys, at)) * target).sum(1)
    for scale, turn, shift in _STEPS:
        for _ in range(2):
            for place, step in ((1, scale), (2, turn), (3, shift), (4, shift)):
                for sign in (-1.0, 1.0):
                    tried = at.clone()
                    tried[:, place] += sign * step
                    reached = (_middle(_seen(greys, tried)) * target).sum(1)
                    better = reached > best
                    at[better], best[better] = tried[better], reached[better]
    return best.double().numpy()
