"""What every part of a sweep file shares: refused extra keys, number ranges."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
Range = tuple[float, float]


class Model(BaseModel):
    """Settings that refuse unknown keys, NaN and infinity, and do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def only_with(model: Model, key: str, chooser: str, choice: str) -> None:
    """Refuse `key` where it could not take effect. Raises ValueError, which pydantic turns into the file's mistake."""
    if getattr(model, key) is not None and getattr(model, chooser) != choice:
        raise ValueError(f"{key}: expected only with {chooser}: {choice}, got {chooser}: {getattr(model, chooser)}")
