"""smoothsweep from Python: attack a model that you have, judge what leaked, or audit it in one call.

    import smoothsweep

    model = smoothsweep.Model(network, image_size=64, input_range=(0, 1))
    report = smoothsweep.audit(model, "people/", "other-people/")
    print(report)

The functions live in `smoothsweep.library` and are loaded when first used: torch takes seconds, which most
commands do not need.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothsweep.library import (
        EIGENFACES,
        PLUG_AND_PLAY,
        AttackResult,
        Audit,
        ImageSet,
        InputError,
        Judge,
        Model,
        SplitImages,
        Verdict,
        attack,
        audit,
        compare,
        fit_judge,
        judge,
        load_labelled,
        load_unlabelled,
        membership,
        synthetic_faces,
        train,
    )

__all__ = [
    "EIGENFACES",
    "PLUG_AND_PLAY",
    "AttackResult",
    "Audit",
    "ImageSet",
    "InputError",
    "Judge",
    "Model",
    "SplitImages",
    "Verdict",
    "attack",
    "audit",
    "compare",
    "fit_judge",
    "judge",
    "load_labelled",
    "load_unlabelled",
    "membership",
    "synthetic_faces",
    "train",
]

_CHECKOUT = Path(__file__).resolve().parents[1]
if all((_CHECKOUT / file).is_file() for file in ("core/same_code.py", "tasks/registry.py")):
    # In a checkout the packages lie beside this folder. The links in it are for type checkers and editors; importing
    # from the real place gives each file one name in tracebacks and breakpoints.
    __path__.insert(0, str(_CHECKOUT))


def __getattr__(name: str) -> Any:
    """A public function or class, from `smoothsweep.library`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("smoothsweep.library"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
