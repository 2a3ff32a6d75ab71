"""From a sweep file to a checked sweep: read, override, validate, one line per mistake."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from core.errors import InputError
from core.words import brief, shown
from sweeps.overrides import apply_overrides
from sweeps.schema import SWEEPS, InversionSweep, ToySweep
from sweeps.settings import set_dotted
from sweeps.yaml_reader import MAX_BYTES, read_yaml

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
    text = _text_of(path)
    raw = read_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a mapping of keys, got {shown(raw)}")
    apply_overrides(raw, overrides or [])
    loaded = LoadedSweep(sweep=check(raw, str(path)), raw=raw, intro=_opening_comment(text), source=str(path))
    if getattr(loaded.sweep, "search", None):
        from sweeps.recipes import check_search  # which reads the cells that are made of a loaded sweep

        check_search(loaded)
    return loaded


def check(raw: dict[str, Any], source: str) -> Sweep:
    """Validate settings against the schema; InputError naming source and key."""
    experiment = raw.get("experiment", "inversion")
    if not isinstance(experiment, str) or experiment not in SWEEPS:
        raise InputError(f"{source}: experiment: expected one of {', '.join(SWEEPS)}, got {shown(experiment)}")
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


def _first_mistake(error: ValidationError) -> str:
    """One line for the first error: key, expected, got (and how many more)."""
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    key = brief(".".join(str(part) for part in first["loc"] if not _is_union_tag(part, first["loc"])))
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
        return f"expected no such key, got {shown(got)}"
    if kind == "missing":
        return "expected a value, got none"
    if kind == "value_error":
        return " ".join(str(context["error"]).split())
    if kind in ("union_tag_invalid", "literal_error"):
        expected = context.get("expected_tags") or context.get("expected")
        return f"expected one of {expected}, got {shown(context.get('tag', got))}"
    message = mistake["msg"].removeprefix("Input should be ").removeprefix("Input should have ")
    message = message.replace("valid tuple", "list").replace("valid dictionary", "mapping of keys")
    return f"expected {message}, got {shown(got)}"


def _opening_comment(text: str) -> str:
    """The comment block at the top of the file, without the hashes."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return "\n".join(lines).strip()
