"""Membership attacks by name. Reading the table loads no torch."""

from __future__ import annotations

from collections.abc import Mapping

from smoothsweep.core.membership.base import MembershipAttack
from smoothsweep.core.membership.label_only import LabelDistance, LabelViews
from smoothsweep.core.membership.shadow_attacks import BavariaN, BavariaT, Lira, LiraOffline, Rmia, RmiaOffline
from smoothsweep.core.membership.thresholds import Loss, LossPerClass, LossTrace, Margin, MarginPerClass
from smoothsweep.core.plugins import with_plugin_name, with_plugins


def _same_title(name: str, attack: type[MembershipAttack], known: Mapping[str, type[MembershipAttack]]) -> str | None:
    """Why a plugin's attack cannot stand beside those before it; None where it can."""
    again = attack.title in {other_kind.title for other_kind in known.values()}
    return f"expected a title that no other membership attack has, got {attack.title!r}" if again else None


_OWN: dict[str, type[MembershipAttack]] = {
    "margin": Margin,
    "margin_per_class": MarginPerClass,
    "loss": Loss,
    "loss_per_class": LossPerClass,
    "label_views": LabelViews,
    "label_distance": LabelDistance,
    "lira": Lira,
    "lira_offline": LiraOffline,
    "rmia": Rmia,
    "rmia_offline": RmiaOffline,
    "bavaria_t": BavariaT,
    "bavaria_n": BavariaN,
    "loss_trace": LossTrace,
}

MEMBERSHIP_ATTACKS: dict[str, type[MembershipAttack]] = with_plugins("membership", _OWN, MembershipAttack, _same_title)

VERSION = max(attack.since for attack in _OWN.values())
"""Version of the stage that makes them all: another attack of ours is another version, a plugin's is in settings."""


def title_of(kind: str) -> str:
    """What pages call the attack, and whose it is."""
    return with_plugin_name(MEMBERSHIP_ATTACKS[kind].title, "membership", kind)
