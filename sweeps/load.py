"""YAML as people mean it: the core schema of YAML 1.2, and mappings that say everything once.

So `no` and `on` are text, `1:30` is text (YAML 1.1 took it for 90), `1e-3` and `.5` are numbers, `0o17` is 15. On top
of the schema: keys are text; a key given twice and tags are refused; -0.0 is 0.0; `<<: *anchor` gives
way to the keys beside it. What is read is a tree: an alias is a copy, so that changing one place changes no other.

Files are bounded in bytes, depth and values, aliases counted as often as they are used: a few lines of them can stand
for billions of values.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from smoothsweep.core.bounds import LARGEST
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import why_unread
from smoothsweep.core.text import quoted, shortened, suggestion
from smoothsweep.sweeps.base import set_dotted
from smoothsweep.sweeps.expand import LoadedSweep, check, check_search

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 32
MAX_VALUES = 200_000
MAX_TEXT = 10_000  # characters of one key or value

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ODD_BREAKS = re.compile(r"[\x85\u2028\u2029]")
_MERGE = "<<"


def read_yaml(text: str, where: str) -> Any:
    """The value of one YAML document: None, bool, int, float, str, and lists and dicts of them.

    Raises InputError, one line that begins with `where`, for what is no YAML, not of the core schema, or too large.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: expected UTF-8 text, got {error.reason} at character {error.start + 1}") from None
    if size > MAX_BYTES:
        raise InputError(f"{where}: expected at most {MAX_BYTES // 2**20} MiB of YAML, got {size / 2**20:.1f} MiB")
    try:
        return _Document(text, where).read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        line = f" line {mark.line + 1}:" if mark else ""
        raise InputError(f"{where}:{line} expected YAML, got: {shortened(problem)}") from None


def as_yaml(tree: Any) -> str:
    """YAML that `read_yaml` reads as the same tree, keys in their order, other scripts as they are where they can be.

    PyYAML writes the characters that YAML 1.1 broke lines at as they are, and reads them as line breaks.
    """
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    return yaml.safe_dump(tree, sort_keys=False) if _ODD_BREAKS.search(text) else text


