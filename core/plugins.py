"""Members of families that other packages bring along: what their entry points name. Loads torch only where they do.

A package says `[project.entry-points."smoothsweep.attacks"]` and `name = "module:Class"`. Its member is then a row of
the family's table like any other, and its distribution and version are part of every fingerprint that it decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, TypeVar

from smoothsweep.core import screen
from smoothsweep.core.citations import bibliography
from smoothsweep.core.declared import check_constants, check_declared
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted, shortened

FAMILIES = {
    "attacks": "smoothsweep.core.attacks.registry",
    "membership": "smoothsweep.core.membership.registry",
    "defenses": "smoothsweep.core.defenses.registry",
    "judges": "smoothsweep.core.judges.table",
    "priors": "smoothsweep.core.priors.kinds",
    "data": "smoothsweep.core.data.kinds",
    "models": "smoothsweep.core.external.kinds",
    "search": "smoothsweep.sweeps.search",
}
"""Family -> the module of its table. Each is looked for in the entry points `smoothsweep.<family>`."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point."""

    family: str
    distribution: str
    version: str
    point: EntryPoint

    @property
    def name(self) -> str:
        return self.point.name

    @property
    def source(self) -> str:
        """`distribution 1.2`."""
        return f"{self.distribution} {self.version}"

    @property
    def file(self) -> str | None:
        """File of the module, None where there is none or its package cannot be imported."""
        try:
            spec = find_spec(self.point.module)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
        return None if spec is None else spec.origin


_BROKEN: dict[tuple[str, str], str] = {}
"""(family, name) -> why it cannot be used."""


def named(distribution: Distribution) -> tuple[str, str] | None:
    """Name and version of a distribution; None where it has none, or is what an interrupted pip left (`~name`)."""
    try:
        name, version = distribution.metadata["Name"], distribution.version
    except Exception:  # metadata of any content
        return None
    remains = str(getattr(distribution, "_path", "")).rpartition("/")[2].startswith("~")
    return (name, version) if isinstance(name, str) and isinstance(version, str) and name and not remains else None


@lru_cache
def plugins(family: str) -> tuple[Plugin, ...]:
    """The plugins of a family by name, without loading them."""
    found = []
    for point in entry_points(group=f"smoothsweep.{family}"):
        if point.dist is not None and (told := named(point.dist)) is not None:
            found.append(Plugin(family=family, distribution=told[0], version=told[1], point=point))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def _leave_out(family: str, name: str, why: str) -> None:
    """Note that a member cannot be used, and say so, once in a process."""
    if (family, name) not in _BROKEN:
        screen.err(f"smoothsweep: {why}; it is left out")
    _BROKEN[family, name] = why


def with_plugins(
    family: str,
    own: Mapping[str, T],
    base: type,
    refuse: Callable[[str, T, Mapping[str, T]], str | None] = lambda *_: None,
) -> dict[str, T]:
    """The rows of a family's table, and behind them those of plugins.

    base: what a row is: of a family of classes a class to derive from, else the class of its rows. refuse: why one of
    that name cannot stand beside the rows before it, in words, None where it can. One that cannot be loaded, is
    something else or has a name twice is left out, which is said; who names it is refused (`refuse_broken`).
    """
    table = dict(own)
    for plugin in plugins(family):
        name = plugin.name
        if name in table or (family, name) in _BROKEN:
            with_whom = "smoothsweep itself" if name in own else "another package"
            _leave_out(family, name, f"plugin {plugin.source} and {with_whom} both bring {family} {name}")
            if name not in own:
                table.pop(name, None)
            continue
        try:
            member = plugin.point.load()
            if not _is_row(member, base):
                got = f"at {plugin.point.value}, got {shortened(repr(member))}"
                article = "an" if base.__name__[0] in "AEIOU" else "a"
                raise InputError(f"expected {article} {base.__name__} {got}")
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):  # which no sweep file could have
                raise InputError(f"expected a name of small letters, digits and _, got {quoted(name)}")
            if why := _wrong_settings(member) or refuse(name, member, table):
                raise InputError(why)
            table[name] = member
        except KeyboardInterrupt:
            raise
        except InputError as error:
            _leave_out(family, name, f"plugin {plugin.source}: {error}")
        except BaseException as error:  # what ends its own program must not end ours
            why = f"cannot load {plugin.point.value}: {type(error).__name__}: {' '.join(str(error).split())}"
            _leave_out(family, name, f"plugin {plugin.source}: {why}")
    return table


def _is_row(member: object, base: type) -> bool:
    """Whether it is what the family's table holds: a class, or of rows that name their settings one of those."""
    if "settings" in getattr(base, "__annotations__", {}):
        return isinstance(member, base)
    return isinstance(member, type) and issubclass(member, base)


def _wrong_settings(member: Any) -> str | None:
    """Why no sweep file could have its parameters as they are declared; None where one can."""
    declared = member if isinstance(member, type) else member.settings
    if declared is None:
        return None
    if not (isinstance(declared, type) and is_dataclass(declared)):
        return f"expected a dataclass of settings, got {shortened(repr(declared))}"
    try:
        check_declared(declared)
        if isinstance(member, type):
            check_constants(member)
        bibliography(getattr(member, "cites", ()))
    except InputError as error:
        return str(error)
    return None


def refuse_broken(family: str, name: object) -> None:
    """Raise InputError, one line, for a member that a plugin would bring and that cannot be used."""
    if isinstance(name, str) and (family, name) in _BROKEN:
        raise InputError(f"{family} {name}: {_BROKEN[family, name]}; `smoothsweep plugins` lists them all")


def are_broken() -> bool:
    """Whether any member cannot be used, once the tables were read."""
    return bool(_BROKEN)


def plugin_version(family: str, name: str) -> dict[str, str]:
    """{'plugin': 'distribution version'} of a member that a plugin brings, for a fingerprint; {} of our own."""
    source = source_of(family, name)
    return {} if source is None else {"plugin": source}


def plugin_versions(family: str, names: Iterable[str]) -> dict[str, list[str]]:
    """{'plugins': ['distribution version', ...]} of those among these that plugins bring, for a fingerprint, or {}."""
    sources = {source for name in names if (source := source_of(family, name)) is not None}
    return {"plugins": sorted(sources)} if sources else {}


def with_plugin_name(words: str, family: str, name: str) -> str:
    """The words for a member as a page has them: of a foreign one with whom it is from."""
    source = source_of(family, name)
    return words if source is None else f"{words} (plugin {source})"


@lru_cache
def source_of(family: str, name: str) -> str | None:
    """`distribution version` of the package that brings it, None of our own."""
    if (family, name) in _BROKEN:
        return None
    return next((plugin.source for plugin in plugins(family) if plugin.name == name), None)
