"""The judges' stages, as each judge plans its own (`core.judges.table`)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.checks import present
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, Planned
from smoothsweep.core.judges.membership import Membership, shadow_name
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.base import shadow_seed
from smoothsweep.core.plugins import plugin_version
from smoothsweep.orchestrator.stages.fingerprints import content_of, normalised
from smoothsweep.orchestrator.stages.graph import judging_model_stage, passes, target_config
from smoothsweep.orchestrator.stages.images import (
    check_prior_crop,
    data_stage,
    prior_stage,
    public_stage,
    refuse_same_people,
)
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.stages.weights import available_judges, requested_judges, staged_file
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep


def judge_stages(settings: InversionSweep, target: Stage, reconstructions: Stage | None) -> dict[str, Stage]:
    """Name -> the last stage of every judge that is requested and available, in the order of the table.

    Of the same reconstructions (None where nothing is inverted), and of the target itself.
    """
    made: dict[str, Stage | None] = {
        "target": target,
        RECONSTRUCTIONS: reconstructions,
        "attack": reconstructions and reconstructions.inputs["attack"],
    }
    made |= shadow_stages(settings)
    named: dict[str, Stage] = {}
    for name, judge in available_judges(settings).items():
        planned, stage = _planned(settings, judge, name), stage_of(name)
        inputs = {role: _of_trial(source, made) for role, source in planned.inputs.items()}
        made[stage] = named[stage] = Stage(name=stage, config=planned.config, hints=planned.hints, inputs=inputs)
    return named


def shadow_stages(settings: InversionSweep) -> dict[str, Stage | None]:
    """Name -> stage of each shadow model of the recipe, or of the one recipe that the judge names; none where the sweep
    trains none.

    The parts of the images and the seeds of a model follow from its number and the judge's seed, so that recipes are
    compared on the same parts, and more models keep those that there are.
    """
    name = next((name for name, judge in settings.judges.built.items() if isinstance(judge, Membership)), None)
    if name is None:
        return {}
    judge: Any = settings.judges.built[name]
    recipe = settings.judges.settings[name].shadow_recipe or settings.recipe
    if not judge.shadows or isinstance(recipe, ImportedClassifier):
        return {}
    config, hints = target_config(recipe, settings.protocol)
    if recipe.stop_at_test_acc is not None:
        config = {**config, "stop_at_test_acc": recipe.stop_at_test_acc}
    data, stages = data_stage(settings, recipe.image_size), dict[str, Stage | None]()
    for number in range(judge.shadows):
        part = {"model": number, "share": judge.share, "seed": judge.seed}
        config_of_shadow = {**config, "seed": shadow_seed(judge.seed, number), "part": part}
        stages[shadow_name(number)] = Stage(name="shadow", config=config_of_shadow, hints=hints, inputs={"data": data})
    return stages


@dataclass(frozen=True, kw_only=True)
class _PlannedStage:
    """A stage whose inputs are partly the trial's, so that it is completed for each trial."""

    name: str
    config: Mapping[str, Any]
    hints: Mapping[str, Any]
    inputs: Mapping[str, Any]


def _of_trial(source: Any, made: Mapping[str, Stage | None]) -> Stage:
    """The stage that an input of a plan stands for."""
    if isinstance(source, _PlannedStage):
        inputs = {role: _of_trial(stage, made) for role, stage in source.inputs.items()}
        return Stage(name=source.name, config=source.config, hints=source.hints, inputs=inputs)
    if isinstance(source, Stage):
        return source
    role, _, of = source.partition(".")
    stage = made[role]
    assert stage is not None, source
    return stage.inputs[of] if of else stage


def _planned(settings: InversionSweep, judge: Judge, name: str) -> Planned:
    """The part of the plan that all trials with this judge share."""
    planned = judge.plan(_StageBuilder(settings, name), name)
    config = {**planned.config, **plugin_version("judges", name)}
    return Planned(config=_plain(config), hints=_plain(planned.hints), inputs=planned.inputs)


class _StageBuilder:
    """`core.judges.base.StageBuilder` for one judge of a sweep."""

    def __init__(self, settings: InversionSweep, name: str) -> None:
        self._settings, self._name = settings, name
        self._asked = settings.judges.settings.get(name)
        self.protocol: str = settings.protocol
        self.image_size = settings.recipe.image_size
        self.classes: Any = "all" if settings.classes == "all" else list(settings.classes)
        self.attack: Attack | None = settings.attack.built if settings.attack else None

    def stated(self, without: Collection[str] = ()) -> dict[str, Any]:
        return {} if self._asked is None else normalised(self._asked, without=without)

    def content(self, path: str | Path | None, key: str) -> dict[str, str]:
        return content_of(path, f"judges.{self._name}.{key}")

    def staged(self, name: str) -> Path | None:
        return staged_file(name)

    def data(self, size: int, *, as_trained: bool = False) -> Stage:
        return data_stage(self._settings, size, for_judges=not as_trained)

    def classifier(self, data: Stage) -> Stage:
        return judging_model_stage(present(self._asked, self._name), data, self.protocol)

    def embeddings(
        self, inputs: Mapping[str, Any], config: Mapping[str, Any], hints: Mapping[str, Any] | None = None
    ) -> Stage | _PlannedStage:
        kind = _PlannedStage if any(isinstance(source, str) for source in inputs.values()) else Stage
        return kind(name="embeddings", config=_plain(config), hints=_plain(hints or {}), inputs=inputs)

    def strangers(self, config: Mapping[str, Any], hints: Mapping[str, Any]) -> Stage:
        refuse_same_people(self._settings)
        inputs = {"public": public_stage(self._settings)}
        return Stage(name="strangers", config=_plain(config), hints=_plain(hints), inputs=inputs)

    def projected(self, data: Stage, images: int) -> Stage:
        attack = self._settings.inverted_by.built
        crop = attack.crop if attack.decoder == "prior" else None
        config = {"images": images, "seed": 0, **({} if crop is None else {"crop": crop})}
        inputs = {"data": data, "prior": prior_stage(self._settings)}
        return Stage(name="projected", config=config, inputs=inputs)

    def prior(self, crop: int | None, key: str) -> Stage:
        check_prior_crop(self._settings, crop, f"judges.{self._name}.{key}")
        return prior_stage(self._settings)

    def passes(self, *, asks: bool) -> dict[str, Any]:
        return passes(self._settings, asks=asks)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON has them."""
    return json.loads(canonical_json(values))


def reconstruction_sizes(settings: InversionSweep) -> list[int]:
    """Input sizes at which protocol `paper` keeps reconstructions, one for every judge; 0 is the size as decoded."""
    sizes = {judge.reconstruction_size for judge in settings.judges.built.values()}
    return sorted({size for size in sizes if size is not None} or {0})


def wants_decoded(settings: InversionSweep) -> bool:
    """Whether a judge of protocol `paper` needs the images as decoded, before they are resized for any judge."""
    attack = settings.inverted_by.built
    return any(judge.wants_decoded(attack, settings.protocol) for judge in requested_judges(settings).values())
