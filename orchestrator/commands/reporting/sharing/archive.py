"""The zip file of a bundle: what may be in it, how it is written, and how it is taken out again."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import replacing
from smoothsweep.core.readers.archives import MOST_MEMBERS, Members
from smoothsweep.core.readers.files import why_unread
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands.reporting.sharing.folder import digest
from smoothsweep.orchestrator.planning.proposals import PROPOSALS, REAUDIT
from smoothsweep.orchestrator.planning.state import STATE_FILE
from smoothsweep.orchestrator.search.record import ENDED
from smoothsweep.orchestrator.store.common.version import VERSION_FILE
from smoothsweep.sweeps.mistakes import first_mistake
from smoothsweep.tasks.registry import TASKS

INDEX = "bundle.json"
_TEXT = ("bib", "csv", "html", "json", "jsonl", "md", "svg", "tex", "txt", "yaml")
NOTES = (STATE_FILE, PROPOSALS, REAUDIT, ENDED)
"""Files of a sweep that a run goes on from."""
_STAGES, _FINGERPRINT, _NAME = f"({'|'.join(sorted(TASKS))})", "[0-9a-f]{64}", "[^/]+"
_HELD = (
    r"report\.(html|txt)|sweep\.yaml|comparison\.json|references\.bib|[a-z_]+\.parquet",
    r"(figures|images|tables)/.+\.(csv|json|md|pdf|png|svg|tex)",
    rf"manifests/{_STAGES}/{_FINGERPRINT}\.json",
    rf"store/({VERSION_FILE}|sweeps/{_NAME}/({'|'.join(NOTES)}))",
    rf"store/{_STAGES}/{_FINGERPRINT}/{_NAME}\.(json|parquet|safetensors|txt)",
)
"""All that a bundle may hold: of a store its artifacts and notes; no program, and no list of other stores."""
MOST_DEFLATED = 32 * 2**20
"""Bytes of text that are compressed, all together: what opens a bundle takes no more that unpacks to more."""
MOST_PARTS, LONGEST_PART = 8, 200
_PART = re.compile(r"[A-Za-z0-9_+=@,()-][A-Za-z0-9_.+=@,() -]*")

Content = bytes | Path


class Index(BaseModel):
    """bundle.json: what a bundle is of, and every other file with its digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundle: Literal[1]
    sweep: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+$")
    protocol: str = Field(max_length=20)
    code: str = Field(max_length=200)
    trials: dict[str, int]
    images: bool
    artifacts: bool
    files: dict[str, str]


def write_archive(out: Path, root: str, files: Iterable[tuple[str, Content]], about: Mapping[str, Any]) -> str:
    """Write the bundle, its index last; the digest of the index, which stands for all of it. Raises InputError for
    more files than can be opened again."""
    digests: dict[str, str] = {}
    room = MOST_DEFLATED
    with replacing(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files:
            refuse_name(name, f"{out}")
            if len(digests) + 2 > MOST_MEMBERS:
                raise InputError(f"{out}: expected a bundle of at most {MOST_MEMBERS} files, got more")
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            deflate = name.rpartition(".")[2] in _TEXT and size <= room
            room -= size if deflate else 0
            digests[name] = _add(archive, f"{root}/{name}", content, size, deflate=deflate)
        index = json.dumps({**about, "files": dict(sorted(digests.items()))}, indent=1).encode()
        _add(archive, f"{root}/{INDEX}", index, len(index), deflate=False)
    return digest(index)


def _add(archive: zipfile.ZipFile, name: str, content: Content, size: int, *, deflate: bool) -> str:
    entry = zipfile.ZipInfo(name)  # of no date: the same content is the same file
    entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    entry.external_attr, entry.file_size = 0o644 << 16, size
    digest = sha256()
    with archive.open(entry, "w") as target:
        for piece in _pieces(content):
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()


def _pieces(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(2**20):
            yield piece


def index_of(members: Members, where: str) -> tuple[Index, str]:
    """The checked index of a bundle, and its digest.

    Raises InputError for a file that is no bundle, names files that it does not list, or lists a file that it lacks,
    whose name would leave its folder, or that has no place in a bundle (`_HELD`).
    """
    if INDEX not in members:
        raise InputError(f"{where}: expected a bundle of smoothsweep, got an archive without {INDEX}")
    content = members.read(INDEX)
    try:
        index = Index.model_validate(json.loads(content.decode("utf-8")))
    except ValidationError as error:
        raise InputError(f"{where}: {INDEX}: {first_mistake(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {INDEX}: expected the list of a bundle's files, got: {why_unread(error)}") from None
    for name in index.files:
        refuse_name(name, where)
    folders = {name.rsplit("/", depth)[0] for name in index.files for depth in range(1, name.count("/") + 1)}
    if both := sorted(folders & set(index.files)):
        raise InputError(f"{where}: expected files in folders, got {quoted(both[0])}, which is both")
    if others := sorted({INDEX, *index.files} ^ set(members)):
        raise InputError(f"{where}: expected the files that {INDEX} lists, got another set: {quoted(others[0])}")
    return index, digest(content)


def refuse_name(name: str, where: str) -> None:
    """Raise InputError for the name of a file that a bundle does not hold."""
    parts = name.split("/")
    good = len(parts) <= MOST_PARTS and all(_PART.fullmatch(part) and len(part) <= LONGEST_PART for part in parts)
    if not good:
        raise InputError(f"{where}: expected plain names of files, got {quoted(name)}")
    if not any(re.fullmatch(held, name) for held in _HELD):
        raise InputError(f"{where}: expected the report, tables and artifacts of a sweep, got {quoted(name)}")
