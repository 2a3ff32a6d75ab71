"""The judges' stages: what each needs, and at which image size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.columns.metric import PUBLISHED_FID_JUDGES
from smoothsweep.orchestrator.stages.fingerprints import content_of, normalised, shipped_file
from smoothsweep.orchestrator.stages.graph import gradients_stage, judging_model_stage
from smoothsweep.orchestrator.stages.images import data_stage
from smoothsweep.orchestrator.stages.memo import remembered
from smoothsweep.orchestrator.stages.shared import NOTHING, Shared
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.stages.unheard import EMBEDDING, STAGED_FID, heard_judges, staged_file
from smoothsweep.sweeps.judging import STAGED_EMBEDDERS, STAGED_FIDS, Embedder, General, PublishedFid
from smoothsweep.sweeps.schema import InversionSweep

FACENET_SIZE, FID_SIZE = 160, 299  # pixels
_OF_TRAINING = Shared({"network": "target", "parts": ["train"]})
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
    judges, heard = settings.judges, heard_judges(settings)
    evaluator = _evaluator(settings, present(loot, "loot"), target) if judges.evaluator else None
    published = {
        f"judge_{name}": _published_fid(settings, name, present(loot, "loot"), evaluator)
        if evaluator and name in heard
        else None
        for name in PUBLISHED_FID_JUDGES
    }
    return JudgeStages(
        judge_evaluator=evaluator,
        **{
            f"judge_{name}": _embedder(settings, name, present(loot, "loot")) if name in heard else None
            for name in EMBEDDING
        },
        judge_asked=_asked(settings, present(loot, "loot")) if "asked" in heard else None,
        judge_fidelity=_fidelity(settings, present(loot, "loot")) if "fidelity" in heard else None,
        knowledge=_knowledge(settings, present(loot, "loot")) if judges.knowledge else None,
        judge_features=_features(settings, target) if judges.features else None,
        judge_robustness=_robustness(settings, target) if judges.robustness else None,
        backdoor=_backdoor(target) if settings.recipe.poison else None,
        **published,
        judge_gradients=gradients_stage(settings, target) if judges.gradients else None,
    )


@remembered(lambda settings: (settings.judges,))
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


def wants_decoded(settings: InversionSweep) -> bool:
    """Whether a judge of protocol `paper` starts from the images as they were decoded: of no judge's size."""
    judges, report = settings.judges, _report(settings)
    published = any(getattr(judges, name) for name in PUBLISHED_FID_JUDGES)
    return bool(judges.evaluator) and (published or (report is not None and report["of"] != "lomma"))


def _report(settings: InversionSweep) -> dict[str, Any] | None:
    """How the evaluator's stage reports beside the usual columns, None where it does not."""
    report = present(settings.attack, "attack").built.report
    return {"of": report[0], "classes": report[1]} if report and settings.protocol == "paper" else None


def _evaluator(settings: InversionSweep, loot: Stage, target: Stage) -> Stage:
    config, materials = _evaluator_made(settings)
    inputs = {**materials, "loot": loot}
    if report := config.get("report"):
        inputs |= {"attack": loot.inputs["attack"]} | ({"target": target} if report["of"] == "gmi" else {})
    return Stage(name="judge_evaluator", config=config, inputs=inputs)


@remembered(lambda settings: (settings.judges, settings.data, settings.attack, settings.protocol))
def _evaluator_made(settings: InversionSweep) -> tuple[Shared, dict[str, Stage]]:
    """Configuration, and the inputs that are one for all trials."""
    evaluator, report = settings.judges.evaluator, _report(settings)
    data = data_stage(settings, present(evaluator, "evaluator").image_size, for_judges=True)
    model = judging_model_stage(evaluator, data, settings.protocol)
    config = Shared({"protocol": settings.protocol, **({"report": report} if report else {})})
    return config, {"evaluator": model, "real": _embedded_by(model, data)}


@remembered(lambda model, data: (model, data))
def _embedded_by(model: Stage, data: Stage) -> Stage:
    return Stage(name="embeddings", config=Shared({"network": "target"}), inputs={"data": data, "network": model})


def _embedder(settings: InversionSweep, judge: str, loot: Stage) -> Stage:
    real = _embedded(settings, judge)
    return Stage(name=f"judge_{judge}", config=real.config, hints=real.hints, inputs={"real": real, "loot": loot})


@remembered(lambda settings, judge: (settings.judges, judge, settings.data))
def _embedded(settings: InversionSweep, judge: str) -> Stage:
    embedder: Embedder | General = getattr(settings.judges, judge)
    weights = _weights_of(embedder)
    config = {"network": embedder.name, **content_of(weights, f"judges.{judge}.weights")}
    hints = (
        {"path": embedder.weights} if embedder.weights is not None else {}
    )  # else the worker knows where, and checks
    data = data_stage(settings, FACENET_SIZE, for_judges=True)
    return Stage(name="embeddings", config=Shared(config), hints=Shared(hints), inputs={"data": data})


