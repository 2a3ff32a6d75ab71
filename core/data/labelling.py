"""Which class and which part each of the user's pictures belongs to, before any of them is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from smoothsweep.core.data import splits
from smoothsweep.core.data.listing import few
from smoothsweep.core.data.sources import TEST, TRAIN, VALIDATION, Entry
from smoothsweep.core.errors import InputError


def assign_labels(
    entries: Sequence[Entry], folders: Sequence[str], path: Path
) -> tuple[Tensor, tuple[str, ...], list[str]]:
    """Contiguous labels int64 [N], class names, notes; labels and identities must go together one to one.

    folders: names of classes that must be there. Raises InputError naming the first picture that does not fit.
    """
    identity_of: dict[int | str, str] = {}
    label_of: dict[str, int | str] = {}
    labelled = [(entry, cast("int | str", entry.label)) for entry in entries]  # who names entries has labelled them
    for entry, stated_label in labelled:
        if entry.identity is None:
            continue
        label = label_of.setdefault(entry.identity, stated_label)
        identity = identity_of.setdefault(stated_label, entry.identity)
        if label != entry.label:
            what = f"one label for identity {entry.identity!r}, got {label!r} and {entry.label!r}"
        elif identity != entry.identity:
            what = f"one identity for label {entry.label!r}, got {identity!r} and {entry.identity!r}"
        else:
            continue
        raise InputError(f"data {path}: {entry.where}: expected {what}")
    every: set[Any] = {label for _, label in labelled} | set(folders)  # numbers alone, or names alone
    classes = sorted(every)
    if len(classes) < 2:
        raise InputError(f"data {path}: expected at least 2 classes, got {len(classes)}")
    index = {label: i for i, label in enumerate(classes)}
    names = tuple(identity_of.get(label, str(label)) for label in classes)
    notes = []
    if isinstance(classes[0], int) and classes != list(range(len(classes))):
        notes.append(f"labels {few(classes)} were renumbered 0 to {len(classes) - 1} in this order")
    return torch.tensor([index[entry.label] for entry in entries], dtype=torch.int64), names, notes


def split_entries(
    entries: Sequence[Entry],
    labels: Tensor,
    names: Sequence[str],
    path: Path,
    test_fraction: float,
    method: str,
    seed: int,
) -> tuple[Tensor, Tensor, list[str]]:
    """Training and test indices: the data's own split if it has one, else a drawn one; and notes.

    method, seed: of the drawn one (`core.data.labelled.load_labelled`). Raises InputError for a split without a part.
    """
    stated_splits = [entry.split for entry in entries]
    if stated_splits[0] is None:
        if method == "paper":
            return *splits.paper_split(len(labels), seed=seed), [f"split: published 90/10 shuffle, seed {seed}"]
        train, test = splits.stratified_split(labels, test_fraction=test_fraction, seed=seed, names=names)
        return train, test, [f"split: {test_fraction:g} of every class for the test, seed {seed}"]
    if method != "stratified":
        raise InputError(f"data {path}: split_method: expected no {method} split, since the data have one of their own")
    parts = {
        part: torch.tensor([i for i, s in enumerate(stated_splits) if s == part]) for part in (TRAIN, TEST, VALIDATION)
    }
    for part in (TRAIN, TEST):
        if not len(parts[part]):
            raise InputError(f"data {path}: expected images of the splits train and test, got none of {part}")
    notes = ["split: the one that came with the data"]
    if len(parts[VALIDATION]):
        notes.append(f"{len(parts[VALIDATION])} validation images are not used")
    return parts[TRAIN], parts[TEST], notes
