"""Manifests: sealed when they are written, checked whenever they are read. And the file that states a store's format.

A seal is a digest over all that the manifest says. `result` is one over what the stage made alone (its identity, its
numbers, the checksums of its files), without times and machine: stages that read the artifact note it, so that numbers
which do not belong together are noticed even where a manifest was changed and has a new seal.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.stages.stage import canonical_json

RESULT, SEAL = "result", "seal"
TIMED_FILES = ("history.parquet",)  # hold seconds: another making of the same artifact has another
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z][a-z0-9_]{0,63}")
VERSION_FILE = "store.json"
VERSION = 2
_DEEPEST = 40  # levels of a manifest: those of a configuration are fewer than ten
_LATEST = 253_402_300_799.0  # the last second of the year 9999, in seconds since 1970


class Damage(Exception):
    """What is wrong with something in the store, in a few words."""


def is_plain_name(name: str) -> bool:
    """Whether this is the name of one file in a folder: no way out of it, nothing hidden, nothing unprintable."""
    return is_inner_path(name) and not name.startswith(".") and "/" not in name


def is_inner_path(path: str) -> bool:
    """Whether this is a relative path to a place below; hidden names may be on it, as Ray Train's own are."""
    return all(
        0 < len(name.encode(errors="replace")) <= 255
        and name.isprintable()
        and "\\" not in name
        and name not in (".", "..")
        for name in path.split("/")
    )


