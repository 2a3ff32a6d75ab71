"""What `smoothsweep data check` costs for 10,000 pictures: `python -m benchmarks.data_checking`."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from smoothsweep.core.data.own.perceptual import hashes, nearest
from smoothsweep.core.data.own.scanning import scan_pictures
from smoothsweep.core.data.sources import Entry

_IMAGES, _MANY = 10_000, 100_000
_SIDE = 64
_DECODED = 2_000  # of them: the rest costs as much


def measure() -> dict[str, float]:
    """CPU seconds of one thread: to decode and reduce 64-pixel JPEGs, to hash what was made small, to find everybody's
    nearest among as many others. The pictures are made of noise: what they show costs nothing more.
    """
    generator = np.random.default_rng(0)
    encoded = [_jpeg(generator) for _ in range(200)]
    entries = [Entry(where=str(i), read=lambda i=i: encoded[i % len(encoded)]) for i in range(_DECODED)]
    small = generator.integers(0, 256, (_IMAGES, 32, 32, 3), dtype=np.uint8)
    seconds = {f"decoding {_IMAGES} pictures": _timed(lambda: scan_pictures(entries, workers=1)) * _IMAGES / _DECODED}
    seconds[f"hashing {_IMAGES} pictures"] = _timed(lambda: hashes(small))
    made = hashes(small)
    seconds[f"the nearest of {_IMAGES} others for each"] = _timed(lambda: nearest(made, made))
    many = hashes(generator.integers(0, 256, (_MANY // 10, 32, 32, 3), dtype=np.uint8)).of(
        np.arange(_MANY) % (_MANY // 10)
    )
    seconds[f"the nearest of {_MANY} public ones for each of {_IMAGES}"] = _timed(lambda: nearest(made, many))
    return seconds


def main() -> None:
    """Print one line per step."""
    for name, seconds in measure().items():
        print(f"data check, {name}: {seconds:.1f} CPU seconds")


def _jpeg(generator: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (_SIDE, _SIDE, 3), dtype=np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _timed(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
