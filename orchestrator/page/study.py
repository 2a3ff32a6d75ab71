"""The page of a user study: one file that shows pictures and asks, and does not tell where they come from."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from PIL import Image

from smoothsweep.orchestrator.page.render import fill, policy, resource

LARGEST = 224
"""Pixels of a picture's side at most: some 10 kB each, and a page of 150 people stays below 20 MB."""

QUALITY = 95  # of the JPEGs, without subsampling of colours: the losses are far below what people see


Pictures = tuple[Any, ...]
"""uint8 [3, H, W] each, or JPEGs of one size."""


@dataclass(frozen=True, kw_only=True)
class StudyPictures:
    """The pictures of one question, in the order of the page."""

    examples: Pictures
    options: Pictures

    @property
    def pictures(self) -> Pictures:
        return self.examples + self.options


def draw_pictures(questions: Sequence[StudyPictures]) -> list[StudyPictures]:
    """Every picture of the page as a JPEG of one and the same size, so that no recipe is told by its resolution."""
    side = min(LARGEST, max(picture.shape[1] for question in questions for picture in question.pictures))
    return [
        StudyPictures(examples=_jpegs(question.examples, side), options=_jpegs(question.options, side))
        for question in questions
    ]


def pictures_digest(questions: Sequence[StudyPictures]) -> str:
    """SHA-256 (hex) over all files in the order of the page."""
    digest = hashlib.sha256()
    for question in questions:
        for file in question.pictures:
            digest.update(len(file).to_bytes(8, "little") + file)
    return digest.hexdigest()


def study_page(questions: Sequence[StudyPictures], *, digest: str, real_people: bool) -> str:
    """The whole page. digest: of the study's key, which the answers carry."""
    question_views = [
        {"number": number, "examples": map(_uri, question.examples), "options": map(_uri, question.options)}
        for number, question in enumerate(questions)
    ]
    return fill(
        "study.html",
        questions=question_views,
        options=len(questions[0].options),
        digest=digest,
        real_people=real_people,
        policy=policy("study.js"),
        style=Markup(resource("study.css")),
        script=Markup(resource("study.js")),
    )


def _jpegs(pictures: Sequence[np.ndarray], side: int) -> tuple[bytes, ...]:
    return tuple(_jpeg(picture, side) for picture in pictures)


def _jpeg(picture: np.ndarray, side: int) -> bytes:
    image = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
    buffer = io.BytesIO()
    image.resize((side, side), Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


def _uri(file: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(file).decode("ascii")
