"""Images in memory: the one container for them, what resizes and converts them; and on disk, row by row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import replacing


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """Images with their classes.

    Attributes:
        images: [N, 3, H, W], uint8, or float16 or float32 nominally in [-1, 1]: what a generator gives is not clipped,
            and training clips it after augmentation.
        labels: int64 [N], 0-based and contiguous.
        names: Class names, names[label].
    """

    images: Tensor
    labels: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        known = self.images.dtype in (torch.uint8, torch.float16, torch.float32)
        if not known or self.images.ndim != 4 or self.images.shape[1] != 3:
            got = f"{self.images.dtype} {tuple(self.images.shape)}"
            raise ValueError(f"images: expected uint8, float16 or float32 [N, 3, H, W], got {got}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            got = f"{self.labels.dtype} {tuple(self.labels.shape)}"
            raise ValueError(f"labels: expected int64 [{len(self.images)}], got {got}")

    @property
    def num_classes(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """Side length of the (square) images in pixels."""
        return int(self.images.shape[-1])

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, index: Tensor) -> ImageSet:
        """The images at `index` (int64 [M] or bool [N]); the class names stay."""
        return ImageSet(images=self.images[index], labels=self.labels[index], names=self.names)


# Deterministic image transforms. The augmentation of training lies in `core.data.augmentation`.


# Images per chunk of a whole-set resize: bounds the float copy to some hundred megabytes at 224 pixels.
_RESIZE_CHUNK = 512
_LEAST_RANGE = 1e-5  # torchvision's: an image of one colour becomes black


def to_unit(images: Tensor) -> Tensor:
    """uint8 [N, 3, H, W] -> float32 of the same shape in [-1, 1] (mean and standard deviation 0.5)."""
    if images.dtype != torch.uint8:
        raise ValueError(f"to_unit: expected uint8 images, got {images.dtype}")
    return images.to(torch.float32).mul_(2.0 / 255.0).sub_(1.0)


def to_uint8(images: Tensor) -> Tensor:
    """float [N, 3, H, W] nominally in [-1, 1] -> uint8, rounded; values beyond the range are clipped."""
    return images.clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8)


def resize(images: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Resize float images [N, C, H, W] to `size` (side, or height and width), bilinear with antialiasing.

    What torchvision's Resize does with tensors when `antialias` is on, for an exact target size; no clipping.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if tuple(images.shape[-2:]) == (height, width):
        return images
    return F.interpolate(images, size=(height, width), mode="bilinear", align_corners=False, antialias=True)


def resize_uint8(images: Tensor, size: int) -> Tensor:
    """uint8 [N, 3, H, W] -> uint8 [N, 3, size, size]; through float and rounded, on whichever device they
    are.
    """
    if images.shape[-1] == size and images.shape[-2] == size:
        return images
    chunks = [resize(c.float(), size).round_().clamp_(0, 255).to(torch.uint8) for c in images.split(_RESIZE_CHUNK)]
    return torch.cat(chunks) if chunks else images.new_empty(0, images.shape[1], size, size)


def centre_crop(images: Tensor, size: int) -> Tensor:
    """The central `size` x `size` square of images [..., H, W]; odd margins as in torchvision (rounded half to even).

    Raises InputError if the images are smaller than the crop.
    """
    height, width = images.shape[-2:]
    if height < size or width < size:
        raise InputError(f"centre crop: expected images of at least {size} x {size} pixels, got {height} x {width}")
    top, left = round((height - size) / 2.0), round((width - size) / 2.0)
    return images[..., top : top + size, left : left + size]


# As official evaluations enlarge and store images


def truncated_bytes(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] in [-1, 1] cut to whole 8-bit steps, resized as Pillow does, and back to [-1, 1].

    GMI, KED, LOMMA, RLB-MI and BREP-MI: `low2high` of Knowledge-Enriched-DMI, utils.py. The result is on the images'
    device.
    """
    steps = images.detach().cpu().add(1).div(2).mul(255).clamp(0, 255).to(torch.uint8)
    pictures = [Image.fromarray(step.permute(1, 2, 0).contiguous().numpy()) for step in steps]
    resized = [np.array(picture.resize((size, size), Image.Resampling.BILINEAR)) for picture in pictures]
    return to_unit(torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2).contiguous()).to(images.device)


