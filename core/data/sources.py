"""Where a user's pictures lie: a Parquet file, or folders. Lists them; decodes nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from smoothsweep.core.data.decoding import read_picture
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.parquet import Columns, UnreadableTable, read_columns

TRAIN, TEST, VALIDATION = "train", "test", "validation"
COLUMNS = ("image", "label", "identity", "split")  # of a Parquet file
_SPLITS = {"train": TRAIN, "test": TEST, "validation": VALIDATION, "valid": VALIDATION, "val": VALIDATION}
_IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2"}
_CLUTTER = {"thumbs.db", "desktop.ini"}  # left in folders by desktops, besides names that start with a dot


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One picture that is not yet read.

    Attributes:
        where: Its place in messages, "row 7" (from 0) or a relative path.
        read: Reads the encoded bytes.
        label: A number, or a name.
        identity: A name beside the label, if both are there.
        split: Train, test, validation or None.
    """

    where: str
    read: Callable[[], bytes]
    label: int | str | None = None
    identity: str | None = None
    split: str | None = None


def list_labelled(path: Path) -> tuple[list[Entry], tuple[str, ...]]:
    """The pictures of a Parquet file or of a folder per class, and the names of classes that must not be empty.

    Raises InputError if the path is neither, or its layout is not understood.
    """
    if path.is_dir():
        return _list_class_folders(path)
    return _parquet_entries(_read_table(path), path, labelled=True), ()


@dataclass(frozen=True, kw_only=True)
class Counted:
    """How many pictures of whom there are.

    Attributes:
        classes: How many classes there are, folders that must not be empty included.
        pictures: (label, split) -> how many.
    """

    classes: int
    pictures: Counter[tuple[int | str | None, str | None]]

    def of(self, *splits: str) -> int:
        """Pictures of these splits."""
        return sum(count for (_, split), count in self.pictures.items() if split in splits)


def count_labelled(path: Path) -> Counted:
    """What `list_labelled` finds there, in numbers. Raises InputError as it does."""
    entries, folders = list_labelled(path)
    pictures = Counter((entry.label, entry.split) for entry in entries)
    return Counted(classes=len({label for label, _ in pictures} | set(folders)), pictures=pictures)


def class_count(path: Path) -> int:
    """How many classes `list_labelled` finds there, without reading a picture. Raises InputError as it does."""
    if path.is_dir():
        entries, classes = _list_class_folders(path)
        return len({entry.label for entry in entries} | set(classes))
    table = _read_table(path, ("label", "identity"))
    name = next((name for name in ("label", "identity") if name in table.values), None)
    if name is None:
        raise InputError(f"data {path}: expected a column 'label' or 'identity', got neither")
    return len(set(_values(table, path, name)))


def list_unlabelled(path: Path) -> list[Entry]:
    """The pictures of a Parquet file, or of a folder and its subfolders, in the order of their names."""
    if path.is_dir():
        return [_file_entry(path, file) for file in _walk(path)]
    return _parquet_entries(_read_table(path), path, labelled=False)


def content_digest(path: Path) -> str:
    """SHA-256 over the content, hexadecimal: a file's bytes, or relative names and bytes of a folder's files.

    Hidden files do not count; the place of the data does not either. Raises InputError if there is nothing.
    """
    _require_existing(path)
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(_walk(path), key=lambda f: f.relative_to(path).as_posix()):
            name = file.relative_to(path).as_posix().encode()
            digest.update(len(name).to_bytes(8, "little") + name + file.stat().st_size.to_bytes(8, "little"))
            _feed(digest, file)
    else:
        _feed(digest, path)
    return digest.hexdigest()


def _feed(digest: Any, file: Path) -> None:
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)


def _require_existing(path: Path) -> None:
    if not path.exists():
        raise InputError(f"data {path}: expected a Parquet file or a folder, got nothing at this path")


# Parquet


def _read_table(path: Path, columns: Sequence[str] = COLUMNS) -> Columns:
    _require_existing(path)
    try:
        table = read_columns(path, columns, encoded=("image",))
    except (UnreadableTable, OSError) as error:
        raise InputError(
            f"data {path}: expected a Parquet file or a folder per class, got an unreadable file"
        ) from error
    if "image" not in table.names:
        raise InputError(f"data {path}: expected a column 'image', got {', '.join(table.names[:20]) or 'no columns'}")
    if table.rows == 0:
        raise InputError(f"data {path}: expected images, got an empty table")
    return table


