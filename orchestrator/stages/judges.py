"""The judges' stages: what each needs, at which image size, and why one cannot be heard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.external.address import ADDRESS, named_address
from smoothsweep.core.metrics.metric import PUBLISHED_FID_JUDGES, Judge
from smoothsweep.core.metrics.table import METRICS
from smoothsweep.orchestrator.stages.fingerprints import content_of, normalised, shipped_file
from smoothsweep.orchestrator.stages.graph import data_stage, gradients_stage, judging_model_stage
from smoothsweep.orchestrator.stages.memo import remembered
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.judging import STAGED_EMBEDDERS, STAGED_FIDS, Embedder, Fidelity, General, PublishedFid
from smoothsweep.sweeps.schema import InversionSweep

FACENET_SIZE, FID_SIZE = 160, 299  # pixels
STAGED_FID = STAGED_FIDS["fidelity"]
STAGING = "smoothsweep weights stage"
"""The command that brings published weights here."""
EMBEDDING = ("embedder", "general")
"""Judges with a linear head on features learnt elsewhere."""

_HINTS_OF_ASKED = ("questions", "per_second")


@dataclass(frozen=True, kw_only=True)
class JudgeStages:
    """The last stage of every judge; None where the sweep does not ask for it or its weights are not there."""

    judge_evaluator: Stage | None
    judge_embedder: Stage | None
    judge_general: Stage | None
    judge_asked: Stage | None
    judge_fidelity: Stage | None
    knowledge: Stage | None
    judge_features: Stage | None
    judge_robustness: Stage | None
    backdoor: Stage | None
    judge_fid_lomma: Stage | None
    judge_fid_plg: Stage | None
    judge_gradients: Stage | None


def judge_stages(settings: InversionSweep, target: Stage, loot: Stage | None) -> JudgeStages:
    """Every judge of the sweep: of the same loot (None where nothing is inverted), and of the target itself."""
    judges, missing = settings.judges, unavailable_judges(settings)
    need_weights = (*EMBEDDING, *STAGED_FIDS)
    heard = {name for name in need_weights if getattr(judges, name) and f"judge_{name}" not in missing}
    evaluator = _evaluator(settings, loot, target) if judges.evaluator else None
    published = {
        f"judge_{name}": _published_fid(settings, name, loot, evaluator) if evaluator and name in heard else None
        for name in PUBLISHED_FID_JUDGES
    }
    return JudgeStages(
        judge_evaluator=evaluator,
        **{f"judge_{name}": _embedder(settings, name, loot) if name in heard else None for name in EMBEDDING},
        judge_asked=_asked(settings, loot) if judges.asked and "judge_asked" not in missing else None,
        judge_fidelity=_fidelity(settings, loot) if "fidelity" in heard else None,
        knowledge=_knowledge(settings, loot) if judges.knowledge else None,
        judge_features=_features(settings, target) if judges.features else None,
        judge_robustness=_robustness(settings, target) if judges.robustness else None,
        backdoor=_backdoor(target) if settings.recipe.poison else None,
        **published,
        judge_gradients=gradients_stage(settings, target) if judges.gradients else None,
    )


def loot_sizes(settings: InversionSweep) -> list[int]:
    """The input sizes at which protocol `paper` keeps the loot, one for every judge; 0 is the size as decoded."""
    judges = settings.judges
    sizes = {model.image_size for model in (judges.evaluator, judges.knowledge) if model}
    if judges.fidelity:
        sizes.add(FID_SIZE)
    for embedder in (judges.embedder, judges.general):
        if embedder:
            sizes.add(FACENET_SIZE if embedder.name == "facenet" else 0)
    return sorted(sizes or {0})


@dataclass(frozen=True, kw_only=True)
class Unheard:
    """A judge that the sweep asks for and that cannot measure anything here.

    judge: its key under `judges`. weights: the weight file it lacks, None where it lacks something else. reason: what
    is missing. remedy: what to do about it.
    """

    judge: Judge
    weights: str | None
    reason: str
    remedy: str

    @property
    def stage(self) -> str:
        """The name of the judge's stage."""
        return f"judge_{self.judge}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the results that stay empty without it."""
        return tuple(metric.key for metric in METRICS if metric.stage == self.stage)


