"""CelebA at high resolution: the 1,000 identities with most pictures, as ready crops or cropped here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from smoothsweep.core.data.celeba_crop import CROP_SIZE, STANDARD_5, aligned_cut, crop_target
from smoothsweep.core.data.listing import (
    Cut,
    ListOptions,
    PublishedListing,
    Report,
    count_classes,
    few,
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
    brings (see `core.data.celeba_crop`). A missing .jpg falls back to .png.

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
