"""What every part of a sweep file shares: refused extra keys, number ranges."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Strict

from smoothsweep.core.bounds import is_a_path

MAX_TRIALS = 5_000  # of a sweep, and configurations of a search that tries them all
MAX_KEYS = 32  # that a grid, a cell or a search's space sets
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
SHA256 = r"^[0-9a-f]{64}$"
T = TypeVar("T")

FilePath = Annotated[str, AfterValidator(is_a_path)]
Pair = Annotated[tuple[T, T], Strict(False)]  # YAML has lists, no tuples; what is in them stays strict
Several = Annotated[tuple[T, ...], Strict(False)]
Range = Pair[float]


class Model(BaseModel):
    """Settings that refuse unknown keys, values of another type, NaN and infinity, and do not change once read.

    A number is no truth value and no text, and the other way round; a whole number may stand for a decimal one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def only_with(model: Model, key: str, chooser: str, choice: str) -> None:
    """Refuse `key` where it could not take effect. Raises ValueError, which pydantic turns into the file's mistake."""
    if getattr(model, key) is not None and getattr(model, chooser) != choice:
        raise ValueError(f"{key}: expected only with {chooser}: {choice}, got {chooser}: {getattr(model, chooser)}")
