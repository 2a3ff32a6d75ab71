"""FaceScrub, 530 identities: folders of cropped faces, actors before actresses."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import torch

from smoothsweep.core.data.layouts import (
    ListOptions,
    PublishedListing,
    Report,
    class_folders,
    class_pictures,
    count_classes,
    published_split,
    require_folder,
)

CLASSES = 530
LAYOUT = "FaceScrub's layout actors/faces/<Name>/<file> and actresses/faces/<Name>/<file>"

_GROUPS = ("actors", "actresses")

# Some labels of the published class map. Folders spelled otherwise may sort otherwise, and then the labels of published
# weights mean other people.
_KNOWN = {
    0: "Aaron_Eckhart",
    4: "Adrien_Brody",
    262: "Tom_Hanks",
    264: "Woody_Allen",
    265: "Adrianne_León",
    529: "Zooey_Deschanel",
}


def list_facescrub(root: Path, options: ListOptions, report: Report) -> PublishedListing:
    """The cropped faces of `root` in official order, labels 0 to 264 for actors and 265 to 529 for actresses.

    Order: class folders by code point, file names as strings, all actors first; so the split depends on which files are
    there and on their names, and the authors' own list is not published. The split is `core.data.splits.paper_split`.
    Pictures are stretched to a square: the published faces are square already. An identity that has a folder under
    `images` (the uncropped pictures) but none under `faces` is missing. Source: Plug-and-Play-Attacks,
    datasets/facescrub.py.

    Raises InputError if there is no such layout; reports a missing or empty identity and a wrong number of them.
    """
    files: list[str] = []
    labels: list[int] = []
    names: list[str] = []
    others, people = 0, []
    folders = [require_folder(root, f"{group}/faces", LAYOUT) for group in _GROUPS]
    for group, faces in zip(_GROUPS, folders, strict=True):
        present = class_folders(faces)
        uncropped = root / group / "images"
        for name in sorted(set(class_folders(uncropped) if uncropped.is_dir() else []) - set(present)):
            report(f"expected faces of {name} in {group}/faces, got none (there is {group}/images/{name})")
        for name in present:
            pictures, passed_over = class_pictures(root, f"{group}/faces/{name}")
            if not pictures:
                report(f"expected pictures in {group}/faces/{name}, got none")
            files += pictures
            labels += [len(names)] * len(pictures)
            names.append(name)
            others += passed_over
        people.append(len(present))
    count_classes(
        len(names), options, report, of="identities", detail=f" ({people[0]} actors and {people[1]} actresses)"
    )
    train, test = published_split(files, options, report)
    return PublishedListing(
        root=root,
        files=tuple(files),
        labels=torch.tensor(labels, dtype=torch.int64),
        names=tuple(names),
        train=train,
        test=test,
        fit="stretch",
        squares=True,
        notes=(
            f"split: published 90/10 shuffle, seed {options.split_seed}",
            *([f"{others} files that are no pictures were passed over"] if others else []),
        ),
        doubts=_unexpected_labels(names) if len(names) == CLASSES else (),
    )


def _unexpected_labels(names: list[str]) -> tuple[str, ...]:
    """Where the order differs from the published class map; accents may be written in either form."""
    unexpected = {label: unicodedata.normalize("NFC", names[label]) for label in _KNOWN}
    return tuple(
        f"label {label}: the published class map has {name}, this tree {unexpected[label]}"
        for label, name in _KNOWN.items()
        if unexpected[label] != name
    )
