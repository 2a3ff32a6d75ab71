"""What stages refuse of files and networks, without the work. Loads torch, where a sweep names such a file alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.fidelity import PublishedFid
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.counts import public_count
from smoothsweep.tasks.planned_files import PlannedFile, names_a_file, planned, prior_files
from smoothsweep.tasks.settings import InputConfigs, prior_settings


def check_prior(config: Config, inputs: InputConfigs) -> None:
    """A prior that is trained, or read from a folder. Raises InputError."""
    settings = prior_settings(config)
    if files := settings.files:
        for file in prior_files(config, files):
            file.read(_check_safetensors)
    else:
        settings.check_public(count=public_count(inputs["public"]), size=inputs["public"].get("size"))


def check_judge(config: Config, inputs: InputConfigs) -> None:
    """The weights file of a judge: read as the judge will read it. Raises InputError."""
    network = config["network"]
    if network == "fid_inception" or issubclass(JUDGES.get(network, Judge), PublishedFid):
        _load_inception(network, planned(config), config.get("sha256"))
    elif names_a_file(config):
        _load_embedder(network, planned(config))


def check_strangers(config: Config, inputs: InputConfigs) -> None:
    """The judge's weights, and strangers enough where verification is asked for. Raises InputError."""
    check_judge(config, inputs)
    count, minimum = public_count(inputs["public"]), config.get("least", 0)
    if count is not None and count < minimum:
        raise few_strangers_error(count, minimum)


def few_strangers_error(count: int, minimum: int) -> InputError:
    """The error that says that there are fewer strangers than were asked for."""
    return InputError(
        f"public: expected {minimum} or more strangers, for a threshold of 1 % false accepts, got {count}"
    )


def _check_safetensors(path: Path) -> None:
    from smoothsweep.core.readers.tensors import UnreadableTensors, read_header

    try:
        names = read_header(path)
    except (OSError, UnreadableTensors) as error:
        raise InputError(f"{path}: expected a safetensors file, got: {error}") from None
    if not names:
        raise InputError(f"{path}: expected tensors, got none")


@lru_cache(maxsize=8)
def _load_inception(network: str, file: PlannedFile, sha256: str | None) -> None:
    from smoothsweep.core.models.fid import load_inception

    file.read(lambda path: load_inception(network, path, sha256=sha256))


@lru_cache(maxsize=8)
def _load_embedder(name: str, file: PlannedFile) -> None:
    from smoothsweep.core.models.embedders import load_embedder

    file.read(lambda path: load_embedder(name, path))
