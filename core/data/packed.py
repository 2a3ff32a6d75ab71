"""Pictures on disk as one safetensors file, written row by row so that they never lie in memory together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.files import replacing

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
