"""The judges by name, in the order in which a trial has their stages. Reading the table loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smoothsweep.core.judges.backdoor import Backdoor
from smoothsweep.core.judges.base import MEASURED, RECONSTRUCTIONS, Judge, StageWork
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.judges.embedder import Embedder
from smoothsweep.core.judges.evaluator import Evaluator
from smoothsweep.core.judges.every_trial import ATTACK, TARGET
from smoothsweep.core.judges.features import Features
from smoothsweep.core.judges.fidelity import Fidelity
from smoothsweep.core.judges.general import General
from smoothsweep.core.judges.gradients import Gradients
from smoothsweep.core.judges.knowledge import Knowledge
from smoothsweep.core.judges.lowres_fid import FidLomma, FidPlg
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.robustness import Robustness
from smoothsweep.core.judges.verification import (
    ReachByEmbedder,
    ReachByGeneral,
    VerifiedByEmbedder,
    VerifiedByGeneral,
)
from smoothsweep.core.judges.vision_language import VisionLanguageJudge
from smoothsweep.core.plugins import with_plugins


def _column_conflict(name: str, judge: type[Judge], known: Mapping[str, type[Judge]]) -> str | None:
    taken = {metric.key for row in known.values() for metric in row.columns} | {m.key for m in (*TARGET, *ATTACK)}
    if not judge.columns:
        return "expected at least one column, got none"
    again = sorted({metric.key for metric in judge.columns} & taken)
    return f"expected columns that no other judge has, got {', '.join(again)}" if again else None


JUDGES: dict[str, type[Judge]] = with_plugins(
    "judges",
    {
        "evaluator": Evaluator,
        "embedder": Embedder,
        "general": General,
        "asked": VisionLanguageJudge,
        "fidelity": Fidelity,
        "knowledge": Knowledge,
        "features": Features,
        "robustness": Robustness,
        "membership": Membership,
        "backdoor": Backdoor,
        "fid_lomma": FidLomma,
        "fid_plg": FidPlg,
        "gradients": Gradients,
        "verification": VerifiedByEmbedder,
        "verification_general": VerifiedByGeneral,
        "prior_reach": ReachByEmbedder,
        "prior_reach_general": ReachByGeneral,
    },
    Judge,
    _column_conflict,
)
"""Every judge but those whose stage another key asks for is a key of a sweep file's `judges`."""


def measured() -> dict[str, type[Judge]]:
    """The judges whose stage calls their own `measure`."""
    return {name: judge for name, judge in JUDGES.items() if judge.work.run == MEASURED}


def work_of(name: str) -> StageWork:
    """How a judge's stage is done. One that only measures compares the classes of all that it reads."""
    judge = JUDGES[name]
    if judge.work.run != MEASURED or judge.work.labelled:
        return judge.work
    return replace(
        judge.work, labelled=tuple(role for role in judge.reads if role in ("target", "data", RECONSTRUCTIONS))
    )


def stage_of(name: str) -> str:
    """The name of a judge's stage."""
    return JUDGES[name].stage or f"judge_{name}"


def stage_that_draws(figure: str) -> str:
    """The name of the stage whose artifact this figure shows."""
    return next(stage_of(name) for name, judge in JUDGES.items() if judge.draws == figure)


def judge_of_network(network: str) -> str:
    """The judge that has a linear head on this network, a row of `core.models.embedder_kinds`."""
    by_features = {name: judge for name, judge in JUDGES.items() if issubclass(judge, ByFeatures)}
    return next(name for name, judge in by_features.items() if network in judge.networks)