def unheard_judges(settings: InversionSweep) -> tuple[Unheard, ...]:
    """The judges that are asked for and cannot be heard: weights that would have to be staged and are not."""
    judges, found = settings.judges, []
    for judge in EMBEDDING:
        embedder: Embedder | General | None = getattr(judges, judge)
        staged = STAGED_EMBEDDERS.get(embedder.name) if embedder and not embedder.weights else None
        if staged and staged_file(staged) is None:
            found.append(_without_weights(judge, staged, embedder.name))
    if judges.asked and named_address() is None:
        reason, remedy = "no vision-language model is named", f"set {ADDRESS}, and pictures are sent there"
        found.append(Unheard(judge="asked", weights=None, reason=reason, remedy=remedy))
    for name, file in STAGED_FIDS.items():
        judge = getattr(judges, name)
        if judge and judge.weights is None and staged_file(file) is None:
            found.append(_without_weights(name, file, "the FID network" if file == STAGED_FID else file))
    return tuple(found)


def _without_weights(judge: Judge, file: str, what: str) -> Unheard:
    return Unheard(judge=judge, weights=file, reason=f"the weights of {what} are not here", remedy=STAGING)


def unavailable_judges(settings: InversionSweep) -> dict[str, str]:
    """Judge's stage name -> why it cannot be heard, and what to do about it."""
    return {judge.stage: f"{judge.reason}: {judge.remedy}" for judge in unheard_judges(settings)}


def wants_decoded(settings: InversionSweep) -> bool:
    """Whether a judge of protocol `paper` starts from the images as they were decoded: of no judge's size."""
    judges, report = settings.judges, _report(settings)
    published = any(getattr(judges, name) for name in PUBLISHED_FID_JUDGES)
    return bool(judges.evaluator) and (published or (report is not None and report["of"] != "lomma"))


def _report(settings: InversionSweep) -> dict[str, Any] | None:
    """How the evaluator's stage reports beside the usual columns, None where it does not."""
    report = settings.attack.built.report
    return {"of": report[0], "classes": report[1]} if report and settings.protocol == "paper" else None


def _evaluator(settings: InversionSweep, loot: Stage, target: Stage) -> Stage:
    evaluator = settings.judges.evaluator
    data = data_stage(settings, evaluator.image_size, for_judges=True)
    model = judging_model_stage(evaluator, data, settings.protocol)
    real = _embedded_by(model, data)
    config: dict[str, Any] = {"protocol": settings.protocol}
    inputs = {"evaluator": model, "real": real, "loot": loot}
    if report := _report(settings):
        config["report"] = report
        inputs |= {"attack": loot.inputs["attack"]} | ({"target": target} if report["of"] == "gmi" else {})
    return Stage(name="judge_evaluator", config=config, inputs=inputs)


@remembered
def _embedded_by(model: Stage, data: Stage) -> Stage:
    return Stage(name="embeddings", config={"network": "target"}, inputs={"data": data, "network": model})


def _embedder(settings: InversionSweep, judge: str, loot: Stage) -> Stage:
    real = _embedded(settings, judge)
    return Stage(name=f"judge_{judge}", config=real.config, hints=real.hints, inputs={"real": real, "loot": loot})


@remembered
def _embedded(settings: InversionSweep, judge: str) -> Stage:
    embedder: Embedder | General = getattr(settings.judges, judge)
    weights = _weights_of(embedder)
    config = {"network": embedder.name, **content_of(weights, f"judges.{judge}.weights")}
    hints = (
        {"path": embedder.weights} if embedder.weights is not None else {}
    )  # else the worker knows where, and checks
    data = data_stage(settings, FACENET_SIZE, for_judges=True)
    return Stage(name="embeddings", config=config, hints=hints, inputs={"data": data})


def _weights_of(embedder: Embedder | General) -> Path:
    if embedder.weights is not None:
        return Path(embedder.weights)
    staged = STAGED_EMBEDDERS.get(embedder.name)
    return staged_file(staged) if staged else shipped_file(embedder.name)


