"""Models that are no files: what describes a function or an endpoint, and what was agreed before anything is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.address import check_plain
from smoothsweep.core.external.kinds import KINDS, Named, Source
from smoothsweep.core.files import write_file

QUERIES, PER_SECOND = 5000, 5.0


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How an endpoint may be asked; None where nothing was said. queries: in all; token_env: the environment variable
    with its bearer token."""

    yes: bool = False
    queries: int | None = None
    per_second: float | None = None
    token_env: str | None = None

    def check(self, source: Source, kind: str | None) -> None:
        """Raise InputError for terms of what is never asked, for terms that cannot be, and without consent to send."""
        if kind != "endpoint":
            said = {
                "--yes": self.yes or None,
                "--queries": self.queries,
                "--per-second": self.per_second,
                "--token-env": self.token_env,
            }
            if given := [name for name, value in said.items() if value is not None]:
                raise InputError(f"{given[0]}: expected it with an endpoint alone, got {source}")
            return
        check_plain(source.text if isinstance(source, Named) else None)
        if self.queries is not None and self.queries < 1:
            raise InputError(f"--queries: expected at least 1, got {self.queries}")
        if self.per_second is not None and not (math.isfinite(self.per_second) and self.per_second > 0):
            raise InputError(f"--per-second: expected more than 0, got {self.per_second:g}")
        if not self.yes:
            many = self.queries or QUERIES
            raise InputError(
                f"{source}: expected --yes, since up to {many} pictures would be sent to it, those of "
                "--data among them; nothing was sent"
            )

    def agree(self, kept: Path) -> None:
        """Note them where the answers are kept, for whoever asks."""
        from smoothsweep.core.external.answers import KeptAnswers

        KeptAnswers(kept).agree(queries=self.queries or QUERIES, per_second=self.per_second or PER_SECOND)


def kept_beside(out: Path) -> Path:
    """Where the answers of an endpoint are kept whose card lies in `out`: they stay when the card is made anew."""
    return out.with_name(f"{out.name}.answers.sqlite")


def source_file(source: Source, out: Path, terms: Terms, place: Path) -> Path:
    """The file that stands for a model: its own, or what describes it, written into `place`. Raises InputError."""
    if not isinstance(source, Named):
        return source
    file = place / KINDS[source.kind].file
    write_file(file, described_source(source, out, terms))
    return file


def described_source(source: Named, out: Path, terms: Terms) -> str:
    """What describes a function or an endpoint, as JSON. Raises InputError."""
    if source.kind == "function":
        from smoothsweep.core.external.function import describe_function

        return describe_function(source.text, Path.cwd())
    from smoothsweep.core.external.endpoint import describe_endpoint

    return describe_endpoint(source.text, kept_beside(out), token_env=terms.token_env)
