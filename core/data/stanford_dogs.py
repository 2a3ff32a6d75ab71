"""Stanford Dogs, 120 breeds: whole photographs, or the first bounding box of each."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import scipy.io
import torch
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
    require_file,
    require_folder,
    whole,
)
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, read_whole

CLASSES = 120
LISTS = ("train_list.mat", "test_list.mat")
LAYOUT = "Stanford Dogs' layout Images/<folder>/<file>, train_list.mat and test_list.mat"

_MOST_LIST = 32 * MIB  # the real lists have some hundred kilobytes
_MOST_ANNOTATION = MIB
_HEADER, _TAG, _COMPRESSED = 128, 8, 15
_MOST_DECOMPRESSED = 256 * MIB
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def list_stanford_dogs(root: Path, options: ListOptions, report: Report, *, cropped: bool = False) -> PublishedListing:
    """The official training list followed by the official test list; labels are the list's minus 1.

    The official split is ignored and replaced by `core.data.splits.paper_split` over all. Class names are the folder
    names after the first "-". cropped: show the first bounding box of Annotation/<folder>/<name> instead of the
    photograph (the official targets train on the whole; evaluation model, FID and distances use the boxes); Pillow
    fills with black what a box has beyond the picture. Either is stretched to a square. Source: Plug-and-Play-Attacks,
    datasets/stanford_dogs.py and configs/training.

    Raises InputError if there is no such layout or a list is no MATLAB file with `file_list` and `labels`; reports
    labels beyond 1 to 120, a breed with two folders, and a wrong number of breeds.
    """
    require_folder(root, "Images", LAYOUT)
    if cropped:
        require_folder(root, "Annotation", f"{LAYOUT}, and Annotation/<folder>/<name> for bounding boxes")
    pictures: list[tuple[str, int]] = []
    for name in LISTS:
        pictures += _read_list(root, require_file(root, name, LAYOUT).name, options, report)
    folders: dict[int, str] = {}
    for file, label in pictures:
        folder = file.split("/")[0]
        if folders.setdefault(label, folder) != folder:
            report(f"expected one folder for label {label + 1}, got {folders[label]} and {folder} ({file})")
    count_classes(len(folders), options, report, of="breeds")
    files = [f"Images/{file}" for file, _ in pictures]
    train, test = published_split(files, options, report)
    return PublishedListing(
        root=root,
        files=tuple(files),
        labels=torch.tensor([label for _, label in pictures], dtype=torch.int64),
        names=tuple(folders[i].partition("-")[2] if i in folders else f"label {i}" for i in range(options.classes)),
        train=train,
        test=test,
        fit="stretch",
        notes=(f"split: published 90/10 shuffle over both official lists, seed {options.split_seed}",),
        cut=_first_box(root, [file for file, _ in pictures]) if cropped else whole,
    )


def _read_list(root: Path, name: str, options: ListOptions, report: Report) -> list[tuple[str, int]]:
    """File (relative to Images) and 0-based label of every usable row of a MATLAB list."""
    try:
        content = _read_matlab(root / name, ("file_list", "labels"))
        files = [str(cell.item()) for cell in content["file_list"].ravel()]
        numbers = content["labels"].ravel().tolist()
        if len(files) != len(numbers):
            raise ValueError("lengths differ")
    except InputError as error:
        raise InputError(f"data {root}: {str(error).removeprefix(f'{root}/')}") from None
    except Exception as error:  # scipy's reader raises whatever a damaged file leads it to
        raise InputError(
            f"data {root}: expected a MATLAB file with as many names in file_list as numbers in labels in {name}, "
            "got something else"
        ) from error
    rows = []
    for number, (file, label) in enumerate(zip(files, numbers, strict=True), start=1):
        if not inside(file) or "/" not in file:
            report(f"{name} row {number}: expected <folder>/<file>, got {file[:80]!r}")
        elif label not in range(1, options.classes + 1):
            report(f"{name} row {number}: expected a label from 1 to {options.classes}, got {label}")
        else:
            rows.append((file, int(label) - 1))
    return rows


def _first_box(root: Path, files: list[str]) -> Cut:
    def cut(index: int, image: Image.Image) -> Image.Image:
        annotation = f"Annotation/{files[index].rpartition('.')[0]}"
        try:
            text = read_whole(root / annotation, most_bytes=_MOST_ANNOTATION)
        except InputError as error:
            raise UnreadablePicture(f"no bounding box in {annotation}") from error
        except OSError as error:
            raise UnreadablePicture(f"no bounding box: {annotation} is missing") from error
        left, top, right, bottom = _corners(text, annotation)
        if not (0 < right - left <= 2 * image.width and 0 < bottom - top <= 2 * image.height):
            raise UnreadablePicture(
                f"{annotation}: box {left} {top} {right} {bottom} in {image.width} x {image.height}"
            )
        return image.crop((left, top, right, bottom))

    return cut


def _corners(text: bytes, annotation: str) -> list[int]:
    """The first object's box; a document that declares entities is not read at all."""
    try:
        if re.search(rb"<!(DOCTYPE|ENTITY)", text):
            raise ValueError("declarations")
        box: Any = next(ElementTree.fromstring(text).iter("object")).find("bndbox")  # None raises AttributeError
        return [int(box.findtext(corner)) for corner in _CORNERS]
    except (ElementTree.ParseError, StopIteration, AttributeError, TypeError, ValueError) as error:
        raise UnreadablePicture(f"no bounding box in {annotation}") from error


def _read_matlab(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """The variables of these names of a file of version 5, measured as it decompresses before scipy makes arrays of it.

    Raises InputError for a file that is too large, which is not read; else whatever scipy raises, or ValueError.
    """
    content = read_whole(path, most_bytes=_MOST_LIST)
    _check_elements(content)
    return scipy.io.loadmat(io.BytesIO(content), variable_names=names)


def _check_elements(content: bytes) -> None:
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
