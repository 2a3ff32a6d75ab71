"""An HTTP endpoint that answers a posted picture: `POST`, body a PNG; JSON back, `{"scores": [...]}` or `{"label": 3}`.

Every answer is kept by the picture's digest, so that nothing is asked twice, and a run that was stopped goes
on. Redirects are not followed: pictures of people go to the one place that was named.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.address import bearer, check_plain
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.model import OpenedModel
from smoothsweep.core.external.posting import posted
from smoothsweep.core.external.reading import is_distribution
from smoothsweep.core.external.wire import MOST_BYTES
from smoothsweep.core.text import shortened

MOST_FLOAT = float(torch.finfo(torch.float32).max)
_HEADERS = {"Content-Type": "image/png", "Accept": "application/json"}


def describe_endpoint(url: str, kept: Path, *, token_env: str | None) -> str:
    """What stands for the endpoint, as JSON. kept: where its answers are kept; token_env: the environment variable that
    holds a bearer token, which itself is written nowhere. Raises InputError for a URL that may hold a secret."""
    check_plain(url)
    description = {"url": url, "answers": str(kept.resolve()), "token_env": token_env}
    return json.dumps(description, indent=1) + "\n"


def open_endpoint(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """The endpoint, of pictures float32 [n, 3, S, S] in [0, 1]. Asks nothing yet. Raises InputError, one line."""
    card = read_card(path, "what describes an endpoint")
    check_plain(card["url"])
    asking = Endpoint(
        card["url"], KeptAnswers(Path(card["answers"])), token_env=card.get("token_env"), answers=settings["answers"]
    )
    return OpenedModel(answer=asking, differentiable=False, own_input=True)


class Endpoint:
    """Asks for one picture after the other, no faster than agreed, and never for one that was answered before."""

    def __init__(self, url: str, kept: KeptAnswers, *, token_env: str | None, answers: str) -> None:
        self._url, self._kept, self._answers = url, kept, answers
        self._key = "label" if answers == "labels" else "scores"
        self._headers = dict(_HEADERS)
        if token_env is not None:
            self._headers |= bearer(token_env)
            if "Authorization" not in self._headers:
                raise InputError(f"{url}: expected its token in the environment variable {token_env}, got none")

    def __call__(self, images: Tensor) -> Tensor:
        """Scores float32 [n, C], or labels int64 [n], on the CPU.

        Raises InputError where the budget is spent, and for an answer of another form.
        """
        pixels = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        answers = [self._answer(np.ascontiguousarray(picture)) for picture in pixels]
        if self._key == "scores" and len({len(scores) for scores in answers}) > 1:
            raise InputError(f"{self._url}: expected as many scores each time, got different numbers")
        return torch.tensor(answers, dtype=torch.int64 if self._key == "label" else torch.float32)

    def _answer(self, pixels: np.ndarray) -> Any:
        digest = hashlib.sha256(f"{self._key} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        known = self._kept.get(digest)
        if known is None:
            picture = io.BytesIO()
            Image.fromarray(pixels).save(picture, "PNG")
            known = self._checked(posted(self._url, self._kept, picture.getvalue(), self._headers))
            self._kept.put(digest, known)
        return known

    def _checked(self, body: bytes) -> Any:
        """The label, or the scores. Raises InputError."""
        wanted = '{"label": 3}' if self._key == "label" else '{"scores": [0.1, ...]}'
        try:
            answer = json.loads(body)[self._key] if len(body) <= MOST_BYTES else None
        except (ValueError, KeyError, TypeError, RecursionError):
            answer = None
        if self._key == "label" and type(answer) is int and 0 <= answer < 2**31:
            return answer
        if self._key == "scores" and isinstance(answer, list) and answer and all(map(_is_number, answer)):
            return self._scores([float(score) for score in answer])
        raise InputError(f"{self._url}: expected {wanted}, got {shortened(body[:200].decode('utf-8', 'replace'))}")

    def _scores(self, numbers: list[float]) -> list[float]:
        if self._answers == "probabilities" and not is_distribution(torch.tensor([numbers])):
            got = shortened(", ".join(f"{score:g}" for score in numbers[:8]))
            raise InputError(f"{self._url}: expected probabilities, each from 0 to 1 and together 1, got {got}")
        return numbers


def _is_number(score: Any) -> bool:
    """Whether it is a number that float32 holds: not NaN, no integer of hundreds of digits."""
    return type(score) in (int, float) and -MOST_FLOAT <= score <= MOST_FLOAT
