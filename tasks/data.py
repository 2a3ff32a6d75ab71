"""Data stages: private images split into train and test, public images for the prior."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from smoothsweep.core.analysis.toy import run_toy as toy_example
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.published import PUBLISHED, write_published
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.errors import InputChanged, InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.priors.registry import card_of, load_discriminator, load_prior, save_discriminator, save_prior
from smoothsweep.core.priors.settings import LICENCE, PriorKind, PriorSettings
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_tensors, save_images, save_tensors
from smoothsweep.tasks.planned_files import names_a_file, planned, prior_files
from smoothsweep.tasks.settings import data_kind, prior_settings

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
    names = ("size", "classes", "pictures", "split_seed", "samples_per_class", "on_corrupt")
    options: dict[str, Any] = {name: config.get(name) for name in names}
    written = planned(config, any_files=True).read(lambda path: write_published(config["kind"], path, out, **options))
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

    names = (
        "size",
        "test_fraction",
        "split_seed",
        "largest_classes",
        "samples_per_class",
        "on_corrupt",
        "crop",
        "bits",
    )
    options: dict[str, Any] = {name: config.get(name) for name in names}
    split = planned(config).read(lambda path: load_labelled(path, **options))
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


def fit_prior(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and prior.json, whatever the kind of prior."""
    row, settings = PRIORS[config["kind"]], prior_settings(config)
    if settings.files is None:
        public = load_tensors(inputs["public"] / "images.safetensors")["images"] if row.needs_public else None
        made = row.function()(settings, public)
    else:
        made = _load_given_prior(config, row, settings, out)
    save_prior(made, out)
    if settings.licence is not None:
        write_file(out / LICENCE, settings.licence + "\n")
    prior = load_prior(out)
    image = prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(1, 0)).float()))
    if not image.isfinite().all():
        raise InputError(f"prior: expected finite images, got others from {config}")
    return {"resolution": prior.resolution, "z_dim": prior.z_dim}


def _load_given_prior(config: Config, row: PriorKind, settings: PriorSettings, out: Path) -> Prior:
    """A prior that is read from files, whose discriminator is kept beside it where it is asked for."""
    files = present(settings.files, "the prior's files")
    weights, *discriminator = prior_files(config, files)
    made = weights.read(lambda _: row.function()(settings, None))
    if "card" in config and (card := card_of(made).plain) != config["card"]:
        raise InputChanged(f"{files.description}: expected {config['card']}, as planned, got {card}")
    for file in discriminator:
        save_discriminator(file.read(lambda path: load_discriminator(path.parent)), out)
    return made


def run_toy(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes toy.safetensors: data, confidence map, and the attack's paths with and without a stopping rule."""
    result = toy_example(config["alpha"])
    endless = result.endless
    assert endless is not None
    save_tensors(
        out / "toy.safetensors",
        {
            "points": result.points,
            "labels": result.labels,
            "axis": result.axis,
            "confidence": result.confidence,
            "prediction": result.prediction,
            "path": result.attack.path,
            "endless_path": endless.path,
        },
    )
    finite = torch.isfinite(result.attack.path).all()
    return {
        "steps": float(result.attack.steps) if result.attack.stopped else None,
        "distance": result.attack.distance if finite else None,
        "train_loss": result.train_loss,
        "distance_no_stop": endless.distance,
    }
