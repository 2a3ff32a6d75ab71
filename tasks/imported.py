"""A classifier that was trained elsewhere, adopted as a target or a judge: copied, then tested on our data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.files import write_pieces
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT, fixed_image_size
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluate_accuracy, fit_images
from smoothsweep.core.models.reading import Claim, Readings, check_reading, order_by_name, usual_orders
from smoothsweep.core.readers.files import MOST_BYTES, pieces_of
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, load_tensors, save_tensors
from smoothsweep.tasks.planned_files import planned
from smoothsweep.tasks.target import measure_utility
from smoothsweep.tasks.training import ORDER, load_classifier, load_external, normalisation_from

WEIGHTS = "weights.safetensors"
HEAD = ("head.weight", "head.bias")
PROBE_IMAGES = 32  # test images by which it is seen whether a model answers as was said


def adopt_classifier(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and what `train_target` writes of a test; returns the utility.

    The weights' outputs are brought into the data's order by the names of the classes, so that a stage that loads them
    (the attack, a judge) reads them as it reads what was trained here. Raises InputError for other names, and unless
    real test images show that the card is right (`core.models.reading`).

    Of inception_v3 the accuracy is taken under both input conventions: which one a file was trained with is no part of
    it (Plug-and-Play-Attacks trains with the mapping to ImageNet statistics and attacks without).
    """
    outside = is_external(config["architecture"])
    file = KINDS[config["architecture"]].file if outside else WEIGHTS
    source, where = planned(config, file=file), f"imported {planned(config)}"
    if outside:
        source.read(lambda path: copy_external(path, out / file))
        return adopt_external(out / file, config, inputs["data"], out, context, where=where)
    # Copied, since tensors as they are loaded lie in the file still, and change with it.
    weights = source.read(lambda path: {name: tensor.clone() for name, tensor in load_tensors(path).items()})
    return adopt(weights, config, inputs["data"], out, context, where=where)


def adopt(
    weights: Mapping[str, Tensor], config: Config, data: Path, out: Path, context: TaskContext, *, where: str
) -> Metrics:
    """As `adopt_classifier`, of weights in memory and the folder of a data artifact. where: how an error begins."""
    test, claim = _claimed(config, data, where)
    save_tensors(out / WEIGHTS, {**weights, **{name: weights[name][claim.order] for name in HEAD}})
    model = load_classifier(out, config, context.device)
    metrics = _proven(model, claim, test, config, data, out, context, where)
    if config["architecture"] == TRANSFORMS_INPUT:
        other = load_classifier(out, {**config, "transform_input": not config["transform_input"]}, context.device)
        accuracy = evaluate_accuracy(other, test, image_size=config["image_size"], device=context.device)
        metrics["test_acc_other_input"] = accuracy
    return metrics


def adopt_external(file: Path, config: Config, data: Path, out: Path, context: TaskContext, *, where: str) -> Metrics:
    """As `adopt`, of a model that answers and shows no layers; `file` is copied as it is."""
    test, claim = _claimed(config, data, where)
    keep_external(file, config, claim.order, out)
    model = load_external(out, config, context.device, where=where)
    probes = fit_images(_probes(test), config["image_size"]).to(context.device)
    model.check_answers(probes)
    if not config["outside"].get("random_answers"):
        model.check_alone(probes)
    metrics = _proven(model, claim, test, config, data, out, context, where)
    # A decided class comes without any confidence that could be right or wrong.
    return metrics | ({"ece": None} if model.answers == "labels" else {})


def _probes(test: ImageSet) -> Tensor:
    """Test images uint8 [N, 3, R, R]: one half of the first person, the other of all."""
    half = PROBE_IMAGES // 2
    first = (test.labels == test.labels[0]).nonzero()[:half, 0]
    spread = torch.linspace(0, len(test.labels) - 1, min(half, len(test.labels))).long()
    return test.images[torch.cat([first, spread])]


def _claimed(config: Config, data: Path, where: str) -> tuple[ImageSet, Claim]:
    """The test images and what the card says of the model. Raises InputError for other classes than the data's."""
    test = load_images(data, "test")
    if test.num_classes != config["num_classes"]:
        also = "; outputs of a program that are nobody are named by --leave-out" * ("outside" in config)
        raise InputError(
            f"{where}: expected a classifier of the data's {test.num_classes} classes, got one of "
            f"{config['num_classes']}{also}"
        )
    stated = config.get("class_names")  # without, outputs are taken to be in the data's order
    order = order_by_name(stated, test.names, where) if stated else torch.arange(test.num_classes)
    return test, Claim(normalisation=normalisation_from(config), order=order, accuracy=config.get("stated_acc"))


def _proven(
    model: Classifier | ExternalModel,
    claim: Claim,
    test: ImageSet,
    config: Config,
    data: Path,
    out: Path,
    context: TaskContext,
    where: str,
) -> Metrics:
    """The utility of a model that recognises real test images. Raises InputError for one that does not."""
    metrics = measure_utility(model, test, config, out, context)
    with safe_open(str(data / "train.safetensors"), framework="pt") as train:  # of which no image is read
        sizes = torch.bincount(train.get_tensor("labels"), minlength=test.num_classes)
    check_reading(
        model,
        test,
        load_tensors(out / "test_logits.safetensors")["logits"],
        claim,
        orders=usual_orders(test.names, sizes),
        image_size=config["image_size"],
        device=context.device,
        where=where,
        readings=_readings(model, claim, config),
    )
    return metrics


def _readings(model: Classifier | ExternalModel, claim: Claim, config: Config) -> Readings:
    """What other readings come into question: none of a model that is sent pictures, no other size of one that has a
    size."""
    if isinstance(model, ExternalModel):
        if model.opened.own_input:
            return Readings.none(claim.normalisation)
        return Readings() if model.opened.side is None else Readings(sizes=())
    return Readings() if fixed_image_size(config["architecture"]) is None else Readings(sizes=())


def copy_external(file: Path, copy: Path) -> None:
    """Copy a model's file unless it is there already. Raises InputError for a file that is too large, OSError."""
    if file != copy:
        write_pieces(copy, pieces_of(file, most_bytes=MOST_BYTES))


def keep_external(file: Path, config: Config, order: Tensor, out: Path) -> None:
    """Store the model's file and the order of its outputs, which is all that opening it again needs."""
    copy_external(file, out / KINDS[config["architecture"]].file)
    save_tensors(out / f"{ORDER}.safetensors", {ORDER: order})
