"""A checked sweep from a sweep file: read, override, validate, one line per mistake."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import why_unread
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.loaded import LoadedSweep, check
from smoothsweep.sweeps.overrides import apply_overrides
from smoothsweep.sweeps.recipes import check_search
from smoothsweep.sweeps.yaml_reader import MAX_BYTES, read_yaml


def load_sweep(path: Path, overrides: list[str] | None = None) -> LoadedSweep:
    """Read a sweep file, apply `--set` overrides (dotted.key=YAML value), check everything.

    path: a file; or the name of a sweep that comes with smoothsweep (`quickstart`), where no file has that name.
    Raises InputError with one line: file, key, what was expected, what came.
    """
    path = _shipped(path)
    text = _text_of(path)
    raw = read_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a mapping of keys, got {quoted(raw)}")
    apply_overrides(raw, overrides or [])
    loaded = LoadedSweep(sweep=check(raw, str(path)), raw=raw, intro=_opening_comment(text), source=str(path))
    if loaded.sweep.search:
        loaded.recipes = check_search(loaded)
    return loaded


def shipped_sweeps() -> dict[str, Path]:
    """Name -> file of the sweeps that come with smoothsweep, in the order of their names."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def _shipped(path: Path) -> Path:
    """The file of a shipped sweep, for its name alone; any other path as it is."""
    shipped = shipped_sweeps().get(path.name.removesuffix(".yaml"))
    return path if shipped is None or not _is_name(path) or path.is_file() else shipped


def _is_name(path: Path) -> bool:
    return path.name == str(path)


def _unknown(path: Path) -> InputError:
    """No such file, and no shipped sweep of that name either; a file beside it may be what was meant."""
    siblings = (
        sorted(file.name for file in path.parent.glob("*.yaml") if file.is_file()) if path.parent.is_dir() else []
    )
    is_extended = f"{path.name}.yaml" in siblings
    near = f"; did you mean {path.name + '.yaml'!r}?" if is_extended else suggestion(path.name, siblings)
    if not _is_name(path):
        return InputError(f"{path}: expected a sweep file, got no such file{near}")
    names = list(shipped_sweeps())
    near = near or suggestion(path.name.removesuffix(".yaml"), names)
    return InputError(
        f"{path}: expected a sweep file, got no such file; nor is it a shipped sweep ({', '.join(names)}){near}"
    )


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
        raise _unknown(path) from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a sweep file, got a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise InputError(f"{path}: expected a readable text file, got: {why_unread(error)}") from None


def _opening_comment(text: str) -> str:
    """The comment block at the top of the file, without the hashes."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return "\n".join(lines).strip()
