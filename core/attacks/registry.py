"""Attacks by name, and the parts they may need. Reading the tables loads no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.brep_mi import BREPMI
from smoothsweep.core.attacks.cma_es import CMAES
from smoothsweep.core.attacks.if_gmi import IFGMI
from smoothsweep.core.attacks.lowres import GMI, KED, LommaGMI, LommaKED
from smoothsweep.core.attacks.plg_mi import PLGMI
from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.attacks.random_latents import RandomLatents, SelectionOnly
from smoothsweep.core.attacks.rlb_mi import RLBMI
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access, Attack, PartKind
from smoothsweep.core.attacks.surrogates import SurrogateLabels, SurrogateScores
from smoothsweep.core.attacks.training_settings import ConditionalConfig, PlainGanConfig, StudentConfig
from smoothsweep.core.cards import NetworkCard, NetworkKind, read_network_card, read_weights, write_weights
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.plugins import refuse_broken, with_plugins
from smoothsweep.core.text import quoted

if TYPE_CHECKING:
    from torch import nn

FOREIGN_PART = "own_"
"""How the names of parts from other packages begin, so that they are never those of a stage of ours."""

_ROOM = "smoothsweep.core.attacks"
_PLAIN_GAN = {
    name: NetworkKind(config=PlainGanConfig, network=f"{_ROOM}.gan_networks:{network}")
    for name, network in (
        ("plain_generator", "PlainGenerator"),
        ("critic", "Critic"),
        ("minibatch_discriminator", "MinibatchDiscriminator"),
    )
}
_CONDITIONAL_GAN = {
    "conditional_generator": NetworkKind(config=ConditionalConfig, network=f"{_ROOM}.gan_networks:ConditionalGenerator")
}
_STUDENT = {"student": NetworkKind(config=StudentConfig, network=f"{_ROOM}.distillation:Student")}


def _made_by(function: str, *, version: int = 1, **more: Any) -> PartKind:
    """A part of ours. function: "module:function", the module beside this one."""
    return PartKind(version=version, make=f"{_ROOM}.{function}", **more)


_OWN_PARTS: dict[str, PartKind] = {
    "pool": _made_by("ppa.pool:make_pool", version=4, title="candidate pool"),
    "candidates": _made_by("ppa.pool:make_candidates", version=4, access="scores"),
    "temperature": _made_by("ppa.pool:make_temperature", access="gradients", told_protocol=False),
    "pool_features": _made_by("ppa.pool:make_pool_features", access="gradients", layers=True),
    "plg_labels": _made_by("plg_search:make_labels", access="scores", title="PLG pseudo-labels"),
    "plg_gan": _made_by(
        "plg_search:make_conditional_gan",
        access="gradients",
        trains=True,
        title="PLG conditional GAN",
        networks=_CONDITIONAL_GAN,
    ),
    "pictures": _made_by("surrogates:make_pictures", told_protocol=False, title="surrogate's query images"),
    "answered_labels": _made_by(
        "surrogates:make_answers", title="labels for the surrogate", access="labels", told_protocol=False
    ),
    "answered_scores": _made_by(
        "surrogates:make_answers", title="scores for the surrogate", access="scores", told_protocol=False
    ),
    "surrogates": _made_by(
        "distillation:make_surrogates", version=2, networks=_STUDENT, trains=True, told_protocol=False, distilled=True
    ),
    "starts": _made_by("brep_mi:make_starts", access="labels", title="starting points"),
    "general_gan": _made_by(
        "gan_training:make_general_gan", trains=True, told_protocol=False, title="general GAN", networks=_PLAIN_GAN
    ),
    "specific_gan": _made_by(
        "gan_training:make_specific_gan",
        title="target-specific GAN",
        networks=_PLAIN_GAN,
        access="gradients",
        trains=True,
        layers=True,
    ),
    "students": _made_by(
        "distillation:make_students", access="scores", trains=True, title="distilled students", networks=_STUDENT
    ),
    "public_features": _made_by("lowres_search:make_public_features", access="gradients", layers=True),
}


def _parts_of_others(name: str, attack: type[Attack], known: Mapping[str, type[Attack]]) -> str | None:
    """Why the parts of a plugin's attack cannot stand in the table; None where they can."""
    taken = {part: kind for attack_kind in known.values() for part, kind in attack_kind.own_parts.items()} | _OWN_PARTS
    again = [part for part, kind in attack.own_parts.items() if taken.get(part, kind) != kind]
    if again:
        return f"expected names of parts that no other attack has, got {', '.join(again)}"
    odd = [part for part in attack.own_parts if not part.startswith(FOREIGN_PART)]
    if odd:
        return f"expected names of parts that begin with {FOREIGN_PART}, got {', '.join(odd)}"
    others = {network for part, kind in taken.items() if part not in attack.own_parts for network in kind.networks}
    shared = sorted({network for kind in attack.own_parts.values() for network in kind.networks} & others)
    return f"expected names of networks that no other attack has, got {', '.join(shared)}" if shared else None


