"""The public pictures of the low-resolution attacks: the third published list, beside the two private ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data.celeba import LAYOUT, on_disk
from smoothsweep.core.data.celeba64 import FOLDER, TEST_LISTS, TRAIN_LISTS, central_face, find_list
from smoothsweep.core.data.decoding import UnreadablePicture, decode_plain, read_picture, strict_pillow
from smoothsweep.core.data.listing import few, fit_square, inside, read_rows, refusing, require_folder
from smoothsweep.core.data.packed import each_in_threads
from smoothsweep.core.data.readable import reason
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MOST_TEXT, read_whole

PUBLIC_LISTS = ("celeba_ganset.txt", "ganset.txt")


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
