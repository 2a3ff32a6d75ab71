"""CelebA: at high resolution the 1,000 identities with most pictures, as ready crops or cropped here; and at 64 pixels
the lists of the low-resolution attacks, or our own split, and their public list."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.decoding import UnreadablePicture, strict_pillow
from smoothsweep.core.data.images import each_in_threads
from smoothsweep.core.data.layouts import Cut, PublishedListing, Tree, inside, whole
from smoothsweep.core.data.splits import frequency_ranks, stratified_split
from smoothsweep.core.readers.files import MOST_TEXT, read_text, read_whole
from smoothsweep.core.text import few

LAYOUT = "CelebA's layout"

_IDENTITIES, _PARTITION = "identity_CelebA.txt", "list_eval_partition.txt"
_ALIGNED, _WILD = "img_align_celeba", "img_celeba"
_LANDMARKS_5, _LANDMARKS_68 = "list_landmarks_celeba.txt", "landmark.txt"
_STANDARD_68 = "standard_landmark_68pts.txt"
CROP_SIZE = 224
FACE_FACTOR = 0.65

# Eyes, nose tip and corners of the mouth of the standard face: left eye, right eye, nose, left and right corner.
STANDARD_5 = np.array(
    [(-0.23105, -0.26400), (0.23073, -0.26231), (0.00402, 0.04893), (-0.17988, 0.22249), (0.18358, 0.22273)]
)
_DOWN = 0.25

# What is read: the folder of the pictures, and what the notes say about it.
PICTURES: dict[str, tuple[str, str]] = {
    "crops": (_ALIGNED, f"ready square crops from {_ALIGNED}"),
    "aligned": (
        _ALIGNED,
        f"the aligned release of 178 x 218 pixels from {_ALIGNED}, central square; a deviation: the paper cropped from "
        "pictures in the wild",
    ),
    "in_the_wild": (_WILD, f"aligned crops of {CROP_SIZE} pixels made here by the 5 landmarks of {_LANDMARKS_5}"),
    "in_the_wild_68": (_WILD, f"aligned crops of {CROP_SIZE} pixels made here by the 68 landmarks of {_LANDMARKS_68}"),
}


def list_celeba(tree: Tree) -> PublishedListing:
    """The `tree.classes` largest identities of CelebA in file order; label = rank by number of pictures.

    Needs identity_CelebA.txt and list_eval_partition.txt, whose order is the file order; ties of rank keep the order of
    first appearance; the official partition itself is ignored and replaced by `core.data.splits.paper_split` over the
    chosen pictures. (The official code parses four more lists and uses none.) Class names are the identity numbers.
    Shorter side, then central square. Source: Plug-and-Play-Attacks, datasets/celeba.py.

    tree.pictures: "crops", the official layout, square crops in img_align_celeba; "aligned", CelebA's own 178 x 218
    release there; "in_the_wild", pictures of img_celeba cropped here by list_landmarks_celeba.txt;
    "in_the_wild_68", the same by landmark.txt and standard_landmark_68pts.txt, which the published cropping tool
    brings (see the comment on the aligned crop below). A missing .jpg falls back to .png.

    Raises InputError if there is no such layout; reports rows with a wrong number of columns, pictures without an
    identity or landmarks, and a wrong number of identities.
    """
    kind = tree.pictures or "crops"
    folder, note = PICTURES[kind]
    tree.need("folder", folder)
    names, labels, classes = _largest(tree)
    files = _on_disk(tree.root, folder, names)
    train, test = tree.split(files)
    return PublishedListing(
        root=tree.root,
        files=files,
        labels=labels,
        names=classes,
        train=train,
        test=test,
        fit="shorter_side",
        cut=_cut(tree, kind, names),
        notes=(f"pictures: {note}", f"split: published 90/10 shuffle, seed {tree.split_seed}"),
    )


def _largest(tree: Tree) -> tuple[list[str], Tensor, tuple[str, ...]]:
    """The pictures of the largest identities in the order of the partition file, their labels, and who these are."""
    names, identities = _read_identities(tree)
    there = len(set(identities))
    if there < tree.classes:
        tree.expect_classes(there, "identities")
    labels = frequency_ranks(identities, min(there, tree.classes))
    chosen = torch.nonzero(labels >= 0).squeeze(1).tolist()
    of_label = {int(labels[i]): identities[i] for i in chosen}
    return [names[i] for i in chosen], labels[chosen], tuple(of_label[label] for label in sorted(of_label))


def _read_identities(tree: Tree) -> tuple[list[str], list[str]]:
    """All pictures in the order of the partition file, and the identity of each."""
    for name in (_IDENTITIES, _PARTITION):
        tree.need("file", name)
    identity: dict[str, str] = {}
    for file, number in tree.rows(_IDENTITIES, "file identity"):
        if number.isascii() and number.isdigit():
            identity[file] = number
        else:
            tree.report(f"{_IDENTITIES}: expected a whole number for {file}, got {number[:80]!r}")
    files = [file for file, _ in tree.rows(_PARTITION, "file partition")]
    if unknown := [file for file in files if file not in identity]:
        tree.report(f"{_IDENTITIES}: expected the identity of every picture, got none for {few(unknown)}")
    if outside := [file for file in files if not inside(file)]:
        tree.report(f"{_PARTITION}: expected file names, got {few(outside)}")
    if twice := len(files) - len(set(files)):
        tree.report(f"{_PARTITION}: expected every picture once, got {twice} again")
    files = [file for file in dict.fromkeys(files) if file in identity and inside(file)]
    return files, [identity[file] for file in files]


def _on_disk(root: Path, folder: str, names: Sequence[str]) -> tuple[str, ...]:
    """The paths of listed pictures; of a .jpg that is not there, the .png of that name if it is, and the other way."""
    present = set(os.listdir(root / folder))

    def path(name: str) -> str:
        stem, dot, suffix = name.rpartition(".")
        other = stem + dot + {"jpg": "png", "png": "jpg"}.get(suffix, suffix)
        return f"{folder}/{other if name not in present and other in present else name}"

    return tuple(path(name) for name in names)


def _cut(tree: Tree, kind: str, names: Sequence[str]) -> Cut:
    if not kind.startswith("in_the_wild"):
        return _require_square if kind == "crops" else whole
    file, points, skip, standard = _LANDMARKS_5, 5, 2, STANDARD_5
    if kind == "in_the_wild":
        tree.need("file", file)
    else:
        file, points, skip, standard = _LANDMARKS_68, 68, 0, _standard_68(tree)
    landmarks = _read_landmarks(tree, file, names, points=points, skip=skip)
    return aligned_cut([landmarks.get(name) for name in names], crop_target(standard))


def _require_square(index: int, image: Image.Image) -> Image.Image:
    if image.width != image.height:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels where a square is expected")
    return image


def _standard_68(tree: Tree) -> np.ndarray:
    """The standard face of the cropping tool, float64 [68, 2]."""
    for file in (_LANDMARKS_68, _STANDARD_68):
        tree.need("file", file, " and the cropping tool's annotations")
    try:
        return np.array(read_text(tree.root / _STANDARD_68).split(), dtype=np.float64).reshape(68, 2)
    except (ValueError, UnicodeDecodeError) as error:
        raise tree.refusal(f"expected 136 numbers in {_STANDARD_68}, got something else") from error


def _read_landmarks(tree: Tree, file: str, names: Sequence[str], *, points: int, skip: int) -> dict[str, np.ndarray]:
    """Landmarks [points, 2] in pixels of the named pictures."""
    wanted, by_file = set(names), {}
    columns = f"a file and {points} times x y"
    for name, *numbers in tree.rows(file, columns, count=1 + 2 * points, skip=skip):
        if name not in wanted:
            continue
        try:
            values = np.array(numbers, dtype=np.float64).reshape(points, 2)
        except ValueError:
            values = np.array(np.nan)
        if np.isfinite(values).all():
            by_file[name] = values
        else:
            tree.report(f"{file}: expected {2 * points} numbers for {name}, got something else")
    if missing := [name for name in names if name not in by_file]:
        tree.report(f"{file}: expected landmarks of every picture, got none for {few(missing)}")
    return by_file


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


# CelebA at 64 pixels. Sources: PLG-MI-Attack data_files/ and dataloader.py; Knowledge-Enriched-DMI dataloader.py;
# GMI-Attack.

TRAIN_LISTS = ("celeba_trainset.txt", "trainset.txt")
TEST_LISTS = ("celeba_testset.txt", "testset.txt")
PUBLIC_LISTS = ("celeba_ganset.txt", "ganset.txt")

_RELEASE = (178, 218)
_CROP = 108
_OWN_TEST = 0.1
_CHECKSUMS = {
    "training": "fd758026dab640c7217797f12e713436b23278087ffd2a70e88a7255259eabf7",
    "test": "b67ef7f4770fa3606817392f01ae185f1534c38243987928ab881464cb09c434",
}


def list_celeba64(tree: Tree) -> PublishedListing:
    """The private pictures of the low-resolution attacks: img_align_celeba (178 x 218), central square of 108 pixels.

    Lists: celeba_trainset.txt and celeba_testset.txt (or trainset.txt and testset.txt) in `root` or its folder
    data_files, rows `file label`, labels 0 to classes - 1; they are the split. Without them the largest identities of
    identity_CelebA.txt are taken (label = rank, ties by first appearance) and 10 % of each test, drawn by
    `core.data.splits.stratified_split`; the notes call it the deviation that it is. A missing .jpg falls back to .png,
    and the other way round.

    Raises InputError if there is no such layout or only one of the lists; reports rows that are wrong, a picture in
    both lists, a wrong number of labels, and a split seed with lists, which cannot follow it.
    """
    tree.need("folder", _ALIGNED)
    lists = [_find_list(tree.root, names) for names in (TRAIN_LISTS, TEST_LISTS)]
    there = [name for name in lists if name is not None]
    if len(there) == 1:
        gone = TEST_LISTS if lists[0] else TRAIN_LISTS
        raise tree.refusal(f"expected {' or '.join(gone)} beside {there[0]}, got nothing there")
    if there:
        return _by_lists(tree, *there)
    names, labels, classes = _largest(tree)
    split = stratified_split(labels, test_fraction=_OWN_TEST, seed=tree.split_seed, names=classes)
    note = (
        f"split: {TRAIN_LISTS[0]} and {TEST_LISTS[0]} are not there, so the {len(classes)} largest identities "
        f"were taken and {_OWN_TEST:g} of each tests, seed {tree.split_seed}; a deviation: other identities, labels "
        "and pictures than the published lists have"
    )
    return _faces(tree, names, labels, classes, split, note)


def _by_lists(tree: Tree, train_list: str, test_list: str) -> PublishedListing:
    tree.expect_own_split()
    parts = [_labelled_rows(tree, name) for name in (train_list, test_list)]
    if both := sorted(parts[0].keys() & parts[1].keys()):
        tree.report(
            f"expected different pictures in {train_list} and {test_list}, got {len(both)} in both: {few(both)}"
        )
    pictures = [*parts[0].items(), *parts[1].items()]
    labels = torch.tensor([label for _, label in pictures], dtype=torch.int64)
    tree.expect_classes(len(labels.unique()), "identities in the lists")
    doubts = tuple(
        f"{name}: not the published {part} list (by its checksum)"
        for name, (part, checksum) in zip((train_list, test_list), _CHECKSUMS.items(), strict=True)
        if hashlib.sha256(read_whole(tree.root / name, most_bytes=MOST_TEXT)).hexdigest() != checksum
    )
    split = torch.arange(len(parts[0])), torch.arange(len(parts[0]), len(pictures))
    classes, note = tuple(map(str, range(tree.classes))), f"split: {train_list} and {test_list}"
    return _faces(tree, [name for name, _ in pictures], labels, classes, split, note, doubts)


def _faces(
    tree: Tree,
    pictures: Sequence[str],
    labels: Tensor,
    names: tuple[str, ...],
    split: tuple[Tensor, Tensor],
    note: str = "",
    doubts: tuple[str, ...] = (),
) -> PublishedListing:
    return PublishedListing(
        root=tree.root,
        files=_on_disk(tree.root, _ALIGNED, pictures),
        labels=labels,
        names=names,
        train=split[0],
        test=split[1],
        fit="shorter_side",
        cut=central_face,
        notes=(note,),
        doubts=doubts,
    )


def _find_list(root: Path, names: tuple[str, ...]) -> str | None:
    """The first of these names that is a file in `root` or its folder data_files; None where none is."""
    places = [place for name in names for place in (name, f"data_files/{name}")]
    return next((place for place in places if (root / place).is_file()), None)


def _labelled_rows(tree: Tree, name: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for file, label in tree.rows(name, "file label"):
        if not inside(file):
            tree.report(f"{name}: expected a file name, got {file[:80]!r}")
        elif not (label.isascii() and label.isdigit() and len(label) < 9 and int(label) < tree.classes):
            tree.report(f"{name}: expected a label from 0 to {tree.classes - 1} for {file}, got {label[:80]!r}")
        elif file in rows:
            tree.report(f"{name}: expected every picture once, got {file} again")
        else:
            rows[file] = int(label)
    return rows


def central_face(index: int, image: Image.Image) -> Image.Image:
    """The cut of an aligned picture. Raises UnreadablePicture for another size."""
    if image.size != _RELEASE:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels where CelebA's aligned 178 x 218 are expected")
    left, top = ((side - _CROP) // 2 for side in _RELEASE)
    return image.crop((left, top, left + _CROP, top + _CROP))


def load_celeba64_public(root: Path, *, size: int) -> Tensor:
    """uint8 [N, 3, size, size]: the listed pictures in their order, cut and resized as the private ones are.

    celeba_ganset.txt (or ganset.txt) in `root` or its folder data_files, rows `file` or `file label`; 30,000 pictures
    as published. The private lists must lie beside it: that no picture is in two of the three is all that keeps the
    people apart.

    Raises InputError, one line, for a list that is not there, a wrong row, a picture listed twice or in a private list,
    one that is missing or cannot be read.
    """
    tree = Tree(root=root, layout=LAYOUT, classes=1)
    tree.need("folder", _ALIGNED)
    names, nothing = _public_names(tree), torch.arange(0)
    listing = _faces(tree, names, nothing, (), (nothing, nothing))
    images = np.empty((len(names), 3, size, size), dtype=np.uint8)

    def convert(row: int) -> None:
        images[row] = listing.square(row, size)[2]

    with strict_pillow():
        each_in_threads(convert, len(names))
    return torch.from_numpy(images)


def _public_names(tree: Tree) -> list[str]:
    """The names of the public list, none of which is in a private one."""
    lists = []
    for names in (PUBLIC_LISTS, TRAIN_LISTS, TEST_LISTS):
        if (found := _find_list(tree.root, names)) is None:
            raise tree.refusal(f"expected the published list {' or '.join(names)}, got nothing there")
        lists.append(found)
    public, *private = lists
    columns = next((len(line.split()) for line in tree.lines(public) if line.split()), 1)
    pictures = [row[0] for row in tree.rows(public, "file label" if columns == 2 else "file")]
    if not pictures:
        raise tree.refusal(f"expected public pictures in {public}, got none")
    if outside := [name for name in pictures if not inside(name)]:
        raise tree.refusal(f"{public}: expected file names, got {few(outside)}")
    if twice := len(pictures) - len(set(pictures)):
        raise tree.refusal(f"{public}: expected every picture once, got {twice} again")
    for other in private:
        if both := sorted(set(pictures) & {row[0] for row in tree.rows(other, "file label")}):
            expected = f"expected other people in {public} than in {other}"
            raise tree.refusal(f"{expected}, got {len(both)} pictures in both: {few(both)}")
    return pictures
