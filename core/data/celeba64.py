"""CelebA at 64 pixels: the private lists of the low-resolution attacks, or our own split, and the public list."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.celeba import LAYOUT, largest, on_disk, read_identities
from smoothsweep.core.data.decoding import UnreadablePicture, decode_plain, read_picture, reason, strict_pillow
from smoothsweep.core.data.images import each_in_threads
from smoothsweep.core.data.layouts import (
    ListOptions,
    PublishedListing,
    Report,
    count_classes,
    fit_square,
    inside,
    read_rows,
    refusing,
    require_folder,
)
from smoothsweep.core.data.splits import stratified_split
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MOST_TEXT, read_whole
from smoothsweep.core.text import few

CLASSES = 1000
TRAIN_LISTS = ("celeba_trainset.txt", "trainset.txt")
TEST_LISTS = ("celeba_testset.txt", "testset.txt")
PUBLIC_LISTS = ("celeba_ganset.txt", "ganset.txt")

FOLDER = "img_align_celeba"
_ALIGNED = (178, 218)
_CROP = 108
_OWN_TEST = 0.1
_CHECKSUMS = {
    "training": "fd758026dab640c7217797f12e713436b23278087ffd2a70e88a7255259eabf7",
    "test": "b67ef7f4770fa3606817392f01ae185f1534c38243987928ab881464cb09c434",
}


def list_celeba64(root: Path, options: ListOptions, report: Report) -> PublishedListing:
    """The private pictures of the low-resolution attacks: img_align_celeba (178 x 218), central square of 108 pixels.

    Lists: celeba_trainset.txt and celeba_testset.txt (or trainset.txt and testset.txt) in `root` or its folder
    data_files, rows `file label`, labels 0 to classes - 1; they are the split. Without them the largest identities of
    identity_CelebA.txt are taken (label = rank, ties by first appearance) and 10 % of each test, drawn by
    `core.data.splits.stratified_split`; the notes call it the deviation that it is. A missing .jpg falls back to .png,
    and the other way round. Source: PLG-MI-Attack data_files/ and dataloader.py; Knowledge-Enriched-DMI dataloader.py.

    Raises InputError if there is no such layout or only one of the lists; reports rows that are wrong, a picture in
    both lists, a wrong number of labels, and a split seed with lists, which cannot follow it.
    """
    require_folder(root, FOLDER, LAYOUT)
    lists = [find_list(root, names) for names in (TRAIN_LISTS, TEST_LISTS)]
    if (lists[0] is None) != (lists[1] is None):
        present_lists, gone = (lists[0], TEST_LISTS) if lists[0] else (lists[1], TRAIN_LISTS)
        raise InputError(f"data {root}: expected {' or '.join(gone)} beside {present_lists}, got nothing there")
    if lists[0] is None or lists[1] is None:
        return _own_split(root, options, report)
    return _listed(root, lists[0], lists[1], options, report)


def find_list(root: Path, names: tuple[str, ...]) -> str | None:
    """The first of these names that is a file in `root` or its folder data_files; None where none is."""
    places = [place for name in names for place in (name, f"data_files/{name}")]
    return next((place for place in places if (root / place).is_file()), None)


def _listed(root: Path, train_list: str, test_list: str, options: ListOptions, report: Report) -> PublishedListing:
    if options.split_seed != 42:
        report(f"split_seed: expected 42 for a set with a split of its own, got {options.split_seed}")
    parts = [_read_list(root, name, options, report) for name in (train_list, test_list)]
    both = sorted({name for name, _ in parts[0]} & {name for name, _ in parts[1]})
    if both:
        report(f"expected different pictures in {train_list} and {test_list}, got {len(both)} in both: {few(both)}")
    pictures = parts[0] + parts[1]
    labels = torch.tensor([label for _, label in pictures], dtype=torch.int64)
    count_classes(len(labels.unique()), options, report, of="identities in the lists")
    return _listing(
        root,
        [name for name, _ in pictures],
        labels,
        tuple(str(label) for label in range(options.classes)),
        (torch.arange(len(parts[0])), torch.arange(len(parts[0]), len(pictures))),
        notes=(f"split: {train_list} and {test_list}",),
        doubts=tuple(
            f"{name}: not the published {part} list (by its checksum)"
            for name, (part, checksum) in zip((train_list, test_list), _CHECKSUMS.items(), strict=True)
            if hashlib.sha256(read_whole(root / name, most_bytes=MOST_TEXT)).hexdigest() != checksum
        ),
    )


def _own_split(root: Path, options: ListOptions, report: Report) -> PublishedListing:
    names, identities = read_identities(root, report)
    labels = largest(identities, options, report)
    chosen = torch.nonzero(labels >= 0).squeeze(1)
    labels = labels[chosen]
    of_label = {int(label): identities[i] for i, label in zip(chosen.tolist(), labels, strict=True)}
    classes = tuple(of_label[label] for label in sorted(of_label))
    split = stratified_split(labels, test_fraction=_OWN_TEST, seed=options.split_seed, names=classes)
    note = (
        f"split: {TRAIN_LISTS[0]} and {TEST_LISTS[0]} are not there, so the {len(classes)} largest identities "
        f"were taken and {_OWN_TEST:g} of each tests, seed {options.split_seed}; a deviation: other identities, labels "
        "and pictures than the published lists have"
    )
    return _listing(root, [names[i] for i in chosen.tolist()], labels, classes, split, notes=(note,), doubts=())


def _listing(
    root: Path,
    pictures: list[str],
    labels: torch.Tensor,
    names: tuple[str, ...],
    split: tuple[torch.Tensor, torch.Tensor],
    *,
    notes: tuple[str, ...],
    doubts: tuple[str, ...],
) -> PublishedListing:
    return PublishedListing(
        root=root,
        files=tuple(on_disk(root, FOLDER, pictures)),
        labels=labels,
        names=names,
        train=split[0],
        test=split[1],
        fit="shorter_side",
        cut=central_face,
        notes=notes,
        doubts=doubts,
    )


def _read_list(root: Path, name: str, options: ListOptions, report: Report) -> list[tuple[str, int]]:
    rows: dict[str, int] = {}
    for file, label in read_rows(root, name, "file label", report):
        if not inside(file):
            report(f"{name}: expected a file name, got {file[:80]!r}")
        elif not (label.isascii() and label.isdigit() and len(label) < 9 and int(label) < options.classes):
            report(f"{name}: expected a label from 0 to {options.classes - 1} for {file}, got {label[:80]!r}")
        elif file in rows:
            report(f"{name}: expected every picture once, got {file} again")
        else:
            rows[file] = int(label)
    return list(rows.items())


def central_face(index: int, image: Image.Image) -> Image.Image:
    """The cut of an aligned picture. Raises UnreadablePicture for another size."""
    if image.size != _ALIGNED:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels where CelebA's aligned 178 x 218 are expected")
    left, top = ((side - _CROP) // 2 for side in _ALIGNED)
    return image.crop((left, top, left + _CROP, top + _CROP))


def load_celeba64_public(root: Path, *, size: int) -> Tensor:
    """uint8 [N, 3, size, size]: the listed pictures in their order, cut and resized as the private ones are.

    celeba_ganset.txt (or ganset.txt) in `root` or its folder data_files, rows `file` or `file label`; 30,000 pictures
    as published. The private lists must lie beside it: that no picture is in two of the three is all that keeps the
    people apart. Source: PLG-MI-Attack data_files/ and dataloader.py; Knowledge-Enriched-DMI dataloader.py; GMI-Attack.

    Raises InputError, one line, for a list that is not there, a wrong row, a picture listed twice or in a private list,
    one that is missing or cannot be read.
    """
    require_folder(root, FOLDER, LAYOUT)
    names = _public_names(root)
    files = on_disk(root, FOLDER, names)
    images = np.empty((len(files), 3, size, size), dtype=np.uint8)

    def convert(row: int) -> None:
        try:
            image = central_face(row, decode_plain(read_picture(root / files[row])))
        except (UnreadablePicture, OSError) as error:
            raise InputError(f"data {root}: expected a readable picture, got {files[row]} ({reason(error)})") from error
        images[row] = np.asarray(fit_square(image, size, "shorter_side")).transpose(2, 0, 1)

    with strict_pillow():
        each_in_threads(convert, len(files))
    return torch.from_numpy(images)


def _public_names(root: Path) -> list[str]:
    """The names of the public list, none of which is in a private one."""
    public, *private = (_found(root, names) for names in (PUBLIC_LISTS, TRAIN_LISTS, TEST_LISTS))
    report = refusing(root)
    columns = _columns_of_first_row(root / public)
    words = "file label" if columns == 2 else "file"
    names = [row[0] for row in read_rows(root, public, words, report)]
    if not names:
        raise InputError(f"data {root}: expected public pictures in {public}, got none")
    if outside := [name for name in names if not inside(name)]:
        raise InputError(f"data {root}: {public}: expected file names, got {few(outside)}")
    if twice := len(names) - len(set(names)):
        raise InputError(f"data {root}: {public}: expected every picture once, got {twice} again")
    for other in private:
        both = sorted(set(names) & {row[0] for row in read_rows(root, other, "file label", report)})
        if both:
            raise InputError(
                f"data {root}: expected other people in {public} than in {other}, got {len(both)} pictures in both: "
                f"{few(both)}"
            )
    return names


def _found(root: Path, names: tuple[str, ...]) -> str:
    path = find_list(root, names)
    if path is None:
        raise InputError(f"data {root}: expected the published list {' or '.join(names)}, got nothing there")
    return path


def _columns_of_first_row(path: Path) -> int:
    lines = read_whole(path, most_bytes=MOST_TEXT).decode("utf-8", errors="replace").splitlines()
    return next((len(line.split()) for line in lines if line.split()), 1)
