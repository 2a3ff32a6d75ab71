"""Official checkpoints of classifiers and face embedders, imported without running any code in them.

The publication's files come in two forms: a bare state dictionary with `model.` before every key, and the trainer's
dictionary (`epoch`, `model_state_dict`, `optimizer_state_dict`), whose keys also carry torch.compile's `_orig_mod.`.
Source: Plug-and-Play-Attacks, models/base_model.py and utils; forks that load its release files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import (
    MOST_STATE,
    SMALL_STATE,
    WRAPPINGS,
    WeightSet,
    check_tensors,
    choose_weights,
    fitting_state,
    most_of,
    plain_tensors,
    read_tensor_file,
    remarks_on,
    strip_wrappers,
)
from smoothsweep.core.models.classifiers import ARCHITECTURES, Classifier, build_classifier
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.weight_files import file_sha256

HEAD = "head.weight"  # our name of the classification layer's matrix


@dataclass(frozen=True, kw_only=True)
class ImportFacts:
    """What an imported checkpoint was, for the record.

    Attributes:
        sha256: SHA-256 of the file.
        wrapping: "bare", or the key of `WRAPPINGS` that held the weights.
        prefix: What stood before the keys and was dropped.
        tensors: How many tensors were loaded.
        epoch: What the trainer noted, if anything.
        transform_input: Whether inception_v3 maps its inputs to ImageNet statistics, None for the others.
        remarks: What a user is told: other sets of weights in the file, keys that were left out.
    """

    architecture: str
    num_classes: int
    protocol: str
    transform_input: bool | None
    sha256: str
    wrapping: str
    prefix: str
    tensors: int
    epoch: int | None
    remarks: tuple[str, ...] = ()

    def source(self, file: str) -> dict[str, Any]:
        """What a card says of the file of that name."""
        return {"file": file, **{name: value for name, value in vars(self).items() if name != "remarks"}}


def read_official_checkpoint(
    path: Path, wrappings: tuple[str, ...] = WRAPPINGS, *, most_bytes: int = MOST_STATE
) -> dict[str, Tensor]:
    """The weights of a checkpoint under bare names, prefixes dropped; an optimizer's state is ignored.

    most_bytes: that the weights may take, of the network that they can be. Raises InputError, one line naming the file,
    if it is missing, damaged, holds more than tensors (nothing of it is executed), or is no dictionary of tensors in
    one of the known forms.
    """
    where = f"checkpoint {path}"
    content = read_tensor_file(path, "checkpoint")
    tensors = content
    if isinstance(content, Mapping):
        tensors = next((content[key] for key in wrappings if isinstance(content.get(key), Mapping)), content)
        tensors = {key: value for key, value in tensors.items() if key != "n_averaged"}  # of torch's AveragedModel
    check_tensors(tensors, where)
    state = {strip_wrappers(key): value for key, value in tensors.items()}
    if len(state) != len(tensors):
        raise InputError(f"{where}: expected every tensor once, got several under one name")
    return plain_tensors(state, where, most_bytes=most_bytes)


def import_target(
    path: Path,
    *,
    architecture: str,
    num_classes: int,
    transform_input: bool | None,
    protocol: str,
    weights: str | None = None,
) -> tuple[Classifier, ImportFacts]:
    """A classifier with the weights of a checkpoint (evaluation mode, on the CPU), and what the file was.

    weights: which set of weights is taken where the file has several, as `ImportFacts.remarks` names them.
    transform_input: must be True or False for inception_v3, None or False for the others. It is no part of the
    weights: the publication trained its evaluation models with it (they start from ImageNet weights) and attacks with
    it off; measure the test accuracy under both. protocol: which convention the caller's numbers follow; checked and
    noted, it changes nothing here.

    Raises InputError, one line naming the file, also for a class count, names, shapes or numbers that do not fit.
    """
    if architecture == "inception_v3" and transform_input is None:
        raise InputError(
            f"import {path}: transform_input: expected true or false for inception_v3, got none: the file does not "
            "say whether inputs are mapped to ImageNet statistics (published trainings do, published attacks do not)"
        )
    where = f"checkpoint {path} as {architecture}"
    content = read_tensor_file(path, "checkpoint")
    taken, others = _chosen(content, architecture, where, weights)
    if (got := taken.state[HEAD].shape[0]) != num_classes:  # before anything of that size is made
        raise InputError(f"{where}: expected {num_classes} classes, got {got} (rows of {taken.keys[HEAD]})")
    classifier = build_classifier(architecture, num_classes, protocol=protocol, transform_input=bool(transform_input))
    state = plain_tensors(taken.state, where, most_bytes=most_of(classifier))
    classifier.load_state_dict(fitting_state(state, classifier.state_dict(), where, taken.keys))
    epoch = content.get("epoch") if taken.wrapping != "bare" else None
    facts = ImportFacts(
        architecture=architecture,
        num_classes=num_classes,
        protocol=protocol,
        transform_input=transform_input if architecture == "inception_v3" else None,
        sha256=file_sha256(path),
        wrapping=taken.wrapping,
        prefix=taken.prefix,
        tensors=len(state),
        epoch=epoch if isinstance(epoch, int) else None,
        remarks=tuple(remarks_on(taken, others)),
    )
    return classifier.eval(), facts


def classifier_of(content: Mapping[str, Any], architecture: str, where: str) -> Classifier:
    """A classifier (evaluation mode, on the CPU) with the weights of a state dictionary in memory, or of a trainer's
    dictionary that holds one; the number of classes is that of its last layer.

    Raises InputError, one line beginning with `where`, for an unknown architecture, and for names, shapes or numbers
    that do not fit.
    """
    taken, _ = _chosen(content, architecture, where, None)
    classifier = build_classifier(architecture, len(taken.state[HEAD]), protocol="clean")
    state = {name: value.detach() for name, value in taken.state.items()}
    classifier.load_state_dict(fitting_state(state, classifier.state_dict(), where, taken.keys))
    return classifier.eval()


def _chosen(content: Any, architecture: str, where: str, wanted: str | None) -> tuple[WeightSet, list[str]]:
    """The set of weights that is taken, and the names of the others. Raises InputError for an unknown architecture."""
    with torch.device("meta"):
        names = list(build_classifier(architecture, 2, protocol="clean").state_dict())
    spellings = [{name: name for name in names}]
    if published := ARCHITECTURES[architecture].head:
        own = [name.partition(".") for name in names]
        spellings.insert(
            0, {f"{part}.{rest}": rest if part == "backbone" else f"{published}.{rest}" for part, _, rest in own}
        )
    taken, others = choose_weights(content, spellings, architecture, where, wanted)
    check_tensors(taken.state, where, taken.keys)
    matrix = taken.state[HEAD]
    if len(matrix.shape) != 2:
        raise InputError(f"{where}: {taken.keys[HEAD]}: expected a matrix, got shape {tuple(matrix.shape)}")
    return taken, others


_JUDGES_WRAPPINGS = ("net_state_dict", "model_state_dict", "state_dict")
"""Keys under which the embedders' training scripts keep the weights, in the order they are looked for."""

