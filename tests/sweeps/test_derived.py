"""Schemas derived from dataclasses: ranges, choices and defaults are those declared in core."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

import pytest
from annotated_types import Ge
from pydantic import ValidationError

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.bounds import Count, FilePath, Fraction
from smoothsweep.core.declared import build
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.sweeps.attacks import schema_of
from smoothsweep.sweeps.base import derived
from smoothsweep.sweeps.training import Recipe


@dataclass(frozen=True, kw_only=True)
class Inner:
    share: Fraction = 0.5
    parts: Count = 2


@dataclass(frozen=True, kw_only=True)
class Declared:
    path: FilePath
    many: Annotated[Count, Ge(4)] = 5
    shares: tuple[Fraction, ...] = (0.1,)
    kind: Literal["a", "b"] = "a"
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    hidden: int = 3


MODEL = derived(Declared, without=("hidden",), optional=("kind",))
WRONG = [
    {"path": ""},
    {"path": 3},
    {"many": 3},
    {"many": 4.5},
    {"many": True},
    {"shares": [2.0]},
    {"kind": "c"},
    {"inner": {"share": -1}},
    {"inner": {"part": 1}},
    {"hidden": 3},
    {"unknown": 1},
]


def test_a_derived_schema_takes_what_the_dataclass_declares():
    read = MODEL.model_validate({"path": "p", "shares": [0, 0.5]})
    assert (read.many, read.shares, read.kind, read.inner.share) == (5, (0.0, 0.5), None, 0.5)
    again = build(Declared, {"path": "p", "maybe": {"share": 0.2}, "shares": [0.3]}, what="it", prefix="it.")
    assert again.maybe == Inner(share=0.2) and again.shares == (0.3,) and again.inner == Inner()


@dataclass(frozen=True, kw_only=True)
class Wide(Declared):
    inner: Inner = field(default_factory=lambda: Inner(share=0.25, parts=3))


def test_what_is_left_out_of_a_part_is_as_in_the_default_of_its_holder():
    """By both ways in, the file's schema and the plain values of a manifest."""
    model = derived(Wide, without=("hidden",))
    for given, share, parts in (({}, 0.25, 3), ({"inner": {"share": 0.1}}, 0.1, 3), ({"inner": {"parts": 1}}, 0.25, 1)):
        read = model.model_validate({"path": "p", **given})
        built = build(Wide, {"path": "p", **given}, what="it", prefix="it.")
        assert (read.inner.share, read.inner.parts) == (built.inner.share, built.inner.parts) == (share, parts)
    with pytest.raises(ValidationError):
        model.model_validate({"path": "p", "inner": {"share": -1}})


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_as_its_file_has_it_is_the_one_that_core_declares(kind):
    read = schema_of(kind).model_validate({"kind": kind})
    assert read.built == make_attack(kind)
    assert all(getattr(read.built, one.name) == getattr(make_attack(kind), one.name) for one in fields(ATTACKS[kind]))


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_derived_schema_refuses_what_is_out_of_range(wrong):
    with pytest.raises(ValidationError) as told:
        MODEL.model_validate({"path": "p", **wrong})
    assert told.value.errors()[0]["loc"][0] == next(iter(wrong))


def test_a_training_as_its_file_has_it_is_the_papers():
    given = {
        key: value
        for key, value in Recipe().model_dump(mode="json", exclude_none=True).items()
        if key in {one.name for one in fields(TrainingRecipe)}
    }
    assert build(TrainingRecipe, given, what="training", prefix="training ") == TrainingRecipe(
        architecture="resnet152", epochs=100, image_size=224
    )
