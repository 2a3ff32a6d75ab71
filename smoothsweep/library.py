"""The functions of `smoothsweep`: the stages of a sweep, made in this process on a store in a temporary folder.

No cluster is started, and what is wrong with the input is an `InputError` of one line. Resuming and pages are the
command's (`smoothsweep audit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import torch

from smoothsweep.core.attacks.registry import access_needed, make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Attack
from smoothsweep.core.checks import present, require
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.data.likeness import refuse_shared, warnings_of
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.table import judge_of_network, stage_of
from smoothsweep.core.membership.base import check_shadows
from smoothsweep.core.metrics.accuracy import top1_accuracy
from smoothsweep.core.metrics.recognition import fit_head, head_logits
from smoothsweep.core.models.embedder_kinds import FACES, KINDS
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.orchestrator.commands.audit import sweep_file
from smoothsweep.orchestrator.commands.audit.pages import read_membership, read_shadows, read_stored
from smoothsweep.orchestrator.commands.audit.subject import Found, look_for_people
from smoothsweep.orchestrator.commands.audit.sweep_file import EIGENFACES, PLUG_AND_PLAY, STORED_SIZE, Reach, as_loaded
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.result.audit import MembershipAudit
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.results import AttackResult, Audit, Judge, stored_attack, stored_audit
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.imported import TargetCard
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_images, load_tensors
from smoothsweep.tasks.judges import HEAD_SEED, embedding_of
from smoothsweep.workbench import (
    Model,
    People,
    Pictures,
    PriorLike,
    Section,
    Workbench,
    asked_once,
    check_model,
    everything,
    has_split,
    sweep_of,
    workbench,
)

Device = torch.device | str
EVALUATOR = "evaluator"
QUERIES_PER_IMAGE = Membership(trained_on_data=True).most_pictures(1, 0, scores=True)
"""Pictures that membership shows a model for each image: the image, its mirror image, shifted and noisy copies."""


def attack(
    model: Model,
    public: Pictures,
    classes: Sequence[int] | None = None,
    *,
    settings: Mapping[str, Any] = PLUG_AND_PLAY,
    prior: PriorLike = EIGENFACES,
    seed: int = 0,
    size: int | None = None,
    device: Device = "cpu",
    progress: bool = True,
) -> AttackResult:
    """Invert classes of a model. Arguments of other functions mean there what they do here.

    Args:
        classes: The numbers of the classes to invert, None for all.
        public: Images uint8 [N, 3, R, R] that show none of the people in the model, or a folder or Parquet file, read
            at `size` pixels (default: 64, or the model's own if smaller).
        settings: The attack as a sweep file's `attack` has it, kind and parameters; by default Plug & Play as
            `smoothsweep audit` tries it.
        prior: Likewise a sweep file's `prior`, or anything with the methods of `core.priors.base.Prior`.
        seed: Seed of everything random.
        device: What networks run on.
        progress: Whether a bar on stderr shows how far it is.

    The images of a class follow from seed and class alone, for a model that answers the same picture alike every time.

    Raises InputError, one line: an attack that needs to see more than the model shows, settings out of range, too few
    public images, answers of the model that are not what was said.
    """
    check_model(model)
    with workbench(device, progress) as bench:
        pictures = bench.public(public, size or min(STORED_SIZE, model.image_size))
        folder, card = bench.bring_in(model, pictures)
        chosen = _chosen_classes(classes, card.num_classes)
        _made(settings, card)
        sweep = sweep_of(
            seed,
            data={"kind": "synthetic", "identities": card.num_classes},
            public=pictures,
            classes=chosen,
            recipe={"imported": str(folder)},
            prior=bench.prior(prior, pictures),
            attack=dict(settings),
        )
        stages = inversion_stages(sweep, seed)
        bench.nobody(stages.data, card.num_classes)
        bench.adopt(stages.target)
        bench.make([stages.inverted])
        return stored_attack(bench.store, stages, sweep.inverted_by, seed)


def fit_judge(
    data: People,
    by: str = EVALUATOR,
    *,
    architecture: str = "vgg_small",
    weights: Path | str | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
    size: int = STORED_SIZE,
    device: Device = "cpu",
    progress: bool = True,
) -> Judge:
    """A judge of who is on an image.

    Args:
        data: The private images: (images uint8 [N, 3, S, S], labels [N]), or a folder with one folder per person, or a
            Parquet file, read at `size` pixels. A tenth of every person's images test the judge where they bring no
            split.
        by: "evaluator", a second classifier of the same images (`architecture`, `training`: fields of a sweep's
            evaluator), which overstates the leak; or an independent face embedder: synthetic, facenet, mobilefacenet_a,
            mobilefacenet_b, ir50, ir152, with the file of its `weights` unless they are shipped; or swag_vit_b_16, of
            pictures of anything.

    Raises InputError, one line.
    """
    with workbench(device, progress) as bench:
        section = bench.people(data, size)
        return _judge(bench, section, by, architecture, weights=weights, training=training, seed=seed)


def audit(
    model: Model,
    data: People,
    public: Pictures,
    *,
    by: Judge | str = EVALUATOR,
    people: int = 20,
    attacks: Reach | Sequence[Mapping[str, Any]] = "quick",
    seeds: Sequence[int] = (1, 2),
    prior: PriorLike = EIGENFACES,
    trained_on_data: bool = False,
    shadows: int = 0,
    shadow_recipe: Mapping[str, Any] | None = None,
    size: int | None = None,
    device: Device = "cpu",
    progress: bool = True,
) -> Audit:
    """How much does a model leak of the people in it: attacks within its access, controls, a judge, who is exposed.

    Args:
        data: The private images as of `fit_judge`, labels in the order of the model's outputs.
        public: As of `attack`.
        by: A judge, or the name of one that needs no file.
        people: How many to attack at most, evenly from all.
        attacks: "quick", "adapted" (also those that find what a defense hides from the quick ones: where recipes are
            compared), "whole" (the slow ones too), or settings of one's own with a control among them.
        seeds: Seeds of the attacks; with one every comparison is inconclusive.
        trained_on_data: The training images of `data`, which must say which are for testing, are those that the model
            was trained on: membership is measured too (`Audit.membership`), as by `smoothsweep audit
            --trained-on-data`.
        shadows, shadow_recipe: As of `membership`. The command alone also measures the membership of the reference that
            it trains beside the model.

    The model is tried on the test images first, under other readings of their range too. With an embedder as the judge
    the strongest attack is also verified, and the reach of the prior measured (`Audit.standing`), as the command does;
    `Audit.notes` says what is not, and which public images may not fit.

    Raises InputError, one line, as `attack` does, for a model that does not recognise the data, for public images that
    hold private ones or show another kind of thing, and for membership of data without a split.
    """
    check_model(model)
    if not seeds or len(set(seeds)) < len(seeds) or people < 2:
        raise InputError(f"audit: expected different seeds and at least 2 people, got {list(seeds)} and {people}")
    if trained_on_data and not has_split(data):
        raise InputError(
            "trained_on_data: expected data that say which images are for training and which for testing (folders "
            "train and test, a column split, or SplitImages), got no split"
        )
    if not trained_on_data and (shadows or shadow_recipe is not None):
        raise InputError("shadows: expected none without trained_on_data=True, got some")
    if (recipe := _shadow_recipe(shadows, shadow_recipe, model.image_size)) is not None:
        model = asked_once(model)  # attacks by shadow models need the answers that the others have got
    with workbench(device, progress) as bench:
        side = size or min(STORED_SIZE, model.image_size)
        private, pictures = bench.people(data, side), bench.public(public, side)
        if recipe is not None:
            sweep_file.check_halves(count_labelled(Path(private["path"])), "shadows")
        folder, card = bench.bring_in(model, pictures)
        tried, places = _tried(attacks, card), (Path(private["path"]), Path(pictures["path"]))
        shared = refuse_shared(*places)
        if not isinstance(by, Judge):
            by = _judge(bench, private, by, sweep_file.evaluator_of(getattr(model.classifier, "architecture", None)))
        faces = {name: settings for name, settings in by.settings.items() if settings["name"] in FACES}
        shown = look_for_people(*places, faces, bits=None, tell=lambda line: None) if faces else Found()
        notes = (*warnings_of(*shared, private="data"), *shown.warnings)
        tree = sweep_file.audit_sweep(
            model=folder,
            card=card,
            data=places[0],
            public=places[1],
            independent=by.settings,
            attacks=tried,
            people=people,
            seeds=list(seeds),
            has_second=False,
            prior=bench.prior(prior, pictures),
            membership={"trained_on_data": True} if trained_on_data else None,
        )
        tree |= {"data": private, "public": pictures}
        if by.network is not None:
            judging = Model(by.network, image_size=by.image_size, input_range=(-1, 1))
            tree["judges"] |= {"evaluator": {"imported": str(bench.bring_in(judging, pictures, "judge")[0])}}
        loaded = as_loaded(tree)
        of_trials = [inversion_stages(as_inversion(trial.settings), trial.seed) for trial in trials_of(loaded)]
        bench.adopt(of_trials[0].target, tested=True)
        for stage in with_ancestors([stage for stages in of_trials for stage in stages]):
            if stage.name == "imported":  # the judge, however good it is
                bench.adopt(stage)
        bench.make([stage for stages in of_trials for stage in stages])
        shadowed = _attack_by_shadows(bench, tree, recipe, shadows, card)
        stored = read_stored(
            loaded,
            bench.store,
            bench.folder,
            card,
            access=card.access,
            shadowed=shadowed,
            own_test=has_split(data),
            told=notes,
        )
        return stored_audit(stored, bench.store, by)


def train(
    data: People,
    *,
    architecture: str = "resnet18",
    defense: Mapping[str, Any] = sweep_file.PLAIN,
    training: Mapping[str, Any] | None = None,
    seed: int = 1,
    size: int = STORED_SIZE,
    device: Device = "cpu",
    progress: bool = True,
) -> Model:
    """A classifier trained from nothing on the training images, ready to be audited: a reference, or another recipe.

    Args:
        data: The private images as of `fit_judge`.
        architecture: As in a sweep file.
        defense: As a sweep file's `recipe.defense` has it, plain training by default; {"kind": "label_smoothing",
            "alpha": -0.05} takes the schedule that a sweep takes.
        training: Fields of a sweep's recipe (epochs, lr, image_size ...), by default as `smoothsweep audit --reference`
            trains: 40 epochs of Adam with crops, colours and mirrors.
        size: Pixels that pictures are read at where `data` is a place, and that the network sees unless `training` says
            otherwise.

    Raises InputError, one line; TrainingDiverged where a loss or weight is no number any more.
    """
    with workbench(device, progress) as bench:
        section = bench.people(data, size)
        recipe = {"image_size": section["size"], **(sweep_file.TRAINING if training is None else training)}
        recipe |= {"architecture": architecture, "pretrained": False, "defense": dict(defense)}
        _, network = bench.trained(section, recipe, seed)
        return Model(network, image_size=recipe["image_size"], input_range=(-1, 1))


def membership(
    model: Model,
    training: People,
    held_out: People,
    *,
    budget: int | None = None,
    shadows: int = 0,
    shadow_recipe: Mapping[str, Any] | None = None,
    seed: int = 0,
    size: int = STORED_SIZE,
    device: Device = "cpu",
    progress: bool = True,
) -> MembershipAudit:
    """How well can an attacker tell which images the model was trained on? By scores, labels and shadow models.

    Args:
        training: Images that the model was trained on, as of `fit_judge`.
        held_out: Images of the same people that it was not.
        budget: The most pictures that the model may be shown, for an endpoint that counts them.
        shadows: Shadow models to train, an even number of 4 or more, each on a random half of all images; 0 for none,
            which leaves thresholds on scores and on labels: a lower bound. They ask the model nothing more.
        shadow_recipe: Their architecture, as in {"architecture": "resnet18"}, and what differs from how `smoothsweep
            audit --reference` trains: fields of a sweep's recipe. None is trained where no claim is made.

    Where the two sets differ in more than membership, the result makes no claim. Raises InputError, one line.
    """
    check_model(model)
    if (recipe := _shadow_recipe(shadows, shadow_recipe, model.image_size)) is not None:
        model = asked_once(model)  # attacks by shadow models need the answers that the others have got
    split = _drawn(everything(training, size), everything(held_out, size), budget, seed)
    with workbench(device, progress) as bench:
        section = bench.people(split, size)
        if recipe is not None:
            sweep_file.check_halves(count_labelled(Path(section["path"])), "shadows")
        folder, card = bench.bring_in(model, section)
        if recipe is not None and card.access == "labels":
            raise InputError(f"shadows: expected 0 for a model that shows labels alone, got {shadows}")
        tree = {
            "name": "membership",
            "seeds": [1],
            "data": section,
            "recipe": {"imported": str(folder)},
            "attack": None,
            "judges": {"membership": {"trained_on_data": True, "seed": seed}},
        }
        stages = inversion_stages(as_inversion(as_loaded(tree).sweep), 1)
        bench.adopt(stages.target)
        bench.make([*stages])
        shadowed = _attack_by_shadows(bench, tree, recipe, shadows, card)
        by_shadows = None if shadowed is None else read_shadows(trials_of(shadowed), bench.store)
        return replace(_membership(bench, tree, card), shadowed=by_shadows)


# What several of them need


def _chosen_classes(classes: Sequence[int] | None, count: int) -> list[int]:
    chosen = list(range(count)) if classes is None else list(classes)
    for label in chosen:
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < count:
            raise InputError(f"classes: expected numbers from 0 to {count - 1}, got {label!r}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"classes: expected one or more, each once, got {chosen}")
    return chosen


def _made(settings: Mapping[str, Any], card: TargetCard) -> Attack:
    """An attack from its settings. Raises InputError for one that sees more than the model shows."""
    if "kind" not in settings:
        raise InputError("attack: expected its kind, got none")
    attack = make_attack(**settings)
    if ACCESS_LEVELS.index(needed := access_needed(attack)) > ACCESS_LEVELS.index(card.access):
        got = f"got access to its {card.access}"
        raise InputError(f"model: expected access to its {needed} for attack {settings['kind']}, {got}")
    return attack


def _tried(attacks: str | Sequence[Mapping[str, Any]], card: TargetCard) -> list[dict[str, Any]]:
    """The settings of the attacks to try, with a control among them. Raises InputError for one that cannot run."""
    if isinstance(attacks, str) and attacks not in get_args(Reach):
        raise InputError(f"attacks: expected {', '.join(get_args(Reach))}, or settings of attacks, got {attacks!r}")
    tried = sweep_file.portfolio(card.access, cast("Reach", attacks)) if isinstance(attacks, str) else attacks
    if {_made(settings, card).control for settings in tried} != {False, True}:
        kinds = ", ".join(str(settings["kind"]) for settings in tried) or "none"
        raise InputError(f"attacks: expected one or more, and a control (random_latents) beside, got {kinds}")
    return [dict(settings) for settings in tried]


def _judge(
    bench: Workbench,
    data: Section,
    by: str,
    architecture: str,
    *,
    weights: Path | str | None = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Judge:
    """The judge of `fit_judge`."""
    if by != EVALUATOR:
        if training is not None:
            raise InputError(f"training: expected none for {by}, which is not trained here, got some")
        return _embedding_judge(bench, data, by, weights)
    if weights is not None:
        raise InputError(f"weights: expected none for an evaluator, which is trained here, got {weights}")
    side = min(data["size"], STORED_SIZE)
    recipe = {"image_size": side, **(sweep_file.EVALUATOR_TRAINING if training is None else training)}
    stage, network = bench.trained(data, {**recipe, "architecture": architecture, "pretrained": False}, seed)
    return Judge(
        metric="attack_acc1",
        names=load_images(bench.store.path(stage.inputs["data"]), "test").names,
        sensitivity=bench.store.metrics(stage)["test_acc"] or 0.0,
        logits=lambda images: evaluate_logits(network, images, image_size=recipe["image_size"], device=bench.device),
        network=network,
        image_size=recipe["image_size"],
    )


def _embedding_judge(bench: Workbench, data: Section, name: str, weights: Path | str | None) -> Judge:
    """A linear head on the features of an embedder. Raises InputError."""
    if name not in KINDS:
        raise InputError(f"embedder: expected one of {', '.join((EVALUATOR, *KINDS))}, got {name!r}")
    judge = judge_of_network(name)
    settings = {judge: {"name": name, **({} if weights is None else {"weights": str(Path(weights).resolve())})}}
    whole = sweep_of(  # of which nothing but the features is made
        data=data,
        recipe={"architecture": "resnet_small", "pretrained": False, "image_size": max(16, data["size"])},
        prior={"kind": "shipped"},
        attack={"kind": "random_latents"},
        judges=settings,
    )
    stage = inversion_stages(whole, 1).judges[stage_of(judge)].inputs["real"]
    bench.make([stage])
    real = load_tensors(bench.store.path(stage) / "features.safetensors")
    head = fit_head(real["train_features"], real["train_labels"], seed=HEAD_SEED)
    context = TaskContext(work=bench.folder, device=bench.device)
    embed = embedding_of({**stage.config, **stage.hints}, {}, context)
    return Judge(
        metric=f"{judge}_acc1",
        names=load_images(bench.store.path(stage.inputs["data"]), "test").names,
        sensitivity=top1_accuracy(head_logits(head, real["test_features"]), real["test_labels"]),
        logits=lambda images: head_logits(head, embed(images)),
        settings=settings,
    )


def _shadow_recipe(count: int, settings: Mapping[str, Any] | None, image_size: int) -> dict[str, Any] | None:
    """The recipe of `count` shadow models as a sweep file has it; None for none. Raises InputError."""
    check_shadows(count, "shadows")
    if not count:
        if settings is not None:
            raise InputError("shadow_recipe: expected none without shadow models, got one with shadows=0")
        return None
    if settings is None or "architecture" not in settings:
        raise InputError(
            'shadow_recipe: expected the shadow models\' network, such as {"architecture": "resnet18"}, got none'
        )
    recipe = {
        "image_size": image_size,
        "pretrained": False,
        "defense": dict(sweep_file.PLAIN),
        **sweep_file.TRAINING,
        **settings,
    }
    sweep_of(where="shadow_recipe", data={"kind": "synthetic"}, recipe=recipe)
    return recipe


def _membership(bench: Workbench, tree: dict[str, Any], card: TargetCard) -> MembershipAudit:
    """What the finished judge of membership found of the model, which is the target of a sweep's first trial."""
    first = trials_of(as_loaded(tree))[0]
    return present(read_membership([("model", first)], bench.store, card.access), "membership")


