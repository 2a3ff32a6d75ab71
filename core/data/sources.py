"""Where a user's pictures lie: a Parquet file, a folder of them, one of `datasets`, or folders. Decodes nothing."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from smoothsweep.core.data.decoding import read_picture
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.tables import Columns, UnreadableTable, column_leaf, column_values, read_columns


def tree_files(root: Path) -> Iterator[Path]:
    """Every visible file below `root`, in the order of names; links are followed.

    Raises InputError where a link leads back to a folder that was walked already.
    """
    seen: set[str] = set()
    for folder, subfolders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            raise InputError(f"{root}: expected every folder once, got {folder} again through a link")
        seen.add(real)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


def tree_digest(root: Path) -> str:
    """SHA-256, hexadecimal, over relative names and contents of all visible files, whatever they are."""
    digest = hashlib.sha256()
    for file in tree_files(root):
        name = file.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
        with file.open("rb") as stream:
            digest.update(len(name).to_bytes(8, "little") + name)
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def path_state(path: Path) -> tuple[str, int]:
    """A digest of the place, size, inode and times of a file or of every file of a folder; and bytes in all.

    The time of the last change of an inode is among them: it moves with a rename too, whatever time a copy was given.
    """
    state, total = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")), 0
    for file in tree_files(path) if path.is_dir() else [path]:
        try:
            facts = os.stat(file)
            words = f"{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ctime_ns}\0{facts.st_ino}"
            total += facts.st_size
        except FileNotFoundError:  # a dangling link, or just removed: the reader reports it
            words = "nothing"
        state.update(f"{file}\0{words}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest(), total


TRAIN, TEST, VALIDATION = "train", "test", "validation"
COLUMNS = ("image", "label", "identity", "split")  # of a table
_SPLITS = {"train": TRAIN, "test": TEST, "validation": VALIDATION, "valid": VALIDATION, "val": VALIDATION}
_IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"}
_CLUTTER = {"thumbs.db", "desktop.ini"}  # left in folders by desktops, besides names that start with a dot
_SAVED = ("dataset_dict.json", "dataset_info.json")  # what save_to_disk of `datasets` leaves at the top of a folder
NO_LABEL = -1
"""The label of a picture without one, as Hugging Face has it."""


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


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The labelled pictures of a place.

    Attributes:
        folders: Names of classes that must not be empty.
        notes: What listing decided, a sentence each.
    """

    entries: list[Entry]
    folders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def list_labelled(path: Path, *, images: bool = True) -> Listing:
    """The pictures of a table (a Parquet file, a folder of them, a folder of `datasets`) or of a folder per class.

    Rows whose label is -1 are without one, where a schema says so or the others count from 0: they are left out. So
    are rows with a null, where a schema names the classes.
    Names that differ by their Unicode form alone are one. images: whether tables are to be read with their pictures.
    Raises InputError if the path is none of these, or its layout is not understood.
    """
    tables = _tables(path, COLUMNS if images else COLUMNS[1:])
    if tables is None:
        return _list_class_folders(path)
    if {table.split for table in tables} == {TRAIN}:  # a name that all share splits nothing
        tables = [replace(table, split=None) for table in tables]
    rows = [entry for table in tables for entry in _labelled_rows(table)]
    if len({entry.split is None for entry in rows}) > 1:
        raise InputError(f"data {path}: expected a split for every row or for none, got both")
    entries, left_out = _without_unlabelled(rows, any("label" in table.classes for table in tables))
    notes = (
        (f"{left_out} rows whose label is {NO_LABEL} or null, which stands for none, were left out",)
        if left_out
        else ()
    )
    if not entries:
        raise InputError(f"data {path}: expected labelled images, got {len(rows)} without a label")
    return Listing(entries=_one_form(entries), notes=notes)


def _without_unlabelled(entries: list[Entry], declared: bool) -> tuple[list[Entry], int]:
    """The rows that have a label, and how many have none. declared: whether a schema says what numbers mean."""
    labels = {entry.label for entry in entries}
    if NO_LABEL not in labels or not (declared or labels == set(range(NO_LABEL, len(labels) - 1))):
        return entries, 0
    kept = [entry for entry in entries if entry.label != NO_LABEL]
    return kept, len(entries) - len(kept)


