"""What every part of a sweep file shares: refused extra keys, number ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from core.words import shown

LARGEST = 2**63 - 1  # of whole numbers: what Parquet, torch and numpy hold
MOST = 10**9  # of anything that is counted: products of two still fit
MAX_TRIALS = 100_000  # of a sweep, and configurations of a search that tries them all
MAX_KEYS = 32  # that a grid, a cell or a search's space sets
T = TypeVar("T")


def _is_a_path(given: str) -> str:
    """Refuse what no file can be called, before anything looks for it."""
    if "\0" in given or len(given.encode(errors="surrogatepass")) > 4096 or not given:
        raise ValueError(f"expected the path of a file or folder, got {shown(given)}")
    try:
        Path(given).expanduser()
    except RuntimeError:
        raise ValueError(f"expected a path, got {shown(given)}, the home of nobody here") from None
    return given


Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]  # what torch's and numpy's generators take
Beta = Annotated[float, Field(ge=0, lt=1)]
FilePath = Annotated[str, AfterValidator(_is_a_path)]
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