def _attack_by_shadows(
    bench: Workbench, tree: dict[str, Any], recipe: Mapping[str, Any] | None, count: int, card: TargetCard
) -> LoadedSweep | None:
    """The sweep that trained shadow models and attacked with them; None without any, and where membership makes no
    claim."""
    if recipe is None or not _membership(bench, tree, card).holds:
        return None
    shadowed = as_loaded(sweep_file.shadow_sweep(tree, recipe, count, alone=True))
    bench.make([stage for trial in trials_of(shadowed) for stage in trial.stages])
    return shadowed


def _drawn(inner: ImageSet, outer: ImageSet, budget: int | None, seed: int) -> SplitImages:
    """Members and held-out images, as many of each as the budget allows, drawn with `seed`. Raises InputError."""
    if inner.names != outer.names:
        raise InputError(f"held_out: expected the {len(inner.names)} people of training, got {len(outer.names)} others")
    parts, draw = [inner, outer], torch.Generator().manual_seed(seed)
    if budget is not None:
        most = budget // (2 * QUERIES_PER_IMAGE)
        require(most >= 1, "budget", f"at least {2 * QUERIES_PER_IMAGE} pictures, for one image of each kind", budget)
        parts = [part.subset(torch.randperm(len(part), generator=draw)[:most].sort().values) for part in parts]
    return SplitImages(train=parts[0], test=parts[1], notes=())
