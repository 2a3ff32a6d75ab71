"""The judges by name, in the order in which a trial has their stages, and the columns of what every trial has.

Reading the table loads no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smoothsweep.core.judges.backdoor import Backdoor
from smoothsweep.core.judges.base import MEASURED, RECONSTRUCTIONS, Judge, StageWork
from smoothsweep.core.judges.by_features import (
    ByFeatures,
    Embedder,
    General,
    ReachByEmbedder,
    ReachByGeneral,
    VerifiedByEmbedder,
    VerifiedByGeneral,
)
from smoothsweep.core.judges.evaluator import Evaluator
from smoothsweep.core.judges.features import Features
from smoothsweep.core.judges.fidelity import Fidelity, FidLomma, FidPlg
from smoothsweep.core.judges.gradients import Gradients
from smoothsweep.core.judges.knowledge import Knowledge
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.robustness import Robustness
from smoothsweep.core.metrics.metric import UNKEPT, Metric, amount
from smoothsweep.core.plugins import with_plugins

UNSEEN = "the target was brought in; its training was not seen"

TARGET: tuple[Metric, ...] = (
    Metric(
        key="test_acc",
        label="test accuracy",
        better="high",
        group="utility",
        searched=True,
        counted="test images",
        description="Share of held-out images of the private classes that the target classifies correctly.",
    ),
    Metric(
        key="ece",
        label="calibration error",
        unit="plain",
        bounds=(0.0, 1.0),
        better="low",
        group="utility",
        searched=True,
        description="Expected calibration error of the target on the test images: the mean gap between its confidence "
        "and its accuracy, 0 to 1.",
    ),
    Metric(
        key="test_acc_balanced",
        label="test accuracy, balanced",
        counted="test images",
        description="The target's test accuracy as the mean over classes, each counting alike however many test images "
        "it has; the same as the test accuracy where they have equally many.",
        null=UNKEPT,
    ),
    Metric(
        key="train_acc",
        label="training accuracy",
        searched=True,
        counted="own images",
        description="Accuracy of the target on its own training images.",
        null=UNSEEN,
    ),
    Metric(
        key="logit_gap",
        label="logit gap",
        unit="plain",
        searched=True,
        description="The true class's logit minus the mean of the others, over the training images: how far apart "
        "training has pushed them. Grows under negative smoothing.",
        null=UNSEEN,
    ),
    amount(
        key="epochs_trained",
        label="epochs trained",
        searched=True,
        description="Passes over the training images until the target was done; fewer than its recipe's where it "
        "stopped at an accuracy.",
        null=UNSEEN,
    ),
    Metric(
        key="test_acc_mean_readout",
        label="test accuracy, mean readout",
        counted="test images",
        description="The same accuracy where a target with a noisy bottleneck is read at the bottleneck's mean "
        "instead of by a sample.",
        null="only a target with a bottleneck (defense mid) is read in more than one way",
    ),
    amount(
        key="dp_epsilon",
        label="privacy loss epsilon",
        better="low",
        description="How much a single training image can change what a differentially private training learns, "
        "whatever the attack. Delta is one over the number of training images. For a person with k images it is about "
        "k times as much.",
        null="only a target trained by DP-SGD in batches of 32 or more has one",
    ),
)

ATTACK: tuple[Metric, ...] = (
    Metric(
        key="target_conf",
        label="target's confidence",
        searched=True,
        description="Mean confidence of the attacked model in the attacked class. The attack maximises it, so a high "
        "value says that the attack converged, not that it found a likeness.",
        null="this attack sees no scores of the target",
    ),
    Metric(
        key="gradient_cosine",
        label="gradient stability",
        unit="plain",
        bounds=(-1.0, 1.0),
        searched=True,
        description="Mean cosine between consecutive attack gradients. Near 1: the attack walks straight; near 0: it "
        "keeps changing its mind, and a low leak may be masked gradients.",
        null="this attack follows no gradients",
    ),
    amount(
        key="num_frozen",
        label="frozen candidates",
        description="Attack candidates that could not be optimised any further because their loss was not finite.",
        null="this attack follows no gradients",
    ),
    amount(
        key="queries",
        label="queries",
        description="Images shown to the target while a class was attacked, parts made for all classes apart; mean "
        "over the classes.",
        null="this attack asks the target nothing",
    ),
    amount(
        key="queries_selection_target",
        label="queries, selecting target",
        description="Of a trial whose results another target selects: images shown to that one while a class was "
        "attacked; mean over the classes.",
        null="the attacked target selects by itself, or nothing is selected",
    ),
)


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
