"""Tensors and rows on disk: safetensors and Parquet, and the shapes in which stages hand them on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file, save_file
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.files import replacing, write_file

LEFT_IMAGES = "images.safetensors"  # in the artifact of an attack that leaves images itself


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a file of named tensors as a whole."""
    with replacing(path, parents=True) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, str(temporary))


def load_tensors(path: Path) -> dict[str, Tensor]:
    return load_file(str(path))


def save_images(folder: Path, part: str, images: ImageSet) -> None:
    """An ImageSet as `<part>.safetensors`; the class names go into names.json beside it."""
    save_tensors(folder / f"{part}.safetensors", {"images": images.images, "labels": images.labels})
    write_file(folder / "names.json", json.dumps(list(images.names), ensure_ascii=False))


def load_images(folder: Path, part: str) -> ImageSet:
    tensors = load_tensors(folder / f"{part}.safetensors")
    names = tuple(json.loads((folder / "names.json").read_text()))
    return ImageSet(images=tensors["images"], labels=tensors["labels"], names=names)


def save_rows(path: Path, rows: pd.DataFrame) -> None:
    """Replace a Parquet file as a whole."""
    with replacing(path) as temporary:
        rows.to_parquet(temporary, index=False, compression="zstd")


def save_columns(path: Path, columns: Mapping[str, Tensor]) -> None:
    """Replace a Parquet file of tensors of one length as a whole."""
    save_rows(path, pd.DataFrame({name: column.numpy() for name, column in columns.items()}))


def config_of(folder: Path) -> dict[str, Any]:
    """The configuration that the artifact in this folder was made with."""
    return json.loads((folder / "manifest.json").read_text())["config"]


def metrics_of(folder: Path) -> dict[str, Any]:
    """The numbers that the stage measured when it made the artifact in this folder."""
    return json.loads((folder / "manifest.json").read_text())["metrics"]
