"""How fast pictures reach training on one core: `python -m benchmarks.data_loading`."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from smoothsweep.core.data.celeba_crop import STANDARD_5, align_crop, crop_target
from smoothsweep.core.data.decoding import strict_pillow
from smoothsweep.core.data.listing import fit_square
from smoothsweep.core.data.published import list_published, write_published
from smoothsweep.core.data.transforms import to_unit

_IMAGES = 800
_SIZE = 224
_SIDES = (250, 400)
_BATCH = 128
_SECONDS = 3.0


def measure() -> dict[str, float]:
    """Images per second of one thread's CPU time, all at 224 pixels: what each way of loading reaches.

    As float in [-1, 1] is what a network on a CPU needs; to a GPU the bytes go, and become floats there.
    The pictures are generated JPEGs of 250 to 400 pixels with the spectrum of photographs, quality 90, in FaceScrub's
    layout. The files are in the page cache. CPU time, so that whatever else the machine is doing counts little.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            _write_tree(root / "tree")
            return {**_plain(root / "tree"), **_cached(root / "tree", root / "cache"), "aligned crop": _aligned()}
    finally:
        torch.set_num_threads(threads)


def main() -> None:
    """Print one line per way of loading, and the ratio that the cache is for."""
    rates = measure()
    for name, rate in rates.items():
        print(f"data loading at {_SIZE} px, {name}: {rate:.0f} images per CPU second")
    for form in ("float", "bytes"):
        ratio = rates[f"random batches from the cache, as {form}"] / rates[f"plain decoding and resizing, as {form}"]
        print(f"data loading at {_SIZE} px, cache over plain decoding, as {form}: {ratio:.1f} times")


def _plain(tree: Path) -> dict[str, float]:
    """Decode and resize every picture for each batch, as a loader without a cache does."""
    listing = list_published("facescrub", tree, classes=2)
    order = np.random.default_rng(0)

    def batch() -> torch.Tensor:
        chosen = order.integers(0, len(listing.files), _BATCH).tolist()
        with strict_pillow():
            images = [fit_square(listing.decode(i, listing.read(i)), _SIZE, listing.fit) for i in chosen]
        return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()

    return {
        "plain decoding and resizing, as bytes": _rate(batch),
        "plain decoding and resizing, as float": _rate(lambda: to_unit(batch())),
    }


def _cached(tree: Path, cache: Path) -> dict[str, float]:
    """Write the cache once, then take random batches of the mapped file."""
    start = time.process_time()
    written = write_published("facescrub", tree, cache, size=_SIZE, classes=2, workers=1)
    writing = (written.num_train + written.num_test) / (time.process_time() - start)
    images = load_file(cache / "train.safetensors")["images"]
    generator = torch.Generator().manual_seed(0)

    def gather() -> torch.Tensor:
        return images[torch.randint(len(images), (_BATCH,), generator=generator)]

    return {
        "writing the cache, once": writing,
        "random batches from the cache, as bytes": _rate(gather),
        "random batches from the cache, as float": _rate(lambda: to_unit(gather())),
    }


def _aligned() -> float:
    """Crops of a face by five landmarks from a picture in the wild of twice the size; without decoding."""
    target = crop_target(STANDARD_5)
    picture = _photograph(np.random.default_rng(0), 700, 900)

    def batch() -> None:
        for i in range(_BATCH):
            align_crop(picture, target * 2 + i, target)

    return _rate(batch)


def _rate(batch: Callable[[], object]) -> float:
    batch()
    start, done = time.process_time(), 0
    while time.process_time() - start < _SECONDS:
        batch()
        done += _BATCH
    return done / (time.process_time() - start)


def _write_tree(root: Path) -> None:
    random = np.random.default_rng(0)
    sizes, total = random.integers(*_SIDES, _IMAGES).tolist(), 0
    for i, side in enumerate(sizes):
        folder = root / ("actors", "actresses")[i % 2] / "faces" / "Somebody"
        folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        _photograph(random, side, side).save(buffer, "JPEG", quality=90)
        total += buffer.tell()
        (folder / f"{i}.jpg").write_bytes(buffer.getvalue())
    print(
        f"data loading: {_IMAGES} JPEGs, sides {min(sizes)} to {max(sizes)} px, {total / _IMAGES / 1024:.0f} KiB each"
    )


def _photograph(random: np.random.Generator, width: int, height: int) -> Image.Image:
    """Noise whose amplitude falls with frequency, and with much less colour than light, as in photographs."""
    fy, fx = np.meshgrid(np.fft.fftfreq(height), np.fft.rfftfreq(width), indexing="ij")
    falloff = 1.0 / np.maximum(np.hypot(fx, fy), 1.0 / width) ** 1.5
    phases = np.fft.rfft2(random.standard_normal((3, height, width)))
    noise = np.fft.irfft2(phases * falloff, s=(height, width))
    noise = 128 + 50 * (noise[:1] + 0.2 * noise) / noise.std()
    return Image.fromarray(noise.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


if __name__ == "__main__":
    main()