def _plain(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError
    return name


def _as_tables_hold(metrics: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError for a number that no table holds: a share is 0 to 1, a known metric finite, an integer of 64
    bits."""
    for key, value in metrics.items():
        if value is None:
            continue
        if type(value) not in (int, float) or (type(value) is int and not -(2**63) <= value < 2**63):
            raise ValueError(key)
        if key in BY_KEY:
            least, most = (0.0, 1.0) if BY_KEY[key].unit == "percent" else (-1e300, 1e300)
            if not least <= value <= most:  # no NaN is
                raise ValueError(key)
    return metrics


Name = Annotated[str, AfterValidator(_plain)]
Digest = Annotated[str, Field(pattern=f"^{FINGERPRINT.pattern}$")]
Time = Annotated[float, Field(ge=0.0, le=_LATEST, allow_inf_nan=False)]


class _Input(BaseModel, strict=True):
    stage: Annotated[str, Field(pattern=f"^{KIND.pattern}$")]
    fingerprint: Digest


class _Shape(BaseModel, strict=True):
    """What is computed with is of a size that it can be computed with; every name that becomes part of a path stays
    below its folder, no matter who wrote the manifest."""

    stage: str
    metrics: Annotated[dict[str, Any], AfterValidator(_as_tables_hold)]
    files: dict[Name, Digest]
    config: dict[str, Any]
    inputs: dict[str, _Input]
    seconds: Time
    finished_at: Time
    code_version: str
    sizes: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = {}
    device: str | None = None
    host: str | None = None
    libraries: dict[str, Any] | None = None
    fingerprint: str = ""
    attempt: Name = "a"


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its result and its seal."""
    plain = json.loads(json.dumps(manifest))  # as it will be read: keys are text, tuples are lists
    plain = {key: value for key, value in plain.items() if key not in (RESULT, SEAL)}
    plain[RESULT] = _digest(_made(plain))
    return {**plain, SEAL: _digest(plain)}


def read_manifest(content: bytes, kind: str, fingerprint: str) -> dict[str, Any]:
    """A manifest of this stage from its file.

    Raises Damage if it is no manifest, has no seal, was changed after it was sealed, belongs elsewhere, or holds what
    none does: a name that leads out of its folder, an impossible number.
    """
    try:
        manifest = json.loads(content)
        if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict) or not _is_shallow(manifest):
            raise ValueError
    except (ValueError, RecursionError):
        raise Damage("its manifest is unreadable") from None
    if SEAL not in manifest:
        raise Damage("its manifest has no seal")
    rest = {key: value for key, value in manifest.items() if key != SEAL}
    if manifest[SEAL] != _digest(rest) or manifest.get(RESULT) != _digest(_made(manifest)):
        raise Damage("its manifest was changed after it was written")
    try:
        _Shape.model_validate(manifest)
    except ValidationError as error:
        place = ", ".join(printable(str(part)[:60]) for part in error.errors()[0]["loc"][:2])
        raise Damage(f"its manifest has no proper {place}") from None
    if (manifest["stage"], manifest.setdefault("fingerprint", fingerprint)) != (kind, fingerprint):
        raise Damage("its manifest belongs to another stage")
    return manifest


def check_identity(manifest: Mapping[str, Any], version: int | None = None) -> None:
    """Raise Damage if configuration and inputs in a manifest are not those that its fingerprint stands for.

    version: of the stage, for a manifest from before manifests said it; without one such a manifest is let pass.
    """
    if (version := manifest.get("version", version)) is None:
        return
    inputs = {name: source["fingerprint"] for name, source in manifest["inputs"].items()}
    identity = {"stage": manifest["stage"], "version": version, "config": manifest["config"], "inputs": inputs}
    try:
        text = canonical_json(identity)
    except ValueError:  # of a number that is none
        raise Damage("its configuration is no configuration") from None
    if hashlib.sha256(text.encode()).hexdigest() != manifest.get("fingerprint"):
        raise Damage("its configuration is not that of its fingerprint")


def _is_shallow(value: Any, left: int = _DEEPEST) -> bool:
    """Whether those who walk through it later can."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not inner or (left > 0 and all(_is_shallow(part, left - 1) for part in inner))


def _made(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the stage made, and of what: the same whenever and wherever it is made again."""
    files = {name: checksum for name, checksum in manifest["files"].items() if name not in TIMED_FILES}
    kept = {key: manifest.get(key) for key in ("stage", "version", "config", "fingerprint", "metrics")}
    return {**kept, "files": files}


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def stated_version(content: bytes | None, where: str) -> int | None:
    """The format that a version file states, None where there is no such file or it states none.

    Raises InputError, before anything of the store at `where` is touched, for a format newer than ours.
    """
    try:
        got = json.loads(content or b"")["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(got) is int and got > VERSION:
        raise InputError(
            f"--store {where}: expected a store of format {VERSION} or older in {VERSION_FILE}, got {got}; "
            "a newer smoothsweep reads newer formats"
        )
    return got if type(got) is int and got >= 1 else None


CACHE_VARIABLE = "SMOOTHSWEEP_CACHE"
STORE_NOTE = "store"  # beside notes of its artifacts: which store they are of


def checksum(path: Path) -> str:
    """SHA-256 of a file, as hex digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:  # one of a file that is being read names none
        raise OSError(error.errno, error.strerror, str(path)) from None


def sizes_of(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Bytes of these files. Raises Damage for one that is missing, or a link: those lead out of the store."""
    return {name: _looks(folder, name)[0] for name in names}


def verify(folder: Path, files: Mapping[str, str]) -> None:
    """Raise Damage, naming the file, unless each of these files (name -> SHA-256) is in the folder and right.

    What was read is noted for this machine's other processes: it is right as long as it looks the same.
    """
    looks, note = {name: [*_looks(folder, name), expected] for name, expected in files.items()}, _note(folder)
    if looks.items() <= _noted(note).items():
        return
    with locked(note.parent, hashlib.sha256(note.name.encode()).hexdigest()[:2]):  # the first worker reads for all
        known = _noted(note)
        unknown = [name for name in looks if known.get(name) != looks[name]]
        for name in unknown:
            if checksum(folder / name) != files[name]:
                raise Damage(f"{name} differs from its checksum")
        if unknown:
            _write_note(note, folder, {**known, **looks})


def note_as_right(folder: Path, files: Mapping[str, str]) -> None:
    """Note files that this process has just made, and of which it has the checksums, as verified."""
    with suppress(Damage):  # another process removes the artifact meanwhile
        _write_note(_note(folder), folder, {name: [*_looks(folder, name), known] for name, known in files.items()})


def _looks(folder: Path, name: str) -> list[int]:
    """A file's size, times of change of content and of inode, and inode. Raises Damage as `sizes_of`."""
    try:
        status = os.lstat(folder / name)
    except OSError:
        raise Damage(f"{name} is missing") from None
    if not stat.S_ISREG(status.st_mode):
        raise Damage(f"{name} is no plain file")
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _note(folder: Path) -> Path:
    digest = hashlib.sha256(f"{socket.gethostname()} {folder.parent.parent}".encode()).hexdigest()[:16]
    return cache_folder() / "verified" / digest / f"{folder.parent.name}.{folder.name}"


def _noted(note: Path) -> dict[str, list[Any]]:
    """Name -> looks and checksum of the files that were right; of a note that is damaged nothing."""
    with suppress(OSError, ValueError, RecursionError):
        known = json.loads(note.read_text())
        return known if isinstance(known, dict) else {}
    return {}


def _write_note(note: Path, folder: Path, known: Mapping[str, list[Any]]) -> None:
    """Leave it to the others. A courtesy: without it they read the files themselves."""
    with suppress(OSError):
        if not (note.parent / STORE_NOTE).exists():
            for store in note.parent.parent.glob(f"*/{STORE_NOTE}"):
                if not Path(store.read_text()).exists():
                    shutil.rmtree(store.parent, ignore_errors=True)
            write_file(note.parent / STORE_NOTE, str(folder.parent.parent), parents=True, flush=False)
        write_file(note, json.dumps(known), flush=False)


def cache_folder() -> Path:
    """SMOOTHSWEEP_CACHE, else XDG_CACHE_HOME/smoothsweep, else ~/.cache/smoothsweep.

    Where neither variable is set and the home cannot be written, or there is none: a folder of this user for
    temporary files.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser().resolve()
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "smoothsweep"
    except RuntimeError:  # no home at all
        return _temporary()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return folder if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK) else _temporary()


@contextmanager
def locked(root: Path, name: str) -> Generator[None]:
    """One process of this machine at a time; a killed holder lets go. A root that cannot be written is no obstacle."""
    try:
        file = _opened(root, name)
    except OSError:
        file = _opened(_temporary(), name)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(root: Path, name: str) -> IO[str]:
    folder = root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / name).open("w")


def _temporary() -> Path:
    """A folder among the temporary files that no other user may read or prepare."""
    folder = Path(tempfile.gettempdir()) / f"smoothsweep-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:  # something else of that name
        return Path(tempfile.mkdtemp(prefix="smoothsweep-"))
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if private else Path(tempfile.mkdtemp(prefix="smoothsweep-"))
