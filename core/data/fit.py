"""Whether public images fit the private ones: the same kind of picture, in the same frame, in colour or grey alike.

An attacker whose prior draws something else shows little, and a model then looks safe. Principal components of the
public pictures are asked to draw the private ones; the yardstick is how well components of one half of the private
people draw the other half. Where the mean pictures of these halves agree, a shifted or enlarged frame is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

SIDE = 32
"""Pixels of a side of the pictures that are compared."""
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as Pillow's mode L
LEAST = 20
"""Images of either set, below which nothing is said."""
COMMON = 0.8
"""Correlation between the mean pictures of two halves of the private people from which on they have a common frame."""
FARTHER = 1.6
"""Times that the public components leave of the private pictures what the private ones leave: more is another frame,
pose, light or kind of picture. Two sets of faces in one frame: 1.15 (docs/benchmarks.md)."""
OTHER_KIND, REFUSED = 1.9, 2.5
"""The same, once the public pictures are aligned, from which on they are said to show another kind of thing, and from
which on they are refused: faces in another frame stay at 1.2 to 1.8 of faces, digits at 2.0 of photographs."""
_PIXELS, _SCALE = 1.5, 0.1  # of 32, and relative: a frame that is shifted or enlarged by more is another
_COLOUR = 12.0  # grey levels by which the channels of a picture in colour differ on average
_SHIFTS = np.arange(-6, 7) * 1.0
_SCALES = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
_COMPONENTS, _MOST = 16, 1000  # directions; pictures that they are taken from


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How public images stand to private ones.

    Attributes:
        common: Correlation of the mean pictures of two halves of the private people.
        alike: Correlation of the mean private and the mean public picture, aligned by `scale` (of the public picture
            that is seen) and `shift` (right and down, in hundredths of the side).
        distance: What public components leave of the private pictures, in units of what private ones leave.
        aligned: `distance` with the public pictures as `scale` and `shift` show them.
        colour: Fraction of private and of public pictures in colour.
    """

    common: float
    alike: float
    scale: float
    shift: tuple[float, float]
    distance: float
    aligned: float
    colour: tuple[float, float]

    @property
    def unexplained(self) -> float:
        """The smaller of `distance` and `aligned`: what no frame explains."""
        return min(self.distance, self.aligned)

    @property
    def is_refused(self) -> bool:
        """Whether public images surely show something else: an attack with them says nothing of the model."""
        return self.unexplained >= REFUSED

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a person should look at, a sentence each; empty where they fit."""
        doubts = []
        private, public = self.colour
        if abs(private - public) >= 0.5:
            doubts.append(
                f"{private:.0%} of the private images are in colour, {public:.0%} of the public ones: a prior of these "
                "cannot draw those"
            )
        right, down = self.shift
        if self.unexplained >= OTHER_KIND:
            doubts.append(
                "the public images show another kind of thing than the private ones: in whatever frame, a prior made "
                f"of them misses {self.unexplained:.1f} times as much of the private images as a prior made of private "
                "ones"
            )
        elif self.distance >= FARTHER and self.common >= COMMON and self._is_moved:
            doubts.append(
                f"the public images have another frame: {self.scale:.0%} of their side, moved {right:+.0f} % to the "
                f"right and {down:+.0f} % down, would fit the private ones"
            )
        elif self.distance >= FARTHER:
            doubts.append(
                f"a prior made of the public images misses {self.distance:.1f} times as much of the private ones as a "
                "prior made of private ones: another pose, light, frame or kind of picture"
            )
        return tuple(doubts)

    @property
    def _is_moved(self) -> bool:
        return max(map(abs, self.shift)) > 100 * _PIXELS / SIDE or abs(self.scale - 1) > _SCALE


def fit_of(private: np.ndarray, labels: np.ndarray, public: np.ndarray) -> Fit | None:
    """How public pictures fit private ones, both uint8 [., 32, 32, 3]; labels: int64, whom each private one shows.

    None for fewer than 20 pictures of either, or fewer than two people. Mirrored pictures fit: faces are alike.
    """
    people = np.unique(labels)
    if min(len(private), len(public)) < LEAST or len(people) < 2:
        return None
    half = np.isin(labels, people[::2])
    first, second = private[half], private[~half]
    if min(len(first), len(second)) < 2:
        return None
    halves = _levels(first), _levels(second)
    within = (_left(*halves) + _left(*reversed(halves))) / 2
    alike, scale, shift = _aligned(_mean(private), _mean(public))
    return Fit(
        common=_correlation(_mean(first), _mean(second)),
        alike=alike,
        scale=scale,
        shift=shift,
        distance=_left(_levels(public), _levels(private)) / max(within, 1e-9),
        aligned=_left(_levels(_moved(public, scale, shift)), _levels(private)) / max(within, 1e-9),
        colour=(_in_colour(private), _in_colour(public)),
    )


def grey_of(pictures: np.ndarray) -> np.ndarray:
    """Grey levels float32 [..., 32, 32] of pictures uint8 [..., 32, 32, 3]."""
    return pictures.astype(np.float32) @ _GREY


def _mean(pictures: np.ndarray) -> np.ndarray:
    """The mean grey picture, float [32, 32]."""
    return grey_of(pictures).mean(axis=0)


def _correlation(first: np.ndarray, other: np.ndarray) -> float:
    first, other = first - first.mean(), other - other.mean()
    scale = np.linalg.norm(first) * np.linalg.norm(other)
    return float((first * other).sum() / scale) if scale > 0 else 0.0


def _aligned(private: np.ndarray, public: np.ndarray) -> tuple[float, float, tuple[float, float]]:
    """(correlation, scale, shift in hundredths of the side) of the view of `public` that is most like `private`.

    As it is, unless another view is clearly better: means are smooth.
    """
    views = [(1.0, 0.0, 0.0), *((s, x, y) for s in _SCALES for x in _SHIFTS for y in _SHIFTS)]
    rows = torch.tensor([[[s, 0, 2 * x / SIDE], [0, s, 2 * y / SIDE]] for s, x, y in views], dtype=torch.float32)
    grid = F.affine_grid(rows, [len(views), 1, SIDE, SIDE], align_corners=False)
    source = torch.from_numpy(np.ascontiguousarray(public, dtype=np.float32))[None, None].expand(len(views), 1, -1, -1)
    seen = F.grid_sample(source, grid, mode="bilinear", padding_mode="border", align_corners=False)[:, 0].numpy()
    correlations = np.array([_correlation(private, picture) for picture in seen])
    best = int(correlations.argmax()) if correlations.max() > correlations[0] + 0.05 else 0
    scale, right, down = views[best]
    return float(correlations[best]), scale, (float(100 * right / SIDE), float(100 * down / SIDE))


def _moved(pictures: np.ndarray, scale: float, shift: tuple[float, float]) -> np.ndarray:
    """Pictures uint8 [N, 32, 32, 3] as a view shows them; shift: in hundredths of the side."""
    chosen = pictures[:: max(1, len(pictures) // _MOST)]
    rows = torch.tensor([[scale, 0, shift[0] / 50], [0, scale, shift[1] / 50]], dtype=torch.float32)
    source = torch.from_numpy(np.ascontiguousarray(chosen)).permute(0, 3, 1, 2).float()
    grid = F.affine_grid(rows.expand(len(chosen), 2, 3), list(source.shape), align_corners=False)
    seen = F.grid_sample(source, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return seen.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _left(by: np.ndarray, pictures: np.ndarray) -> float:
    """The mean square that principal components of `by` leave of pictures, both of mean 0 and deviation 1."""
    mean = by.mean(axis=0)
    centred = by - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    basis = vectors[:, -min(_COMPONENTS, len(by) - 1) :]
    missing = pictures - mean
    return float(np.square(missing - missing @ basis @ basis.T).mean())


def _levels(pictures: np.ndarray) -> np.ndarray:
    """Grey levels of 16 x 16 blocks, each picture at mean 0 and deviation 1, float [N, 256]."""
    side = SIDE // 2
    grey = grey_of(pictures[:: max(1, len(pictures) // _MOST)]).reshape(-1, side, 2, side, 2).mean(axis=(2, 4))
    grey = grey.reshape(len(grey), -1).astype(np.float64)
    return (grey - grey.mean(axis=1, keepdims=True)) / (grey.std(axis=1, keepdims=True) + 1e-3)


def _in_colour(pictures: np.ndarray) -> float:
    """Fraction of the pictures that are in colour."""
    values = pictures.astype(np.float32)
    return float(((values.max(axis=3) - values.min(axis=3)).mean(axis=(1, 2)) > _COLOUR).mean())
