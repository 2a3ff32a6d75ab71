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
from smoothsweep.core.text import few, listed

TEST_FRACTION, SPLIT_SEED = 0.1, 42  # what a sweep file takes unless it says otherwise
_EXTREMES = 5  # classes named at either end


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """How large and how deep pictures are.

    Attributes:
        shortest, longest, median: Sides in pixels: of all, and the median of the shorter ones.
        oblong, animated: How many are not square; how many have further frames, which are not looked at.
        deep, peak: How many have containers of 16 or 32 bits, and their largest value.
        bits: How many bits these were said to use.
    """

    images: int
    shortest: int
    longest: int
    median: int
    oblong: int
    animated: int
    deep: int
    peak: int
    bits: int | None

    @classmethod
    def of(cls, seen: ScannedPictures, bits: int | None) -> Shapes:
        return cls(
            images=len(seen),
            shortest=int(seen.shapes.min()),
            longest=int(seen.shapes.max()),
            median=int(np.median(seen.shapes.min(axis=1))),
            oblong=int((seen.shapes[:, 0] != seen.shapes[:, 1]).sum()),
            animated=int((seen.frames > 1).sum()),
            deep=len(seen.peaks),
            peak=max(seen.peaks, default=0),
            bits=bits,
        )

    @property
    def lines(self) -> list[str]:
        """Sentences for a terminal."""
        lines = [f"{self.images} images; sides {self.shortest} to {self.longest} pixels, median {self.median}"]
        if self.oblong:
            lines.append(f"{self.oblong} images are not square: the central square counts, unless data.crop is stretch")
        if self.animated:
            lines.append(f"{self.animated} images have several frames: the first counts")
        if self.deep:
            scaled = f"read as {self.bits or 16} bits" if self.bits or self.peak >= 2**14 else "bits not stated"
            lines.append(f"{self.deep} images have 16 or 32 bits, the largest value is {self.peak}: {scaled}")
        return lines


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
    def is_usable(self) -> bool:
        """Whether loading refuses nothing and no private picture is public."""
        return not self.faults and not self.shared

    def lines(self, identities: Sequence[str] = ()) -> list[str]:
        """Counts, shapes, what looks alike, faults, and a verdict. identities: lines on people whom public images
        show."""
        train, test = (sum(pair[part] for pair in self.counts.values()) for part in (0, 1))
        lines = [f"own data in {self.path}", f"  classes: {len(self.counts)}; {train} training and {test} test images"]
        lines += [f"  {text}" for text in self._balance()]
        lines += [f"  private: {text}" for text in self.shapes.lines]
        if self.public is not None:
            lines += [f"  public, {self.public_path}: {text}" for text in self.public.lines]
        lines += [f"  {note}" for note in self.notes]
        for where, pairs in self.near.items():
            lines += listed(f"near-duplicates {where}", pair_labels(pairs, "~"))
        lines += listed("to look at, which loading accepts", self.doubts)
        lines += listed("faults, which loading refuses", self.faults)
        lines += [f"  {line}" for line in identities]
        lines += listed("private pictures that are public too", pair_labels(self.shared, "="))
        counts = ((len(self.faults), "faults"), (len(self.shared), "private pictures among the public ones"))
        wrong = ", ".join(f"{count} {what}" for count, what in counts if count)
        return [*lines, f"  not fine: {wrong}" if wrong else "  fine"]

    def _balance(self) -> list[str]:
        """How many images the classes have, and which have most and fewest."""
        totals = [sum(pair) for pair in self.counts.values()]
        fewest, most = min(totals), max(totals)
        ratio = f"; the largest class has {most / fewest:.1f} times the smallest's" if fewest else ""
        by_size = sorted(self.counts.items(), key=lambda item: -sum(item[1]))
        classes = [f"{name} {train} + {test}" for name, (train, test) in by_size]
        ends = [("classes", classes)]
        if len(classes) > 2 * _EXTREMES:
            ends = [("largest", classes[:_EXTREMES]), ("smallest", classes[-_EXTREMES:])]
        return [
            f"images per class: {fewest} to {most}, median {median(totals):g}{ratio}",
            *(f"{which}: {', '.join(some)}" for which, some in ends),
        ]


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
        shapes=Shapes.of(seen, bits),
        public=Shapes.of(others, bits) if others else None,
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
    counts = list(zip(names, np.bincount(labels, minlength=len(names)).tolist(), strict=True))
    if entries[0].split is None and (few_of := [(name, count) for name, count in counts if count < 2]):
        short = [f"class {name}: {count} readable images, where a split needs 2" for name, count in few_of]
        return np.arange(len(entries)), np.arange(0), [], short
    train, test, notes = split_entries(entries, torch.from_numpy(labels), names, path, TEST_FRACTION, SPLIT_SEED)
    faults = [
        f"class {name}: no readable image to {what}"
        for part, what in ((train, "train"), (test, "test"))
        for label, name in enumerate(names)
        if not (labels[part] == label).any()
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
