"""Imported networks on disk: a prior's directory with its discriminator and import.json, all of it or nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.priors.official.importer import ImportedPrior
from smoothsweep.core.priors.registry import load_discriminator, load_prior, save_discriminator, save_prior

MANIFEST = "import.json"


def write_imported_prior(imported: ImportedPrior, directory: Path) -> None:
    """Write weights.safetensors, prior.json, discriminator.safetensors and import.json into a new `directory`.

    The files appear together. An existing directory is left as it is: no error if it holds the identical import,
    else InputError.
    """
    directory = Path(directory)
    if directory.exists():
        _expect_identical(imported, directory)
        return
    try:
        with making_folder(directory) as draft:
            save_prior(imported.generator, draft)
            save_discriminator(imported.discriminator, draft)
            write_file(draft / MANIFEST, json.dumps(_manifest(imported), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        if not directory.exists():
            raise InputError(f"{directory}: cannot be written: {error.strerror}") from error
        _expect_identical(imported, directory)  # another import was faster


def load_import_manifest(directory: Path) -> dict[str, Any]:
    """What import.json says: the source file's name, size and SHA-256, arguments, licence. Raises InputError."""
    return read_card(Path(directory) / MANIFEST, "the JSON description of an import")


def _manifest(imported: ImportedPrior) -> dict[str, Any]:
    # Through JSON once, so that it compares equal to what is read back.
    return json.loads(json.dumps(asdict(imported.facts), allow_nan=False))


def _expect_identical(imported: ImportedPrior, directory: Path) -> None:
    try:
        same = (
            load_import_manifest(directory) == _manifest(imported)
            and _same(load_prior(directory), imported.generator)
            and _same(load_discriminator(directory), imported.discriminator)
        )
    except InputError as error:
        raise InputError(f"{directory}: expected a new directory or this very import: {error}") from error
    if not same:
        raise InputError(f"{directory}: expected a new directory, it already holds another import")


def _same(first: nn.Module, second: nn.Module) -> bool:
    ours, theirs = first.state_dict(), second.state_dict()
    return (
        type(first) is type(second)
        and first.config == second.config
        and all(torch.equal(value, theirs[name]) for name, value in ours.items())
    )
