"""CelebA at high resolution: the 1,000 identities with most pictures, as ready crops or cropped here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from smoothsweep.core.data.decoding import UnreadablePicture
from smoothsweep.core.data.layouts import (
    Cut,
    ListOptions,
    PublishedListing,
    Report,
    count_classes,
    inside,
    published_split,
    read_rows,
    require_file,
    require_folder,
    require_square,
    whole,
)
from smoothsweep.core.data.splits import frequency_ranks
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import read_text
from smoothsweep.core.text import few

CLASSES = 1000
LAYOUT = "CelebA's layout"
IDENTITIES = "identity_CelebA.txt"
PARTITION = "list_eval_partition.txt"

_CROPS, _WILD = "img_align_celeba", "img_celeba"
_LANDMARKS_5, _LANDMARKS_68, _STANDARD_68 = (
    "list_landmarks_celeba.txt",
    "landmark.txt",
    "standard_landmark_68pts.txt",
)
CROP_SIZE = 224
FACE_FACTOR = 0.65

# Eyes, nose tip and corners of the mouth of the standard face: left eye, right eye, nose, left and right corner.
STANDARD_5 = np.array(
    [(-0.23105, -0.26400), (0.23073, -0.26231), (0.00402, 0.04893), (-0.17988, 0.22249), (0.18358, 0.22273)]
)

_DOWN = 0.25

# What is read: the folder of the pictures, and what the notes say about it.
PICTURES: dict[str, tuple[str, str]] = {
    "crops": (_CROPS, f"ready square crops from {_CROPS}"),
    "aligned": (
        _CROPS,
        f"the aligned release of 178 x 218 pixels from {_CROPS}, central square; a deviation: the paper cropped from "
        "pictures in the wild",
    ),
    "in_the_wild": (_WILD, f"aligned crops of {CROP_SIZE} pixels made here by the 5 landmarks of {_LANDMARKS_5}"),
    "in_the_wild_68": (_WILD, f"aligned crops of {CROP_SIZE} pixels made here by the 68 landmarks of {_LANDMARKS_68}"),
}


def list_celeba(root: Path, options: ListOptions, report: Report) -> PublishedListing:
    """The `options.classes` largest identities of CelebA in file order; label = rank by number of pictures.

    Needs identity_CelebA.txt and list_eval_partition.txt, whose order is the file order; ties of rank keep the order of
    first appearance; the official partition itself is ignored and replaced by `core.data.splits.paper_split` over the
    chosen pictures. (The official code parses four more lists and uses none.) Class names are the identity numbers.
    Shorter side, then central square. Source: Plug-and-Play-Attacks, datasets/celeba.py.

    options.pictures: "crops", the official layout, square crops in img_align_celeba; "aligned", CelebA's own 178 x 218
    release there; "in_the_wild", pictures of img_celeba cropped here by list_landmarks_celeba.txt;
    "in_the_wild_68", the same by landmark.txt and standard_landmark_68pts.txt, which the published cropping tool
    brings (see the comment on the aligned crop below). A missing .jpg falls back to .png.

    Raises InputError if there is no such layout; reports rows with a wrong number of columns, pictures without an
    identity or landmarks, and a wrong number of identities.
    """
    kind = options.pictures or "crops"
    if kind not in PICTURES:
        raise InputError(f"pictures: expected one of {', '.join(PICTURES)}, got {kind!r}")
    folder, note = PICTURES[kind]
    require_folder(root, folder, LAYOUT)
    names, identities = read_identities(root, report)
    labels = largest(identities, options, report)
    chosen = torch.nonzero(labels >= 0).squeeze(1)
    kept = [names[i] for i in chosen.tolist()]
    labels = labels[chosen]
    of_label = {int(label): identities[i] for i, label in zip(chosen.tolist(), labels, strict=True)}
    files = on_disk(root, folder, kept)
    train, test = published_split(files, options, report)
    return PublishedListing(
        root=root,
        files=tuple(files),
        labels=labels,
        names=tuple(of_label[label] for label in sorted(of_label)),
        train=train,
        test=test,
        fit="shorter_side",
        cut=_CUTS[kind](root, kept, report),
        notes=(f"pictures: {note}", f"split: published 90/10 shuffle, seed {options.split_seed}"),
    )


def read_identities(root: Path, report: Report) -> tuple[list[str], list[str]]:
    """All pictures in the order of the partition file, and the identity of each."""
    for name in (IDENTITIES, PARTITION):
        require_file(root, name, LAYOUT)
    identity: dict[str, str] = {}
    for file, number in read_rows(root, IDENTITIES, "file identity", report):
        if not (number.isascii() and number.isdigit()):
            report(f"{IDENTITIES}: expected a whole number for {file}, got {number[:80]!r}")
            continue
        identity[file] = number
    files = [file for file, _ in read_rows(root, PARTITION, "file partition", report)]
    unknown = [file for file in files if file not in identity]
    if unknown:
        report(f"{IDENTITIES}: expected the identity of every picture, got none for {few(unknown)}")
    outside = [file for file in files if not inside(file)]
    if outside:
        report(f"{PARTITION}: expected file names, got {few(outside)}")
    twice = len(files) - len(set(files))
    if twice:
        report(f"{PARTITION}: expected every picture once, got {twice} again")
    files = [file for file in dict.fromkeys(files) if file in identity and inside(file)]
    return files, [identity[file] for file in files]


def largest(identities: Sequence[str], options: ListOptions, report: Report) -> torch.Tensor:
    """`frequency_ranks` for the largest classes; too few identities are reported."""
    there = len(set(identities))
    if there < options.classes:
        count_classes(there, options, report, of="identities")
    return frequency_ranks(identities, min(there, options.classes))


def on_disk(root: Path, folder: str, names: Sequence[str]) -> list[str]:
    """The paths of listed pictures; of a .jpg that is not there, the .png of that name if it is, and the other way."""
    present = set(os.listdir(root / folder))

    def path(name: str) -> str:
        stem, dot, suffix = name.rpartition(".")
        other = stem + dot + {"jpg": "png", "png": "jpg"}.get(suffix, suffix)
        return f"{folder}/{other if name not in present and other in present else name}"

    return [path(name) for name in names]


def _by_5(root: Path, names: Sequence[str], report: Report) -> Cut:
    require_file(root, _LANDMARKS_5, LAYOUT)
    landmarks = _read_landmarks(root, _LANDMARKS_5, names, report, points=5, skip=2)
    return aligned_cut([landmarks.get(name) for name in names], crop_target(STANDARD_5))


def _by_68(root: Path, names: Sequence[str], report: Report) -> Cut:
    for file in (_LANDMARKS_68, _STANDARD_68):
        require_file(root, file, f"{LAYOUT} and the cropping tool's annotations")
    try:
        standard = np.array(read_text(root / _STANDARD_68).split(), dtype=np.float64).reshape(68, 2)
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"data {root}: expected 136 numbers in {_STANDARD_68}, got something else") from error
    landmarks = _read_landmarks(root, _LANDMARKS_68, names, report, points=68, skip=0)
    return aligned_cut([landmarks.get(name) for name in names], crop_target(standard))


def _read_landmarks(
    root: Path, file: str, names: Sequence[str], report: Report, *, points: int, skip: int
) -> dict[str, np.ndarray]:
    """Landmarks [points, 2] in pixels of the named pictures."""
    wanted = set(names)
    by_file: dict[str, np.ndarray] = {}
    columns = f"a file and {points} times x y"
    for name, *numbers in read_rows(root, file, columns, report, count=1 + 2 * points, skip=skip):
        if name not in wanted:
            continue
        try:
            values = np.array(numbers, dtype=np.float64).reshape(points, 2)
        except ValueError:
            values = np.array(np.nan)
        if np.isfinite(values).all():
            by_file[name] = values
        else:
            report(f"{file}: expected {2 * points} numbers for {name}, got something else")
    missing = [name for name in names if name not in by_file]
    if missing:
        report(f"{file}: expected landmarks of every picture, got none for {few(missing)}")
    return by_file


def _square(root: Path, names: Sequence[str], report: Report) -> Cut:
    return require_square


def _anything(root: Path, names: Sequence[str], report: Report) -> Cut:
    return whole


_CUTS: dict[str, Callable[[Path, Sequence[str], Report], Cut]] = {
    "crops": _square,
    "aligned": _anything,
    "in_the_wild": _by_5,
    "in_the_wild_68": _by_68,
}


# The aligned crop, from pictures in the wild and their landmarks
#
# What it stands in for: LynnHo/HD-CelebA-Cropper (align.py, cropper.py) with face factor 0.65, 224 x 224 pixels,
# bicubic, other options default, as Plug-and-Play-Attacks' README prescribes. That tool's current form (since 2020)
# fits a similarity from a standard face to a picture's landmarks, by least squares in the picture, and samples the
# picture there with OpenCV's bicubic kernel (a = -0.75), edge pixels repeated beyond the border, without antialiasing.
# In the output the standard face is scaled by size x face factor, moved down by 0.25 of that, and centred at size // 2.
#
# Inputs: pictures in the wild (CelebA's img_celeba; the aligned release of 178 x 218 pixels is too small) and either
# the tool's own list of 68 landmarks (landmark.txt with standard_landmark_68pts.txt, a separate download), which is its
# default, or CelebA's list_landmarks_celeba.txt with 5 landmarks and the standard face for 5 landmarks that the tool's
# author publishes (LynnHo/Facial-Landmarks-of-Face-Datasets, standard_landmark_5pts.txt; it is the 68-point face
# reduced to centres of eyes, nose tip and corners of the mouth). Both put eyes, nose and mouth at the same places of
# the output.
#
# What remains uncertain: the authors of the attack do not say which release of the tool they used. Before 2020 it had a
# 5-point mean face of another scale, for which a factor of 0.65 gives faces about 0.7 times as large. The form here
# puts 67 pixels between the eyes, and the central 800 pixels of an FFHQ picture at 224 pixels have about 70, so this is
# the form that fits the attack. The tool writes JPEG (quality 95) unless told otherwise; here nothing is compressed
# again. OpenCV rounds sampling positions to 1/32 pixel; here they are exact.


def crop_target(standard: np.ndarray, *, size: int = CROP_SIZE, face_factor: float = FACE_FACTOR) -> np.ndarray:
    """Where the landmarks shall lie in the crop: float64 [k, 2], x and y in pixels (0 = centre of the first pixel)."""
    return (standard + np.array([0.0, _DOWN])) * size * face_factor + size // 2


def similarity(target: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift that bring `target` closest to `landmarks` (both [k, 2]), as a matrix [2, 3].

    Least squares over all points, without reflection; the closed form in complex numbers. Raises UnreadablePicture if
    the landmarks all lie at one point.
    """
    x, y = (points[:, 0] + 1j * points[:, 1] for points in (target, landmarks))
    away = x - x.mean()
    turn = np.vdot(away, y - y.mean()) / np.vdot(away, away).real
    if not np.isfinite(turn) or abs(turn) < 1e-6:
        raise UnreadablePicture("landmarks that give no size of a face")
    shift = y.mean() - turn * x.mean()
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def align_crop(image: Image.Image, landmarks: np.ndarray, target: np.ndarray, *, size: int = CROP_SIZE) -> Image.Image:
    """The face of an RGB picture as size x size pixels, so that `landmarks` [k, 2] come to lie at `target` [k, 2].

    Memory beyond the picture: some 200 bytes per output pixel, and 24 per pixel of what is used of the picture.
    """
    if min(image.size) < 2:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels, too few for a face")
    matrix = similarity(target, landmarks)
    ys, xs = np.mgrid[:size, :size].astype(np.float64)
    places = np.stack([xs, ys, np.ones_like(xs)], axis=-1) @ matrix.T
    left, right = _span(places[..., 0], image.width)
    top, bottom = _span(places[..., 1], image.height)
    part = torch.from_numpy(np.asarray(image.crop((left, top, right, bottom))).copy()).permute(2, 0, 1)[None].float()
    # grid_sample wants -1 and 1 at the centres of the first and the last pixel.
    scale = np.array([2.0 / (right - left - 1), 2.0 / (bottom - top - 1)])
    grid = torch.from_numpy(((places - (left, top)) * scale - 1.0).astype(np.float32))[None]
    warped = F.grid_sample(part, grid, mode="bicubic", padding_mode="border", align_corners=True)
    pixels = warped[0].round_().clamp_(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    return Image.fromarray(pixels.numpy())


def aligned_cut(landmarks: Sequence[np.ndarray | None], target: np.ndarray, *, size: int = CROP_SIZE) -> Cut:
    """The cut of a listing that aligns picture i by landmarks[i]; a picture without any is unreadable."""

    def cut(index: int, image: Image.Image) -> Image.Image:
        points = landmarks[index]
        if points is None:
            raise UnreadablePicture("no landmarks")
        return align_crop(image, points, target, size=size)

    return cut


def _span(places: np.ndarray, length: int) -> tuple[int, int]:
    """First and one past the last pixel that bicubic sampling needs, at least two, inside the picture."""
    first = int(np.clip(np.floor(places.min()) - 1, 0, length - 2))
    return first, int(np.clip(np.floor(places.max()) + 3, first + 2, length))
