"""What judges share that compare in the features of an Inception network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from smoothsweep.core.bounds import Checked, FilePath
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge, StageBuilder
from smoothsweep.core.text import quoted


def is_sha256(text: str) -> str:
    """Refuse what is no SHA-256 in hexadecimal digits. Raises ValueError."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"expected 64 hexadecimal digits, got {quoted(text)}")
    return text


Sha256 = Annotated[str, Checked(is_sha256)]

_Features = tuple[dict[str, Any], dict[str, Any], Any]


@dataclass(frozen=True, kw_only=True)
class InceptionJudge(Judge):
    """A judge in the features of an Inception network.

    Without `weights` their staged file is used; where that is absent the columns stay empty, with the reason.

    Attributes:
        weights: File of the network's weights, None for the staged file of `smoothsweep weights stage`.
        sha256: Digest of `weights`, where it is not the published file.
        published: Which of the published files.
    """

    published: ClassVar[str] = ""

    weights: FilePath | None = None
    sha256: Sha256 | None = None

    def __post_init__(self) -> None:
        if self.sha256 is not None and self.weights is None:
            raise InputError("sha256: expected only with weights, got no weights")

    @property
    def staged(self) -> str | None:
        """The published file, unless the settings name another."""
        return self.published if self.weights is None else None

    def with_features(self, builder: StageBuilder, size: int, network: Mapping[str, Any]) -> _Features:
        """The network's configuration with its weights, hints, and features of the training images at that size."""
        weights = self.weights if self.weights is not None else builder.staged(self.published)
        config = {**network, **builder.content(weights, "weights")}
        hints = {"path": str(weights), **({"sha256": self.sha256} if self.sha256 else {})}
        return config, hints, builder.embeddings({"data": builder.data(size)}, {**config, "parts": ["train"]}, hints)
