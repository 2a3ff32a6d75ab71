"""What a user's own pictures hold, and what of it would spoil an experiment: said before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smoothsweep.core.data.labelling import assign_labels, split_entries
from smoothsweep.core.data.listing import few
from smoothsweep.core.data.own.overlap import Pairs, fit_to, identical_pairs, pair_labels, reframed_pairs, similar_pairs
from smoothsweep.core.data.own.scanning import ScannedPictures, scan_pictures
from smoothsweep.core.data.sources import Entry, list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError

TEST_FRACTION, SPLIT_SEED = 0.1, 42  # what a sweep file takes unless it says otherwise


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """How many pictures there are; their sides in pixels (shortest and longest of all, median of the shorter ones); how
    many are not square, and how many have further frames, which are not looked at.
    """

    images: int
    shortest: int
    longest: int
    median: int
    oblong: int
    animated: int


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


def check_own(path: Path, public: Path | None = None, *, workers: int | None = None) -> OwnCheck:
    """Read every picture of a Parquet file or of a folder per class, and of the public ones; nothing is written.

    The split is the data's own, or that of a sweep file which says nothing of it. A fault does not end the check.
    Raises InputError for what has not the layout at all, and for labels that contradict each other.
    """
    entries, folders = list_labelled(path)
    labels, names, notes = assign_labels(entries, folders, path)
    seen = _seen(entries, path, workers)
    kept_labels = labels[seen.index]
    train, test, lines, faults = _parts([entries[i] for i in seen.index], kept_labels.numpy(), names, path)
    training, testing = seen.at(train), seen.at(test)
    others = None if public is None else _seen(list_unlabelled(public), public, workers)
    in_both = identical_pairs(testing, training)
    faults = [*(f"unreadable: {text}" for text in seen.unreadable), *faults]
    faults += [f"unreadable, public: {text}" for text in (others.unreadable if others else ())]
    faults += [f"in training and test: {text}" for text in pair_labels(in_both, "=")]
    sizes = [np.bincount(kept_labels.numpy()[part], minlength=len(names)).tolist() for part in (train, test)]
    near = {
        "within training": similar_pairs(training),
        "within test": similar_pairs(testing),
        "of test and training": similar_pairs(testing, training),
    }
    return OwnCheck(
        path=path,
        public_path=public,
        counts=dict(zip(names, zip(*sizes, strict=True), strict=True)),
        shapes=_shapes(seen),
        public=_shapes(others) if others else None,
        notes=(*notes, *lines),
        faults=tuple(faults),
        doubts=(
            *_doubts(seen, dict(zip(seen.where, kept_labels.tolist(), strict=True)), names, near),
            *_misfit(seen, kept_labels.numpy(), others),
        ),
        near={**near, **({"of private and public": _near(seen, others)} if others else {})},
        shared=identical_pairs(seen, others) if others else (),
    )


def _seen(entries: Sequence[Entry], path: Path, workers: int | None) -> ScannedPictures:
    seen = scan_pictures(entries, workers=workers)
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
    train, test, notes = split_entries(
        entries, torch.from_numpy(labels), names, path, TEST_FRACTION, "stratified", SPLIT_SEED
    )
    faults = [
        f"class {name}: no readable image to {what}"
        for part, what in ((train, "train"), (test, "test"))
        for name, count in zip(names, np.bincount(labels[part], minlength=len(names)).tolist(), strict=True)
        if not count
    ]
    return train.numpy(), test.numpy(), notes, faults


def _near(seen: ScannedPictures, public: ScannedPictures) -> Pairs:
    """Private pictures that look like a public one, or are one in another frame; the very same are told elsewhere."""
    known = {name for name, _ in identical_pairs(seen, public)}
    matches = dict((*reframed_pairs(seen, public), *similar_pairs(seen, public)))
    return tuple((name, other) for name, other in matches.items() if name not in known)


def _misfit(seen: ScannedPictures, labels: np.ndarray, public: ScannedPictures | None) -> tuple[str, ...]:
    """Why a prior of the public pictures may not draw these people."""
    fit = None if public is None else fit_to(seen, labels, public)
    return () if fit is None else fit.doubts


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


def _shapes(seen: ScannedPictures) -> Shapes:
    width, height = seen.shapes[:, 0], seen.shapes[:, 1]
    return Shapes(
        images=len(seen),
        shortest=int(seen.shapes.min()),
        longest=int(seen.shapes.max()),
        median=int(np.median(seen.shapes.min(axis=1))),
        oblong=int((width != height).sum()),
        animated=int((seen.frames > 1).sum()),
    )
