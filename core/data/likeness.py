"""Which pictures two sets share, or one has twice: the very same ones, those that look alike, and those in a new frame.

Three measures. Digests of all pixels find a picture however it is encoded. Perceptual hashes (ImageHash's `phash`, 64
bits) find copies of another size, brightness or compression. Mirrored, turned and closely cropped copies are found by
alignment: one set is shown in some dozen views, the other in a few crops; views whose low frequencies are near those of
a picture of the other set are aligned more finely and compared pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import imagehash
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from scipy.fft import dctn
from torch import Tensor

from smoothsweep.core.data.labelled import assign_labels, decode_entries
from smoothsweep.core.data.sources import Entry, list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import few

SIDE = 32
"""Pixels of a side of the pictures that are compared."""
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as Pillow's mode L
NEAR = 4
"""Bits by which alike pictures differ at most. No two people of the ORL faces, or of 110 people of Labeled Faces in the
Wild, have pictures so near; at 6 bits 1 and 7 pairs are."""
ALIKE = 0.85
"""Correlation of the small grey pictures from which on near ones are alike. Among many millions of pairs a few are near
by chance (the one such pair of 2,684 and 14,329 faces reaches 0.62); copies and photographs of one moment reach 0.9."""
SIMILAR = 0.85
"""Cosine of the low frequencies from which on two pictures are aligned more finely."""
ALIGNED = 0.97
"""Correlation of the aligned middles from which on they are the same photograph (copies and false alarms:
docs/benchmarks.md)."""

_FLAT = 2.0  # grey levels: below this deviation there is nothing to see, and rounding decides the bits
_PAIRS, _FAR = 1 << 22, 65  # compared at once; bits, more than a hash has
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
    *((1.0, turn, 0.0, 0.0) for turn in (5.0, -5.0, 10.0, -10.0)),
)
_STEPS = ((0.05, 3.0, 0.7), (0.025, 1.5, 0.35), (0.012, 0.8, 0.2))  # of scale, turn and shift, ever finer

Pairs = tuple[tuple[str, str], ...]
"""Names of two pictures each: that of the first set, or the later one, comes first."""


@dataclass(frozen=True, kw_only=True)
class Hashes:
    """Perceptual hashes of N pictures.

    Attributes:
        bits: uint64 [N].
        plain: bool [N], pictures of one shade, which are near nothing.
    """

    bits: np.ndarray
    plain: np.ndarray

    def __len__(self) -> int:
        return len(self.bits)

    def of(self, index: np.ndarray) -> Hashes:
        """The hashes at `index` (int64 [M])."""
        return Hashes(bits=self.bits[index], plain=self.plain[index])


def hashes(pictures: np.ndarray) -> Hashes:
    """Whether each of the 8 x 8 lowest frequencies exceeds their median, of pictures uint8 [N, 32, 32, 3]."""
    above = np.zeros((len(pictures), 64), dtype=bool)
    for row, picture in enumerate(pictures):
        above[row] = imagehash.phash(Image.fromarray(picture)).hash.ravel()
    plain = np.array([grey_of(picture).std() < _FLAT for picture in pictures], dtype=bool)
    return Hashes(bits=np.packbits(above, axis=1).view(">u8")[:, 0].astype(np.uint64), plain=plain)


@dataclass(frozen=True, kw_only=True)
class ScannedPictures:
    """What n readable pictures of a list show.

    Attributes:
        index: int64 [n], their places in the list.
        where: The pictures' names.
        digests: Hashes of all their pixels, equal only for the same picture, however it is encoded.
        small: uint8 [n, 32, 32, 3].
        hashes: Perceptual hashes of the pictures.
        shapes: int64 [n, 2], width and height in pixels.
        frames: int64 [n].
        peaks: Largest values of the pictures whose containers have 16 or 32 bits, of the whole list.
        unreadable: A sentence for each of the list's others.
    """

    index: np.ndarray
    where: tuple[str, ...]
    digests: tuple[bytes, ...]
    small: np.ndarray
    hashes: Hashes
    shapes: np.ndarray
    frames: np.ndarray
    peaks: tuple[int, ...] = ()
    unreadable: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.where)

    def at(self, rows: Sequence[int] | np.ndarray) -> ScannedPictures:
        """The entries in these rows."""
        rows = np.asarray(rows, dtype=np.int64)
        return ScannedPictures(
            index=self.index[rows],
            where=tuple(self.where[row] for row in rows),
            digests=tuple(self.digests[row] for row in rows),
            small=self.small[rows],
            hashes=self.hashes.of(rows),
            shapes=self.shapes[rows],
            frames=self.frames[rows],
        )


def scan_pictures(entries: Sequence[Entry], *, bits: int | None = None) -> ScannedPictures:
    """Decode all of them, on as many threads as torch uses.

    bits: see `core.data.decoding.decode_picture`. Memory: 3 KiB a picture. A picture that cannot be read is no error.
    """
    small, found, why = decode_entries(entries, size=SIDE, crop="stretch", bits=bits)
    readable, pictures = np.array(list(found), dtype=np.int64), list(found.values())
    return ScannedPictures(
        index=readable,
        where=tuple(entries[i].where for i in readable),
        digests=tuple(picture.digest for picture in pictures),
        small=small[readable],
        hashes=hashes(small[readable]),
        shapes=np.array([(picture.width, picture.height) for picture in pictures], dtype=np.int64).reshape(-1, 2),
        frames=np.array([picture.frames for picture in pictures], dtype=np.int64),
        peaks=tuple(picture.peak for picture in pictures if picture.peak is not None),
        unreadable=tuple(f"{entries[i].where} ({text})" for i, text in why.items()),
    )


def identical_pairs(some: ScannedPictures, others: ScannedPictures | None = None) -> Pairs:
    """Pictures of `some` that the others have too, pixel by pixel. others: None for those of `some` before them."""
    named = list(zip(some.where, some.digests, strict=True))
    if others is not None:
        known = dict(zip(others.digests, others.where, strict=True))
        return tuple((name, known[digest]) for name, digest in named if digest in known)
    first: dict[bytes, str] = {}
    pairs = [(name, first.setdefault(digest, name)) for name, digest in named]
    return tuple((name, earlier) for name, earlier in pairs if earlier != name)


def similar_pairs(some: ScannedPictures, others: ScannedPictures | None = None) -> Pairs:
    """Pictures of `some` that look like another one; `identical_pairs` finds those that are equal.

    Of alike pictures at most 4 of 64 bits differ, and their grey levels correlate by 0.85 or more. others: None for
    those of `some` that come before. Each picture is named once, with the nearest.
    """
    known = {name for name, _ in identical_pairs(some, others)}
    left = some.at([row for row, name in enumerate(some.where) if name not in known])
    against = left if others is None else others
    index, distance = nearest(left.hashes, None if others is None else others.hashes)
    near = np.flatnonzero(distance <= NEAR)
    near = near[_correlations(left.small[near], against.small[index[near]]) >= ALIKE]
    return tuple((left.where[row], against.where[index[row]]) for row in near)


def reframed_pairs(some: ScannedPictures, others: ScannedPictures) -> Pairs:
    """Pictures of `some` that show a photograph of `others` in another crop, shift, turn or mirror."""
    index, _ = same_photographs(some.small, others.small)
    return tuple((some.where[row], others.where[index[row]]) for row in np.flatnonzero(index >= 0))


def changed_pairs(some: ScannedPictures, others: ScannedPictures) -> dict[str, str]:
    """The pictures of `some` that look like one of the others or show it in another frame: name -> that picture."""
    return dict((*reframed_pairs(some, others), *similar_pairs(some, others)))


def pair_labels(pairs: Pairs, sign: str) -> Sequence[str]:
    """Pairs as they are shown, e.g. "row 3 = row 7"."""
    return [f"{name} {sign} {other}" for name, other in pairs]


def nearest(some: Hashes, others: Hashes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest of the others for each of `some`, int64 [N], and in how many bits they differ, int64 [N].

    others: None for those of `some` that come before it. Where there is none, the index is -1 and the distance 65.
    """
    against = some if others is None else others
    index, distance = np.full(len(some), -1), np.full(len(some), _FAR)
    if not len(against):
        return index, distance
    rows = max(1, _PAIRS // len(against))
    for start in range(0, len(some), rows):
        block = slice(start, min(start + rows, len(some)))
        apart = np.bitwise_count(some.bits[block, None] ^ against.bits[None])
        apart[some.plain[block]], apart[:, against.plain] = _FAR, _FAR
        if others is None:
            later = np.arange(len(against))[None] >= np.arange(block.start, block.stop)[:, None]
            apart[later] = _FAR
        closest = apart.argmin(axis=1)
        distance[block] = apart[np.arange(len(apart)), closest]
        index[block] = np.where(distance[block] < _FAR, closest, -1)
    return index, distance


def _correlations(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Correlations of `some` with the `others` in the same rows, both uint8 [M, 32, 32, 3]: float32 [M], in [-1, 1].

    0 where a picture is of one shade.
    """
    first, other = (grey_of(pictures).reshape(len(pictures), SIDE * SIDE) for pictures in (some, others))
    first, other = (levels - levels.mean(axis=1, keepdims=True) for levels in (first, other))
    scale = np.linalg.norm(first, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((first * other).sum(axis=1), scale, out=np.zeros(len(first), np.float32), where=scale > 0)


# Private pictures beside public ones


def refuse_shared(private: Path, public: Path, *, bits: int | None = None) -> tuple[Pairs, tuple[str, ...]]:
    """Raise InputError where a picture of labelled `private` is in `public` too, or where these show another kind of
    thing; gives the pictures that only look alike or show the same photograph, and why the public ones may not fit.

    Pictures that cannot be read are passed over: loading them says so.
    """
    listing = list_labelled(private)
    own = scan_pictures(listing.entries, bits=bits)
    others = scan_pictures(list_unlabelled(public), bits=bits)
    labels = assign_labels(listing.entries, listing.folders, private)[0].numpy()[own.index]
    refuse_identical(private, public, identical_pairs(own, others))
    return near_and_doubts(own, labels, others, what=f"--public {public}", private=f"in {private}")


def near_and_doubts(
    own: ScannedPictures, labels: np.ndarray, others: ScannedPictures, *, what: str, private: str
) -> tuple[Pairs, tuple[str, ...]]:
    """The private pictures that look like a public one or show the same photograph, and why the public ones may not
    fit.

    Args:
        labels: int64 [n], whom each private picture shows.
        what, private: The two sets in a refusal.

    Raises InputError where the public ones show another kind of thing.
    """
    fit: Fit | None = fit_of(own.small, labels, others.small)
    if fit is not None and fit.is_refused:
        raise InputError(
            f"{what}: expected the same kind of picture as {private}, got another: a prior made of them misses "
            f"{fit.unexplained:.1f} times as much of the private pictures as a prior made of private ones"
        )
    return tuple(changed_pairs(own, others).items()), () if fit is None else fit.doubts


def warnings_of(pairs: Pairs, doubts: tuple[str, ...], *, private: str, named: bool = True) -> tuple[str, ...]:
    """A sentence for the doubts, and one for the pictures that look alike. private: what the private set is called;
    named: whether these pictures are."""
    warnings = [f"{'; '.join(doubts)}; a low leak may then be the attacker's weakness"] if doubts else []
    if pairs:
        changed = "cropped, mirrored or saved again"
        some = f"1 picture of {private} is, or looks like, a public one that was {changed}"
        if len(pairs) > 1:
            some = f"{len(pairs)} pictures of {private} are, or look like, public ones that were {changed}"
        which = f": {few(pair_labels(pairs, '~'))}" if named else ""
        warnings.append(f"{some}{which}; an attack that draws them may have drawn what was public")
    return tuple(warnings)


def refuse_identical(private: Path, public: Path, pairs: Pairs) -> None:
    """Raise InputError naming them if there are any."""
    if pairs:
        expected = f"expected none of the pictures in {private}, got {len(pairs)} of them"
        raise InputError(f"--public {public}: {expected}: {few(pair_labels(pairs, '='))}")


# The same photograph in another frame


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
    row, rank = (nearest.values >= SIMILAR).nonzero(as_tuple=True)
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


# Whether public images fit the private ones: the same kind of picture, in the same frame, in colour or grey alike.
#
# An attacker whose prior draws something else shows little, and a model then looks safe. Principal components of the
# public pictures are asked to draw the private ones; the yardstick is how well components of one half of the private
# people draw the other half. Where the mean pictures of these halves agree, a shifted or enlarged frame is looked for.

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
_COMPONENTS, _MOST_PICTURES = 16, 1000  # directions; pictures that they are taken from


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
    alike, scale, shift = _best_view(_mean(private), _mean(public))
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


def _best_view(private: np.ndarray, public: np.ndarray) -> tuple[float, float, tuple[float, float]]:
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
    chosen = pictures[:: max(1, len(pictures) // _MOST_PICTURES)]
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
    grey = grey_of(pictures[:: max(1, len(pictures) // _MOST_PICTURES)]).reshape(-1, side, 2, side, 2).mean(axis=(2, 4))
    grey = grey.reshape(len(grey), -1).astype(np.float64)
    return (grey - grey.mean(axis=1, keepdims=True)) / (grey.std(axis=1, keepdims=True) + 1e-3)


def _in_colour(pictures: np.ndarray) -> float:
    """Fraction of the pictures that are in colour."""
    values = pictures.astype(np.float32)
    return float(((values.max(axis=3) - values.min(axis=3)).mean(axis=(1, 2)) > _COLOUR).mean())