def _one_form(entries: list[Entry]) -> list[Entry]:
    """The same name in two Unicode forms becomes the first one met; any other name stays as it is written."""
    first: dict[str, str] = {}

    def known(name: Any) -> Any:
        return first.setdefault(unicodedata.normalize("NFC", name), name) if isinstance(name, str) else name

    return [replace(entry, label=known(entry.label), identity=known(entry.identity)) for entry in entries]


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
    listing = list_labelled(path, images=False)
    pictures = Counter((entry.label, entry.split) for entry in listing.entries)
    return Counted(classes=len({label for label, _ in pictures} | set(listing.folders)), pictures=pictures)


def list_unlabelled(path: Path) -> list[Entry]:
    """The pictures of a table, or of a folder and its subfolders, in the order of their names."""
    tables = _tables(path, ("image",))
    if tables is None:
        return [_file_entry(path, file) for file in _walk(path)]
    return [
        Entry(where=table.row(i), read=_constant(image))
        for table in tables
        for i, image in enumerate(table.values["image"])
    ]


def content_digest(path: Path) -> str:
    """SHA-256 over the content, hexadecimal: a file's bytes, or relative names and bytes of a folder's files.

    Hidden files do not count; the place of the data does not either. Raises InputError if there is nothing.
    """
    _require_existing(path)
    digest = hashlib.sha256()
    is_tables = path.is_dir() and (_is_saved(path) or bool(_shards(path)))
    for file in _walk(path, any_file=is_tables) if path.is_dir() else [path]:
        if file != path:
            name = file.relative_to(path).as_posix().encode()
            digest.update(len(name).to_bytes(8, "little") + name + file.stat().st_size.to_bytes(8, "little"))
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _require_existing(path: Path) -> None:
    if not path.exists():
        raise InputError(f"data {path}: expected a Parquet file or a folder, got nothing at this path")


# Tables


@dataclass(frozen=True, kw_only=True)
class _Table(Columns):
    """Columns with their place, and the split that a file's or a folder's name says."""

    path: Path
    shard: str = ""
    split: str | None = None

    def row(self, number: int) -> str:
        """A row's name in messages."""
        return f"{self.shard} row {number}".lstrip()


def _is_saved(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _SAVED)


def _shards(folder: Path) -> list[Path]:
    """Parquet files in a folder, or in its folder `data`, or in the folders of splits in either."""
    tops = [folder, folder / "data"]
    places = [*tops, *(top / name for top in tops for name in _SPLITS)]
    return [file for place in places if place.is_dir() for file in _visible(place) if file.suffix == ".parquet"]


def _tables(path: Path, columns: Sequence[str]) -> list[_Table] | None:
    """The tables of a place with these columns, as far as they are there; None for a folder of pictures."""
    _require_existing(path)
    if _is_saved(path):
        tables = list(_saved(path, columns))
    elif shards := _shards(path) if path.is_dir() else []:
        if pictures := [file.name for file in _walk(path, any_file=True) if file.suffix.lower() in _IMAGE_SUFFIXES]:
            raise InputError(f"data {path}: expected Parquet files or pictures, got both, first {pictures[0]}")
        tables = [_table(file, columns, file.relative_to(path).as_posix()) for file in shards]
    elif path.is_dir():
        return None
    else:
        tables = [_table(path, columns)]
    if sum(table.rows for table in tables) == 0:
        raise InputError(f"data {path}: expected images, got an empty table")
    return [table for table in tables if table.rows]


def _table(path: Path, columns: Sequence[str], shard: str = "") -> _Table:
    try:
        table = read_columns(path, columns, encoded=("image",))
    except (UnreadableTable, OSError) as error:
        raise InputError(
            f"data {path}: expected a Parquet file or a folder per class, got an unreadable file"
        ) from error
    first = re.split(r"[-_.]", path.stem)[0].lower()
    split = (_SPLITS.get(first) or _SPLITS.get(path.parent.name.lower())) if shard else None
    return _checked(_Table(**vars(table), path=path, shard=shard, split=split), columns)


