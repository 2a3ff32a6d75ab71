"""Contact sheets: a training image beside what the attack made of each recipe, as one PNG."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from orchestrator.page.figures.canvas import ACCENT, INK, LINE, PAPER, SOFT
from orchestrator.reading.numbers.format import ascii_text
from orchestrator.reading.numbers.model import ContactSheet, SheetRow, Tile

TILE = 96
LARGEST = 128
"""Pictures are stored at their own size up to this many pixels; a page of full-size ones would weigh megabytes."""

LEAK = ACCENT


def png(image: Image.Image) -> bytes:
    """The image as a file."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def data_uri(pixels: np.ndarray) -> str:
    """uint8 [H, W, 3] as a PNG inside a URI."""
    return "data:image/png;base64," + base64.b64encode(png(Image.fromarray(pixels))).decode("ascii")


def tile_uri(tile: Tile) -> str:
    """A tile as a URI, `LARGEST` pixels wide at most."""
    image = Image.fromarray(tile.pixels)
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    return data_uri(np.asarray(image))


def sheet_image(sheet: ContactSheet, *, tile: int = TILE, rows: int | None = None) -> Image.Image:
    """The sheet as one picture: REAL column first, names at the left, a red frame where the judge recognises."""
    shown = sheet.rows[:rows]
    gap, margin = 10, 16
    left = margin + _name_width(shown) + 12
    top = margin + 34
    pitch = tile + gap
    width = left + pitch * (1 + len(sheet.columns)) + gap + margin
    image = Image.new("RGB", (width, top + pitch * len(shown) + margin), PAPER)
    draw = ImageDraw.Draw(image)
    for column, name in enumerate((sheet.real_label, *sheet.columns)):
        x = left + column * pitch + (gap if column else 0)
        _centred(draw, x + tile / 2, top - 18, ascii_text(name), tile + gap - 4, INK)
    draw.line([(left + pitch, top - 28), (left + pitch, top + pitch * len(shown) - gap)], fill=LINE, width=2)
    for down, row in enumerate(shown):
        y = top + down * pitch
        draw.text((left - 12, y + tile / 2), _fit(draw, row.name, 150), font=font(14), fill=INK, anchor="rm")
        for column, picture in enumerate((row.real, *row.reconstructions)):
            x = left + column * pitch + (gap if column else 0)
            _paste(image, draw, picture, (x, y), tile)
    return image


def _paste(image: Image.Image, draw: ImageDraw.ImageDraw, tile: Tile | None, at: tuple[int, int], size: int) -> None:
    x, y = at
    if tile is None:
        draw.text((x + size / 2, y + size / 2), "none", font=font(13), fill=SOFT, anchor="mm")
        return
    picture = Image.fromarray(tile.pixels).resize((size, size), Image.Resampling.BICUBIC)
    image.paste(picture, (x, y))
    if tile.recognised:
        draw.rectangle((x - 3, y - 3, x + size + 2, y + size + 2), outline=LEAK, width=3)


def _name_width(rows: tuple[SheetRow, ...]) -> int:
    draw = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    return int(max((draw.textlength(_fit(draw, row.name, 150), font=font(14)) for row in rows), default=0))


def _centred(draw: ImageDraw.ImageDraw, x: float, y: float, words: str, width: float, fill: str) -> None:
    draw.text((x, y), _fit(draw, words, width), font=font(14), fill=fill, anchor="mm")


def _fit(draw: ImageDraw.ImageDraw, words: str, width: float) -> str:
    """The words cut to `width` pixels; line breaks, which the font cannot draw in one line, become spaces."""
    words = " ".join(words.split())
    if draw.textlength(words, font=font(14)) <= width:
        return words
    while words and draw.textlength(words + "\u2026", font=font(14)) > width:
        words = words[:-1]
    return words + "\u2026"


@lru_cache(maxsize=8)
def font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: it knows Latin, Greek, Cyrillic and the minus sign."""
    from matplotlib import get_data_path  # heavy, and needed only where a picture is drawn

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
