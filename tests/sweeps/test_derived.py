"""Schemas derived from dataclasses: ranges, choices and defaults are those declared in core."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

import pytest
from annotated_types import Ge
from pydantic import ValidationError

from core.bounds import Count, FilePath, Fraction
from core.data.augmentation_settings import Augmentation as AugmentationSettings
from core.declared import build
from core.models.recipe import TrainingRecipe
from sweeps.derived import derived
from sweeps.training import DEPENDENT, Augmentation, Recipe, Training


@dataclass(frozen=True, kw_only=True)
class Inner:
    share: Fraction = 0.5


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
    {"path": ""}, {"path": 3}, {"many": 3}, {"many": 4.5}, {"many": True}, {"shares": [2.0]}, {"kind": "c"},
    {"inner": {"share": -1}}, {"inner": {"part": 1}}, {"hidden": 3}, {"unknown": 1},
]  # fmt: skip


def test_a_derived_schema_takes_what_the_dataclass_declares():
    read = MODEL.model_validate({"path": "p", "shares": [0, 0.5]})
    assert (read.many, read.shares, read.kind, read.inner.share) == (5, (0.0, 0.5), None, 0.5)
    again = build(Declared, {"path": "p", "maybe": {"share": 0.2}, "shares": [0.3]}, what="it", prefix="it.")
    assert again.maybe == Inner(share=0.2) and again.shares == (0.3,) and again.inner == Inner()


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_derived_schema_refuses_what_is_out_of_range(wrong):
    with pytest.raises(ValidationError) as told:
        MODEL.model_validate({"path": "p", **wrong})
    assert told.value.errors()[0]["loc"][0] == next(iter(wrong))


def test_the_keys_of_a_training_are_cores():
    recipe = {one.name for one in fields(TrainingRecipe)}
    assert set(Training.model_fields) - {"pretrained", "transform_input"} == recipe
    assert set(Augmentation.model_fields) == {one.name for one in fields(AugmentationSettings)} - {"shared"}
    assert {name for name in recipe if Training.model_fields[name].default is None} == set(DEPENDENT)


def test_a_training_as_its_file_has_it_is_the_papers():
    given = {key: value for key, value in Recipe().model_dump(mode="json", exclude_none=True).items()
             if key in {one.name for one in fields(TrainingRecipe)}}  # fmt: skip
    assert build(TrainingRecipe, given, what="training", prefix="training ") == TrainingRecipe.paper_224()
