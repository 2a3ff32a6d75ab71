"""From a sweep file to a checked sweep: read, override, validate, one line per mistake."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from core.errors import InputError
from sweeps.schema import SWEEPS, InversionSweep, ToySweep
from sweeps.settings import set_dotted

Sweep = InversionSweep | ToySweep


class LoadedSweep:
    """A checked sweep with the raw settings it came from and the comment that opens its file."""

    def __init__(self, *, sweep: Sweep, raw: dict[str, Any], intro: str, source: str) -> None:
        self.sweep = sweep
        self.raw = raw
        self.intro = intro
        self.source = source


def load_sweep(path: Path, overrides: list[str] | None = None) -> LoadedSweep:
    """Read a sweep file, apply `--set` overrides (dotted.key=YAML value), check everything.

    Raises InputError with one line: file, key, what was expected, what came.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: expected a sweep file, got no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a readable text file, got: {error}") from None
    raw = _parse_yaml(text, path)
    for override in overrides or []:
        key, value = _parse_override(override)
        set_dotted(raw, key, value, where="--set")
    loaded = LoadedSweep(sweep=check(raw, str(path)), raw=raw, intro=_opening_comment(text), source=str(path))
    if getattr(loaded.sweep, "search", None):
        from sweeps.recipes import check_search  # which reads the cells that are made of a loaded sweep

        check_search(loaded)
    return loaded


def check(raw: dict[str, Any], source: str) -> Sweep:
    """Validate settings against the schema; InputError naming source and key."""
    experiment = raw.get("experiment", "inversion")
    if experiment not in SWEEPS:
        raise InputError(f"{source}: experiment: expected one of {', '.join(SWEEPS)}, got {experiment!r}")
    try:
        return SWEEPS[experiment].model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{source}: {_first_mistake(error)}") from None


def with_values(raw: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """A copy of the settings with dotted keys set."""
    changed = copy.deepcopy(raw)
    for key, value in values.items():
        set_dotted(changed, key, value, where="grid")
    return changed


def _parse_yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        raw = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}:{line} expected YAML, got: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a mapping of keys, got {type(raw).__name__}")
    return raw


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, which YAML would silently resolve to the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":  # `<<: *anchor` gives way to the keys beside it
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parse_override(override: str) -> tuple[str, Any]:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set: expected PATH=VALUE, got {override!r}")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise InputError(f"--set {key}: expected a YAML value, got {value!r}") from None


def _first_mistake(error: ValidationError) -> str:
    """One line for the first error: key, expected, got (and how many more)."""
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    key = ".".join(str(part) for part in first["loc"] if not _is_union_tag(part, first["loc"]))
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{key + ': ' if key else ''}{_sentence(first)}{more}"


def _is_union_tag(part: str | int, location: tuple[str | int, ...]) -> bool:
    """pydantic adds the chosen variant of a union to the location; it is not a key of the file."""
    tags = {"synthetic", "labelled", "unlabelled", "eigenfaces", "shipped", "folder", "stylegan2"}
    tags |= {"facescrub", "celeba", "celeba64", "stanford_dogs", "imagenette", "trained_here", "brought_in"}
    return isinstance(part, str) and (part in tags or "[" in part) and location.index(part) > 0


def _sentence(mistake: dict[str, Any]) -> str:
    kind, context, got = mistake["type"], mistake.get("ctx", {}), mistake.get("input")
    if kind == "extra_forbidden":
        return f"expected no such key, got {got!r}"
    if kind == "missing":
        return "expected a value, got none"
    if kind == "value_error":
        return " ".join(str(context["error"]).split())
    if kind in ("union_tag_invalid", "literal_error"):
        expected = context.get("expected_tags") or context.get("expected")
        return f"expected one of {expected}, got {context.get('tag', got)!r}"
    message = mistake["msg"].removeprefix("Input should be ").removeprefix("Input should have ")
    return f"expected {message}, got {got!r}"


def _opening_comment(text: str) -> str:
    """The comment block at the top of the file, without the hashes."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return "\n".join(lines).strip()
