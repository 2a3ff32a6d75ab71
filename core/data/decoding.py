"""One encoded picture -> a square of pixels. Nothing about files or classes."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from PIL import Image, ImageOps

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, read_whole

MOST_PICTURE = 256 * MIB
"""Bytes of an encoded picture."""

MOST_PIXELS = 2**26
"""Most pixels of a picture, width times height: 8,192 a side. It takes up to a gigabyte while it is converted."""

_LARGE = 2**24
_one_large_picture = Lock()  # at a time, however many threads decode: memory does not grow with them
_STRIPE = 1024  # rows converted at a time
_DEEP_COLOUR = "colour of 16 bits"
_T = TypeVar("_T")

# Named, so that Pillow never hands a file to a plug-in that starts another program (PostScript).
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF")
BITS = (8, 10, 12, 14, 16)
"""How many bits the values of a picture may use whose container has 16 or 32."""


class UnreadablePicture(Exception):
    """The bytes are no picture that can be used; the message says why, without saying where."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is known of a decoded picture.

    Attributes:
        digest: Hash of all upright RGB pixels at full size.
        width, height: Size of the upright picture in pixels.
        frames: Frames of an animation, of which the first one counts; 1 for any other picture.
        peak: The largest value of a picture whose container has 16 or 32 bits, None of 8 bits.
    """

    digest: bytes
    width: int
    height: int
    frames: int
    peak: int | None = None

    @property
    def side(self) -> int:
        """Length of its shorter edge, in pixels."""
        return min(self.width, self.height)


@contextmanager
def strict_pillow() -> Generator[None]:
    """Let Pillow refuse pictures of more than `MOST_PIXELS`, for all threads while it is open.

    It raises beyond twice its own limit, also where a format's decoder takes memory when it is opened (WebP).
    """
    usual = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # metadata oddities of a user's photographs, and half the limit
        Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = usual


def read_picture(path: Path) -> bytes:
    """The encoded picture in a file. Raises UnreadablePicture for one that is too large, OSError."""
    try:
        return read_whole(path, most_bytes=MOST_PICTURE)
    except InputError as error:
        raise UnreadablePicture(str(error).removeprefix(f"{path}: ")) from None


def decode_picture(encoded: bytes, *, size: int, crop: str, bits: int | None = None) -> tuple[np.ndarray, Picture]:
    """Decode, turn upright (EXIF), make RGB, and resize to `size` (bilinear, antialiased): uint8 [size, size, 3].

    crop: "centre" takes the central square, "stretch" the whole picture whatever its aspect. Grey becomes
    three equal channels, CMYK is converted, and transparent parts show white. Of an animation the first frame counts.
    bits: how many of its 16 or 32 bits a grey picture uses, which become 8; None for 16 (`unsaid_bits` says whether
    that may be wrong). Raises UnreadablePicture; call it inside `strict_pillow`.
    """
    (rgb, frames, peak) = _open(encoded, lambda image: _upright(image, bits or BITS[-1]))
    width, height = rgb.size
    digest = hashlib.blake2b(f"{width} x {height} ".encode(), digest_size=16)
    for box in _stripes(rgb):
        digest.update(rgb.crop(box).tobytes())
    picture = Picture(digest=digest.digest(), width=width, height=height, frames=frames, peak=peak)
    return _square(rgb, size, crop), picture


def unsaid_bits(peaks: Iterable[int | None], bits: int | None) -> str | None:
    """What must be said of pictures whose largest values are these before they can be scaled: the bits that they use.

    None where they are, and where a value needs all 16 bits.
    """
    known = [peak for peak in peaks if peak is not None]
    if bits is not None or not known or max(known) >= 1 << BITS[-2]:
        return None
    used = next(bits for bits in BITS if max(known) < 1 << bits)
    return (
        f"expected bits ({used}, or 16 if the pictures are that dark), since {len(known)} pictures of 16 or 32 bits "
        f"have {max(known)} as their largest value, got none"
    )


def decode_plain(encoded: bytes) -> Image.Image:
    """Decode to RGB as the published loaders do: Pillow's own conversion, and no turning by EXIF.

    Raises UnreadablePicture, also for a file that is cut short; call it inside `strict_pillow`.
    """
    return _open(encoded, lambda image: image.convert("RGB"))


def _open(encoded: bytes, to_rgb: Callable[[Image.Image], _T]) -> _T:
    try:
        with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
            pixels = image.width * image.height
            if pixels > MOST_PIXELS:
                raise UnreadablePicture(f"more than {MOST_PIXELS} pixels")
            with _one_large_picture if pixels > _LARGE else nullcontext():
                image.info[_DEEP_COLOUR] = image.mode in ("RGB", "RGBA", "LA") and ";16" in str(image.tile)
                image.load()
                return to_rgb(image)
    except UnreadablePicture:
        raise
    except Image.DecompressionBombError as error:
        raise UnreadablePicture(f"more than {MOST_PIXELS} pixels") from error
    except Exception as error:  # a damaged file can make a decoder raise anything
        raise UnreadablePicture(_reason(error)) from error


def _upright(image: Image.Image, bits: int) -> tuple[Image.Image, int, int | None]:
    """The picture as RGB, turned as EXIF says, how many frames it has, and its largest value where that is deep."""
    ImageOps.exif_transpose(image, in_place=True)
    deep = image.mode.startswith("I")
    if not deep and not image.info.get(_DEEP_COLOUR):
        return _to_rgb(image), _frames(image), None
    colours = len(image.getbands()) - image.mode.endswith("A")
    parts = [np.asarray(image.crop(box)).reshape(-1, len(image.getbands()))[:, :colours] for box in _stripes(image)]
    low, high = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    high = high if deep else 256 * high + 255  # of colour, Pillow keeps the upper 8 of 16 bits
    if low < 0 or high >= 1 << BITS[-1]:
        raise UnreadablePicture("integer pixels beyond 16 bits")
    if high >= 1 << bits:
        raise UnreadablePicture(f"a value of {high}, beyond the stated {bits} bits")
    if not deep:
        if bits < BITS[-1]:
            raise UnreadablePicture(f"colour of 16 bits that uses {bits}, of which too few are read; save it with 8")
        return _to_rgb(image), _frames(image), high
    white = (1 << bits) - 1

    def to_8_bit(part: Image.Image) -> Image.Image:
        values = np.asarray(part).astype(np.int64)  # Pillow's own conversion would clip at 255
        return Image.fromarray(((values * 255 + white // 2) // white).astype(np.uint8)).convert("RGB")

    return _by_stripes(image, to_8_bit), _frames(image), high


def _frames(image: Any) -> int:
    """How many the file says it has. Those after the first are not decoded, and a damaged one does no harm."""
    if image.format not in ("GIF", "PNG", "TIFF", "WEBP"):
        return 1
    try:
        return int(image.n_frames)
    except Exception:  # a damaged file can make a decoder raise anything
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise UnreadablePicture("floating-point pixels, whose range is unknown")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return _by_stripes(image, _on_white)
    return image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    colour = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", colour.size, "white"), colour).convert("RGB")


def _by_stripes(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """What `convert`, which looks at every pixel alone, makes of the image; its copies are those of a stripe."""
    made = Image.new("RGB", image.size)
    for box in _stripes(image):
        made.paste(convert(image.crop(box)), box[:2])
    return made


def _stripes(image: Image.Image) -> list[tuple[int, int, int, int]]:
    """Boxes of full width that cover the image, from the top."""
    width, height = image.size
    return [(0, top, width, min(top + _STRIPE, height)) for top in range(0, height, _STRIPE)]


def _square(rgb: Image.Image, size: int, crop: str) -> np.ndarray:
    width, height = rgb.size
    box = (0.0, 0.0, float(width), float(height))
    if crop == "centre" and width != height:
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        box = (left, top, left + side, top + side)
    if (width, height) != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(rgb)


def _reason(error: Exception) -> str:
    """One line that names no memory address."""
    if isinstance(error, Image.UnidentifiedImageError):
        return "not a picture in a known format"
    return " ".join(str(error).split()) or type(error).__name__


def reason(error: UnreadablePicture | OSError) -> str:
    """Why a picture cannot be read, without its path."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
