"""A checked sweep from a sweep file: read, override, validate, one line per mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import why_unread
from smoothsweep.core.text import quoted, shortened, suggestion
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.loaded import LoadedSweep, check
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


OF_DOTTED_KEYS = ("grid", "baseline")
"""Blocks of a sweep file whose keys are dotted ones: `grid.recipe.lr` is the grid's key `recipe.lr`."""


def apply_overrides(raw: dict[str, Any], overrides: list[str]) -> None:
    """Set the keys in a sweep file's settings.

    Raises InputError (one line) where an override is no PATH=VALUE, names what another one names, or what the sweep's
    grid, cells or search set in every trial.
    """
    earlier_overrides: list[tuple[str, Any]] = []
    for override in overrides:
        key, value = _parsed(override)
        for other, earlier in earlier_overrides:
            if _meet(_leaves(other, earlier), _leaves(key, value)):
                expected = f"--set {shortened(key)}: expected every key once"
                raise InputError(f"{expected}, got {quoted(earlier)} (--set {shortened(other)}) and {quoted(value)}")
        earlier_overrides.append((key, value))
        _set(raw, key, value)
    swept = dict(_swept(raw))  # by now a grid that was itself set is there
    for key, value in earlier_overrides:
        for leaf in _leaves(key, value):
            if swept_holder := next((holder for holder in _holders(leaf) if holder in swept), None):
                place = swept[swept_holder]
                raise InputError(
                    f"--set {shortened(key)}: expected a key that the sweep leaves alone, got one that {place} sets in "
                    f"every trial ({shortened(swept_holder)}); set {place} itself"
                )


def _set(raw: dict[str, Any], key: str, value: Any) -> None:
    block, _, inner = key.partition(".")
    held = raw.get(block)
    if block in OF_DOTTED_KEYS and inner and (held is None or isinstance(held, dict)):
        raw[block] = {**(held or {}), inner: value}
    else:
        set_dotted(raw, key, value, where="--set")


def _parsed(override: str) -> tuple[str, Any]:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set: expected PATH=VALUE, got {quoted(override)}")
    return key, read_yaml(value, f"--set {shortened(key)}")


def _leaves(key: str, value: Any) -> set[str]:
    """The dotted keys that a value under `key` decides: those inside a mapping, else the key itself."""
    if not isinstance(value, Mapping) or not value:
        return {key}
    return {leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{name}", inner)}


def _meet(some: set[str], others: set[str]) -> bool:
    """Whether a key of one lies in, or is, a key of the other."""
    return any(holder in others for key in some for holder in _holders(key)) or any(
        holder in some for key in others for holder in _holders(key)
    )


def _holders(key: str) -> list[str]:
    """A dotted key and all that it lies in: a.b.c, a.b, a."""
    parts = key.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _swept(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(dotted key, place) of everything that a sweep sets trial by trial."""
    cells, search = raw.get("cells"), raw.get("search")
    for place, holder in (
        ("grid", raw.get("grid")),
        *((f"cells.{number}", cell) for number, cell in enumerate(cells if isinstance(cells, list) else [])),
        ("search.space", search.get("space") if isinstance(search, Mapping) else None),
    ):
        for key in holder if isinstance(holder, Mapping) else ():
            yield key, place
