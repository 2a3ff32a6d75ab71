"""From a sweep file to a checked sweep: read, override, validate, one line per mistake."""

from __future__ import annotations

from pathlib import Path

from core.errors import InputError
from core.words import shown
from sweeps.loaded import LoadedSweep, check
from sweeps.overrides import apply_overrides
from sweeps.recipes import check_search
from sweeps.yaml_reader import MAX_BYTES, read_yaml


def load_sweep(path: Path, overrides: list[str] | None = None) -> LoadedSweep:
    """Read a sweep file, apply `--set` overrides (dotted.key=YAML value), check everything.

    Raises InputError with one line: file, key, what was expected, what came.
    """
    text = _text_of(path)
    raw = read_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a mapping of keys, got {shown(raw)}")
    apply_overrides(raw, overrides or [])
    loaded = LoadedSweep(sweep=check(raw, str(path)), raw=raw, intro=_opening_comment(text), source=str(path))
    if loaded.sweep.search:
        check_search(loaded)
    return loaded


def _text_of(path: Path) -> str:
    """The content of a sweep file; no more is read of an endless one than is needed to refuse it."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InputError(f"{path}: expected a sweep file of at most {MAX_BYTES // 2**20} MiB, got a larger one")
        return content.decode("utf-8")
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: expected a sweep file, got no such file") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a name that no file can have
        raise InputError(f"{path}: expected a readable text file, got: {error}") from None


def _opening_comment(text: str) -> str:
    """The comment block at the top of the file, without the hashes."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return "\n".join(lines).strip()