def _asked(settings: InversionSweep, loot: Stage) -> Stage:
    config = normalised(settings.judges.asked, without=_HINTS_OF_ASKED)
    hints = {name: getattr(settings.judges.asked, name) for name in _HINTS_OF_ASKED}
    data = data_stage(settings, settings.recipe.image_size, for_judges=True)
    return Stage(name="judge_asked", config=config, hints=hints, inputs={"data": data, "loot": loot})


def _fidelity(settings: InversionSweep, loot: Stage) -> Stage:
    fidelity: Fidelity = settings.judges.fidelity
    weights = Path(fidelity.weights) if fidelity.weights is not None else staged_file(STAGED_FID)
    network = {"network": STAGED_FID, "protocol": settings.protocol, **content_of(weights, "judges.fidelity.weights")}
    hints = {"path": str(weights), **({"sha256": fidelity.sha256} if fidelity.sha256 else {})}
    data = data_stage(settings, FID_SIZE, for_judges=True)
    real = Stage(name="embeddings", config={**network, "parts": ["train"]}, hints=hints, inputs={"data": data})
    config = {**network, "neighbours": fidelity.neighbours}
    return Stage(name="judge_fidelity", config=config, hints=hints, inputs={"real": real, "loot": loot})


def _published_fid(settings: InversionSweep, name: str, loot: Stage, evaluator: Stage) -> Stage:
    judge: PublishedFid = getattr(settings.judges, name)
    weights = Path(judge.weights) if judge.weights is not None else staged_file(STAGED_FIDS[name])
    side = settings.recipe.image_size
    config = {"network": name, "side": side, **content_of(weights, f"judges.{name}.weights")}
    hints = {"path": str(weights), **({"sha256": judge.sha256} if judge.sha256 else {})}
    data = data_stage(settings, side, for_judges=True)
    real = Stage(name="embeddings", config={**config, "parts": ["train"]}, hints=hints, inputs={"data": data})
    return Stage(
        name=f"judge_{name}", config=config, hints=hints, inputs={"real": real, "loot": loot, "verdicts": evaluator}
    )


def _knowledge(settings: InversionSweep, loot: Stage) -> Stage:
    knowledge = settings.judges.knowledge
    return Stage(
        name="knowledge",
        config=_knowledge_config(settings),
        hints={"checkpoint_every": knowledge.checkpoint_every},
        inputs={"data": data_stage(settings, knowledge.image_size), "loot": loot},
    )


@remembered
def _knowledge_config(settings: InversionSweep) -> Mapping[str, Any]:
    config = normalised(settings.judges.knowledge, without={"checkpoint_every"})
    if settings.protocol == "paper":  # the official surrogate draws one crop and one mirror for a whole batch
        config["augmentation"]["shared"] = True
    return {**config, "protocol": settings.protocol}


@remembered
def _stated(judge: BaseModel) -> Mapping[str, Any]:
    return normalised(judge)


def _features(settings: InversionSweep, target: Stage) -> Stage:
    data = target.inputs["data"]
    features = Stage(
        name="embeddings", config={"network": "target", "parts": ["train"]}, inputs={"data": data, "network": target}
    )
    config = _stated(settings.judges.features)
    return Stage(name="judge_features", config=config, inputs={"features": features, "data": data})


def _robustness(settings: InversionSweep, target: Stage) -> Stage:
    config = {"settings": _stated(settings.judges.robustness)}
    return Stage(name="judge_robustness", config=config, inputs={"target": target, "data": target.inputs["data"]})


def _backdoor(target: Stage) -> Stage:
    inputs = {"target": target, "poison": target.inputs["poison"], "data": target.inputs["data"]}
    return Stage(name="backdoor", config={}, inputs=inputs)


@lru_cache
def staged_file(name: str) -> Path | None:
    """A published weight file where `smoothsweep weights stage` puts it, or None."""
    from smoothsweep.core.models.weight_files import (  # brings torch, which few sweeps need here
        find_weight_file,
        weight_folders,
    )

    return find_weight_file(name, weight_folders())
