"""What a page shows, in a line of its head: sweep and trials, by which `smoothsweep lineage` finds manifests."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.result.data import ReportData

NAME = "smoothsweep"
MOST_BYTES = MIB  # of a page: its head; 16 bytes a trial
_TRIAL = re.compile(r"[0-9a-f]{12}")


class Origin(BaseModel):
    """What a page says that it shows.

    Attributes:
        sweep: The sweep's name.
        store: The place of its artifacts.
        trials: Ids of its trials.
    """

    model_config = ConfigDict(extra="forbid")

    sweep: Annotated[str, Field(max_length=200)]
    store: Annotated[str, Field(max_length=4000)]
    trials: Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]], Field(min_length=1)]


def origin(data: ReportData) -> str:
    """The line for the page of this sweep; empty where its trials have no ids."""
    trials = [trial for trial in data.every_trial["trial"].astype(str) if _TRIAL.fullmatch(trial)]
    if not trials:
        return ""
    source = Origin(sweep=data.title, store=data.facts.get("Store", ""), trials=list(dict.fromkeys(trials)))
    return json.dumps(source.model_dump(), separators=(",", ":"))


def read_origin(path: Path) -> Origin:
    """What the page says, of which nothing is known to be true. Reads the head of the file alone.

    Raises InputError for a page that says nothing of the kind.
    """
    with open_regular(path) as file:
        head = file.read(MOST_BYTES).decode("utf-8", "replace")
    line = _Head()
    line.feed(head)
    try:
        return Origin.model_validate_json(line.content or "")
    except ValidationError:
        expected = "expected a page of `smoothsweep report` that names its trials"
        got = "another, or one of an earlier version: smoothsweep report writes it anew"
        raise InputError(f"{shortened(str(path))}: {expected}, got {got}") from None


class _Head(HTMLParser):
    """Finds the first `<meta name="smoothsweep">`."""

    def __init__(self) -> None:
        super().__init__()
        self.content: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "meta" and attributes.get("name") == NAME and self.content is None:
            self.content = attributes.get("content")
