"""The stages of a trial: images, prior, target, parts of the attack, attack, reconstructions, judges; and weights that
are not on this machine: which judges cannot be heard."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.registry import part_kind
from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, STAGING, Judge
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.judges.membership import Membership, shadow_name
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.membership.base import shadow_seed
from smoothsweep.core.plugins import plugin_version
from smoothsweep.core.priors.kinds import brings_network, network_card
from smoothsweep.core.priors.settings import PriorFolder
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, content_of, is_absent, normalised
from smoothsweep.sweeps.expand import Cell, LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.parts import AnyData, LabelledData, PublishedData, PublishedPublic, UnlabelledPublic
from smoothsweep.sweeps.schema import InversionSweep, ToySweep, known_classes
from smoothsweep.sweeps.training import Recipe, Training


def data_stage(settings: InversionSweep, image_size: int, *, for_judges: bool = False) -> Stage:
    """The private images as a network of `image_size` pixels gets them.

    A published set is reduced from its files to each network's own size, as the official code does; the judges of
    Stanford Dogs see the cropped pictures. Other data have one size, and networks reduce them. A target trained on
    few images of each class is still judged by all of them.
    """
    data = settings.data
    if for_judges and data.samples_per_class is not None:
        data = data.model_copy(update={"samples_per_class": None})
    made = _file_stage(data, "data.path", plugin_version("data", data.kind))
    if not isinstance(data, PublishedData):
        return Stage(name="data", **made)
    kind = (for_judges and PUBLISHED_NAMES[data.kind].judged_as) or data.kind
    config = {**made["config"], "kind": kind, "size": image_size}
    return Stage(name="data", config=config, hints=made["hints"])


def prior_stage(settings: InversionSweep) -> Stage:
    """The generative prior: fitted on public images, shipped, or read from a folder."""
    prior: Any = settings.prior  # with the keys of its kind
    config, files = normalised(prior, without={"path"}) | plugin_version("priors", prior.kind), prior.built.files
    if files is None:
        refuse_same_people(settings)
        return Stage(name="prior", config=config, inputs={"public": public_stage(settings)})
    config |= content_of(files.weights, files.key)
    if not isinstance(prior.built, PriorFolder):
        return Stage(name="prior", config=config)
    if is_absent(files.weights, files.key):
        return Stage(name="prior", config=config, hints={"path": prior.path})
    config["card"] = (card := prior_card(settings)).plain
    config |= plugin_version("priors", brings_network(card.kind))
    if "discriminator" in settings.inverted_by.built.needs:
        config["discriminator"] = content_of(files.discriminator, "attack.discriminator_weight")["content"]
    return Stage(name="prior", config=config, hints={"path": prior.path})


def public_stage(settings: InversionSweep) -> Stage:
    """The public images that priors, and parts of attacks, learn from."""
    return Stage(name="public", **_file_stage(present(settings.public, "public"), "public.path"))


def _file_stage(settings: Any, key: str, source: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Configuration and hints of a stage that may read a file: its content counts, not where it lies."""
    path = settings.path
    config = normalised(settings, without={"path"})
    content = content_of(path, key, any_files=isinstance(settings, PublishedData | PublishedPublic | AnyData))
    return {
        "config": {**config, **content, **(source or {})},
        "hints": {"path": path} if path is not None else {},
    }


def check_crop(settings: InversionSweep, attack: Attack) -> None:
    """Say at once if the crop is larger than what is decoded: 800 pixels suit a 1024-pixel prior only."""
    if attack.decoder == "prior":
        check_prior_crop(settings, attack.crop, attack.crop_key)
    elif attack.crop is not None and attack.crop > (side := settings.recipe.image_size):  # what the target takes
        raise InputError(f"{attack.crop_key}: expected at most the generator's {side} pixels, got {attack.crop}")


def check_prior_crop(settings: InversionSweep, crop: int | None, key: str) -> None:
    """Say at once if the crop is larger than what the prior makes. key: of the crop in a sweep file."""
    if crop is None or prior_is_absent(settings):
        return
    side = prior_card(settings).config.resolution
    if crop > side:
        raise InputError(f"{key}: expected at most the prior's {side} pixels, got {crop}")


def prior_is_absent(settings: InversionSweep) -> bool:
    """Whether the prior's files are nowhere, and a plan is made without them: what they would say is not known then."""
    files = present(settings.prior, "prior").built.files
    return files is not None and is_absent(files.weights, files.key)


def prior_card(settings: InversionSweep) -> NetworkCard:
    """What the prior's network is, or will be, built from."""
    return network_card(present(settings.prior, "prior").built, settings.public.size if settings.public else None)


def refuse_same_people(settings: InversionSweep) -> None:
    """Raise InputError where data and public images share their files.

    By place: one and the same, one in the other, through links as well. By content: a copy of a labelled set.
    """
    private, public = settings.data.path, settings.public
    if private is None or not isinstance(public, UnlabelledPublic):
        return
    _compare(private, public.path, by_content=isinstance(settings.data, LabelledData))


