"""An HTTP endpoint that answers a posted picture: `POST`, body a PNG; JSON back, `{"scores": [...]}` or `{"label": 3}`.

Every answer is kept by the picture's digest, so that nothing is asked twice by whoever, and a run that was stopped goes
on. Redirects are not followed: pictures of people go to the one place that was named.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import requests
import torch
from PIL import Image
from torch import Tensor

from core.cards import read_card
from core.errors import InputError
from core.outside.answers import KeptAnswers
from core.outside.model import Opened
from core.words import brief

ATTEMPTS = 5
LONGEST_PAUSE_S, TIMEOUT_S = 60.0, 30.0
BUSY = (408, 425, 429, 500, 502, 503, 504)
MOST_BYTES = 4 * 2**20  # of an answer: a hundred thousand scores


def describe_endpoint(url: str, kept: Path, *, token_env: str | None) -> str:
    """What stands for the endpoint, as JSON. kept: where its answers are kept; token_env: the environment variable that
    holds a bearer token, which itself is written nowhere."""
    found = {"url": url, "answers": str(kept.resolve()), "token_env": token_env}
    return json.dumps(found, indent=1) + "\n"


def open_endpoint(path: Path, settings: Mapping[str, Any], device: torch.device) -> Opened:
    """The endpoint, of pictures float32 [n, 3, S, S] in [0, 1]. Asks nothing yet. Raises InputError, one line."""
    said = read_card(path, "what describes an endpoint")
    asking = Endpoint(said["url"], KeptAnswers(Path(said["answers"])), token_env=said.get("token_env"),
                      answers=settings["answers"])  # fmt: skip
    return Opened(answer=asking, differentiable=False, own_input=True)


class Endpoint:
    """Asks for one picture after the other, no faster than agreed, and never for one that was answered before."""

    def __init__(self, url: str, kept: KeptAnswers, *, token_env: str | None, answers: str) -> None:
        self._url, self._kept, self._key = url, kept, "label" if answers == "labels" else "scores"
        self._session = requests.Session()
        if token_env is not None:
            if not os.environ.get(token_env):
                raise InputError(f"{url}: expected its token in the environment variable {token_env}, got none")
            self._session.headers["Authorization"] = f"Bearer {os.environ[token_env]}"

    def __call__(self, images: Tensor) -> Tensor:
        """Scores float32 [n, C], or labels int64 [n], on the CPU.

        Raises InputError where the budget is spent, and for an answer of another form.
        """
        pixels = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        found = [self._answer(np.ascontiguousarray(one)) for one in pixels]
        if self._key == "scores" and len({len(scores) for scores in found}) > 1:
            raise InputError(f"{self._url}: expected as many scores each time, got different numbers")
        return torch.tensor(found, dtype=torch.int64 if self._key == "label" else torch.float32)

    def _answer(self, pixels: np.ndarray) -> Any:
        digest = hashlib.sha256(f"{self._key} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        known = self._kept.get(digest)
        if known is None:
            picture = io.BytesIO()
            Image.fromarray(pixels).save(picture, "PNG")
            known = self._checked(self._ask(picture.getvalue()))
            self._kept.put(digest, known)
        return known

    def _ask(self, picture: bytes) -> bytes:
        for attempt in range(ATTEMPTS):
            self._kept.take_turn(self._url)
            pause, reason = min(LONGEST_PAUSE_S, 0.5 * 2**attempt), ""
            try:
                headers = {"Content-Type": "image/png", "Accept": "application/json"}
                with self._session.post(self._url, data=picture, headers=headers, timeout=TIMEOUT_S, stream=True,
                                        allow_redirects=False) as response:  # fmt: skip
                    if response.status_code == 200:
                        return response.raw.read(MOST_BYTES + 1, decode_content=True)
                    reason = f"status {response.status_code}"
                    if response.status_code not in BUSY:
                        raise InputError(f"{self._url}: expected an answer with status 200, got {reason}")
                    pause = _asked_pause(response.headers.get("Retry-After"), pause)
            except requests.RequestException as error:
                reason = type(error).__name__
            if attempt + 1 < ATTEMPTS:
                time.sleep(pause)
        raise InputError(f"{self._url}: expected an answer within {ATTEMPTS} attempts, got {reason}; what was answered "
                         "is kept, and the same command goes on")  # fmt: skip

    def _checked(self, body: bytes) -> Any:
        """The label, or the scores. Raises InputError."""
        wanted = '{"label": 3}' if self._key == "label" else '{"scores": [0.1, ...]}'
        try:
            found = json.loads(body)[self._key] if len(body) <= MOST_BYTES else None
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if self._key == "label" and type(found) is int and 0 <= found < 2**31:
            return found
        if self._key == "scores" and isinstance(found, list) and found and all(map(_is_number, found)):
            return [float(score) for score in found]
        raise InputError(f"{self._url}: expected {wanted}, got {brief(body[:200].decode('utf-8', 'replace'))}")


def _is_number(score: object) -> bool:
    return type(score) in (int, float) and math.isfinite(score)


def _asked_pause(said: str | None, pause: float) -> float:
    """Seconds to wait, as `Retry-After` says in seconds, within reason."""
    return min(LONGEST_PAUSE_S, max(pause, float(said))) if said is not None and said.isdigit() else pause
