"""The stages of images: private ones, public ones, and the prior that draws them.

A user's own images suit a sweep where the public ones show other people than the private ones, and these are as many as
the attack takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import plugin_version
from smoothsweep.core.priors.kinds import brings_network, network_card
from smoothsweep.core.priors.settings import PriorFolder
from smoothsweep.orchestrator.stages.fingerprints import content_of, is_absent, normalised
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.data import AnyData, LabelledData, PublishedData, PublishedPublic, UnlabelledPublic
from smoothsweep.sweeps.schema import InversionSweep, known_classes


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
