"""Tensors and rows on disk: safetensors and Parquet, and the shapes in which stages hand them on."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.data.images import ImageSet


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors under a temporary name, then rename: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, str(temporary))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_tensors(path: Path) -> dict[str, Tensor]:
    return load_file(str(path))


def save_images(folder: Path, part: str, images: ImageSet) -> None:
    """An ImageSet as `<part>.safetensors`; the class names go into names.json beside it."""
    save_tensors(folder / f"{part}.safetensors", {"images": images.images, "labels": images.labels})
    (folder / "names.json").write_text(json.dumps(list(images.names), ensure_ascii=False))


def load_images(folder: Path, part: str) -> ImageSet:
    tensors = load_tensors(folder / f"{part}.safetensors")
    names = tuple(json.loads((folder / "names.json").read_text()))
    return ImageSet(images=tensors["images"], labels=tensors["labels"], names=names)


def save_rows(path: Path, rows: pd.DataFrame) -> None:
    rows.to_parquet(path, index=False, compression="zstd")


def save_checkpoint(path: Path, state: Mapping[str, object]) -> None:
    """A training state, replaced as a whole: a worker killed while saving leaves the previous one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        buffer = io.BytesIO()  # torch's own writer hides a full disk behind an internal error
        torch.save(dict(state), buffer)
        temporary.write_bytes(buffer.getbuffer())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> dict[str, object] | None:
    """The state saved last, or None. Only tensors and plain values are read."""
    return torch.load(path, weights_only=True, map_location="cpu") if path.is_file() else None
