"""The judges by name, in the order in which a trial has their stages. Reading the table loads no torch."""

from __future__ import annotations

from smoothsweep.core.judges.asked import Asked
from smoothsweep.core.judges.backdoor import Backdoor
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.embedder import Embedder
from smoothsweep.core.judges.evaluator import Evaluator
from smoothsweep.core.judges.features import Features
from smoothsweep.core.judges.fidelity import Fidelity
from smoothsweep.core.judges.general import General
from smoothsweep.core.judges.gradients import Gradients
from smoothsweep.core.judges.knowledge import Knowledge
from smoothsweep.core.judges.lowres_fid import FidLomma, FidPlg
from smoothsweep.core.judges.robustness import Robustness

JUDGES: dict[str, type[Judge]] = {
    "evaluator": Evaluator,
    "embedder": Embedder,
    "general": General,
    "asked": Asked,
    "fidelity": Fidelity,
    "knowledge": Knowledge,
    "features": Features,
    "robustness": Robustness,
    "backdoor": Backdoor,
    "fid_lomma": FidLomma,
    "fid_plg": FidPlg,
    "gradients": Gradients,
}
"""Every judge but those whose stage another key asks for is a key of a sweep file's `judges`."""


def stage_of(name: str) -> str:
    """The name of a judge's stage."""
    return JUDGES[name].stage or f"judge_{name}"


def judge_of_stage(stage: str) -> str | None:
    """The judge whose stage has this name, None where it is no judge's."""
    return next((name for name in JUDGES if stage_of(name) == stage), None)
