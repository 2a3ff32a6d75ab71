"""One trial: a recipe, an attack and its judges under one seed. Which stages it is made of, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from orchestrator.fingerprints import content_of, normalised, shipped_file
from orchestrator.stage import Stage
from sweeps.attacker import PriorFolder, ShippedPrior
from sweeps.expand import Cell, expand
from sweeps.load import LoadedSweep, Sweep
from sweeps.schema import Embedder, InversionSweep, ToySweep
from sweeps.training import Evaluator, Knowledge

Run = Callable[[Stage], None]


@dataclass(frozen=True, kw_only=True)
class InversionStages:
    """The stages of one trial in the order they are needed; None where the sweep does not ask for one."""

    data: Stage
    target: Stage
    attack: Stage
    loot: Stage
    judge_evaluator: Stage | None
    judge_embedder: Stage | None
    knowledge: Stage | None

    def __iter__(self) -> Iterable[Stage]:
        return (stage for field in fields(self) if (stage := getattr(self, field.name)) is not None)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One row of the results. `id` is the fingerprint (12 hex digits) of the stages that make its numbers."""

    cell: Cell
    seed: int

    @property
    def settings(self) -> Sweep:
        return self.cell.settings

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages whose metrics make the row."""
        if isinstance(self.settings, ToySweep):
            return [Stage(name="toy", config={"alpha": self.settings.alpha})]
        return list(inversion_stages(self.settings, self.seed))

    @cached_property
    def id(self) -> str:
        return sha256(" ".join(stage.fingerprint for stage in self.stages).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        values = [f"{name} {value}" for name, value in self.cell.axes.items()]
        return " · ".join([*values, f"seed {self.seed}"])


def trials_of(loaded: LoadedSweep) -> list[Trial]:
    """Every trial of the sweep: all cells under the first seed, then all under the next."""
    cells = expand(loaded)
    return [Trial(cell=cell, seed=seed) for seed in loaded.sweep.seeds for cell in cells]


def run_trial(trial: Trial, run: Run) -> None:
    """Train the target, invert every class, judge the loot, extract knowledge: the whole experiment.

    `run` makes a stage's artifact (inputs first) or finds it. The caller reads the row from the artifacts.
    """
    if isinstance(trial.settings, ToySweep):
        return run(trial.stages[0])
    stages = inversion_stages(trial.settings, trial.seed)
    run(stages.data)
    run(stages.target)  # train under this recipe
    run(stages.attack)  # sample candidates, optimise and select, class by class
    run(stages.loot)  # synthesise the final images once, for every judge
    if stages.judge_evaluator:
        run(stages.judge_evaluator)  # the closed-set judge of the paper
    if stages.judge_embedder:
        run(stages.judge_embedder)  # the independent judge
    if stages.knowledge:
        run(stages.knowledge)  # a surrogate trained on the loot
    return None


def inversion_stages(settings: InversionSweep, seed: int) -> InversionStages:
    """The stage graph of one trial. Whatever does not depend on the recipe or the seed is shared by construction."""
    data = _data_stage(settings)
    prior = _prior_stage(settings)
    target = Stage(
        name="target",
        config=_target_config(settings, seed),
        hints={"checkpoint_every": settings.recipe.checkpoint_every},
        inputs={"data": data},
    )
    pool = _pool_stage(settings, prior)
    candidates = Stage(
        name="candidates",
        config={"candidates": settings.attack.candidates, "classes": _classes(settings)},
        inputs={"target": target, "pool": pool},
    )
    attack = Stage(
        name="attack",
        config=_attack_config(settings, seed),
        inputs={"prior": prior, "pool": pool, "target": target, "candidates": candidates},
    )
    loot = Stage(
        name="loot",
        config={"protocol": settings.protocol, "crop": settings.attack.pool.crop},
        inputs={"prior": prior, "attack": attack},
    )
    judges = settings.judges
    return InversionStages(
        data=data,
        target=target,
        attack=attack,
        loot=loot,
        judge_evaluator=_evaluator_judge(judges.evaluator, data, loot) if judges.evaluator else None,
        judge_embedder=_embedder_judge(judges.embedder, data, loot) if judges.embedder else None,
        knowledge=_knowledge_stage(judges.knowledge, settings, data, loot) if judges.knowledge else None,
    )


def _data_stage(settings: InversionSweep) -> Stage:
    return Stage(name="data", **_file_stage(settings.data))


def _prior_stage(settings: InversionSweep) -> Stage:
    prior = settings.prior
    if isinstance(prior, PriorFolder):
        config = {"kind": prior.kind, **content_of(Path(prior.path) / "weights.safetensors")}
        return Stage(name="prior", config=config, hints={"path": prior.path})
    config = normalised(prior)
    if isinstance(prior, ShippedPrior):
        return Stage(name="prior", config={**config, **content_of(shipped_file(prior.name))})
    public = Stage(name="public", **_file_stage(settings.public))
    return Stage(name="prior", config=config, inputs={"public": public})


def _file_stage(settings: BaseModel) -> dict[str, dict[str, Any]]:
    """Configuration and hints of a stage that may read a file: its content counts, not where it lies."""
    path = getattr(settings, "path", None)
    config = normalised(settings, without={"path"})
    return {"config": {**config, **content_of(path)}, "hints": {"path": path} if path is not None else {}}


def _pool_stage(settings: InversionSweep, prior: Stage) -> Stage:
    config = {**normalised(settings.attack.pool), "image_size": settings.recipe.image_size}
    return Stage(name="pool", config=config, inputs={"prior": prior})


def _target_config(settings: InversionSweep, seed: int) -> dict[str, Any]:
    recipe = settings.recipe
    config = normalised(recipe, without={"checkpoint_every"})  # how often we save does not change what is learnt
    return {**config, "defense": recipe.defense.resolved(), "seed": seed, "protocol": settings.protocol}


def _attack_config(settings: InversionSweep, seed: int) -> dict[str, Any]:
    config = normalised(settings.attack, without={"pool", "seed"})
    return {
        **config,
        "crop": settings.attack.pool.crop,
        "image_size": settings.recipe.image_size,
        "seed": [settings.attack.seed, seed],
        "protocol": settings.protocol,
    }


def _classes(settings: InversionSweep) -> Any:
    return "all" if settings.classes == "all" else list(settings.classes)


def _evaluator_judge(evaluator: Evaluator, data: Stage, loot: Stage) -> Stage:
    """The evaluator is a target like any other, plainly trained: one stage for the whole sweep."""
    plain = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}
    config = normalised(evaluator, without={"checkpoint_every"})
    model = Stage(
        name="target",
        config={**config, "defense": plain, "workers": 1, "protocol": "clean"},
        hints={"checkpoint_every": evaluator.checkpoint_every},
        inputs={"data": data},
    )
    real = Stage(name="embeddings", config={"network": "target"}, inputs={"data": data, "network": model})
    return Stage(name="judge_evaluator", config={}, inputs={"evaluator": model, "real": real, "loot": loot})


def _embedder_judge(embedder: Embedder, data: Stage, loot: Stage) -> Stage:
    weights = embedder.weights if embedder.weights is not None else shipped_file(embedder.name)
    config = {"network": embedder.name, **content_of(weights)}
    hints = {"path": embedder.weights} if embedder.weights is not None else {}
    real = Stage(name="embeddings", config=config, hints=hints, inputs={"data": data})
    return Stage(name="judge_embedder", config=config, hints=hints, inputs={"real": real, "loot": loot})


def _knowledge_stage(knowledge: Knowledge, settings: InversionSweep, data: Stage, loot: Stage) -> Stage:
    return Stage(
        name="knowledge",
        config={**normalised(knowledge, without={"checkpoint_every"}), "protocol": settings.protocol},
        hints={"checkpoint_every": knowledge.checkpoint_every},
        inputs={"data": data, "loot": loot},
    )