def _parquet_entries(table: Columns, path: Path, *, labelled: bool) -> list[Entry]:
    images = table.values["image"]
    if None in images:
        raise InputError(f"data {path}: row {images.index(None)}: expected a picture in 'image', got null")
    if not labelled:
        return [Entry(where=f"row {i}", read=_constant(image)) for i, image in enumerate(images)]
    if "label" not in table.names and "identity" not in table.names:
        raise InputError(f"data {path}: expected a column 'label' or 'identity', got {', '.join(table.names[:20])}")
    labels, identities, splits = (
        _values(table, path, name) if name in table.names else None for name in ("label", "identity", "split")
    )
    entries = []
    for i, image in enumerate(images):
        identity = str(identities[i]) if identities else None
        split = _split_of(splits[i], f"data {path}: row {i}") if splits else None
        label = labels[i] if labels else identity
        entries.append(
            Entry(
                where=f"row {i}",
                read=_constant(image),
                label=label,
                identity=identity if labels else None,
                split=split,
            )
        )
    return entries


def _values(table: Columns, path: Path, name: str) -> list[Any]:
    """A column of whole numbers or strings without gaps."""
    values = table.values[name]
    for i, value in enumerate(values):
        if isinstance(value, float) and value.is_integer():  # what pandas makes of integers beside a gap
            values[i] = int(value)
        elif value is None or value == "" or not isinstance(value, int | str) or isinstance(value, bool):
            got = "null" if value is None else repr(value)
            raise InputError(f"data {path}: row {i}: expected a number or a name in '{name}', got {got}")
    return values


def _split_of(value: Any, where: str) -> str:
    split = _SPLITS.get(str(value).strip().lower())
    if split is None:
        raise InputError(f"{where}: expected a split of {', '.join(_SPLITS)}, got {value!r}")
    return split


def _constant(image: bytes) -> Callable[[], bytes]:
    return lambda: image


# Folders


def _list_class_folders(root: Path) -> tuple[list[Entry], tuple[str, ...]]:
    """class/picture, or split/class/picture if the top folders are named like splits and hold folders."""
    tops = _subfolders(root)
    by_split = all(top.name.lower() in _SPLITS for top in tops) and any(
        child.is_dir() for top in tops for child in _visible(top)
    )
    entries, classes = [], set()
    for top in tops:
        split = _SPLITS[top.name.lower()] if by_split else None
        for folder in _subfolders(top) if by_split else [top]:
            classes.add(folder.name)
            for file in _visible(folder):
                _require_picture(root, file)
                entries.append(_file_entry(root, file, label=folder.name, split=split))
    return entries, tuple(sorted(classes))


def _subfolders(folder: Path) -> list[Path]:
    children = _visible(folder)
    for child in children:
        if not child.is_dir():
            raise InputError(f"data {folder}: expected a folder per class, got the file {child.name}")
    if not children:
        raise InputError(f"data {folder}: expected a folder per class, got an empty folder")
    return children


def _walk(folder: Path) -> Iterator[Path]:
    """Every picture below a folder; a link that leads back up is an error, not an endless walk."""
    pending, seen, files = [folder], set(), []
    while pending:
        current = pending.pop()
        real = current.resolve()
        if real in seen:
            raise InputError(f"data {folder}: expected every folder once, got {current.name} again through a link")
        seen.add(real)
        for child in _visible(current):
            if child.is_dir():
                pending.append(child)
            else:
                _require_picture(folder, child)
                files.append(child)
    if not files:
        raise InputError(f"data {folder}: expected pictures, got none")
    return iter(sorted(files))


def _visible(folder: Path) -> list[Path]:
    """Children in the order of their names, without what desktops leave behind."""
    return sorted(
        child for child in folder.iterdir() if not child.name.startswith(".") and child.name.lower() not in _CLUTTER
    )


def _require_picture(root: Path, file: Path) -> None:
    name = file.relative_to(root).as_posix()
    if file.is_dir():
        raise InputError(f"data {root}: expected pictures in {file.parent.name}, got the folder {name}")
    if not file.is_file():
        kind = "a link that leads nowhere" if file.is_symlink() else "something that is no file"
        raise InputError(f"data {root}: expected a picture at {name}, got {kind}")
    if file.suffix.lower() not in _IMAGE_SUFFIXES:
        raise InputError(f"data {root}: expected pictures only, got {name}")


def _file_entry(root: Path, file: Path, *, label: str | None = None, split: str | None = None) -> Entry:
    return Entry(where=file.relative_to(root).as_posix(), read=partial(read_picture, file), label=label, split=split)