def _saved(path: Path, columns: Sequence[str]) -> Iterator[_Table]:
    """What save_to_disk of `datasets` has written. Raises InputError."""
    try:
        from datasets import ClassLabel, DatasetDict, load_from_disk  # an extra
    except ImportError:
        raise InputError(
            f"data {path}: expected the package that reads what save_to_disk has written, got none: "
            "pip install 'smoothsweep[datasets]'"
        ) from None
    try:
        loaded = load_from_disk(str(path))
    except Exception as error:  # whatever a damaged folder makes it raise
        raise InputError(f"data {path}: expected what save_to_disk writes, got: {str(error)[:200]}") from None
    for name, part in loaded.items() if isinstance(loaded, DatasetDict) else [("", loaded)]:
        held = part.with_format("arrow")[:]
        chosen = [column for column in columns if column in held.schema.names]
        for column in chosen:
            column_leaf(held.schema, column, f"data {path}", encoded=column == "image")
        values = {
            column: [value for chunk in held[column].chunks for value in column_values(chunk)] for column in chosen
        }
        classes = {name: kind.names for name, kind in part.features.items() if isinstance(kind, ClassLabel)}
        table = Columns(names=tuple(held.schema.names), rows=len(held), values=values, classes=classes)
        yield _checked(_Table(**vars(table), path=path, shard=str(name), split=_SPLITS.get(str(name).lower())), columns)


def _checked(table: _Table, columns: Sequence[str]) -> _Table:
    if "image" not in table.names:
        got = ", ".join(table.names[:20]) or "no columns"
        raise InputError(f"data {table.path}: expected a column 'image', got {got}")
    images = table.values.get("image", [])
    if None in images:
        raise InputError(
            f"data {table.path}: {table.row(images.index(None))}: expected a picture in 'image', got null; where "
            "to_parquet of `datasets` has written paths alone, save_to_disk writes the pictures"
        )
    return table


def _labelled_rows(table: _Table) -> Iterator[Entry]:
    path, columns = table.path, table.values
    if "label" not in columns and "identity" not in columns:
        raise InputError(f"data {path}: expected a column 'label' or 'identity', got {', '.join(table.names[:20])}")
    labels, identities, splits = (
        _named(table, name) if name in columns else None for name in ("label", "identity", "split")
    )
    meant = table.classes.get("label")
    for i, image in enumerate(columns.get("image", [b""] * table.rows)):
        identity = str(identities[i]) if identities else None
        label = labels[i] if labels else identity
        if meant and isinstance(label, int) and label != NO_LABEL:
            if not 0 <= label < len(meant):
                raise InputError(f"data {path}: {table.row(i)}: expected a label below {len(meant)}, got {label}")
            identity = identity or meant[label]
        split = _SPLITS.get(str(splits[i]).strip().lower()) if splits else table.split
        if splits and split is None:
            expected = f"expected a split of {', '.join(_SPLITS)}"
            raise InputError(f"data {path}: {table.row(i)}: {expected}, got {splits[i]!r}")
        yield Entry(
            where=table.row(i),
            read=_constant(image),
            label=label,
            identity=identity if labels and label != NO_LABEL else None,
            split=split,
        )


def _named(table: _Table, name: str) -> list[Any]:
    """A column of whole numbers or strings without gaps; -1 for a gap among labels whose names a schema has."""
    values = table.values[name]
    for i, value in enumerate(values):
        if value is None and name == "label" and name in table.classes:
            values[i] = NO_LABEL
            continue
        if isinstance(value, float) and value.is_integer():  # what pandas makes of integers beside a gap
            values[i] = int(value)
        elif value is None or value == "" or not isinstance(value, int | str) or isinstance(value, bool):
            got = "null" if value is None else repr(value)
            raise InputError(f"data {table.path}: {table.row(i)}: expected a number or a name in '{name}', got {got}")
    return values


def _constant(image: bytes) -> Callable[[], bytes]:
    return lambda: image


# Folders


def _list_class_folders(root: Path) -> Listing:
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
    written = _one_form([*entries, *(Entry(where="", read=bytes, label=name) for name in sorted(classes))])
    named = {str(entry.label) for entry in written[len(entries) :]}
    return Listing(entries=written[: len(entries)], folders=tuple(sorted(named)))


def _subfolders(folder: Path) -> list[Path]:
    children = _visible(folder)
    for child in children:
        if not child.is_dir():
            raise InputError(f"data {folder}: expected a folder per class, got the file {child.name}")
    if not children:
        raise InputError(f"data {folder}: expected a folder per class, got an empty folder")
    return children


def _walk(folder: Path, *, any_file: bool = False) -> list[Path]:
    """Every picture below a folder, or every file; a link that leads back up is an error, not an endless walk."""
    files = sorted(file for file in tree_files(folder) if file.name.lower() not in _CLUTTER)
    for file in () if any_file else files:
        _require_picture(folder, file)
    if not files:
        raise InputError(f"data {folder}: expected pictures, got none")
    return files


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