def _weights_of(embedder: Embedder | General) -> Path | None:
    if embedder.weights is not None:
        return Path(embedder.weights)
    staged = STAGED_EMBEDDERS.get(embedder.name)
    return staged_file(staged) if staged else shipped_file(embedder.name)


def _asked(settings: InversionSweep, loot: Stage) -> Stage:
    config = normalised(present(settings.judges.asked, "asked"), without=_HINTS_OF_ASKED)
    hints = {name: getattr(settings.judges.asked, name) for name in _HINTS_OF_ASKED}
    data = data_stage(settings, settings.recipe.image_size, for_judges=True)
    return Stage(name="judge_asked", config=config, hints=hints, inputs={"data": data, "loot": loot})


def _fidelity(settings: InversionSweep, loot: Stage) -> Stage:
    real, config = _fidelity_made(settings)
    return Stage(name="judge_fidelity", config=config, hints=real.hints, inputs={"real": real, "loot": loot})


@remembered(lambda settings: (settings.judges, settings.data, settings.protocol))
def _fidelity_made(settings: InversionSweep) -> tuple[Stage, Shared]:
    fidelity = present(settings.judges.fidelity, "fidelity")
    weights = Path(fidelity.weights) if fidelity.weights is not None else staged_file(STAGED_FID)
    network = {"network": STAGED_FID, "protocol": settings.protocol, **content_of(weights, "judges.fidelity.weights")}
    hints = Shared({"path": str(weights), **({"sha256": fidelity.sha256} if fidelity.sha256 else {})})
    data, config = data_stage(settings, FID_SIZE, for_judges=True), Shared({**network, "parts": ["train"]})
    real = Stage(name="embeddings", config=config, hints=hints, inputs={"data": data})
    return real, Shared({**network, "neighbours": fidelity.neighbours})


def _published_fid(settings: InversionSweep, name: str, loot: Stage, evaluator: Stage) -> Stage:
    real, config = _published_fid_made(settings, name)
    inputs = {"real": real, "loot": loot, "verdicts": evaluator}
    return Stage(name=f"judge_{name}", config=config, hints=real.hints, inputs=inputs)


@remembered(lambda settings, name: (settings.judges, name, settings.data, settings.recipe.image_size))
def _published_fid_made(settings: InversionSweep, name: str) -> tuple[Stage, Shared]:
    judge: PublishedFid = getattr(settings.judges, name)
    weights = Path(judge.weights) if judge.weights is not None else staged_file(STAGED_FIDS[name])
    side = settings.recipe.image_size
    config = Shared({"network": name, "side": side, **content_of(weights, f"judges.{name}.weights")})
    hints = Shared({"path": str(weights), **({"sha256": judge.sha256} if judge.sha256 else {})})
    data, of_train = data_stage(settings, side, for_judges=True), Shared({**config, "parts": ["train"]})
    return Stage(name="embeddings", config=of_train, hints=hints, inputs={"data": data}), config


def _knowledge(settings: InversionSweep, loot: Stage) -> Stage:
    config, hints, data = _knowledge_made(settings)
    return Stage(name="knowledge", config=config, hints=hints, inputs={"data": data, "loot": loot})


@remembered(lambda settings: (settings.judges, settings.data, settings.protocol))
def _knowledge_made(settings: InversionSweep) -> tuple[Shared, Shared, Stage]:
    """Configuration, hints and data."""
    knowledge = present(settings.judges.knowledge, "knowledge")
    config = normalised(knowledge, without={"checkpoint_every"})
    if settings.protocol == "paper":  # the official surrogate draws one crop and one mirror for a whole batch
        config["augmentation"]["shared"] = True
    hints = Shared({"checkpoint_every": knowledge.checkpoint_every})
    return (
        Shared({**config, "protocol": settings.protocol}),
        hints,
        data_stage(settings, knowledge.image_size),
    )


@remembered(lambda judge: (judge,))
def _stated(judge: BaseModel) -> Shared:
    return Shared(normalised(judge))


def _features(settings: InversionSweep, target: Stage) -> Stage:
    data = target.inputs["data"]
    features = Stage(name="embeddings", config=_OF_TRAINING, inputs={"data": data, "network": target})
    config = _stated(settings.judges.features)
    return Stage(name="judge_features", config=config, inputs={"features": features, "data": data})


def _robustness(settings: InversionSweep, target: Stage) -> Stage:
    config = _robustness_config(settings.judges.robustness)
    return Stage(name="judge_robustness", config=config, inputs={"target": target, "data": target.inputs["data"]})


@remembered(lambda judge: (judge,))
def _robustness_config(judge: BaseModel) -> Shared:
    return Shared({"settings": normalised(judge)})


def _backdoor(target: Stage) -> Stage:
    inputs = {"target": target, "poison": target.inputs["poison"], "data": target.inputs["data"]}
    return Stage(name="backdoor", config=NOTHING, inputs=inputs)