PUBLISHED = {name: kind.published for name, kind in KINDS.items() if kind.published is not None}
"""Embedder -> what the publisher of its weights calls it; its name in a sweep file is the key."""


@dataclass(frozen=True, kw_only=True)
class ImportedJudge:
    """An embedder's weights under our names, as `load_embedder` takes them.

    Attributes:
        name: The embedder's name.
        state: Its weights by our names.
        sha256: The file's.
    """

    name: str
    state: dict[str, Tensor]
    sha256: str


def import_judge(path: Path) -> ImportedJudge:
    """The embedder whose weights a checkpoint holds; nothing in the file is executed.

    Raises InputError, one line naming the file, where it cannot be read, holds more than tensors, or fits none of the
    embedders in every name and shape; also for numbers that are not finite.
    """
    tensors = read_official_checkpoint(path, _JUDGES_WRAPPINGS, most_bytes=SMALL_STATE)
    misses: dict[str, tuple[int, str]] = {}
    for name in PUBLISHED:
        state = KINDS[name].our_state(tensors)
        with torch.device("meta"):
            expected = KINDS[name].make().state_dict()
        # BatchNorm's step counts, which old files lack, may be missing.
        wrong = [key for key in expected if key not in state and not key.endswith("num_batches_tracked")]
        wrong += [key for key, value in state.items() if key not in expected or value.shape != expected[key].shape]
        if wrong:
            misses[name] = (len(wrong), wrong[0])
        else:
            return ImportedJudge(
                name=name,
                sha256=file_sha256(path),
                state=fitting_state(state, expected, f"checkpoint {path} as {PUBLISHED[name]}"),
            )
    nearest = min(misses, key=lambda name: misses[name][0])
    many, first = misses[nearest]
    raise InputError(
        f"checkpoint {path}: expected the weights of one of {', '.join(PUBLISHED.values())}, got others: of "
        f"{PUBLISHED[nearest]} differ {many} tensors, first {first}"
    )
