"""External models as targets: store them in an artifact, and open them from it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, agreed_to, is_external, needs_consent
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.files import write_pieces
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.readers.files import MOST_BYTES, pieces_of
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.training import load_classifier, normalisation_from

ORDER = "order"


def copy_external(file: Path, copy: Path) -> None:
    """Copy a model's file unless it is there already. Raises InputError for a file that is too large, OSError."""
    if file != copy:
        write_pieces(copy, pieces_of(file, most_bytes=MOST_BYTES))


def keep_external(file: Path, config: Config, order: Tensor, out: Path) -> None:
    """Store the model's file and the order of its outputs, which is all that opening it again needs."""
    copy_external(file, out / KINDS[config["architecture"]].file)
    save_tensors(out / f"{ORDER}.safetensors", {ORDER: order})


def load_external(folder: Path, config: Config, device: str, *, where: str | None = None) -> ExternalModel:
    """The model of an `imported` artifact, opened on a device.

    Raises InputError, one line, also for code and endpoints that only a store from elsewhere names.
    """
    settings, kind = config["outside"], config["architecture"]
    if needs_consent(kind) and not agreed_to(folder / KINDS[kind].file):
        words = f"{KINDS[kind].words} that you have brought in on this machine (`smoothsweep import target`, `audit`)"
        raise InputError(f"{folder}: expected {words}, got one from elsewhere")
    return ExternalModel(
        KINDS[kind].open(folder / KINDS[kind].file, settings, torch.device(device)),
        answers=settings["answers"],
        access=settings["access"],
        num_classes=config["num_classes"],
        normalisation=normalisation_from(config),
        order=load_tensors(folder / f"{ORDER}.safetensors")[ORDER],
        leave_out=settings.get("leave_out", ()),
        where=where or str(folder),
    )


def load_target(folder: Path, config: Config, device: str, *, readout: str | None = None) -> Classifier | ExternalModel:
    """The model under attack: a classifier with its defense (`load_classifier`), or an external model."""
    if is_external(config["architecture"]):
        return load_external(folder, config, device)
    return load_classifier(folder, config, device, readout=readout)
