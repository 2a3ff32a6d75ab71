"""smoothsweep from Python: attack a model that you have, judge what leaked, or audit it in one call.

    import smoothsweep

    model = smoothsweep.Model(network, image_size=64, input_range=(0, 1))
    report = smoothsweep.audit(model, "people/", "other-people/")
    print(report)

    result = smoothsweep.load_result("store", "quickstart")  # or: smoothsweep.sweep("quickstart")
    result.recipes.plot.scatter("test_acc", "embedder_acc1")

Everything is loaded when it is first used: torch takes seconds, which most commands do not need.
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
    from smoothsweep.orchestrator.commands.result import load_result, sweep
    from smoothsweep.orchestrator.result.data import Measured
    from smoothsweep.orchestrator.result.sweep_result import SweepResult

__all__ = [
    "EIGENFACES",
    "PLUG_AND_PLAY",
    "AttackResult",
    "Audit",
    "ImageSet",
    "InputError",
    "Judge",
    "Measured",
    "Model",
    "SplitImages",
    "SweepResult",
    "Verdict",
    "attack",
    "audit",
    "compare",
    "fit_judge",
    "judge",
    "load_labelled",
    "load_result",
    "load_unlabelled",
    "membership",
    "sweep",
    "synthetic_faces",
    "train",
]

_ELSEWHERE = {
    "load_result": "smoothsweep.orchestrator.commands.result",
    "sweep": "smoothsweep.orchestrator.commands.result",
    "Measured": "smoothsweep.orchestrator.result.data",
    "SweepResult": "smoothsweep.orchestrator.result.sweep_result",
}
"""Name -> its module, of those that are not of `smoothsweep.library`."""

_CHECKOUT = Path(__file__).resolve().parents[1]
if all((_CHECKOUT / file).is_file() for file in ("core/same_code.py", "tasks/registry.py")):
    # In a checkout the packages lie beside this folder. The links in it are for type checkers and editors; importing
    # from the real place gives each file one name in tracebacks and breakpoints.
    __path__.insert(0, str(_CHECKOUT))


def __getattr__(name: str) -> Any:
    """A public function or class, from the module that has it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ELSEWHERE.get(name, "smoothsweep.library")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
