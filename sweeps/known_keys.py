"""Which keys a sweep file may have at a place: what the user may have meant who wrote another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from smoothsweep.sweeps.attacks import DEFAULT_KIND, AnyAttack, schema_of
from smoothsweep.sweeps.settings import dotted_value


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
