"""A function of the user's, `python:module:factory`: it runs whatever the module does, and is asked like any model."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.text import first_sentence

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smoothsweep.core.external.model import OpenedModel

PREFIX, FORM = "python:", "python:MODULE:FACTORY"


class Function(ForeignModel):
    """Code of the user's own, which does whatever it does: used only where this user has imported it."""

    words = "a function of the user's"
    file = "function.json"
    prefixes = (PREFIX,)
    form = FORM
    remark = "every use of it runs the code of {name}, here and in every worker"

    def describe(self, name: str, folder: Path) -> str:
        """Its module is looked for where the command is run."""
        return describe_function(name, Path.cwd())

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """What its factory makes, in this process."""
        return open_function(path, settings, device)


def describe_function(name: str, folder: Path) -> str:
    """What stands for the function `python:module:factory`, as JSON: where it is looked for, and its file's digest.

    folder: where its module lies, unless it is installed. The function is not run; packages that hold its module are.
    Raises InputError, one line.
    """
    from smoothsweep.core.models.weight_files import file_sha256

    module, _, factory = name.removeprefix(PREFIX).partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), factory)):
        raise InputError(f"{name}: expected {FORM}, such as python:my_model:load")
    digest = file_sha256(_file_of(module, folder, name))
    description = {"module": module, "factory": factory, "folder": str(folder.resolve()), "sha256": digest}
    return json.dumps(description, indent=1) + "\n"


def open_function(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
    """What the factory makes: a function (or network, which is put on the device) of float32 [n, 3, S, S] as the model
    wants its images -> [n, C] or int64 [n]. Runs the user's code. Raises InputError, one line."""
    from smoothsweep.core.external.model import OpenedModel, answering
    from smoothsweep.core.models.weight_files import file_sha256

    card = read_card(path, "what describes a function")
    name = f"{PREFIX}{card['module']}:{card['factory']}"
    folder = Path(card["folder"])
    if file_sha256(_file_of(card["module"], folder, name)) != card["sha256"]:
        raise InputError(f"{name}: expected the file that was brought in, got one that has changed: import it again")
    with _looked_for(folder):
        try:
            made = getattr(importlib.import_module(card["module"]), card["factory"])()
        except Exception as error:  # whatever the user's code raises
            raise InputError(f"{name}: expected a function that makes a model, got: {first_sentence(error)}") from error
    if not callable(made):
        raise InputError(f"{name}: expected it to return a function of images, got {type(made).__name__}")
    return OpenedModel(answer=answering(_ready(made, device), name), rows=settings.get("rows"))


def _ready(made: Callable[[Tensor], Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
    from torch import nn

    return made.to(device).eval().requires_grad_(False) if isinstance(made, nn.Module) else made


def _file_of(module: str, folder: Path, name: str) -> Path:
    with _looked_for(folder):
        try:
            spec = find_spec(module)
        except Exception as error:  # whatever a package that holds it raises
            raise InputError(
                f"{name}: expected a module in {folder} or installed, got: {first_sentence(error)}"
            ) from error
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        raise InputError(f"{name}: expected a module in {folder} or installed, got none named {module}")
    return Path(spec.origin)


@contextmanager
def _looked_for(folder: Path) -> Generator[None]:
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
