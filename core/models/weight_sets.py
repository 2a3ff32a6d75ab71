"""Which of a file's tensors are a network's: under any prefix, in any dictionary, beside what training left there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.pretrained import old_spelling, strip_wrappers
from smoothsweep.core.readers.tensors import AS_PROGRAM, StoredTensor
from smoothsweep.core.text import quoted

WRAPPINGS = ("model_state_dict", "state_dict", "model", "net", "network", "weights")
"""Keys under which training scripts keep the state dictionary, in the order in which one of several is taken."""

_COUNTERS = ("total_ops", "total_params")  # that profilers leave in every layer
_TENSORS = (Tensor, StoredTensor)
_DEEPEST = 3  # dictionaries within one another


@dataclass(frozen=True, kw_only=True)
class WeightSet:
    """Tensors of a file that can be the network's.

    Attributes:
        wrapping: "bare", or the key that held them; of several dictionaries within one another, with dots.
        prefix: What stands before the network's own names.
        keys: The network's names -> the file's keys.
        missing: Names that the network needs and the file lacks, as the file would have them.
        inside: Keys within the network's layers that it does not have.
        beside: Keys of the same dictionary that belong to something else, which are left out.
    """

    wrapping: str
    prefix: str
    entries: Mapping[Any, Any]
    keys: Mapping[str, str]
    missing: Sequence[str]
    inside: Sequence[str]
    beside: Sequence[str]

    @property
    def name(self) -> str:
        """What `--weights` calls it."""
        parts = [] if self.wrapping == "bare" else [self.wrapping]
        return ".".join([*parts, self.prefix.rstrip(".")]).rstrip(".") or "bare"

    @property
    def state(self) -> dict[str, Any]:
        """The network's names -> tensors, still in the file."""
        return {name: self.entries[key] for name, key in self.keys.items()}


def choose_weights(
    content: Any, spellings: Sequence[Mapping[str, str]], what: str, where: str, wanted: str | None = None
) -> tuple[WeightSet, list[str]]:
    """The set of weights that is taken, and the names of the others that would fit as well.

    spellings: each a way in which the network's names may be written in a file, name -> as written. what: the network,
    for a message. wanted: the name of the set to take. Raises InputError, one line beginning with `where`, where none
    fits, which says what the file has.
    """
    found = [held for path, entries in _dictionaries(content) for held in _sets(path, entries, spellings)]
    if not found:
        got = "one that holds none" if isinstance(content, Mapping) else type(content).__name__
        raise InputError(f"{where}: expected a dictionary of tensors, got {got}")
    whole = sorted((held for held in found if not held.missing), key=_order)
    names = [held.name for held in whole]
    if wanted is not None and wanted not in names:
        has = ", ".join(names) or "none"
        raise InputError(f"{where}: --weights: expected one of the sets that fit {what}: {has}; got {quoted(wanted)}")
    if not whole:
        nearest = min(found, key=lambda held: len(held.missing))
        keys = [str(key) for key in nearest.entries]
        raise InputError(
            f"{where}: expected {what}, of which {len(nearest.missing)} tensors are missing, first "
            f"{nearest.missing[0]}; the file has {_some(keys)}. Of another architecture, name that one; of a class of "
            f"your own, {AS_PROGRAM}"
        )
    taken = whole[names.index(wanted)] if wanted is not None else whole[0]
    if taken.inside:
        raise InputError(
            f"{where}: expected {what}, which does not have {len(taken.inside)} keys of the file, first "
            f"{taken.inside[0]}: of a changed network, {AS_PROGRAM}"
        )
    return taken, [held.name for held in whole if held is not taken]


def remarks_on(taken: WeightSet, others: Sequence[str]) -> list[str]:
    """What a user is told of a choice."""
    told = []
    if others:
        told.append(
            f"{len(others) + 1} sets of weights fit: {taken.name} is taken; --weights takes {' or '.join(others)}"
        )
    if taken.beside:
        told.append(f"left out, beside the network: {_some(list(taken.beside))}")
    return told


def _some(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(quoted(key) for key in keys[:3]) + more


def _dictionaries(content: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[Any, Any]]]:
    """Those that hold tensors, each with the keys that lead there."""
    if not isinstance(content, Mapping) or len(path) > _DEEPEST:
        return
    if any(isinstance(value, _TENSORS) for value in content.values()):
        yield path, content
    for key, value in content.items():
        yield from _dictionaries(value, (*path, str(key)))


def _sets(
    path: tuple[str, ...], entries: Mapping[Any, Any], spellings: Sequence[Mapping[str, str]]
) -> Iterator[WeightSet]:
    keys = {old_spelling(key): key for key in entries if isinstance(key, str)}
    for spelled in spellings:
        needed = [name for name in spelled.values() if not name.endswith("num_batches_tracked")]
        probes = {needed[0], needed[-1]}
        prefixes = {key.removesuffix(probe) for probe in probes for key in keys if f".{key}".endswith(f".{probe}")}
        parts = {name.partition(".")[0] for name in spelled.values()}
        for prefix in sorted(prefixes | {""}, key=lambda prefix: (strip_wrappers(prefix) != "", len(prefix))):
            held = {
                name: keys[f"{prefix}{written}"] for name, written in spelled.items() if f"{prefix}{written}" in keys
            }
            taken = set(held.values())
            rest = [key for key in entries if key not in taken]
            inside = [
                str(key)
                for key in rest
                if str(key).startswith(prefix)
                and str(key).removeprefix(prefix).partition(".")[0] in parts
                and not str(key).endswith(_COUNTERS)
            ]
            yield WeightSet(
                wrapping=".".join(path) or "bare",
                prefix=prefix,
                entries=entries,
                keys=held,
                missing=[f"{prefix}{name}" for name in needed if f"{prefix}{name}" not in keys],
                inside=inside,
                beside=[str(key) for key in rest if str(key) not in inside],
            )


def _order(held: WeightSet) -> tuple[bool, int]:
    return bool(held.inside), WRAPPINGS.index(held.wrapping) if held.wrapping in WRAPPINGS else len(WRAPPINGS)
