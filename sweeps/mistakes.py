"""What pydantic found wrong, as one line for the user who wrote the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.text import quoted, shortened, suggestion
from smoothsweep.sweeps.attacks import DEFAULT_KIND, AnyAttack, schema_of
from smoothsweep.sweeps.base import NAME, SHA256, dotted_value
from smoothsweep.sweeps.data import DATA_KINDS

KeysAt = Callable[[Sequence[str | int]], Collection[str]]
_CHOICE = re.compile(r"expected one of (?P<known>.+), got '(?P<got>[^']*)'")
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("of at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("of at most", "le"),
}
"""pydantic's type of error -> its words, and what holds the bound."""
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_PATTERNS = {
    NAME: "a name of letters, digits, '.', '_' and '-', at most 64, that begins with a letter or digit",
    SHA256: "64 digits, 0 to 9 and a to f",
}
_CLASS = re.compile(r" or (?:an )?instance of \w+")
_KEY_OF_KIND = re.compile(r"(?P<got>[\w.]+): expected a key of [^()]+ \((?P<known>[^()]+)\), got .*")


def first_mistake(error: ValidationError, keys_at: KeysAt = lambda _: ()) -> str:
    """One line for the first error: key, expected, got (and how many more), and what may have been meant.

    keys_at: the keys that are known where pydantic found another.
    """
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    key = shortened(".".join(str(part) for part in first["loc"] if not _is_union_tag(part, first["loc"])))
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    if first["type"] == "extra_forbidden":
        sentence = _unknown_key(first["loc"][-1], keys_at(first["loc"]))
    else:
        sentence = _sentence(first)
        sentence += _closest_choice(sentence)
    names_key = not key or sentence.startswith(f"{key}.")  # settings that core checks name their key themselves
    return f"{sentence if names_key else f'{key}: {sentence}'}{more}"


def _unknown_key(got: str | int, known: Collection[str]) -> str:
    """What is expected where a key is unknown: the one that is near, else which ones there are."""
    near = suggestion(got, known)
    keys = sorted(known)
    listed = f"one of the keys {', '.join(keys)}" if keys and not near else "a known key"
    return f"expected {listed}, got the unknown key {quoted(got)}{near}"


def _closest_choice(sentence: str) -> str:
    match = _CHOICE.search(sentence) or _KEY_OF_KIND.fullmatch(sentence)
    return suggestion(match["got"], re.findall(r"[\w.-]+", match["known"])) if match else ""


def _is_union_tag(part: str | int, location: tuple[str | int, ...]) -> bool:
    """pydantic adds the chosen variant of a union to the location; it is not a key of the file."""
    tags = {*PRIORS, *DATA_KINDS, "trained_here", "brought_in", "a_number", "another_trial", "a_list", "of_looks"}
    return isinstance(part, str) and (part in tags or "[" in part) and location.index(part) > 0


def _sentence(mistake: Mapping[str, Any]) -> str:
    kind, context, got = mistake["type"], mistake.get("ctx", {}), mistake.get("input")
    if kind == "missing":
        return "expected a value, got none"
    if kind == "value_error":
        return " ".join(str(context["error"]).split())
    if kind in ("union_tag_invalid", "literal_error"):
        expected = context.get("expected_tags") or context.get("expected")
        return f"expected one of {expected}, got {quoted(context.get('tag', got))}"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        bound = context[name]
        return f"expected a number {words} {bound if isinstance(bound, int) else f'{bound:.15g}'}, got {quoted(got)}"
    if kind in _LENGTHS:
        words, name = _LENGTHS[kind]
        return f"expected {words} {context[name]} {'item' if context[name] == 1 else 'items'}, got {quoted(got)}"
    if kind == "string_pattern_mismatch":
        expected = _PATTERNS.get(context["pattern"], f"text of the form {context['pattern']}")
        return f"expected {expected}, got {quoted(got)}"
    message = mistake["msg"].removeprefix("Input should be ").removeprefix("Input should have ")
    message = message.replace("valid tuple", "list").replace("valid dictionary", "mapping of keys")
    message = _CLASS.sub("", message)  # a file never holds one
    return f"expected {message}, got {quoted(got)}"


def known_keys(schema: type[BaseModel], raw: Mapping[str, Any], location: Sequence[str | int]) -> set[str]:
    """The keys beside the one at `location` (pydantic's: names, numbers of list items, chosen kinds) of settings `raw`.

    Of parts that come in kinds those of the chosen kind, or of all where none is. Empty where nothing is known.
    """
    models, walked = [schema], []
    for part in location[:-1]:
        holders = [model for model in models if part in model.model_fields]
        if holders:
            walked.append(str(part))
            models = [choice for model in holders for choice in _models(model.model_fields[str(part)].annotation)]
            models = [_chosen(model, raw, walked) for model in models]
        else:  # the chosen kind, or the number of an item
            models = [model for model in models if _is_of_kind(model, part)] or models
    return {name for model in models for name in model.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type holds, in unions and lists too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _chosen(model: type[BaseModel], raw: Mapping[str, Any], walked: Sequence[str]) -> type[BaseModel]:
    """The model, for attacks that of the kind that the file names: each kind has keys of its own."""
    if model is not AnyAttack:
        return model
    kind_stated, _ = dotted_value(raw, ".".join(walked))
    return schema_of(kind_stated.get("kind", DEFAULT_KIND)) if isinstance(kind_stated, Mapping) else model


def _is_of_kind(model: type[BaseModel], kind: str | int) -> bool:
    field = model.model_fields.get("kind")
    return field is not None and kind in get_args(field.annotation)
