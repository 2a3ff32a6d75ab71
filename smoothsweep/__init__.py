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
    from smoothsweep.core.data.images import ImageSet
    from smoothsweep.core.data.labelled import SplitImages, load_labelled, load_unlabelled
    from smoothsweep.core.data.synthetic.faces import synthetic_faces
    from smoothsweep.core.errors import InputError
    from smoothsweep.library import attack, audit, fit_judge, membership, train
    from smoothsweep.orchestrator.commands.audit.sweep_file import EIGENFACES, PLUG_AND_PLAY
    from smoothsweep.orchestrator.commands.result import load_result, sweep
    from smoothsweep.orchestrator.result.data import Measured
    from smoothsweep.orchestrator.result.sweep_result import SweepResult
    from smoothsweep.results import AttackResult, Audit, Judge, Verdict, compare, judge
    from smoothsweep.workbench import Model

_PLACES = {
    "core.data.images": "ImageSet",
    "core.data.labelled": "SplitImages load_labelled load_unlabelled",
    "core.data.synthetic.faces": "synthetic_faces",
    "core.errors": "InputError",
    "library": "attack audit fit_judge membership train",
    "orchestrator.commands.audit.sweep_file": "EIGENFACES PLUG_AND_PLAY",
    "orchestrator.commands.result": "load_result sweep",
    "orchestrator.result.data": "Measured",
    "orchestrator.result.sweep_result": "SweepResult",
    "results": "AttackResult Audit Judge Verdict compare judge",
    "workbench": "Model",
}
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
_PLACE_OF = {name: f"smoothsweep.{place}" for place, names in _PLACES.items() for name in names.split()}

_CHECKOUT = Path(__file__).resolve().parents[1]
if all((_CHECKOUT / file).is_file() for file in ("core/same_code.py", "tasks/registry.py")):
    # In a checkout the packages lie beside this folder. The links in it are for type checkers and editors; importing
    # from the real place gives each file one name in tracebacks and breakpoints.
    __path__.insert(0, str(_CHECKOUT))


def __getattr__(name: str) -> Any:
    """A public function or class, from the module that has it."""
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