ATTACKS: dict[str, type[Attack]] = with_plugins(
    "attacks",
    {
        "ppa": PlugAndPlay,
        "if_gmi": IFGMI,
        "plg_mi": PLGMI,
        "rlb_mi": RLBMI,
        "brep_mi": BREPMI,
        "cma_es": CMAES,
        "surrogate_scores": SurrogateScores,
        "surrogate_labels": SurrogateLabels,
        "gmi": GMI,
        "ked": KED,
        "lomma_gmi": LommaGMI,
        "lomma_ked": LommaKED,
        "selection_only": SelectionOnly,
        "random_latents": RandomLatents,
    },
    Attack,
    _parts_of_others,
)

PARTS = {**_OWN_PARTS, **{name: part for attack in ATTACKS.values() for name, part in attack.own_parts.items()}}
"""All parts, those that attacks of other packages bring too."""


def part_kind(name: str) -> PartKind:
    """A part by its name. Raises InputError for one that no attack brings, which an attack of another package needs."""
    if name not in PARTS:
        raise InputError(f"parts: expected one of {', '.join(PARTS)}, got {quoted(name)}")
    return PARTS[name]


def make_attack(kind: str, **parameters: Any) -> Attack:
    """The named attack with these parameters, plain values as a file gives them.

    Raises InputError for an unknown name or parameter, a missing one, or a value out of range.
    """
    return build(attack_class(kind), parameters, what=f"attack {kind}", prefix="attack.")


def access_needed(attack: Attack) -> Access:
    """The highest access that the attack or one of its parts needs."""
    levels = [attack.access, *(part_kind(part.name).access for part in attack.parts if "target" in part.needs)]
    return max(levels, key=ACCESS_LEVELS.index)


def needs_layers(attack: Attack) -> bool:
    """Whether the attack, or a part of it, needs a network with layers, not answers alone."""
    return any(part_kind(part.name).layers for part in attack.parts if "target" in part.needs)


def attack_class(kind: object) -> type[Attack]:
    """The class of an attack by its name. Raises InputError, which lists the names, for an unknown one."""
    if not isinstance(kind, str) or kind not in ATTACKS:
        refuse_broken("attacks", kind)
        raise InputError(f"attack.kind: expected one of {', '.join(ATTACKS)}, got {kind!r}")
    return ATTACKS[kind]


# Networks that parts of attacks leave: weights beside a card that says what they are built from.


CARD, WEIGHTS = ".network.json", ".network.safetensors"

PART_NETWORKS: dict[str, NetworkKind] = {name: kind for part in PARTS.values() for name, kind in part.networks.items()}
"""Kinds of networks by their names on cards."""


def save_network(network: nn.Module, directory: Path, name: str) -> None:
    """Write <name>.network.safetensors and, last, <name>.network.json. Raises ValueError for an unknown kind."""
    kinds = [kind for kind, row in PART_NETWORKS.items() if row.load() is type(network)]
    if not kinds:
        raise ValueError(f"network: expected one of {', '.join(PART_NETWORKS)}, got {type(network).__name__}")
    weights, card = _network_files(directory, name)
    write_weights(network, weights)
    write_file(card, json.dumps(NetworkCard(kind=kinds[0], config=network.config).plain, indent=2) + "\n")


def load_network(directory: Path, name: str) -> Any:
    """What `save_network` left: in eval mode, on the CPU, without parameter gradients. Raises InputError."""
    weights, card = _network_files(directory, name)
    stored_card = read_network_card(card, {k: row.config for k, row in PART_NETWORKS.items()}, "the card of a network")
    return read_weights(PART_NETWORKS[stored_card.kind].load(), stored_card.config, weights)


def network_names(directory: Path) -> list[str]:
    """The names of the networks that a part's folder holds."""
    return sorted(path.name.removesuffix(CARD) for path in directory.glob(f"*{CARD}"))


def _network_files(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}{WEIGHTS}", directory / f"{name}{CARD}"