@lru_cache(maxsize=64)
def _compare(private: str, public: str, *, by_content: bool) -> None:
    private_path, other = (Path(path).expanduser().resolve() for path in (private, public))
    contents = [content_of(path, key) for path, key in ((private, "data.path"), (public, "public.path")) if by_content]
    if not (private_path.exists() and other.exists()):
        return  # a plan of what is not there yet
    is_same = by_content and contents[0] == contents[1]
    if (
        is_same
        or os.path.samefile(private_path, other)
        or private_path.is_relative_to(other)
        or other.is_relative_to(private_path)
    ):
        raise InputError(f"public.path: expected images of other people than data.path, got {private_path} and {other}")


def refuse_listed_classes(settings: InversionSweep) -> None:
    """Raise InputError for an attack that does not suit the classes of a labelled set.

    What the sweep file says of their number was checked when it was read; attacks that take any number, and data that
    are not there yet (a plan may be made before they are), are let pass.
    """
    attack, data = settings.inverted_by.built, settings.data
    takes_any = type(attack).check_classes is Attack.check_classes
    if takes_any or known_classes(settings) is not None or not isinstance(data, LabelledData):
        return
    path = Path(data.path).expanduser()
    if path.exists():
        attack.check_classes(_counted(path.resolve()))


@lru_cache(maxsize=8)
def _counted(path: Path) -> int:
    return count_labelled(path).classes


PLAIN_DEFENSE = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def target_stage(settings: InversionSweep, seed: int) -> Stage:
    """The classifier under attack: trained under the sweep's recipe, or brought in."""
    recipe, reference = settings.recipe, settings.reference()
    data = data_stage(settings, recipe.image_size)
    if isinstance(recipe, ImportedClassifier):
        return imported_stage(recipe, data, settings.protocol)
    config, hints = target_config(recipe, settings.protocol)
    return Stage(
        name="target",
        config={**config, "seed": seed},
        hints=hints,
        inputs={
            "data": data,
            **({"reference": target_stage(reference, seed)} if reference else {}),
            **({"poison": poison_stage(settings, data, seed)} if recipe.poison else {}),
        },
    )


def poison_stage(settings: InversionSweep, data: Stage, seed: int) -> Stage:
    """Which training images carry the backdoor's trigger, and the trigger."""
    poison = normalised(present(settings.recipe.poison, "poison"))
    seeds = [poison.pop("seed"), seed]
    config = {"poison": poison, "image_size": settings.recipe.image_size, "seeds": seeds}
    return Stage(name="poison", config=config, inputs={"data": data})


def judging_model_stage(model: Training | ImportedClassifier, data: Stage, protocol: str) -> Stage:
    """A judge's classifier: a target like any other, plainly trained, one for the whole sweep; or brought in."""
    if isinstance(model, ImportedClassifier):
        return imported_stage(model, data, protocol)
    config = normalised(model, without={"checkpoint_every"})
    return Stage(
        name="target",
        config={**config, "defense": PLAIN_DEFENSE, "workers": 1, "protocol": protocol},
        hints={"checkpoint_every": model.checkpoint_every},
        inputs={"data": data},
    )


def imported_stage(model: ImportedClassifier, data: Stage, protocol: str) -> Stage:
    """A brought-in classifier, tested on our data: its content and its card count, not where it lies."""
    reading = model.checked.reading
    config = {**reading, **content_of(model.file, "imported"), **plugin_version("models", reading["architecture"])}
    config |= {"seed": 0, "protocol": protocol}
    return Stage(name="imported", config=config, hints={"path": model.imported}, inputs={"data": data})


def attack_stage(settings: InversionSweep, seed: int, target: Stage) -> Stage:
    """Every class inverted by itself. Which parts it needs, the attack says; each becomes a stage of its own.

    A stage has as inputs what it names and no more: an attack that sees nothing of the target is one for all recipes.
    Another trial's target does the stage that the attack's setting says.
    """
    attack, made = settings.inverted_by.built, {"target": target}
    if settings.reads_prior:
        present(settings.prior, "prior").built.check_shown(settings.recipe.image_size)
        made["prior"] = prior_stage(settings)
    if "public" in attack.reads:
        refuse_same_people(settings)
        made["public"] = public_stage(settings)
    refuse_listed_classes(settings)
    others = {role: target_stage(other, seed) for role, other in settings.swapped_targets().items()}
    target_inputs = {attack.other_targets[role]: {"target": stage} for role, stage in others.items()}
    swapped = {role: stage for role, stage in others.items() if attack.other_targets[role] is None and stage != target}
    check_crop(settings, attack)
    if "prior" in attack.reads and not prior_is_absent(settings):
        attack.check_prior(lambda: prior_card(settings))
    for part in attack.parts:
        made[part.name] = _part_stage(settings, part, {**made, **target_inputs.get(part.name, {})})
    needs = [name for name in attack.needs if name != "discriminator"]  # which lies beside the prior
    if attack.access == "none":  # it still has to know the classes
        made["data"] = data_stage(settings, settings.recipe.image_size)
    seen = "data" if attack.access == "none" else "target"
    inputs = {name: made[name] for name in (seen, *needs)} | swapped
    config = {**_attack_config(settings), "seed": [settings.inverted_by.seed, seed]}
    return Stage(name="attack", config=config, inputs=inputs)


