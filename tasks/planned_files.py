"""Files and folders that a configuration names: read as what they were when the stage was planned, or not at all.

A stage's fingerprint holds the content of what it reads from outside the store, and hours may lie between the plan and
the reading. `PlannedFile.read` is the only way from a configuration to such a file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from smoothsweep.core.checks import present
from smoothsweep.core.data.sources import content_digest, path_state, tree_digest
from smoothsweep.core.errors import InputChanged
from smoothsweep.core.files import write_file
from smoothsweep.core.priors.settings import PriorFiles
from smoothsweep.tasks.context import Config

T = TypeVar("T")
DIGEST = re.compile("[0-9a-f]{64}")
REMEMBER_FROM_BYTES = 256 * 2**20
ROUNDS = 2  # of reading something that moves while it is read, with a content that stays

_digests: dict[tuple[str, bool], tuple[str, str]] = {}  # path, any_files -> state and digest then


@dataclass(frozen=True)
class PlannedFile:
    """A file or folder from outside the store, and the digest of its content that the plan counted with.

    Attributes:
        content: None where nothing was planned (a model that is only looked at).
        any_files: A folder that may hold more than pictures, see `content_at`.
    """

    place: Path
    content: str | None
    any_files: bool = False

    def __str__(self) -> str:
        return str(self.place)

    @property
    def is_there(self) -> bool:
        return self.place.exists()

    @property
    def is_folder(self) -> bool:
        return self.place.is_dir()

    def read(self, read: Callable[[Path], T]) -> T:
        """What `read` makes of it. `read` keeps nothing of the file open or mapped, and may be called twice.

        Names, sizes, times and inodes are looked at before and after, and the content where they have moved. Raises
        InputChanged, one line, where the content is another than the planned one; else as `read`.
        """
        before = self._refuse_other_content()
        for _ in range(ROUNDS):
            made = read(self.place)
            if (after := self._refuse_other_content()) == before:
                break
            before = after
        return made

    def _refuse_other_content(self) -> str | None:
        """What the file looks like now, None for one that is not there. Raises InputChanged."""
        expected = self.content if self.content and DIGEST.fullmatch(self.content) else None
        state, digest = None, None
        with contextlib.suppress(FileNotFoundError):
            if not self.place.exists():
                pass
            elif expected:
                state, digest = _inspect(self.place.resolve(), any_files=self.any_files)
            else:
                state = path_state(self.place.resolve())[0]
        if expected and digest != expected:
            got = f"got {digest[:12]}" if digest else "got nothing at this path"
            raise InputChanged(
                f"{self.place}: expected what it held when this was planned (SHA-256 {expected[:12]}), {got}: it was "
                f"changed meanwhile; put it back, or run again with what is there"
            )
        return state


def planned(
    config: Config, *, file: str | None = None, content: str = "content", any_files: bool = False
) -> PlannedFile:
    """What the configuration names. file: the one in that folder that is meant. content: the key of its digest."""
    place = Path(config["path"]).expanduser()
    return PlannedFile(place / file if file else place, config.get(content), any_files)


def prior_files(config: Config, files: PriorFiles) -> list[PlannedFile]:
    """The weights of a prior that is brought in, and its discriminator where the configuration counts with it."""
    weights = PlannedFile(files.weights, config.get("content"))
    if "discriminator" not in config:
        return [weights]
    return [weights, PlannedFile(present(files.discriminator, "discriminator"), config["discriminator"])]


def names_a_file(config: Config) -> bool:
    """Whether the configuration names something to read."""
    return config.get("path") is not None


def content_at(path: Path, *, any_files: bool = False) -> str:
    """SHA-256 (hexadecimal) of a file's bytes, or of the names and bytes of a folder's files.

    any_files: the folder may hold more than pictures. What was read once counts as unchanged while names, sizes, times
    and inodes are: two hundred thousand pictures take minutes to read. Of what is large, the digest is kept beside the
    user's other caches, for the next command. Raises InputError for a folder with something else than pictures, and
    FileNotFoundError.
    """
    return _inspect(path.resolve(), any_files=any_files)[1]


def _inspect(path: Path, *, any_files: bool) -> tuple[str, str]:
    """State and digest of what is there now."""
    key = (str(path), any_files)
    state, total = path_state(path)
    for _ in range(ROUNDS):
        known = _digests.get(key)
        if known is not None and known[0] == state:
            break
        known = _digests[key] = (state, _digest(path, state, total, any_files=any_files))
        before, (state, total) = state, path_state(path)
        if state == before:  # else it was changed while it was read
            break
    return known


def _digest(path: Path, state: str, total: int, *, any_files: bool) -> str:
    digest_of = tree_digest if any_files and path.is_dir() else content_digest
    if total < REMEMBER_FROM_BYTES:
        return digest_of(path)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    note = caches / "smoothsweep" / "digests" / f"{digest_of.__name__}-{state}"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if DIGEST.fullmatch(stored := note.read_text()):  # else it is damaged
            return stored
    digest = digest_of(path)
    with contextlib.suppress(OSError):  # a courtesy: without it the next command reads everything again
        write_file(note, digest, parents=True)
    return digest
