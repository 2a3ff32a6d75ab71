"""A vision-language model that is asked whether pictures show one person, over an OpenAI-compatible address.

The protocol is that of FMLLM (arXiv 2505.03519), with its slips mended: one text for reconstructions and for natural
pairs, temperature 0, references drawn by a seed, and an answer that is neither yes nor no counts as neither.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.asking import MOST_BYTES, TOKEN, KeptAnswers, bearer, posted
from smoothsweep.core.text import shortened

_TEXT = (
    "The picture has an image A on the left and four reference photographs B on the right. All of B show the same "
    "person. Does A show that person, too? A may be blurred, or differ in age, light, hair or expression. "
    "Answer with one word: yes or no."
)
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_MOST_TOKENS = 16


class VisionModel:
    """Asks about pictures one by one; stored answers are reused."""

    def __init__(self, url: str, model: str, kept: KeptAnswers) -> None:
        self._url, self._model, self._kept = f"{url}/chat/completions", model, kept
        self._headers = {**_HEADERS, **bearer(TOKEN)}

    def same_person(self, picture: bytes) -> bool | None:
        """The answer to a PNG of `tasks.vision_judge.question_picture`; None: neither yes nor no.

        Raises InputError where the budget is spent, nothing answers, or the answer is of another form.
        """
        digest = hashlib.sha256(f"{self._model}\n{_TEXT}\n".encode() + picture).hexdigest()
        answer = self._kept.get(digest)
        if answer is None:
            answer = self._said(posted(self._url, self._kept, self._question(picture), self._headers))
            self._kept.put(digest, answer)
        match = _YES_OR_NO.match(answer)
        return None if match is None else match[1].lower() == "yes"

    def _question(self, picture: bytes) -> bytes:
        image_url = {"url": "data:image/png;base64," + base64.b64encode(picture).decode("ascii")}
        content = [{"type": "text", "text": _TEXT}, {"type": "image_url", "image_url": image_url}]
        body = {
            "model": self._model,
            "temperature": 0,
            "max_tokens": _MOST_TOKENS,
            "messages": [{"role": "user", "content": content}],
        }
        return json.dumps(body).encode()

    def _said(self, body: bytes) -> str:
        """The words of the answer, none for a refusal."""
        try:
            message: Any = json.loads(body)["choices"][0]["message"] if len(body) <= MOST_BYTES else None
            content = message["content"] or ""
        except (ValueError, LookupError, TypeError, RecursionError):
            content = None
        if not isinstance(content, str):
            wanted = '{"choices": [{"message": {"content": "yes"}}]}'
            raise InputError(f"{self._url}: expected {wanted}, got {shortened(body[:200].decode('utf-8', 'replace'))}")
        return content[:1000]