def _attack_config(settings: InversionSweep) -> dict[str, Any]:
    """What the stage is told whatever the seed. Who trains its parts, and where one lies, is the inputs' matter."""
    attack = settings.inverted_by
    config = normalised(attack, without={"seed", "reconstruction_size", *attack.built.other_targets})
    for key in {"gan", "students"} & config.keys():
        config[key] = {name: value for name, value in config[key].items() if name not in ("imported", "workers")}
    if attack.built.revision > 1:
        config["revision"] = attack.built.revision
    if (class_batch := attack.built.class_batch(settings.protocol)) > 1:
        config["class_batch"] = class_batch
    classes = "all" if settings.classes == "all" else list(settings.classes)
    return {
        **config,
        "classes": classes,
        "image_size": settings.recipe.image_size,
        "protocol": settings.protocol,
        **_execution(settings),
        **plugin_version("attacks", attack.kind),
    }


def _part_stage(settings: InversionSweep, part: Part, made: Mapping[str, Stage]) -> Stage:
    """One part. Networks that were trained elsewhere count by their content, and nothing of a training does."""
    inputs = {name: made[name] for name in part.needs}
    config: dict[str, Any] = {"part": part.name, "image_size": settings.recipe.image_size}
    if part.imported is not None:
        config |= content_of(part.imported, "attack.gan.imported", any_files=True)
        return Stage(name=part.name, config=config, hints={"path": part.imported}, inputs=inputs)
    config |= {"settings": dict(part.settings), **passes(settings, asks="target" in part.needs)}
    if part_kind(part.name).told_protocol:
        config["protocol"] = settings.protocol
    if part.name in settings.inverted_by.built.own_parts:
        config |= plugin_version("attacks", settings.inverted_by.kind)
    return Stage(name=part.name, config=config, inputs=inputs)


def reconstruction_stage(settings: InversionSweep, sizes: list[int], attack_made: Stage, *, decoded: bool) -> Stage:
    """The final images, synthesised once. sizes: of the judges' inputs, which protocol `paper` keeps one by one.

    decoded: whether it keeps them as they were decoded too, at the target's size.
    """
    attack, built = settings.inverted_by, settings.inverted_by.built
    decoder_input = {} if built.leaves_images else {built.decoder: attack_made.inputs[built.decoder]}
    config: dict[str, Any] = {"protocol": settings.protocol, "crop": built.crop}
    if settings.protocol == "paper":
        config |= {"sizes": sizes} | ({"decoded": settings.recipe.image_size} if decoded else {})
        config |= {} if built.enlarging is None else {"enlarging": built.enlarging}
    elif attack.reconstruction_size is not None:
        config["side"] = attack.reconstruction_size
    if settings.resources.attack_rows:
        config["rows_per_batch"] = settings.resources.attack_rows
    return Stage(name=RECONSTRUCTIONS, config=config, inputs={**decoder_input, "attack": attack_made})


def passes(settings: InversionSweep, *, asks: bool) -> dict[str, Any]:
    """How networks are run, and how the target is read by those who ask it."""
    attack = settings.inverted_by
    precision = {"precision": attack.precision} if attack.precision else {}
    return {**precision, **({"readout": attack.readout} if asks and attack.readout else {}), **_execution(settings)}


def _execution(settings: InversionSweep) -> dict[str, Any]:
    """How an attack's networks run, where the sweep says so: it changes rounding, and a descent makes much of that."""
    resources = settings.resources
    wishes = {
        "rows_per_batch": resources.attack_rows,
        "compile": resources.attack_compile,
        "cuda_graphs": resources.attack_cuda_graphs,
    }
    return {key: value for key, value in wishes.items() if value}


def target_config(recipe: Recipe, protocol: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration but for the seed, and hints."""
    # How often we save does not change what is learnt, and what is poisoned comes as an input.
    config = normalised(recipe, without={"checkpoint_every", "poison", "augmentation", "defense"})
    if not isinstance(config.get("stop_at_test_acc"), float):  # another trial's accuracy comes as an input
        config.pop("stop_at_test_acc", None)
    augmentation, defense = normalised(recipe.augmentation), recipe.defense.resolved(protocol)
    config |= {"augmentation": augmentation, "defense": defense, "protocol": protocol}
    return config, {"checkpoint_every": recipe.checkpoint_every}


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
