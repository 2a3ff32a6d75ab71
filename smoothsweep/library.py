"""smoothsweep from Python: attack a model that you have, judge what leaked, or audit it in one call.

    import smoothsweep

    model = smoothsweep.Model(network, image_size=64, input_range=(0, 1))
    report = smoothsweep.audit(model, "people/", "other-people/")
    print(report)

A thin layer on `core`: nothing is stored, no cluster is started, and what is wrong with the input is an `InputError`
of one line. Sweeps, resuming and pages are the command's (`smoothsweep run`, `smoothsweep audit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from smoothsweep.core.audit.attack_result import AttackResult, results_of
from smoothsweep.core.audit.attacking import settings_to_try
from smoothsweep.core.audit.checking import check_design, check_membership, real_accuracy
from smoothsweep.core.audit.comparing import compare_audits
from smoothsweep.core.audit.identities import shown_in_memory
from smoothsweep.core.audit.judging import EVALUATOR, Judge, fit_embedder, train_evaluator
from smoothsweep.core.audit.membership import MembershipAudit, audit_membership
from smoothsweep.core.audit.model import Model
from smoothsweep.core.audit.opening import PriorLike, attacker_of, check_model, usual_size
from smoothsweep.core.audit.pictures import People, Pictures, load_all, load_people, refuse_shared
from smoothsweep.core.audit.portfolio import EIGENFACES, PLUG_AND_PLAY, STORED_SIZE, Reach, evaluator_of, spread_classes
from smoothsweep.core.audit.references import PLAIN
from smoothsweep.core.audit.results import Audit, Verdict, read_audit, verdict_of
from smoothsweep.core.audit.shadows import shadow_recipe as read_recipe
from smoothsweep.core.audit.training import train_model
from smoothsweep.core.data.images import ImageSet as ImageSet
from smoothsweep.core.data.labelled import SplitImages as SplitImages
from smoothsweep.core.data.labelled import load_labelled as load_labelled
from smoothsweep.core.data.labelled import load_unlabelled as load_unlabelled
from smoothsweep.core.data.synthetic import synthetic_faces as synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import fit_images
from smoothsweep.progress import progress_bar

Device = torch.device | str


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
    """Invert classes of a model. Arguments that other functions of this module have, too, mean there what they do here.

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
    with progress_bar(progress) as on_progress:
        attacker = attacker_of(model, public, prior, size=size, device=device)
        chosen = range(attacker.model.num_classes) if classes is None else classes
        return AttackResult(
            inverted=attacker.invert(settings, list(chosen), seed=seed, on_progress=on_progress), seed=seed
        )


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
    people = load_people(data, size=size)
    with progress_bar(progress) as on_progress:
        if by == EVALUATOR:
            if weights is not None:
                raise InputError(f"weights: expected none for an evaluator, which is trained here, got {weights}")
            return train_evaluator(
                people, architecture=architecture, training=training, seed=seed, device=device, on_progress=on_progress
            )
        if training is not None:
            raise InputError(f"training: expected none for {by}, which is not trained here, got some")
        return fit_embedder(people, by, weights=None if weights is None else Path(weights), device=device)


def judge(reconstructions: AttackResult, by: Judge) -> Verdict:
    """Whom a judge takes reconstructions for. Raises InputError for those of a class that the judge does not know."""
    return verdict_of(reconstructions, by)


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
        shadows, shadow_recipe: As of `membership`. What only the command does: it chooses how many shadow models there
            is time for, and measures the membership of the reference that it trains beside the model.

    The model is tried on the test images first, under other readings of their range too. With an embedder as the judge
    the strongest attack is also verified, and the reach of the prior measured (`Audit.standing`), as the command does;
    `Audit.notes` says what is not, and which public images may not fit.

    Raises InputError, one line, as `attack` does, for a model that does not recognise the data, for public images that
    hold private ones or show another kind of thing, and for membership of data without a split.
    """
    check_model(model)
    check_design(seeds, people)
    check_membership(data, trained_on_data=trained_on_data, has_shadows=bool(shadows) or shadow_recipe is not None)
    split = load_people(data, size=size or usual_size(model))
    by_shadows = read_recipe(shadows, shadow_recipe, image_size=model.image_size)
    attacker = attacker_of(model, public, prior, size=size, device=device)
    notes = refuse_shared(split, attacker.public)
    test_acc = real_accuracy(attacker.model, split.test, model.reads)
    tried = settings_to_try(attacker, attacks)
    if not isinstance(by, Judge):
        architecture = evaluator_of(getattr(model.classifier, "architecture", None))
        by = fit_judge(split, by, architecture=architecture, device=device, progress=progress)
    notes += shown_in_memory(by.recogniser, attacker.public, by.names)
    chosen = spread_classes(attacker.model.num_classes, people)
    with progress_bar(progress) as on_progress:
        reconstructions = results_of(attacker, tried, chosen, seeds, on_progress)
        report = read_audit(reconstructions, by, test_acc, attacker=attacker, notes=notes, on_progress=on_progress)
        if not trained_on_data:
            return report
        options: Any = {"size": split.train.size, "shadows": by_shadows, "where": "data", "on_progress": on_progress}
        return replace(report, membership=audit_membership(attacker.model, split.train, split.test, **options))


def train(
    data: People,
    *,
    architecture: str = "resnet18",
    defense: Mapping[str, Any] = PLAIN,
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
    with progress_bar(progress) as on_progress:
        return train_model(
            load_people(data, size=size),
            architecture=architecture,
            defense=defense,
            training=training,
            seed=seed,
            device=device,
            on_progress=on_progress,
        )


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
    recipe = read_recipe(shadows, shadow_recipe, image_size=model.image_size)
    samples = fit_images(load_all(training, size=size).images[:2], model.image_size)
    opened = model.open(samples, device=device)
    with progress_bar(progress) as on_progress:
        options: Any = {"size": size, "budget": budget, "seed": seed, "on_progress": on_progress}
        return audit_membership(opened, training, held_out, shadows=recipe, **options)


def compare(audits: Mapping[str, Audit]) -> pd.DataFrame:
    """Models beside the first one, each under the attack that works best against it.

    audits: by a name of each model; of the same people, seeds and attacks, by the same judge. A row per model: model,
    test_acc, attack, leak with low and high, and for all but the first: reduction (the first's leak minus this one's,
    paired by person and seed: positive leaks less), reduction_low and reduction_high (95 %, for all models at once, the
    choice of the strongest attack paid for), verdict ("reduces", "hides", "leaks more" or "inconclusive") and
    seeds_needed (how many might settle an inconclusive one; NaN where that is not known). difference, difference_low
    and difference_high are minus the reduction, as in earlier versions. Each model is one training: a verdict holds of
    these models; recipes are compared by sweeps, which train each with several seeds. The quick attacks alone take what
    a defense hides for a reduction: audit with attacks="adapted".

    Raises InputError, one line, for fewer than two audits or such as cannot be paired.
    """
    return compare_audits(audits)
