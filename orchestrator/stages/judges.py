"""The stages of the judges; and weights that are not on this machine: which judges cannot be heard."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.checks import present
from smoothsweep.core.judges.base import RECONSTRUCTIONS, STAGING, Judge
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.judges.membership import Membership, shadow_name
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.membership.base import shadow_seed
from smoothsweep.core.plugins import plugin_version
from smoothsweep.orchestrator.stages.graph import (
    check_prior_crop,
    data_stage,
    judging_model_stage,
    passes,
    prior_stage,
    public_stage,
    refuse_same_people,
    target_config,
)
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, content_of, normalised
from smoothsweep.sweeps.expand import Cell, LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.sweeps.training import Training

STAGE_THEM = f"`{STAGING} SWEEP.yaml` fetches them, or says where to put them by hand"


def pretrained_architectures(settings: InversionSweep) -> list[str]:
    """Architectures whose training starts from ImageNet weights; those that an attack trains too."""
    models = (settings.recipe, *settings.judges.classifiers.values(), *settings.judges.recipes)
    trained = [model for model in models if isinstance(model, Training) and not isinstance(model, ImportedClassifier)]
    by_attack = settings.attack.built.pretrained if settings.attack is not None else ()
    return [*(model.architecture for model in trained if model.pretrained), *by_attack]


def find_missing_weights(
    loaded: LoadedSweep, cells: Iterable[Cell], *, elsewhere: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """What trials of these cells lack, and of a search also recipes that hold every choice of its space; as JSON.

    `unmeasured`: judges that are asked for and cannot be heard, each once. `stops`: what `run` refuses to start
    without: the weights, what reads them, the line that says so, and what to do. That is ImageNet weights that a
    training starts from, and what measures an aim of the search, which would look at empty columns.
    elsewhere: the work is done by a cluster that was named, whose machines have folders of their own.
    """
    sweep, stops = loaded.sweep, list[dict[str, Any]]()
    if isinstance(sweep, ToySweep):
        return {"unmeasured": [], "stops": stops}
    met = [as_inversion(cell.settings) for cell in {id(cell): cell for cell in (*cells, *loaded.choices)}.values()]

    def stop(weights: str | None, needed_for: str, message: str, remedy: str) -> None:
        stops.append({"weights": weights, "needed_for": needed_for, "message": message, "remedy": remedy})

    trained = dict.fromkeys(name for settings in met for name in pretrained_architectures(settings))
    for name in trained if not (elsewhere or os.environ.get("RAY_ADDRESS")) else ():
        if staged_file(name) is None:
            line = f"pretrained {name}: expected its ImageNet weights here, got none; {STAGE_THEM}"
            stop(name, f"pretrained {name}", line, STAGING)
    if sweep.search:
        empty = {column: judge for judge in unheard_judges(sweep).values() for column in judge["columns"]}
        for column in (*sweep.search.objectives, *sweep.search.constraints):
            if judge := empty.get(column):
                why = f"expected a judge that measures it: {judge['reason']}: {judge['remedy']}"
                line = f"{loaded.source}: search: {column}: {why}"
                stop(judge["weights"], f"search: {column}", line, judge["remedy"])
    unheard = {repr(judge): judge for settings in met for judge in unheard_judges(settings).values()}
    return {"unmeasured": list(unheard.values()), "stops": stops}


def unmeasured_lines(lacks: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """What a run does not measure for want of weights, as one line; none where every judge is heard."""
    lines = [f"{j['judge']} ({len(j['columns'])} columns): {j['reason']}: {j['remedy']}" for j in lacks["unmeasured"]]
    return [f"not measured: {'; '.join(lines)}"] if lines else []


def requested_judges(settings: InversionSweep) -> dict[str, Judge]:
    """Name -> every judge that the sweep asks for, in the order of the table."""
    judges = dict(settings.judges.built)
    for name, kind in JUDGES.items():  # that another key than its own asks for, and that accompany none
        if kind.requested_by and not kind.accompanies and attrgetter(kind.requested_by)(settings):
            judges[name] = kind()
    return {name: judges[name] for name in JUDGES if name in judges}


def unheard_judges(settings: InversionSweep) -> dict[str, dict[str, Any]]:
    """Name -> a judge that is asked for and cannot be heard here, as JSON.

    `weights`: the file that would have to be staged, None where it lacks something else; `reason`: what is missing;
    `remedy`: what to do about it; `columns` of the results that stay empty without it.
    """
    lacks = {name: judge.lack(staged_file) for name, judge in requested_judges(settings).items()}
    columns = {name: [metric.key for metric in METRICS if metric.stage == stage_of(name)] for name in lacks}
    return {
        name: {"judge": name, **vars(lack), "columns": columns[name]}
        for name, lack in lacks.items()
        if lack is not None
    }


def unavailable_reasons(settings: InversionSweep) -> dict[str, str]:
    """Judge's stage name -> why it cannot be heard, and what to do about it; of what accompanies such a judge too."""
    reasons = {name: f"{judge['reason']}: {judge['remedy']}" for name, judge in unheard_judges(settings).items()}
    reasons |= {name: reasons[kind.accompanies] for name, kind in JUDGES.items() if kind.accompanies in reasons}
    return {stage_of(name): reason for name, reason in reasons.items()}


def available_judges(settings: InversionSweep) -> dict[str, Judge]:
    """Name -> every judge that is asked for and can be heard, with those that accompany it."""
    missing = unheard_judges(settings)
    heard = {name: judge for name, judge in requested_judges(settings).items() if name not in missing}
    needs = {
        name: kind.accompanying(heard[kind.accompanies]) for name, kind in JUDGES.items() if kind.accompanies in heard
    }
    heard |= {name: judge for name, judge in needs.items() if judge.wanted(settings)}
    return {name: heard[name] for name in JUDGES if name in heard}


@lru_cache
def staged_file(name: str) -> Path | None:
    """A published weight file where `smoothsweep weights stage` puts it, or None."""
    from smoothsweep.core.models.weight_files import (  # imports torch, which few sweeps need here
        find_weight_file,
        weight_folders,
    )

    return find_weight_file(name, weight_folders())


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
        builder, stage = _StageBuilder(settings, name, made), stage_of(name)
        planned = judge.plan(builder, name)
        config = _plain({**planned.config, **plugin_version("judges", name)})
        inputs = {role: builder.made(source) for role, source in planned.inputs.items()}
        made[stage] = named[stage] = Stage(name=stage, config=config, hints=_plain(planned.hints), inputs=inputs)
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


class _StageBuilder:
    """`core.judges.base.StageBuilder` for one judge of a trial. made: role -> stage that the trial has already."""

    def __init__(self, settings: InversionSweep, name: str, made: Mapping[str, Stage | None]) -> None:
        self._settings, self._name, self._made = settings, name, made
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

    def made(self, source: Stage | str) -> Stage:
        """A stage itself, or the trial's by its role; `role.input`: what that one reads."""
        if isinstance(source, Stage):
            return source
        role, _, of = source.partition(".")
        stage = present(self._made[role], source)
        return stage.inputs[of] if of else stage

    def embeddings(
        self, inputs: Mapping[str, Any], config: Mapping[str, Any], hints: Mapping[str, Any] | None = None
    ) -> Stage:
        inputs = {role: self.made(source) for role, source in inputs.items()}
        return Stage(name="embeddings", config=_plain(config), hints=_plain(hints or {}), inputs=inputs)

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
