"""Contact sheets: a training image beside what the attack made of each recipe, as one PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from smoothsweep.orchestrator.page.drawing.canvas import ACCENT, INK, LINE, PAPER, SOFT
from smoothsweep.orchestrator.result.data import ContactSheet, SheetRow, Tile

TILE = 96
LARGEST = 128
"""Pictures are stored at their own size up to this many pixels; a page of full-size ones would weigh megabytes."""

LEAK = ACCENT
HEAD_LINE, HEAD_LINES = 18, 3
"""Lines of a column's name: pixels from one to the next, and the most of them."""


def png(image: Image.Image, text: PngInfo | None = None) -> bytes:
    """The image as a file, with text in it if asked."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True, pnginfo=text)
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
    """The sheet as one picture: training images first, names at the left, red frames explained in a line below."""
    kept_rows, gap, margin = sheet.rows[:rows], 10, 16
    pitch = tile + gap
    heads = [_lines(name, tile + gap - 4) for name in (sheet.real_label, *sheet.columns)]
    top = margin + 16 + HEAD_LINE * max(map(len, heads))
    names = [_fit(row.name, 150) for row in kept_rows]
    left = margin + int(max(map(font(14).getlength, names), default=0)) + 12
    width = left + pitch * (1 + len(sheet.columns)) + gap + margin
    legend = _legend(sheet, width - 2 * margin) if any(_is_framed(row) for row in kept_rows) else []
    bottom = top + pitch * len(kept_rows)
    image = Image.new("RGB", (width, bottom + margin + HEAD_LINE * len(legend)), PAPER)
    draw = ImageDraw.Draw(image)
    places = [left + column * pitch + (gap if column else 0) for column in range(1 + len(sheet.columns))]
    for x, head in zip(places, heads, strict=True):
        for above, words in enumerate(reversed(head)):
            draw.text((x + tile / 2, top - 18 - HEAD_LINE * above), words, font=font(14), fill=INK, anchor="mm")
    draw.line([(left + pitch, top - 28), (left + pitch, top + pitch * len(kept_rows) - gap)], fill=LINE, width=2)
    for down, (name, row) in enumerate(zip(names, kept_rows, strict=True)):
        y = top + down * pitch
        draw.text((left - 12, y + tile / 2), name, font=font(14), fill=INK, anchor="rm")
        for x, picture in zip(places, (row.real, *row.reconstructions), strict=True):
            _paste(image, picture, (x, y), tile)
    for number, line in enumerate(legend):
        draw.text((margin, bottom + HEAD_LINE * number), line, font=font(13), fill=SOFT, anchor="la")
    return image


def _is_framed(row: SheetRow) -> bool:
    return any(tile is not None and tile.recognised for tile in (row.real, *row.reconstructions))


def _legend(sheet: ContactSheet, width: float) -> list[str]:
    """What a red frame means, on as many lines as `width` pixels need."""
    return _lines(f"Red frame: the {sheet.judge} matches it with the class.", width)


def _paste(image: Image.Image, tile: Tile | None, at: tuple[int, int], size: int) -> None:
    (x, y), draw = at, ImageDraw.Draw(image)
    if tile is None:
        draw.text((x + size / 2, y + size / 2), "none", font=font(13), fill=SOFT, anchor="mm")
        return
    image.paste(Image.fromarray(tile.pixels).resize((size, size), Image.Resampling.BICUBIC), (x, y))
    if tile.recognised:
        draw.rectangle((x - 3, y - 3, x + size + 2, y + size + 2), outline=LEAK, width=3)


def _fit(words: str, width: float) -> str:
    """The words cut to `width` pixels; line breaks, which the font cannot draw in one line, become spaces."""
    return cut(" ".join(words.split()), width, font(14).getlength)


def _lines(words: str, width: float) -> list[str]:
    """The words on as many lines of `width` pixels as they need, `HEAD_LINES` at most; what is left over is cut."""
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (font(14).getlength(longer) <= width or len(lines) == HEAD_LINES):
            lines[-1] = longer
        else:
            lines.append(word)
    return [_fit(line, width) for line in lines]


def cut(words: str, width: float, measure: Callable[[str], float]) -> str:
    """The words, or as many letters of them as fit into `width` as `measure` has it, with dots."""
    if measure(words) <= width:
        return words
    while words and measure(words + "\u2026") > width:
        words = words[:-1]
    return words + "\u2026"


@lru_cache(maxsize=8)
def font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: it knows Latin, Greek, Cyrillic and the minus sign."""
    from matplotlib import get_data_path  # heavy, and needed only where a picture is drawn

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
