"""The paper's data sets as they lie on disk: what a set is made of, before any picture is decoded. CelebA apart."""

from __future__ import annotations

import io
import os
import re
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np
import scipy.io
import torch
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.decoding import UnreadablePicture, decode_plain, read_picture, reason
from smoothsweep.core.data.splits import paper_split
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, read_text, read_whole

Cut = Callable[[int, Image.Image], Image.Image]

FACESCRUB = "FaceScrub's layout actors/faces/<Name>/<file> and actresses/faces/<Name>/<file>"
DOGS = "Stanford Dogs' layout Images/<folder>/<file>, train_list.mat and test_list.mat"
IMAGENETTE = "ImageNette's layout train/<synset>/<file> and val/<synset>/<file>"

# The suffixes that torchvision's ImageFolder takes for pictures; anything else in a class folder is passed over.
_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_SPLIT_SEED = 42


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The folder of a published set, and how it is listed.

    Attributes:
        layout: What is expected there, for messages.
        classes: How many the set must have (CelebA: how many of the largest are taken).
        pictures: CelebA's choice of source, None for the others.
        split_seed: Seed of the 90/10 shuffle.
        faults: Where a check collects its sentences and goes on; None while loading, which ends at the first fault.
    """

    root: Path
    layout: str
    classes: int
    pictures: str | None = None
    split_seed: int = _SPLIT_SEED
    faults: list[str] | None = None

    def refusal(self, fault: str) -> InputError:
        """The error of a fault that nothing can be listed with."""
        return InputError(f"data {self.root}: {fault}")

    def report(self, fault: str) -> None:
        """Raise InputError, or collect the sentence."""
        if self.faults is None:
            raise self.refusal(fault)
        self.faults.append(fault)

    def need(self, what: str, name: str, also: str = "") -> Path:
        """root/name. what: "folder" or "file"; also: what the layout needs beside. Raises InputError without it."""
        path = self.root / name
        if not (path.is_dir() if what == "folder" else path.is_file()):
            got = "something else of this name" if path.exists() else "nothing there"
            raise self.refusal(f"expected {self.layout}{also}, with a {what} {name}, got {got}")
        return path

    def lines(self, name: str) -> list[str]:
        """The lines of a text list. Raises InputError for what is no text."""
        try:
            return read_text(self.root / name).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise self.refusal(f"expected text in {name}, got an unreadable file") from error

    def rows(self, name: str, columns: str, *, count: int | None = None, skip: int = 0) -> list[list[str]]:
        """The rows of a text list, split at blanks, without empty lines and the first `skip`.

        columns: what a row holds, for messages; count: of the columns, by default the words in `columns`. Reports every
        row with another number of them and leaves it out.
        """
        count = count or len(columns.split())
        rows = []
        for number, line in enumerate(self.lines(name)[skip:], start=skip + 1):
            row = line.split()
            if row and len(row) != count:
                self.report(f"{name} line {number}: expected {count} columns ({columns}), got {len(row)}")
            elif row:
                rows.append(row)
        return rows

    def expect_classes(self, count: int, of: str, detail: str = "") -> None:
        """Report a number of classes that is not the expected one."""
        if count != self.classes:
            self.report(f"expected {self.classes} {of}, got {count}{detail}")

    def expect_own_split(self) -> None:
        """Report a split seed, which a given split cannot follow."""
        if self.split_seed != _SPLIT_SEED:
            self.report(f"split_seed: expected {_SPLIT_SEED} for a set with a split of its own, got {self.split_seed}")

    def split(self, files: Sequence[str]) -> tuple[Tensor, Tensor]:
        """`paper_split` of the listed files; too few of them are reported, and then nothing trains or tests."""
        if len(files) < 2:
            self.report(f"expected at least 2 pictures to split, got {len(files)}")
            return torch.arange(0), torch.arange(0)
        return paper_split(len(files), seed=self.split_seed)


def whole(index: int, image: Image.Image) -> Image.Image:
    """The cut that takes everything."""
    return image


@dataclass(frozen=True, kw_only=True)
class PublishedListing:
    """The pictures of a published set in official order.

    Attributes:
        files: Paths relative to `root`, with slashes.
        labels: int64 [n], 0-based.
        names: Class names, names[label].
        train, test: int64 indices into `files`.
        cut: Takes what is shown to the networks out of a decoded picture (a bounding box, an aligned face) and raises
            UnreadablePicture where it cannot.
        fit: How the cut becomes a square, see `fit_square`.
        squares: Whether the pictures should be square already.
        notes: What reading decided, a sentence each.
        doubts: What loading accepts and a check complains about.
    """

    root: Path
    files: tuple[str, ...]
    labels: Tensor
    names: tuple[str, ...]
    train: Tensor
    test: Tensor
    fit: str
    squares: bool = False
    cut: Cut = whole
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def read(self, index: int) -> bytes:
        """The encoded picture. Raises OSError, and UnreadablePicture for one that is too large."""
        return read_picture(self.root / self.files[index])

    def decode(self, index: int, encoded: bytes) -> Image.Image:
        """The RGB picture after the cut, of any size. Raises UnreadablePicture; call it inside `strict_pillow`."""
        return self.cut(index, decode_plain(encoded))

    def square(self, index: int, size: int) -> tuple[bytes, Image.Image, np.ndarray]:
        """A picture encoded, cut, and as uint8 [3, size, size]. Raises InputError for one that cannot be read."""
        try:
            encoded = self.read(index)
            image = self.decode(index, encoded)
        except (UnreadablePicture, OSError) as error:
            got = f"{self.files[index]} ({reason(error)})"
            raise InputError(f"data {self.root}: expected a readable picture, got {got}") from error
        return encoded, image, np.asarray(fit_square(image, size, self.fit)).transpose(2, 0, 1)


def fit_square(image: Image.Image, size: int, fit: str) -> Image.Image:
    """Bring an RGB picture to size x size, bilinear with Pillow's antialiasing.

    "stretch" resizes both sides exactly; "shorter_side" resizes the shorter side, keeps the aspect and takes the
    central square, with torchvision's rounding. Source: Plug-and-Play-Attacks, utils/training_config_parser.py (test
    transform: a pair of sizes, or one size followed by CelebA's centre crop).
    """
    shorter, (width, height) = min(image.size), image.size
    sides = (size, size) if fit == "stretch" else (int(size * width / shorter), int(size * height / shorter))
    if image.size != sides:
        image = image.resize(sides, Image.Resampling.BILINEAR)
    left, top = round((image.width - size) / 2.0), round((image.height - size) / 2.0)
    return image if image.size == (size, size) else image.crop((left, top, left + size, top + size))


def class_folders(folder: Path) -> list[str]:
    """Names of the subfolders, sorted by code point as ImageFolder sorts them; hidden ones do not count."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def class_pictures(root: Path, folder: str) -> tuple[list[str], int]:
    """Pictures below root/folder in the order of torchvision's ImageFolder, and how many other files were passed over.

    Folders in sorted walk, file names sorted as strings ("10.png" before "2.png"). Hidden files do not count at all.
    """
    files = [
        (Path(place) / name).relative_to(root).as_posix()
        for place, _, names in sorted(os.walk(root / folder))
        for name in sorted(names)
        if not name.startswith(".")
    ]
    pictures = [file for file in files if file.lower().endswith(_SUFFIXES)]
    return pictures, len(files) - len(pictures)


