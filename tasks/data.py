"""Data stages: private images split into train and test, public images for the prior."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.published import PUBLISHED, write_published
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.counts import data_kind
from smoothsweep.tasks.files import save_images, save_tensors
from smoothsweep.tasks.planned_files import names_a_file, planned

TEST_IMAGES_FROM = 1_000_000  # test images of an identity stay the same however many train images are drawn


def prepare_private(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes train.safetensors, test.safetensors (images uint8, labels), names.json and notes.json."""
    if config["kind"] in PUBLISHED:
        return _write_published(config, out)
    return save_split(*_PRIVATE.get(config["kind"], _of_table)(config), out)


def save_split(train: ImageSet, test: ImageSet, notes: Sequence[str], out: Path) -> Metrics:
    """Writes what `prepare_private` does, of images in memory."""
    save_images(out, "train", train)
    save_images(out, "test", test)
    write_file(out / "notes.json", json.dumps(list(notes), ensure_ascii=False, indent=1))
    return {"num_classes": train.num_classes, "num_train": len(train), "num_test": len(test)}


def _write_published(config: Config, out: Path) -> Metrics:
    """A published set goes to disk picture by picture: it need not fit into memory."""
    options = {key: config.get(key) for key in ("classes", "pictures", "samples_per_class")}
    written = planned(config, any_files=True).read(
        lambda path: write_published(
            config["kind"],
            path,
            out,
            size=config["size"],
            split_seed=config["split_seed"],
            on_corrupt=config["on_corrupt"],
            **options,
        )
    )
    write_file(out / "notes.json", json.dumps(list(written.notes), ensure_ascii=False, indent=1))
    return {"num_classes": written.num_classes, "num_train": written.num_train, "num_test": written.num_test}


def prepare_public(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes images.safetensors with public images uint8 [N, 3, size, size]."""
    images = _PUBLIC[config["kind"]](config)
    save_tensors(out / "images.safetensors", {"images": images})
    return {"num_public": len(images)}


def _synthetic(config: Config) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    common = {key: config[key] for key in ("identities", "size", "spread", "seed")}
    per_class = config.get("samples_per_class", config["train_per_class"])
    train = synthetic_faces(population="private", per_identity=per_class, **common)
    test = synthetic_faces(
        population="private", per_identity=config["test_per_class"], first_image=TEST_IMAGES_FROM, **common
    )
    return train, test, ()


def _labelled(config: Config) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    from smoothsweep.core.data.labelled import load_labelled

    split = planned(config).read(
        lambda path: load_labelled(
            path,
            size=config["size"],
            test_fraction=config["test_fraction"],
            split_seed=config["split_seed"],
            largest_classes=config.get("largest_classes"),
            samples_per_class=config.get("samples_per_class"),
            on_corrupt=config["on_corrupt"],
            crop=config["crop"],
            bits=config.get("bits"),
        )
    )
    return split.train, split.test, tuple(split.notes)


def _of_table(config: Config) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    """A kind of `core.data.kinds`. Raises InputError where its sets are of different classes."""
    kind = data_kind(config)
    train, test = planned(config, any_files=True).read(kind.load) if names_a_file(config) else kind.load(None)
    if train.names != test.names:
        raise InputError(f"data {config['kind']}: expected the same classes to train and to test on, got others")
    return first_of_each_class(train, kind.samples_per_class), test, ()


def first_of_each_class(images: ImageSet, count: int | None) -> ImageSet:
    """At most so many images of each class, in their order; all for None."""
    if count is None:
        return images
    seen = torch.nn.functional.one_hot(images.labels, images.num_classes).cumsum(0)
    kept = seen.gather(1, images.labels[:, None])[:, 0] <= count
    return dataclasses.replace(images, images=images.images[kept], labels=images.labels[kept])


def _synthetic_public(config: Config) -> torch.Tensor:
    return synthetic_faces(
        population="public", **{k: config[k] for k in ("identities", "per_identity", "size", "spread", "seed")}
    ).images


def _unlabelled(config: Config) -> torch.Tensor:
    from smoothsweep.core.data.labelled import load_unlabelled

    options: dict[str, Any] = {key: config.get(key) for key in ("size", "limit", "seed", "bits")}
    return planned(config).read(lambda path: load_unlabelled(path, **options))


_PRIVATE = {"synthetic": _synthetic, "labelled": _labelled}


def _celeba64_public(config: Config) -> torch.Tensor:
    from smoothsweep.core.data.celeba import load_celeba64_public

    return planned(config, any_files=True).read(lambda path: load_celeba64_public(path, size=config["size"]))


_PUBLIC = {"synthetic": _synthetic_public, "unlabelled": _unlabelled, "celeba64": _celeba64_public}