class _Document:
    """One document, event by event."""

    def __init__(self, text: str, where: str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._where = where
        self._anchors: dict[str, Any] = {}
        self._values = 0

    def read(self) -> Any:
        next(self._events)  # the stream begins
        if isinstance(event := next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)  # the document ends
        if not isinstance(event := next(self._events), yaml.StreamEndEvent):
            raise self._refusal(event, "expected one document, got another after ---")
        return value

    def _value(self, event: yaml.Event, depth: int) -> Any:
        self._count(event, depth)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._refusal(event, f"expected an anchor before its alias, got {quoted(event.anchor)}")
            return self._copy(self._anchors[event.anchor], event, depth)
        if not isinstance(event, yaml.NodeEvent):
            raise self._refusal(event, "expected a value")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise self._refusal(event, f"expected a value without a tag, got {quoted(event.tag)}")
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
        else:
            value = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        merged: dict[str, Any] | None = None
        for event in self._until(yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.tag is not None or event.anchor is not None:
                raise self._refusal(event, "expected a key of plain text, got a list, a mapping, an alias or a tag")
            self._count(event, 0)
            if not isinstance(key := self._scalar(event), str):
                raise self._refusal(event, f"expected a key of text, got {quoted(key)}")
            is_merge = key == _MERGE and event.implicit[0]
            if key in entries or (is_merge and merged is not None):
                raise self._refusal(event, f"expected every key once, got {quoted(key)} twice")
            value = self._value(next(self._events), depth + 1)
            if not is_merge:
                entries[key] = value
                continue
            parts = value if isinstance(value, list) else [value]
            if not all(isinstance(part, dict) for part in parts):
                raise self._refusal(
                    event, f"expected {_MERGE} to name a mapping or a list of them, got {quoted(value)}"
                )
            merged = {name: item for part in reversed(parts) for name, item in part.items()}
        return {**(merged or {}), **entries}

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if len(text) > MAX_TEXT:
            raise self._refusal(event, f"expected at most {MAX_TEXT} characters in a value, got {len(text)}")
        if not event.implicit[0]:  # quoted
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            base = 0 if "x" in text or "o" in text else 10
            digits = len(text.lstrip("+-0"))  # of which int() refuses thousands
            number = int(text, base) if base == 0 or digits <= 22 else LARGEST + 1
            if abs(number) > LARGEST:
                raise self._refusal(event, f"expected a whole number of at most {LARGEST}, got {quoted(text)}")
            return number
        if _DECIMAL.fullmatch(text):
            if not math.isfinite(float(text)):
                raise self._refusal(event, f"expected a finite number, got {quoted(text)}")
            return float(text) + 0.0  # -0.0 is 0.0
        if _NOT_FINITE.fullmatch(text):
            return float(text.replace(".", "", 1))  # no setting takes it, which the schema says with the key
        return text

    def _copy(self, value: Any, event: yaml.Event, depth: int) -> Any:
        self._count(event, depth)
        if isinstance(value, dict):
            return {key: self._copy(item, event, depth + 1) for key, item in value.items()}
        return [self._copy(item, event, depth + 1) for item in value] if isinstance(value, list) else value

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _count(self, event: yaml.Event, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._refusal(event, f"expected at most {MAX_VALUES} values, aliases counted as often as they stand")
        if depth > MAX_DEPTH:
            raise self._refusal(event, f"expected values at most {MAX_DEPTH} deep in one another, got deeper ones")

    def _refusal(self, event: yaml.Event, text: str) -> InputError:
        mark = present(event.start_mark, "place")
        return InputError(f"{self._where}: line {mark.line + 1}: {text}")


def load_sweep(path: Path, overrides: list[str] | None = None) -> LoadedSweep:
    """Read a sweep file, apply `--set` overrides (dotted.key=YAML value), check everything.

    path: a file; or the name of a sweep that comes with smoothsweep (`quickstart`), where no file has that name.
    Raises InputError with one line: file, key, what was expected, what came.
    """
    shipped = shipped_sweeps().get(path.name.removesuffix(".yaml"))
    if shipped is not None and path.name == str(path) and not path.is_file():
        path = shipped
    text = _text_of(path)
    raw = read_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a mapping of keys, got {quoted(raw)}")
    apply_overrides(raw, overrides or [])
    opening = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    intro = "\n".join(line.lstrip("#").strip() for line in opening).strip()
    loaded = LoadedSweep(sweep=check(raw, str(path)), raw=raw, intro=intro, source=str(path))
    if loaded.sweep.search:
        check_search(loaded)
    return loaded


def shipped_sweeps() -> dict[str, Path]:
    """Name -> file of the sweeps that come with smoothsweep, in the order of their names."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def _unknown(path: Path) -> InputError:
    """No such file, and no shipped sweep of that name either; a file beside it may be what was meant."""
    siblings = [file.name for file in path.parent.glob("*.yaml") if file.is_file()]
    near = suggestion(path.name, siblings)
    if f"{path.name}.yaml" in siblings:
        near = f"; did you mean {path.name + '.yaml'!r}?"
    names, also = list(shipped_sweeps()), ""
    if path.name == str(path):
        near = near or suggestion(path.name.removesuffix(".yaml"), names)
        also = f"; nor is it a shipped sweep ({', '.join(names)})"
    return InputError(f"{path}: expected a sweep file, got no such file{also}{near}")


def _text_of(path: Path) -> str:
    """The content of a sweep file; no more is read of an endless one than is needed to refuse it."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) <= MAX_BYTES:
            return content.decode("utf-8")
    except FileNotFoundError:
        raise _unknown(path) from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a sweep file, got a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise InputError(f"{path}: expected a readable text file, got: {why_unread(error)}") from None
    raise InputError(f"{path}: expected a sweep file of at most {MAX_BYTES // 2**20} MiB, got a larger one")


OF_DOTTED_KEYS = ("grid", "baseline")
"""Blocks of a sweep file whose keys are dotted ones: `grid.recipe.lr` is the grid's key `recipe.lr`."""


def apply_overrides(raw: dict[str, Any], overrides: list[str]) -> None:
    """Set the keys in a sweep file's settings.

    Raises InputError (one line) where an override is no PATH=VALUE, names what another one names, or what the sweep's
    grid, cells or search set in every trial.
    """
    decided: dict[str, tuple[str, Any]] = {}  # dotted key -> the override that decides it, and its value
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise InputError(f"--set: expected PATH=VALUE, got {quoted(override)}")
        value = read_yaml(text, f"--set {shortened(key)}")
        leaves = _leaves(key, value)
        if twice := next((other for other in decided for leaf in leaves if _lies_in(leaf, other, either=True)), None):
            other, earlier = decided[twice]
            expected = f"--set {shortened(key)}: expected every key once"
            raise InputError(f"{expected}, got {quoted(earlier)} (--set {shortened(other)}) and {quoted(value)}")
        decided |= dict.fromkeys(leaves, (key, value))
        block, _, inner = key.partition(".")
        if block in OF_DOTTED_KEYS and inner and isinstance(held := {} if raw.get(block) is None else raw[block], dict):
            raw[block] = {**held, inner: value}
        else:
            set_dotted(raw, key, value, where="--set")
    cells, search = raw.get("cells"), raw.get("search")
    holders = [("grid", raw.get("grid"))]  # by now a grid that was itself set is there
    holders += [(f"cells.{number}", cell) for number, cell in enumerate(cells if isinstance(cells, list) else [])]
    holders += [("search.space", search.get("space"))] if isinstance(search, Mapping) else []
    swept = [(each, place) for place, holder in holders if isinstance(holder, Mapping) for each in holder]
    for leaf, (key, _) in decided.items():
        if found := next((each for each in swept if _lies_in(leaf, each[0])), None):
            raise InputError(
                f"--set {shortened(key)}: expected a key that the sweep leaves alone, got one that {found[1]} sets in "
                f"every trial ({shortened(found[0])}); set {found[1]} itself"
            )


def _leaves(key: str, value: Any) -> list[str]:
    """The dotted keys that a value under `key` decides: those inside a mapping, else the key itself."""
    if not isinstance(value, Mapping) or not value:
        return [key]
    return [leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{name}", inner)]


def _lies_in(key: str, holder: str, *, either: bool = False) -> bool:
    """Whether a dotted key is another one, or lies in it; either: or the other way round."""
    return f"{key}.".startswith(f"{holder}.") or (either and f"{holder}.".startswith(f"{key}."))
