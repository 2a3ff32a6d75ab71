"""Official checkpoints of target and evaluation classifiers, imported without running any code in them.

The publication's files come in two forms: a bare state dictionary with `model.` before every key, and the trainer's
dictionary (`epoch`, `model_state_dict`, `optimizer_state_dict`), whose keys also carry torch.compile's `_orig_mod.`.
Source: Plug-and-Play-Attacks, models/base_model.py and utils; forks that load its release files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import ARCHITECTURES, Classifier, build_classifier
from smoothsweep.core.models.pretrained import (
    MOST_STATE,
    check_tensors,
    fitting_state,
    load_published_state,
    most_of,
    plain_tensors,
    read_tensor_file,
    strip_wrappers,
)
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.core.spelling import suggestion

WRAPPINGS = ("model_state_dict", "state_dict", "model", "net", "network", "weights")
"""Keys under which training scripts keep the state dictionary, in the order they are looked for."""
OWN_HEAD = "head"
"""The classification layer in state dictionaries of `core.models.classifiers.Classifier`, as `smoothsweep.train` makes
them."""


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


def read_official_checkpoint(
    path: Path, wrappings: tuple[str, ...] = WRAPPINGS, *, most_bytes: int = MOST_STATE
) -> dict[str, Tensor]:
    """The weights of a checkpoint under bare names, prefixes dropped; an optimizer's state is ignored.

    most_bytes: that the weights may take, of the network that they can be. Raises InputError, one line naming the file,
    if it is missing, damaged, holds more than tensors (nothing of it is executed), or is no dictionary of tensors in
    one of the known forms.
    """
    state = _read(path, wrappings)[1]
    return plain_tensors(state, f"checkpoint {path}", most_bytes=most_bytes)


def import_target(
    path: Path,
    *,
    architecture: str,
    num_classes: int,
    transform_input: bool | None,
    protocol: str,
) -> tuple[Classifier, ImportFacts]:
    """A classifier with the weights of an official checkpoint (evaluation mode, on the CPU), and what the file was.

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
    content, stored, prefix = _read(path)
    where = f"checkpoint {path} as {architecture}"
    head = _head(stored, architecture)
    if head is not None:  # before anything of that size is made
        _check_classes(stored, f"{head}.weight", architecture, num_classes, where)
    classifier = build_classifier(architecture, num_classes, protocol=protocol, transform_input=bool(transform_input))
    state = plain_tensors(stored, where, most_bytes=most_of(classifier))
    _load(classifier, state, architecture, where)
    wrapping = _wrapping(content)
    epoch = content.get("epoch") if wrapping != "bare" else None
    facts = ImportFacts(
        architecture=architecture,
        num_classes=num_classes,
        protocol=protocol,
        transform_input=transform_input if architecture == "inception_v3" else None,
        sha256=file_sha256(path),
        wrapping=wrapping,
        prefix=prefix,
        tensors=len(state),
        epoch=epoch if isinstance(epoch, int) else None,
    )
    return classifier.eval(), facts


def classifier_of(content: Mapping[str, Any], architecture: str, where: str) -> Classifier:
    """A classifier (evaluation mode, on the CPU) with the weights of a state dictionary in memory, or of a trainer's
    dictionary that holds one; the number of classes is that of its last layer.

    Raises InputError, one line beginning with `where`, for an unknown architecture, and for names, shapes or numbers
    that do not fit.
    """
    if architecture not in ARCHITECTURES:
        got = f"got {architecture!r}{suggestion(str(architecture), ARCHITECTURES)}"
        raise InputError(f"architecture: expected one of {', '.join(ARCHITECTURES)}, {got}")
    state = _bare(content, where)[0]
    head = f"{_head(state, architecture)}.weight"
    if head not in state or state[head].ndim != 2:
        raise InputError(f"{where}: expected {architecture}, whose classification layer is {head}; there is none")
    classifier = build_classifier(architecture, len(state[head]), protocol="clean")
    _load(classifier, {key: value.detach() for key, value in state.items()}, architecture, where)
    return classifier.eval()


def _head(state: Mapping[str, Any], architecture: str) -> str | None:
    """The name of the classification layer in a published or own state dictionary; None for an unknown one."""
    entry = ARCHITECTURES.get(architecture)
    return None if entry is None else OWN_HEAD if _is_ours(state) or not entry.head else entry.head


def _is_ours(state: Mapping[str, Any]) -> bool:
    return all(key.startswith(("backbone.", "neck.", f"{OWN_HEAD}.")) for key in state)


def _load(classifier: Classifier, state: Mapping[str, Tensor], architecture: str, where: str) -> None:
    head = ARCHITECTURES[architecture].head
    if _is_ours(state) or not head:
        classifier.load_state_dict(fitting_state(state, classifier.state_dict(), where))
    else:
        load_published_state(classifier, state, head, where=where)


def _read(path: Path, wrappings: tuple[str, ...] = WRAPPINGS) -> tuple[Mapping[str, Any], dict[str, Any], str]:
    """The file's dictionary, its weights under bare names, still in the file, and the prefix that they had."""
    where = f"checkpoint {path}"
    content = read_tensor_file(path, "checkpoint")
    if not isinstance(content, Mapping):
        raise InputError(f"{where}: expected a dictionary of tensors, got {type(content).__name__}")
    return content, *_bare(content, where, wrappings)


def _bare(content: Mapping[str, Any], where: str, wrappings: tuple[str, ...] = WRAPPINGS) -> tuple[dict[str, Any], str]:
    """The weights in a dictionary under bare names, and the prefix that they had."""
    wrapping = _wrapping(content, wrappings)
    tensors = content if wrapping == "bare" else content[wrapping]
    check_tensors(tensors, where)
    state = {strip_wrappers(key): value for key, value in tensors.items()}
    if len(state) != len(tensors):
        raise InputError(f"{where}: expected every tensor once, got several under one name")
    first = next(iter(tensors))
    return state, first[: len(first) - len(strip_wrappers(first))]


def _wrapping(content: Mapping[str, Any], wrappings: tuple[str, ...] = WRAPPINGS) -> str:
    return next((key for key in wrappings if isinstance(content.get(key), Mapping)), "bare")


def _check_classes(state: Mapping[str, Any], head: str, architecture: str, num_classes: int, where: str) -> None:
    """Raise InputError that names a wrong architecture or class count, instead of a mismatched key or shape."""
    shape = tuple(state[head].size) if head in state else ()
    if len(shape) != 2:
        raise InputError(f"{where}: expected {architecture}, whose classification layer is {head}; there is none")
    if shape[0] != num_classes:
        raise InputError(f"{where}: expected {num_classes} classes, got {shape[0]} (rows of {head})")
