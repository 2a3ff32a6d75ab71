"""One picture that asks whether an image shows the person of several others, which stand to its right."""

from __future__ import annotations

import io

import numpy as np
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

SIDE, GAP, EDGE, HEAD = 224, 100, 12, 28  # pixels: of an image, between A and B, around, for the letters


def question_picture(image: Tensor, references: Tensor) -> bytes:
    """A PNG. image: uint8 [3, S, S]; references: uint8 [n, 3, R, R], n even, in two rows; each at 224 pixels."""
    columns = len(references) // 2
    width = 2 * EDGE + SIDE + GAP + columns * SIDE + (columns - 1) * EDGE
    sheet = Image.new("RGB", (width, 2 * EDGE + HEAD + 2 * SIDE + EDGE), "white")
    draw, top = ImageDraw.Draw(sheet), EDGE + HEAD
    draw.text((EDGE, EDGE), "A", fill="black", font_size=20)
    draw.text((EDGE + SIDE + GAP, EDGE), "B", fill="black", font_size=20)
    sheet.paste(_tile(image), (EDGE, top + (SIDE + EDGE) // 2))
    for place, reference in enumerate(references):
        row, column = divmod(place, columns)
        at = (EDGE + SIDE + GAP + column * (SIDE + EDGE), top + row * (SIDE + EDGE))
        sheet.paste(_tile(reference), at)
    written = io.BytesIO()
    sheet.save(written, "PNG")
    return written.getvalue()


def _tile(image: Tensor) -> Image.Image:
    sized = F.interpolate(image[None].float(), size=(SIDE, SIDE), mode="bicubic", antialias=True)[0]
    return Image.fromarray(sized.round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy().astype(np.uint8))
