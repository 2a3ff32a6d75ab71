"""A first sweep file for a user's own images: what its sizes follow from, section by section with the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoothsweep.core.data.own_check import OwnCheck
from smoothsweep.sweeps.yaml_reader import as_yaml

LOSSES = ("poincare", "logit")
"""The published loss, and one that also works where gradients are masked."""
MOST_CLASSES, MOST_PUBLIC = 20, 8000
SIZES = (32, 64)  # pixels that pictures are kept at, the least and the most
SEEN = 32  # pixels that the small networks see
COMPONENTS, BATCH = 150, 50
STEPS_OF_AN_EPOCH = 4  # at least, of few images
HEAD = (
    "What leaks from a classifier of your own images? As `smoothsweep init` wrote it; docs/sweep-keys.md\n"
    "describes every key. Next: smoothsweep plan FILE, then smoothsweep run FILE."
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What the images show, in words.

    Attributes:
        data, public: Names of files to be filled in.
        class_, classes: What a class is.
        others: What the public images show.
        judge: The comment on judges.
        judges: The judges beside the evaluator.
    """

    data: str
    public: str
    class_: str
    classes: str
    others: str
    judge: str
    judges: Mapping[str, Any] = field(default_factory=dict)


FACES = Subject(
    data="faces.parquet",
    public="other-people.parquet",
    class_="person",
    classes="people",
    others="Images of other people",
    judge=(
        "Who decides whether a reconstruction shows the person. The evaluator sees the private images too, and\n"
        "accepts nearly everything. Add a judge that learned on other people (docs/judges.md):\n"
        "  embedder: {name: mobilefacenet_a, weights: FILE}"
    ),
)
NO_FACES = Subject(
    data="images.parquet",
    public="other-images.parquet",
    class_="class",
    classes="classes",
    others="Images of the same kind, of none of your classes",
    judge=(
        "Who decides whether a reconstruction shows the class. The evaluator sees the private images too, and\n"
        "accepts nearly everything. general: features learned on pictures of anything. Its weights come with\n"
        "smoothsweep weights stage; without them its columns stay empty."
    ),
    judges={"general": {}},
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the file's numbers are taken from; None where nothing is known of it.

    Attributes:
        classes, training: Classes and training images of the private data.
        median: Side in pixels of the smaller ones of private and public images.
        public: How many public images there are.
        bits: How many bits deep images were said to use.
    """

    classes: int | None = None
    training: tuple[int, ...] = ()
    median: int | None = None
    public: int | None = None
    bits: int | None = None

    @classmethod
    def of(cls, check: OwnCheck) -> Sizes:
        sides = [shapes.median for shapes in (check.shapes, check.public) if shapes is not None]
        return cls(
            classes=len(check.counts),
            training=tuple(train for train, _ in check.counts.values()),
            median=min(sides),
            public=None if check.public is None else check.public.images,
            bits=check.shapes.bits,
        )

    @property
    def side(self) -> int:
        """Side in pixels that pictures are kept at: they are not enlarged more than the networks need."""
        return SIZES[1] if self.median is None else min(SIZES[1], max(SIZES[0], self.median // 16 * 16))

    @property
    def largest(self) -> int | None:
        """How many of the classes to take, None for all."""
        return MOST_CLASSES if self.classes is None or self.classes > MOST_CLASSES else None

    @property
    def batch(self) -> int:
        """Fewer images at once where there are few, so that an epoch has some steps."""
        chosen = sum(sorted(self.training, reverse=True)[: self.largest])
        return min(BATCH, max(2, chosen // STEPS_OF_AN_EPOCH)) if chosen else BATCH

    @property
    def components(self) -> int:
        """Components of the prior: no more than there are images to fit it on."""
        return COMPONENTS if self.public is None else max(1, min(COMPONENTS, self.public // 2))


def sweep_name(data: Path | None) -> str:
    """A sweep's name from that of the data."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", data.stem if data else "own").strip("-._")
    return stem[:64] or "own"


def own_sweep_text(data: Path | None, public: Path | None, sizes: Sizes, subject: Subject = FACES) -> str:
    """The file. data, public: where the images lie, None for a name to be filled in."""
    sections = [
        ("", {"name": sweep_name(data), "seeds": [1, 2, 3]}),
        (_about_data(data, sizes, subject), {"data": _data(data, sizes, subject)}),
        (_about_public(public, sizes, subject), {"public": _public(public, sizes, subject)}),
        (
            f"How a classifier is trained: from scratch, on {SEEN} pixels, so that two CPU cores will do. Give it\n"
            "more with image_size, architecture (resnet18, resnet50, ...) and pretrained.",
            {"recipe": {**_training("resnet_small", sizes), "defense": {"kind": "label_smoothing"}}},
        ),
        (
            "What the attacker knows of such images: their principal components. smoothsweep import prior\n"
            "brings an official StyleGAN2 in.",
            {"prior": {"kind": "eigenfaces", "components": sizes.components}},
        ),
        ("The attack (docs/attacks.md has the others), in minutes on two cores.", {"attack": _attack()}),
        (subject.judge, {"judges": {"evaluator": _training("vgg_small", sizes), **subject.judges}}),
        (
            "The question: which smoothing factor gives the accuracy you need and leaks least? Any key can be swept.\n"
            "Two losses of the attack: the published one, and logit, which also works where gradients are masked.",
            {
                "grid": {"recipe.defense.alpha": [0.1, 0.0, -0.05, -0.3], "attack.loss": list(LOSSES)},
                "baseline": {"recipe.defense.alpha": 0.0},
            },
        ),
    ]
    return "\n".join([_comment(HEAD), *(_section(comment, tree) for comment, tree in sections)])


def _section(comment: str, tree: dict[str, Any]) -> str:
    return (_comment(comment) if comment else "") + as_yaml(tree)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.split("\n"))


