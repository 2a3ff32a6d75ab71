"""Ranges of settings, said with their type (`epochs: Count`), for code that derives a schema. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.text import quoted

LARGEST = 2**63 - 1  # of whole numbers: what Parquet, torch and numpy hold
MOST = 10**9  # of anything that is counted: products of two still fit
MOST_LATENTS = 10**7  # of a pool, or of a class: what a store keeps of each
NAME, SHA256 = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", r"^[0-9a-f]{64}$"
PATTERNS = {
    NAME: "a name of letters, digits, '.', '_' and '-', at most 64, that begins with a letter or digit",
    SHA256: "64 digits, 0 to 9 and a to f",
}
"""Pattern of text -> what it takes, in words."""
SINGLE = 3.4e38  # of numbers that networks compute with: what single precision holds


@dataclass(frozen=True)
class Checked:
    """A range that no comparison says: `check` returns the value, or raises ValueError."""

    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """How pydantic asks for it, after the type."""
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": self.check},
            "schema": handler(source),
        }


def is_a_path(text: str) -> str:
    """Refuse what no file can be called, before anything looks for it. Raises ValueError."""
    if "\0" in text or len(text.encode(errors="surrogatepass")) > 4096 or not text:
        raise ValueError(f"expected the path of a file or folder, got {quoted(text)}")
    try:
        Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"expected a path, got {quoted(text)}, the home of nobody here") from None
    return text


def _ascends(pair: tuple[float, float]) -> tuple[float, float]:
    if not 0 < pair[0] <= pair[1]:
        raise ValueError(f"expected a pair with 0 < first <= second, got {quoted(pair)}")
    return pair


def _ascends_to_one(pair: tuple[float, float]) -> tuple[float, float]:
    if not 0 < pair[0] <= pair[1] <= 1:
        raise ValueError(f"expected a pair with 0 < first <= second <= 1, got {quoted(pair)}")
    return pair


Ratios = Annotated[tuple[float, float], Checked(_ascends)]
Shares = Annotated[tuple[float, float], Checked(_ascends_to_one)]
"""The smallest and the largest: of widths over heights, of fractions of an area."""
Fraction = Annotated[float, Ge(0), Le(1)]
OpenFraction = Annotated[float, Gt(0), Lt(1)]  # a fraction that is neither none nor all
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Count = Annotated[int, Ge(1), Le(MOST)]
Layers = Annotated[int, Ge(0), Le(MOST)]  # how many of them; 0 is none
Latents = Annotated[int, Ge(1), Le(MOST_LATENTS)]
Outputs = Annotated[int, Ge(1), Le(2**20)]  # of a network: classes
Channels = Annotated[int, Ge(1), Le(2**12)]  # of the largest feature map
Width = Annotated[int, Ge(1), Le(2**14)]  # of a layer: two such layers are a gigabyte
Seed = Annotated[int, Ge(0), Le(LARGEST)]  # what torch's and numpy's generators take
Beta = Annotated[float, Ge(0), Lt(1)]
FilePath = Annotated[str, Checked(is_a_path)]
