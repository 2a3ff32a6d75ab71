"""One encoded picture -> a square of pixels. Nothing about files or classes."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from PIL import Image, ImageOps

from core.errors import InputError

CROPS = ("centre", "stretch")
_T = TypeVar("_T")

# Named, so that Pillow never hands a file to a plug-in that starts another program (PostScript).
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")


class UnreadablePicture(Exception):
    """The bytes are no picture that can be used; the message says why, without saying where."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """pixels: uint8 [size, size, 3]; digest: hash of all upright RGB pixels at full size; width, height: of the upright
    picture in pixels; frames: of an animation, of which the first one counts; 1 for any other picture.
    """

    pixels: np.ndarray
    digest: bytes
    width: int
    height: int
    frames: int

    @property
    def side(self) -> int:
        """Of its shorter edge, in pixels."""
        return min(self.width, self.height)


@contextmanager
def strict_pillow() -> Iterator[None]:
    """Turn Pillow's warning about decompression bombs into an error, for all threads while it is open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # metadata oddities of a user's photographs
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def decode_picture(encoded: bytes, *, size: int, crop: str) -> Picture:
    """Decode, turn upright (EXIF), make RGB, and resize to `size` (bilinear, antialiased).

    crop: "centre" takes the central square, "stretch" the whole picture whatever its aspect. Grey becomes
    three equal channels, 16 bits become 8, CMYK is converted, and transparent parts show white. Of an
    animation the first frame counts. Raises UnreadablePicture; call it inside `strict_pillow`.
    """
    rgb, frames = _open(encoded, lambda image: (_to_rgb(ImageOps.exif_transpose(image)), _frames(image)))
    width, height = rgb.size
    digest = hashlib.blake2b(f"{width} x {height} ".encode(), digest_size=16)
    digest.update(rgb.tobytes())
    return Picture(
        pixels=_square(rgb, size, crop), digest=digest.digest(), width=width, height=height, frames=frames
    )


def decode_plain(encoded: bytes) -> Image.Image:
    """Decode to RGB as the published loaders do: Pillow's own conversion, and no turning by EXIF.

    Raises UnreadablePicture, also for a file that is cut short; call it inside `strict_pillow`.
    """
    return _open(encoded, lambda image: image.convert("RGB"))


def _open(encoded: bytes, to_rgb: Callable[[Image.Image], _T]) -> _T:
    try:
        with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
            image.load()
            return to_rgb(image)
    except UnreadablePicture:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise UnreadablePicture(f"more than {Image.MAX_IMAGE_PIXELS} pixels") from error
    except Exception as error:  # a damaged file can make a decoder raise anything
        raise UnreadablePicture(_reason(error)) from error


def _frames(image: Image.Image) -> int:
    """How many the file says it has. Those after the first are not decoded, and a damaged one is nobody's concern."""
    if image.format not in ("GIF", "PNG", "TIFF", "WEBP"):
        return 1
    try:
        return int(image.n_frames)
    except Exception:  # a damaged file can make a decoder raise anything
        return 1


def check_crop(crop: str) -> None:
    """Raise InputError for an unknown way to make a square."""
    if crop not in CROPS:
        raise InputError(f"crop: expected one of {', '.join(CROPS)}, got {crop!r}")


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise UnreadablePicture("floating-point pixels, whose range is unknown")
    if image.mode.startswith("I"):
        return _from_16_bit(image)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        colour = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colour.size, "white"), colour).convert("RGB")
    return image.convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """Pillow's own conversion would clip at 255 and turn nearly everything white."""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise UnreadablePicture("integer pixels beyond 16 bits")
    return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")


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