def inside(name: str) -> bool:
    """Whether a path that a list names stays inside the folder it is relative to."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name


def _in_folders(tree: Tree, folders: Iterable[tuple[int, str]]) -> tuple[list[str], Tensor, tuple[str, ...]]:
    """Pictures in folders of one class each, their labels int64 [n], and a note on other files. Reports empty ones."""
    files: list[str] = []
    labels: list[int] = []
    others = 0
    for label, folder in folders:
        pictures, passed_over = class_pictures(tree.root, folder)
        if not pictures:
            tree.report(f"expected pictures in {folder}, got none")
        files += pictures
        labels += [label] * len(pictures)
        others += passed_over
    note = (f"{others} files that are no pictures were passed over",) if others else ()
    return files, torch.tensor(labels, dtype=torch.int64), note


# FaceScrub, 530 identities: folders of cropped faces, actors before actresses.

# Some labels of the published class map. Folders spelled otherwise may sort otherwise, and then the labels of published
# weights mean other people.
_KNOWN = {
    0: "Aaron_Eckhart",
    4: "Adrien_Brody",
    262: "Tom_Hanks",
    264: "Woody_Allen",
    265: "Adrianne_León",
    529: "Zooey_Deschanel",
}
_PEOPLE = 530


def list_facescrub(tree: Tree) -> PublishedListing:
    """The cropped faces of `root` in official order, labels 0 to 264 for actors and 265 to 529 for actresses.

    Order: class folders by code point, file names as strings, all actors first; so the split depends on which files are
    there and on their names, and the authors' own list is not published. The split is `core.data.splits.paper_split`.
    Pictures are stretched to a square: the published faces are square already. An identity that has a folder under
    `images` (the uncropped pictures) but none under `faces` is missing. Source: Plug-and-Play-Attacks,
    datasets/facescrub.py.

    Raises InputError if there is no such layout; reports a missing or empty identity and a wrong number of them.
    """
    present = {group: class_folders(tree.need("folder", f"{group}/faces")) for group in ("actors", "actresses")}
    for group, people in present.items():
        uncropped = tree.root / group / "images"
        for name in sorted(set(class_folders(uncropped) if uncropped.is_dir() else []) - set(people)):
            tree.report(f"expected faces of {name} in {group}/faces, got none (there is {group}/images/{name})")
    names = [name for people in present.values() for name in people]
    folders = [f"{group}/faces/{name}" for group, people in present.items() for name in people]
    files, labels, others = _in_folders(tree, enumerate(folders))
    counts = " and ".join(f"{len(people)} {group}" for group, people in present.items())
    tree.expect_classes(len(names), "identities", f" ({counts})")
    train, test = tree.split(files)
    return PublishedListing(
        root=tree.root,
        files=tuple(files),
        labels=labels,
        names=tuple(names),
        train=train,
        test=test,
        fit="stretch",
        squares=True,
        notes=(f"split: published 90/10 shuffle, seed {tree.split_seed}", *others),
        doubts=_unexpected_labels(names) if len(names) == _PEOPLE else (),
    )


def _unexpected_labels(names: list[str]) -> tuple[str, ...]:
    """Where the order differs from the published class map; accents may be written in either form."""
    found = {label: unicodedata.normalize("NFC", names[label]) for label in _KNOWN}
    return tuple(
        f"label {label}: the published class map has {name}, this tree {found[label]}"
        for label, name in _KNOWN.items()
        if found[label] != name
    )


# ImageNette, ten easy ImageNet classes, in fastai's layout with its own split.


def list_imagenette(tree: Tree) -> PublishedListing:
    """train/ and val/ of `root`; labels are the synsets in sorted order, files sorted as strings.

    The release's own split is kept (val/ tests): the paper speaks of "test splits" (App. C.9, Table 12) and says no
    more about the data, and its repository has no such set. Shorter side and central square are our choice.

    Raises InputError if there is no such layout; reports a synset that is in one part only or empty, a wrong number of
    synsets, and a split seed, which a given split cannot follow.
    """
    tree.expect_own_split()
    present = {part: class_folders(tree.need("folder", part)) for part in ("train", "val")}
    names = sorted({name for folders in present.values() for name in folders})
    tree.expect_classes(len(names), "synsets")
    folders = [(label, f"{part}/{name}") for part in present for label, name in enumerate(names)]
    files, labels, others = _in_folders(tree, folders)
    trained = sum(file.startswith("train/") for file in files)
    return PublishedListing(
        root=tree.root,
        files=tuple(files),
        labels=labels,
        names=tuple(names),
        train=torch.arange(trained),
        test=torch.arange(trained, len(files)),
        fit="shorter_side",
        notes=("split: the release's own train and val", *others),
    )


# Stanford Dogs, 120 breeds: whole photographs, or the first bounding box of each.

_MOST_LIST, _MOST_ANNOTATION = 32 * MIB, MIB  # the real lists have some hundred kilobytes
_HEADER, _TAG, _COMPRESSED = 128, 8, 15
_MOST_DECOMPRESSED = 256 * MIB


def list_stanford_dogs(tree: Tree, *, cropped: bool = False) -> PublishedListing:
    """The official training list followed by the official test list; labels are the list's minus 1.

    The official split is ignored and replaced by `core.data.splits.paper_split` over all. Class names are the folder
    names after the first "-". cropped: show the first bounding box of Annotation/<folder>/<name> instead of the
    photograph (the official targets train on the whole; evaluation model, FID and distances use the boxes); Pillow
    fills with black what a box has beyond the picture. Either is stretched to a square. Source: Plug-and-Play-Attacks,
    datasets/stanford_dogs.py and configs/training.

    Raises InputError if there is no such layout or a list is no MATLAB file with `file_list` and `labels`; reports
    labels beyond 1 to 120, a breed with two folders, and a wrong number of breeds.
    """
    tree.need("folder", "Images")
    if cropped:
        tree.need("folder", "Annotation", ", and Annotation/<folder>/<name> for bounding boxes")
    pictures = [row for name in ("train_list.mat", "test_list.mat") for row in _matlab_rows(tree, name)]
    folders: dict[int, str] = {}
    for file, label in pictures:
        folder = file.split("/")[0]
        if folders.setdefault(label, folder) != folder:
            tree.report(f"expected one folder for label {label + 1}, got {folders[label]} and {folder} ({file})")
    tree.expect_classes(len(folders), "breeds")
    files = [f"Images/{file}" for file, _ in pictures]
    train, test = tree.split(files)
    return PublishedListing(
        root=tree.root,
        files=tuple(files),
        labels=torch.tensor([label for _, label in pictures], dtype=torch.int64),
        names=tuple(folders[i].partition("-")[2] if i in folders else f"label {i}" for i in range(tree.classes)),
        train=train,
        test=test,
        fit="stretch",
        notes=(f"split: published 90/10 shuffle over both official lists, seed {tree.split_seed}",),
        cut=_first_box(tree.root, [file for file, _ in pictures]) if cropped else whole,
    )


def _matlab_rows(tree: Tree, name: str) -> list[tuple[str, int]]:
    """File (relative to Images) and 0-based label of every usable row of a MATLAB list."""
    path = tree.need("file", name)
    try:
        content = read_whole(path, most_bytes=_MOST_LIST)
        _check_elements(content)
        lists: dict[str, Any] = scipy.io.loadmat(io.BytesIO(content), variable_names=("file_list", "labels"))
        files, numbers = [str(cell.item()) for cell in lists["file_list"].ravel()], lists["labels"].ravel().tolist()
        if len(files) != len(numbers):
            raise ValueError("lengths differ")
    except InputError as error:
        raise tree.refusal(str(error).removeprefix(f"{tree.root}/")) from None
    except Exception as error:  # scipy's reader raises whatever a damaged file leads it to
        expected = f"expected a MATLAB file with as many names in file_list as numbers in labels in {name}"
        raise tree.refusal(f"{expected}, got something else") from error
    rows = []
    for number, (file, label) in enumerate(zip(files, numbers, strict=True), start=1):
        if not inside(file) or "/" not in file:
            tree.report(f"{name} row {number}: expected <folder>/<file>, got {file[:80]!r}")
        elif label not in range(1, tree.classes + 1):
            tree.report(f"{name} row {number}: expected a label from 1 to {tree.classes}, got {label}")
        else:
            rows.append((file, int(label) - 1))
    return rows


def _check_elements(content: bytes) -> None:
    """Raise ValueError where a file of version 5 decompresses to too much, before scipy makes arrays of it."""
    at, decompressed = _HEADER, 0
    order = ">" if content[126:128] == b"MI" else "<"
    while at + _TAG <= len(content):
        kind, length = struct.unpack_from(f"{order}II", content, at)
        if kind == _COMPRESSED:
            stream, left = zlib.decompressobj(), content[at + _TAG : at + _TAG + length]
            while left and not stream.eof:
                decompressed += len(stream.decompress(left, MIB))
                left = stream.unconsumed_tail
                if decompressed > _MOST_DECOMPRESSED:
                    raise ValueError(f"more than {_MOST_DECOMPRESSED} bytes when decompressed")
        at += _TAG + length


def _first_box(root: Path, files: list[str]) -> Cut:
    def cut(index: int, image: Image.Image) -> Image.Image:
        annotation = f"Annotation/{files[index].rpartition('.')[0]}"
        try:
            left, top, right, bottom = _corners(read_whole(root / annotation, most_bytes=_MOST_ANNOTATION))
        except OSError as error:
            raise UnreadablePicture(f"no bounding box: {annotation} is missing") from error
        except (InputError, ElementTree.ParseError, StopIteration, AttributeError, TypeError, ValueError) as error:
            raise UnreadablePicture(f"no bounding box in {annotation}") from error
        if not (0 < right - left <= 2 * image.width and 0 < bottom - top <= 2 * image.height):
            box = f"box {left} {top} {right} {bottom} in {image.width} x {image.height}"
            raise UnreadablePicture(f"{annotation}: {box}")
        return image.crop((left, top, right, bottom))

    return cut


def _corners(text: bytes) -> list[int]:
    """The first object's box; a document that declares entities is not read at all."""
    if re.search(rb"<!(DOCTYPE|ENTITY)", text):
        raise ValueError("declarations")
    box: Any = next(ElementTree.fromstring(text).iter("object")).find("bndbox")  # None raises AttributeError
    return [int(box.findtext(corner)) for corner in ("xmin", "ymin", "xmax", "ymax")]
