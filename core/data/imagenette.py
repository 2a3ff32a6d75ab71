"""ImageNette, ten easy ImageNet classes, in fastai's layout with its own split."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothsweep.core.data.layouts import (
    ListOptions,
    PublishedListing,
    Report,
    class_folders,
    class_pictures,
    count_classes,
    require_folder,
)

CLASSES = 10
LAYOUT = "ImageNette's layout train/<synset>/<file> and val/<synset>/<file>"


def list_imagenette(root: Path, options: ListOptions, report: Report) -> PublishedListing:
    """train/ and val/ of `root`; labels are the synsets in sorted order, files sorted as strings.

    The release's own split is kept (val/ tests): the paper speaks of "test splits" (App. C.9, Table 12) and says no
    more about the data, and its repository has no such set. Shorter side and central square are our choice.

    Raises InputError if there is no such layout; reports a synset that is in one part only or empty, a wrong number of
    synsets, and a split seed, which a given split cannot follow.
    """
    if options.split_seed != 42:
        report(f"split_seed: expected 42 for a set with a split of its own, got {options.split_seed}")
    parts = ("train", "val")
    present = [class_folders(require_folder(root, part, LAYOUT)) for part in parts]
    names = sorted(set(present[0]) | set(present[1]))
    count_classes(len(names), options, report, of="synsets")
    files: list[str] = []
    labels: list[int] = []
    others, ends = 0, []
    for part, folders in zip(parts, present, strict=True):
        for label, name in enumerate(names):
            pictures, passed_over = class_pictures(root, f"{part}/{name}") if name in folders else ([], 0)
            if not pictures:
                report(f"expected pictures in {part}/{name}, got none")
            files += pictures
            labels += [label] * len(pictures)
            others += passed_over
        ends.append(len(files))
    return PublishedListing(
        root=root,
        files=tuple(files),
        labels=torch.tensor(labels, dtype=torch.int64),
        names=tuple(names),
        train=torch.arange(ends[0]),
        test=torch.arange(ends[0], ends[1]),
        fit="shorter_side",
        notes=(
            "split: the release's own train and val",
            *([f"{others} files that are no pictures were passed over"] if others else []),
        ),
    )
