"""The kind of model that is an HTTP endpoint: what a user must agree to before a picture is sent to it.

How it is asked stands in `core.external.endpoint`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.address import check_plain
from smoothsweep.core.external.base import Budget, ForeignModel, option

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel

QUERIES, PER_SECOND = 5000, 5.0


@dataclass(frozen=True, kw_only=True)
class HTTPEndpoint(ForeignModel):
    """A server that answers pictures.

    Attributes:
        queries: Queries in all.
        token_env: The environment variable with its bearer token.
    """

    words = "an HTTP endpoint"
    file = "endpoint.json"
    prefixes = ("http://", "https://")
    form = "http(s)://HOST/PATH"
    sent_pictures = True
    options = (
        "how an endpoint is asked",
        "Pictures of people leave this machine: nothing is sent without --yes. What was answered is never asked again.",
    )

    yes: bool = option("send the pictures of --data, and what attacks draw", reads=None)
    queries: int | None = option(f"at most so many in all (default: {QUERIES})", metavar="N", reads=int)
    per_second: float | None = option(f"no faster than that (default: {PER_SECOND:g})", metavar="N", reads=float)
    token_env: str | None = option("the environment variable that holds its bearer token", metavar="NAME")

    def __post_init__(self) -> None:
        if self.queries is not None and self.queries < 1:
            raise InputError(f"--queries: expected at least 1, got {self.queries}")
        if self.per_second is not None and not (math.isfinite(self.per_second) and self.per_second > 0):
            raise InputError(f"--per-second: expected more than 0, got {self.per_second:g}")

    def check(self, name: str | None) -> None:
        """Refuse an address that may hold a secret, and to send anything without consent."""
        if name is not None:
            check_plain(name)
        if not self.yes:
            many = self.budget.queries
            raise InputError(
                f"{name or 'the endpoint'}: expected --yes, since up to {many} pictures would be sent to it, those of "
                "--data among them; nothing was sent"
            )

    def agree(self, folder: Path) -> None:
        """How often and how fast it may be asked, noted where its answers are kept."""
        from smoothsweep.core.external.answers import KeptAnswers

        KeptAnswers(answers_database(folder)).agree(queries=self.budget.queries, per_second=self.budget.per_second)

    @property
    def budget(self) -> Budget:
        """The limits that were stated, or the usual ones."""
        return Budget(queries=self.queries or QUERIES, per_second=self.per_second or PER_SECOND)

    def describe(self, name: str, folder: Path) -> str:
        """Its address and where its answers are kept; of its token the variable's name alone."""
        from smoothsweep.core.external.endpoint import describe_endpoint

        return describe_endpoint(name, answers_database(folder), token_env=self.token_env)

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The endpoint, of which nothing is asked yet."""
        from smoothsweep.core.external.endpoint import open_endpoint

        return open_endpoint(path, settings, device)


def answers_database(folder: Path) -> Path:
    """Where the answers of an endpoint are kept whose card lies in `folder`: they stay when the card is made anew."""
    return folder.with_name(f"{folder.name}.answers.sqlite")