def _about_data(data: Path | None, sizes: Sizes, subject: Subject) -> str:
    if data is None or sizes.classes is None:
        most = f"the {MOST_CLASSES} {subject.classes} with most images; remove the line for all"
        return (
            "Your images: a Parquet file (columns image, label or identity, maybe split) or a folder with one\n"
            f"folder per {subject.class_}. largest_classes: {most}."
        )
    total, fewest, most = sum(sizes.training), min(sizes.training), max(sizes.training)
    counts = f"{sizes.classes} classes with {total} training images, {fewest} to {most} of each"
    if sizes.largest:
        return f"Your images: {counts}.\nlargest_classes: those with most images; remove the line for all."
    return f"Your images: {counts}."


def _about_public(public: Path | None, sizes: Sizes, subject: Subject) -> str:
    what = f"{subject.others}, as the attacker has them"
    if public is None or sizes.public is None:
        check = "smoothsweep data check DATA --public PUBLIC"
        return f"{what}:\na Parquet file or a folder. None of yours may be among them:\n{check}"
    limit = f"; {MOST_PUBLIC} of them are used" if sizes.public > MOST_PUBLIC else ""
    return f"{what}: {sizes.public}, none of which is one of yours{limit}."


def _data(data: Path | None, sizes: Sizes, subject: Subject) -> dict[str, Any]:
    tree: dict[str, Any] = {"kind": "labelled", "path": str(data) if data else subject.data, "size": sizes.side}
    return tree | ({"largest_classes": sizes.largest} if sizes.largest else {}) | _deep(sizes)


def _public(public: Path | None, sizes: Sizes, subject: Subject) -> dict[str, Any]:
    tree: dict[str, Any] = {"kind": "unlabelled", "path": str(public) if public else subject.public, "size": sizes.side}
    limit = {"limit": MOST_PUBLIC} if sizes.public is None or sizes.public > MOST_PUBLIC else {}
    return tree | limit | _deep(sizes)


def _deep(sizes: Sizes) -> dict[str, Any]:
    return {} if sizes.bits is None else {"bits": sizes.bits}


def _training(architecture: str, sizes: Sizes) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "pretrained": False,
        "image_size": SEEN,
        "epochs": 60,
        "batch_size": sizes.batch,
        "augmentation": {"hue": 0.0},
    }


def _attack() -> dict[str, Any]:
    return {
        "pool": {"size": 500, "truncation_psi": 1.0, "truncation_cutoff": None},
        "candidates": 16,
        "steps": 40,
        "lr": 0.03,
        "batch_size": 16,
        "selected": 8,
        "selection_repeats": 32,
    }