def aligned_corners(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] resized in float, bilinear with aligned corners, without antialiasing, not clipped.

    PLG-MI: kornia's Resize as LetheSec/PLG-MI-Attack, reconstruct.py, uses it before accuracy is measured.
    """
    return F.interpolate(images, size=(size, size), mode="bilinear", align_corners=True)


ENLARGING: dict[str, Callable[[Tensor, int], Tensor]] = {
    "truncated_bytes": truncated_bytes,
    "aligned_corners": aligned_corners,
}
"""(images [N, 3, R, R] nominally in [-1, 1], side) -> images [N, 3, side, side], by the name of the way."""


def stretched(images: Tensor) -> Tensor:
    """Images float [N, 3, R, R], any range -> uint8 of the same shape, each stretched from 0 to 255 by itself.

    Its darkest value of all channels becomes 0, its brightest 255, rounded: torchvision's `save_image` with
    `normalize=True` (LetheSec/PLG-MI-Attack, utils.py save_tensor_images), and PNG loses nothing more. Nominal values
    in [0, 1], as there: those in [-1, 1] are mapped by the caller.
    """
    low, high = (extreme.view(-1, 1, 1, 1) for extreme in torch.aminmax(images.flatten(1), dim=1))
    return ((images - low) / (high - low).clamp_min(_LEAST_RANGE)).mul(255).add(0.5).clamp(0, 255).to(torch.uint8)


# Pictures on disk as one safetensors file, written row by row so that they never lie in memory together.


# Name in the header, and how a pixel lies in the file.
_TYPES: dict[torch.dtype, tuple[str, np.dtype]] = {
    torch.uint8: ("U8", np.dtype("u1")),
    torch.float16: ("F16", np.dtype("<f2")),
    torch.float32: ("F32", np.dtype("<f4")),
}
_BLOCK = 16  # pictures that a thread takes at a time

Put = Callable[[int, np.ndarray], None]


@contextmanager
def pack_images(path: Path, labels: Tensor, size: int, dtype: torch.dtype = torch.uint8) -> Generator[Put]:
    """Write `path` with tensors `labels` int64 [N] and `images` uint8, float16 or float32 [N, 3, size, size].

    Gives put(row, pixels), pixels [3, size, size] of that type, which any thread may call, in any order, once per row.
    The file has a temporary name until all is put; nothing stays behind an error. `safetensors.torch.load_file` maps
    it. Memory: the labels. Raises OSError for a full disk.
    """
    _, pixel = _TYPES[dtype]
    row = 3 * size * size * pixel.itemsize
    header = _header(len(labels), size, dtype)
    start = len(header) + 8 * len(labels)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        file.write(labels.to(torch.int64).contiguous().numpy().astype("<i8").tobytes())
        file.truncate(start + row * len(labels))
        file.flush()

        def put(index: int, pixels: np.ndarray) -> None:
            if pixels.dtype != pixel or pixels.shape != (3, size, size) or not 0 <= index < len(labels):
                raise ValueError(f"row {index} of {len(labels)}: got {pixels.dtype} {pixels.shape}")
            # No memory map: its dirty pages would count as this process's memory.
            written = os.pwrite(file.fileno(), np.ascontiguousarray(pixels).data, start + index * row)
            if written != row:
                raise OSError(f"{path}: could not write row {index}")

        yield put


def packed_bytes(count: int, size: int, dtype: torch.dtype = torch.uint8) -> int:
    """Size of the file that `pack_images` writes."""
    return len(_header(count, size, dtype)) + count * (8 + 3 * size * size * _TYPES[dtype][1].itemsize)


def each_in_threads(work: Callable[[int], None], count: int) -> None:
    """work(0) ... work(count - 1) on as many threads as torch uses; the first error ends it.

    A thread takes several at a time: handing over small ones singly costs more than decoding them.
    """
    workers = max(1, torch.get_num_threads())
    if workers == 1:
        for i in range(count):
            work(i)
        return

    stop = Event()

    def block(start: int) -> None:
        for i in range(start, min(start + _BLOCK, count)):
            if stop.is_set():
                return
            try:
                work(i)
            except BaseException:
                stop.set()
                raise

    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            futures = [pool.submit(block, start) for start in range(0, count, _BLOCK)]
            for future in futures:
                future.result()
        finally:  # also where the waiting itself is interrupted
            stop.set()


def _header(count: int, size: int, dtype: torch.dtype) -> bytes:
    """Length and JSON, padded with blanks so that the labels, which come first, lie at a multiple of 8 bytes."""
    labels = 8 * count
    kind, pixel = _TYPES[dtype]
    tensors = {
        "labels": {"dtype": "I64", "shape": [count], "data_offsets": [0, labels]},
        "images": {
            "dtype": kind,
            "shape": [count, 3, size, size],
            "data_offsets": [labels, labels + count * 3 * size * size * pixel.itemsize],
        },
    }
    text = json.dumps(tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
