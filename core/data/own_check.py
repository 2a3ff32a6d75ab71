"""What a user's own pictures hold, and what of it would spoil an experiment: said before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

from smoothsweep.core.data.decoding import unsaid_bits
from smoothsweep.core.data.labelled import assign_labels, split_entries
from smoothsweep.core.data.likeness import (
    Pairs,
    ScannedPictures,
    changed_pairs,
    fit_of,
    identical_pairs,
    pair_labels,
    scan_pictures,
    similar_pairs,
)
from smoothsweep.core.data.sources import Entry, list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import few

TEST_FRACTION, SPLIT_SEED = 0.1, 42  # what a sweep file takes unless it says otherwise
_MOST_LINES = 20
_EXTREMES = 5  # classes named at either end


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """How many pictures there are; their sides in pixels (shortest and longest of all, median of the shorter ones); how
    many are not square, and how many have further frames, which are not looked at; how many have containers of 16 or 32
    bits, their largest value, and how many bits they were said to use.
    """

    images: int
    shortest: int
    longest: int
    median: int
    oblong: int
    animated: int
    deep: int = 0
    peak: int = 0
    bits: int | None = None


@dataclass(frozen=True, kw_only=True)
class OwnCheck:
    """What a look at a user's own pictures found.

    Attributes:
        counts: Class -> its training and test images.
        notes: What loading decides, a sentence each.
        faults: What loading refuses, and doubts: what it accepts and a person should look at; a sentence each.
        near: Which parts, in words -> pictures that look alike.
        shared: Private pictures that are public too: an attack that shows them has shown nothing.
    """

    path: Path
    public_path: Path | None
    counts: dict[str, tuple[int, int]]
    shapes: Shapes
    public: Shapes | None
    notes: tuple[str, ...]
    faults: tuple[str, ...]
    doubts: tuple[str, ...]
    near: dict[str, Pairs]
    shared: Pairs

    @property
    def totals(self) -> list[int]:
        """Images of every class."""
        return [train + test for train, test in self.counts.values()]

    @property
    def is_usable(self) -> bool:
        """Whether loading refuses nothing and no private picture is public."""
        return not self.faults and not self.shared


def check_own(
    path: Path, public: Path | None = None, *, bits: int | None = None, tell: Callable[[str], None] = lambda line: None
) -> OwnCheck:
    """Read every picture of a table or of a folder per class, and of the public ones; nothing is written.

    The split is the data's own, or that of a sweep file which says nothing of it. A fault does not end the check.
    bits: see `core.data.decoding.decode_picture`; tell: gets a line before each step that takes its time. Raises
    InputError for what has not the layout at all, and for labels that contradict each other.
    """
    listing = list_labelled(path)
    labels, names, notes = assign_labels(listing.entries, listing.folders, path)
    seen = _seen(listing.entries, path, bits, tell)
    kept_labels = labels[seen.index]
    train, test, lines, faults = _parts([listing.entries[i] for i in seen.index], kept_labels.numpy(), names, path)
    training, testing = seen.at(train), seen.at(test)
    others = None if public is None else _seen(list_unlabelled(public), public, bits, tell)
    in_both = identical_pairs(testing, training)
    faults = [*(f"unreadable: {text}" for text in seen.unreadable), *faults]
    faults += [f"unreadable, public: {text}" for text in (others.unreadable if others else ())]
    faults += [f"in training and test: {text}" for text in pair_labels(in_both, "=")]
    for part in (seen, others) if others else (seen,):
        if unsaid := unsaid_bits(part.peaks, bits):
            faults.append(f"{unsaid} (--bits here, bits in the sweep file)")
    sizes = [np.bincount(kept_labels.numpy()[part], minlength=len(names)).tolist() for part in (train, test)]
    tell(f"looking for near-duplicates among {len(seen)} private images")
    near = {
        "within training": similar_pairs(training),
        "within test": similar_pairs(testing),
        "of test and training": similar_pairs(testing, training),
    }
    shared: Pairs = ()
    doubts = _doubts(seen, dict(zip(seen.where, kept_labels.tolist(), strict=True)), names, near)
    if others is not None:
        tell(f"looking for {len(seen)} private among {len(others)} public images, as they are and in other frames")
        shared, changed = identical_pairs(seen, others), changed_pairs(seen, others)
        same = {name for name, _ in shared}
        near["of private and public"] = tuple(pair for pair in changed.items() if pair[0] not in same)
        fit = fit_of(seen.small, kept_labels.numpy(), others.small)
        doubts += () if fit is None else fit.doubts
    return OwnCheck(
        path=path,
        public_path=public,
        counts=dict(zip(names, zip(*sizes, strict=True), strict=True)),
        shapes=_shapes(seen, bits),
        public=_shapes(others, bits) if others else None,
        notes=(*listing.notes, *notes, *lines),
        faults=tuple(faults),
        doubts=doubts,
        near=near,
        shared=shared,
    )


def _seen(entries: Sequence[Entry], path: Path, bits: int | None, tell: Callable[[str], None]) -> ScannedPictures:
    tell(f"reading {len(entries)} images in {path}")
    seen = scan_pictures(entries, bits=bits)
    if not len(seen):
        raise InputError(f"data {path}: expected readable pictures, got {few(seen.unreadable)}")
    return seen


def _parts(
    entries: Sequence[Entry], labels: np.ndarray, names: Sequence[str], path: Path
) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    """Rows that train and that test, notes, and what loading would refuse. Where no split can be had, all train."""
    counts = np.bincount(labels, minlength=len(names))
    if entries[0].split is None and counts.min() < 2:
        short = [
            f"class {name}: {count} readable images, where a split needs 2"
            for name, count in zip(names, counts.tolist(), strict=True)
            if count < 2
        ]
        return np.arange(len(entries)), np.arange(0), [], short
    train, test, notes = split_entries(entries, torch.from_numpy(labels), names, path, TEST_FRACTION, SPLIT_SEED)
    faults = [
        f"class {name}: no readable image to {what}"
        for part, what in ((train, "train"), (test, "test"))
        for name, count in zip(names, np.bincount(labels[part], minlength=len(names)).tolist(), strict=True)
        if not count
    ]
    return train.numpy(), test.numpy(), notes, faults


def _doubts(
    seen: ScannedPictures, label_of: dict[str, int], names: Sequence[str], near: dict[str, Pairs]
) -> tuple[str, ...]:
    """The same picture twice, and one person's that looks like another's."""
    twice = identical_pairs(seen)
    doubts = [f"{pair[0]} = {pair[1]}: the same picture, of {_who(pair, label_of, names)}" for pair in twice]
    for pair in (pair for pairs in near.values() for pair in pairs):
        if label_of[pair[0]] != label_of[pair[1]]:
            doubts.append(f"{pair[0]} ~ {pair[1]}: alike, of {_who(pair, label_of, names)}")
    return tuple(doubts)


def _who(pair: tuple[str, str], label_of: dict[str, int], names: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(names[label_of[name]] for name in pair))


def _shapes(seen: ScannedPictures, bits: int | None) -> Shapes:
    width, height = seen.shapes[:, 0], seen.shapes[:, 1]
    return Shapes(
        images=len(seen),
        shortest=int(seen.shapes.min()),
        longest=int(seen.shapes.max()),
        median=int(np.median(seen.shapes.min(axis=1))),
        oblong=int((width != height).sum()),
        animated=int((seen.frames > 1).sum()),
        deep=len(seen.peaks),
        peak=max(seen.peaks, default=0),
        bits=bits,
    )


def own_text(check: OwnCheck, identities: Sequence[str] = ()) -> list[str]:
    """Counts, shapes, what looks alike, faults, and a verdict. identities: lines on people whom public images show."""
    train, test = (sum(pair[part] for pair in check.counts.values()) for part in (0, 1))
    lines = [f"own data in {check.path}", f"  classes: {len(check.counts)}; {train} training and {test} test images"]
    lines += [f"  {text}" for text in _balance(check)]
    lines += [f"  private: {text}" for text in _shape_lines(check.shapes)]
    if check.public is not None:
        lines += [f"  public, {check.public_path}: {text}" for text in _shape_lines(check.public)]
    lines += [f"  {note}" for note in check.notes]
    for where, pairs in check.near.items():
        lines += _listed(f"near-duplicates {where}", pair_labels(pairs, "~"))
    lines += _listed("to look at, which loading accepts", check.doubts)
    lines += _listed("faults, which loading refuses", check.faults)
    lines += [f"  {line}" for line in identities]
    lines += _listed("private pictures that are public too", pair_labels(check.shared, "="))
    return [*lines, "  fine" if check.is_usable else f"  not fine: {_verdict(check)}"]


def _balance(check: OwnCheck) -> list[str]:
    """How many images the classes have, and which have most and fewest."""
    fewest, most = min(check.totals), max(check.totals)
    ratio = f"; the largest class has {most / fewest:.1f} times the smallest's" if fewest else ""
    lines = [f"images per class: {fewest} to {most}, median {median(check.totals):g}{ratio}"]
    by_size = sorted(check.counts.items(), key=lambda item: -sum(item[1]))
    if len(by_size) <= 2 * _EXTREMES:
        return [*lines, f"classes: {_classes(by_size)}"]
    ends = (("largest", by_size[:_EXTREMES]), ("smallest", by_size[-_EXTREMES:]))
    return [*lines, *(f"{which}: {_classes(classes)}" for which, classes in ends)]


def _classes(classes: Sequence[tuple[str, tuple[int, int]]]) -> str:
    return ", ".join(f"{name} {train} + {test}" for name, (train, test) in classes)


def _shape_lines(shapes: Shapes) -> list[str]:
    lines = [f"{shapes.images} images; sides {shapes.shortest} to {shapes.longest} pixels, median {shapes.median}"]
    if shapes.oblong:
        lines.append(f"{shapes.oblong} images are not square: the central square counts, unless data.crop is stretch")
    if shapes.animated:
        lines.append(f"{shapes.animated} images have several frames: the first counts")
    if shapes.deep:
        scaled = f"read as {shapes.bits or 16} bits" if shapes.bits or shapes.peak >= 2**14 else "bits not stated"
        lines.append(f"{shapes.deep} images have 16 or 32 bits, the largest value is {shapes.peak}: {scaled}")
    return lines


def _listed(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = [f"    and {len(items) - _MOST_LINES} more"] if len(items) > _MOST_LINES else []
    return [f"  {len(items)} {title}:", *(f"    {item}" for item in items[:_MOST_LINES]), *more]


def _verdict(check: OwnCheck) -> str:
    counts = ((len(check.faults), "faults"), (len(check.shared), "private pictures among the public ones"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)
