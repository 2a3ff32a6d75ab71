"""What a published data set is made of before any picture is decoded; and the small steps that its readers share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.decoding import UnreadablePicture, decode_plain, read_picture
from smoothsweep.core.data.splits import paper_split
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import read_text

# Takes a sentence about a fault. While loading it raises; a check collects the sentences and goes on.
Report = Callable[[str], None]
Cut = Callable[[int, Image.Image], Image.Image]

# The suffixes that torchvision's ImageFolder takes for pictures; anything else in a class folder is passed over.
_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """How a published data set is listed.

    Attributes:
        classes: How many the set must have (CelebA: how many of the largest are taken).
        pictures: CelebA's choice of source, None for the others.
        split_seed: Seed of the 90/10 shuffle.
    """

    classes: int
    pictures: str | None = None
    split_seed: int = 42


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


def refusing(root: Path) -> Report:
    """The report that makes every fault an InputError."""

    def report(fault: str) -> None:
        raise InputError(f"data {root}: {fault}")

    return report


def fit_square(image: Image.Image, size: int, fit: str) -> Image.Image:
    """Bring an RGB picture to size x size, bilinear with Pillow's antialiasing.

    "stretch" resizes both sides exactly; "shorter_side" resizes the shorter side, keeps the aspect and takes the
    central square, with torchvision's rounding. Source: Plug-and-Play-Attacks, utils/training_config_parser.py (test
    transform: a pair of sizes, or one size followed by CelebA's centre crop).
    """
    width, height = image.size
    if fit == "stretch":
        return _resize(image, size, size)
    if width <= height:
        image = _resize(image, size, int(size * height / width))
    else:
        image = _resize(image, int(size * width / height), size)
    left, top = round((image.width - size) / 2.0), round((image.height - size) / 2.0)
    return image.crop((left, top, left + size, top + size))


def require_square(index: int, image: Image.Image) -> Image.Image:
    """A cut that takes square pictures only."""
    if image.width != image.height:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels where a square is expected")
    return image


def require_folder(root: Path, name: str, layout: str) -> Path:
    """root/name, or an InputError that says what the layout expects."""
    folder = root / name
    if not folder.is_dir():
        raise InputError(f"data {root}: expected {layout}, with a folder {name}, got {_nothing(folder)}")
    return folder


def require_file(root: Path, name: str, layout: str) -> Path:
    """root/name, or an InputError that says what the layout expects."""
    file = root / name
    if not file.is_file():
        raise InputError(f"data {root}: expected {layout}, with a file {name}, got {_nothing(file)}")
    return file


def class_folders(folder: Path) -> list[str]:
    """Names of the subfolders, sorted by code point as ImageFolder sorts them; hidden ones do not count."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def class_pictures(root: Path, folder: str) -> tuple[list[str], int]:
    """Pictures below root/folder in the order of torchvision's ImageFolder, and how many other files were passed over.

    Folders in sorted walk, file names sorted as strings ("10.png" before "2.png"). Hidden files do not count at all.
    """
    pictures, others = [], 0
    for place, _, names in sorted(os.walk(root / folder)):
        for name in sorted(name for name in names if not name.startswith(".")):
            if name.lower().endswith(_SUFFIXES):
                pictures.append((Path(place) / name).relative_to(root).as_posix())
            else:
                others += 1
    return pictures, others


def read_rows(
    root: Path, name: str, columns: str, report: Report, *, count: int | None = None, skip: int = 0
) -> list[list[str]]:
    """The rows of a text list, split at blanks, without empty lines and the first `skip`.

    columns: what a row holds, for messages; count: of the columns, by default the words in `columns`. Reports every row
    with another number of them and leaves it out. Raises InputError for what is no text.
    """
    try:
        lines = read_text(root / name).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"data {root}: expected text in {name}, got an unreadable file") from error
    count = count or len(columns.split())
    rows = []
    for number, line in enumerate(lines[skip:], start=skip + 1):
        row = line.split()
        if row and len(row) != count:
            report(f"{name} line {number}: expected {count} columns ({columns}), got {len(row)}")
        elif row:
            rows.append(row)
    return rows


def inside(name: str) -> bool:
    """Whether a path that a list names stays inside the folder it is relative to."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name


def count_classes(count: int, options: ListOptions, report: Report, *, of: str, detail: str = "") -> None:
    """Reports a number of classes that is not the expected one."""
    if count != options.classes:
        report(f"expected {options.classes} {of}, got {count}{detail}")


def published_split(files: Sequence[str], options: ListOptions, report: Report) -> tuple[Tensor, Tensor]:
    """`paper_split` of the listed files; too few of them are reported, and then nothing trains or tests."""
    if len(files) < 2:
        report(f"expected at least 2 pictures to split, got {len(files)}")
        return torch.arange(0), torch.arange(0)
    return paper_split(len(files), seed=options.split_seed)


def _resize(image: Image.Image, width: int, height: int) -> Image.Image:
    if image.size == (width, height):
        return image
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _nothing(path: Path) -> str:
    return "something else of this name" if path.exists() else "nothing there"
