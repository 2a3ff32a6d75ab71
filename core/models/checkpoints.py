"""Published weights: find them in the local folders, read them without unpickling code, fit their keys."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import WEIGHT_FILES, published_file, wrong_content
from smoothsweep.core.readers.files import MIB
from smoothsweep.core.readers.tensors import (
    AS_PROGRAM,
    StoredTensor,
    UnreadableTensors,
    check_bytes,
    is_safetensors,
    read_header,
    read_isolated,
    why_not_weights,
)
from smoothsweep.core.text import few, quoted

# Wrappers that training scripts leave in front of the keys: DataParallel, Opacus, the publication's own class,
# torch.compile.
_WRAPPER = re.compile(r"^(?:(?:module|_module|model|_orig_mod)\.)+")
# torchvision's DenseNet files still spell "norm.1", its modules "norm1".
_OLD_DENSE_LAYER = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
_NUMBERS = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64)
NO_KEYS: Mapping[str, str] = MappingProxyType({})
_CHECKPOINT = "smoothsweep.core.readers.tensors:open_checkpoint"
MOST_STATE = 8192 * MIB
"""Bytes of the weights of one network; the largest that is known here has 5 GB."""

SMALL_STATE = 1024 * MIB
"""Bytes of the weights of a face embedder or of a GAN of low resolution."""

_SPARE = 64 * MIB


def read_pretrained_state(architecture: str) -> dict[str, Tensor]:
    """The ImageNet state dictionary of an architecture from a file in `weight_folders`; nothing is downloaded.

    Raises InputError if there are no such weights, the file is nowhere, or its content is not the published one.
    """
    if architecture not in WEIGHT_FILES:
        raise InputError(f"pretrained: expected an architecture with ImageNet weights, got {architecture}")
    path, where = published_file(architecture, "pretrained"), f"pretrained {architecture}"
    return plain_tensors(read_tensor_file(path, where, published=True), f"{where}: {path}")


def read_tensor_file(path: Path, where: str, *, published: bool = False) -> Any:
    """What `torch.save` wrote: plain containers, numbers, texts, and tensors that `plain_tensors` brings into memory;
    or the tensors of a safetensors file by name.

    published: its content was compared with the published one; any other file of torch's is read in the isolated
    process (`core.readers.tensors`). Raises InputError, one line beginning with `where`: no such file, none that torch
    or safetensors wrote, cut short, or holding anything but tensors, numbers, text and containers of them.
    """
    if not path.is_file():
        raise InputError(f"{where}: no file {path}")
    if reason := wrong_content(path):
        raise InputError(f"{where}: {path} {reason}")
    try:
        if is_safetensors(path):
            return read_header(path)
        if published:
            try:
                return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
            except Exception as error:  # whatever torch raises of a file that a part of a digest stands for
                raise InputError(f"{where}: {path}{why_not_weights(error)}") from None
        what = "a file of tensors as torch.save writes it"
        return read_isolated(path, _CHECKPOINT, where=f"{where}: {path}", what=what)
    except UnreadableTensors as error:
        damaged = f"{where}: {path} is no readable weight file: damaged, cut short, or of another format"
        raise InputError(f"{damaged}: {error}") from None
    except OSError as error:
        raise InputError(f"{where}: {path} cannot be read: {error.strerror}") from None


def plain_tensors(state: Any, where: str, *, most_bytes: int = MOST_STATE) -> dict[str, Tensor]:
    """`state` as plain tensors in memory, if it maps names to dense ones of real numbers on the CPU; else InputError.

    most_bytes: of all of them; of more than that nothing is brought into memory, which is an InputError too.
    """
    check_tensors(state, where)
    check_bytes(
        {key: value for key, value in state.items() if isinstance(value, StoredTensor)}, where, most_bytes=most_bytes
    )
    return {key: value.fetch() if isinstance(value, StoredTensor) else value.detach() for key, value in state.items()}


def most_of(network: nn.Module) -> int:
    """Bytes that a file's weights of this network may take: in float64, and some that do not belong to it, which are
    then refused by their names."""
    return sum(value.numel() * 8 for value in network.state_dict().values()) + _SPARE


def check_tensors(state: Any, where: str, keys: Mapping[str, str] = NO_KEYS) -> None:
    """Raise InputError unless `state` maps names to dense tensors of real numbers, in a file or on the CPU.

    keys: what the file calls a name, for messages, where it is called otherwise.
    """
    if not isinstance(state, Mapping) or not state:
        raise InputError(f"{where}: expected a dictionary of tensors, got {type(state).__name__}")
    for key, value in state.items():
        if not isinstance(key, str) or not isinstance(value, Tensor | StoredTensor):
            raise InputError(f"{where}: {quoted(keys.get(key, key))}: expected a tensor, got {type(value).__name__}")
        dense = isinstance(value, StoredTensor) or (value.layout == torch.strided and value.device.type == "cpu")
        if not dense or value.dtype not in _NUMBERS:
            kind = value.dtype or "numbers of 8 bits or fewer, or a tensor that is sparse or quantized"
            got = f"{kind}" if dense else f"{kind}, {value.layout}, {value.device}"
            raise InputError(f"{where}: {keys.get(key, key)}: expected a dense tensor of real numbers, got {got}")


def strip_wrappers(key: str) -> str:
    """A key without the prefixes of DataParallel, of torch.compile and of the published trainer."""
    return _WRAPPER.sub("", key)


def old_spelling(key: str) -> str:
    """A key of torchvision's old DenseNet files as its modules are named now; any other key as it is."""
    return _OLD_DENSE_LAYER.sub(r"\1\2", key)


def load_published_state(
    classifier: nn.Module, state: Mapping[str, Tensor], head: str, *, where: str = "weights"
) -> None:
    """Load weights saved under torchvision's names into a `Classifier` (strictly).

    `head` is the name of the classification layer in torchvision's network ("fc"). Prefixes are dropped
    (`strip_wrappers`). Raises InputError beginning with `where` and naming the first key that does not fit or is
    not finite; the classifier is then as it was.
    """
    renamed = {}
    for key, value in state.items():
        name = old_spelling(strip_wrappers(key))
        is_head = head and name.startswith(head + ".")
        renamed["head" + name[len(head) :] if is_head else "backbone." + name] = value
    classifier.load_state_dict(fitting_state(renamed, classifier.state_dict(), where))


def load_published_trunk(classifier: nn.Module, state: Mapping[str, Tensor], published: str, own: str) -> None:
    """Load one part of a network of torchvision (strictly), such as its `features`, into the backbone's part `own`.

    What else the file holds is left out. Raises InputError as `load_published_state` does.
    """
    part = classifier.get_submodule(f"backbone.{own}")
    kept = {key.removeprefix(f"{published}."): value for key, value in state.items() if key.startswith(f"{published}.")}
    part.load_state_dict(fitting_state(kept, part.state_dict(), f"weights {published}"))


def fitting_state(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str, keys: Mapping[str, str] = NO_KEYS
) -> dict[str, Tensor]:
    """`state` if it has the names and shapes of `expected`, and finite numbers only; else InputError.

    keys: what the file calls a name, for messages, where it is called otherwise.
    BatchNorm's `num_batches_tracked`, which old files lack and evaluation ignores, is 0 where it is missing.
    """
    absent = [key for key in expected if key not in state]
    missing = [key for key in absent if not key.endswith("num_batches_tracked")]
    unknown = [key for key in state if key not in expected]
    for kind, names in (("missing", missing), ("unknown", unknown)):
        if names:
            raise InputError(f"{where}: {len(names)} {kind} keys, first {names[0]}")
    for key, value in state.items():
        if value.shape != expected[key].shape:
            raise InputError(
                f"{where}: {keys.get(key, key)}: expected shape {tuple(expected[key].shape)}, got {tuple(value.shape)}"
            )
        if not value.to(expected[key].dtype).isfinite().all():
            raise InputError(f"{where}: {keys.get(key, key)}: expected finite numbers, got NaN or infinity")
    return {**state, **{key: torch.zeros((), dtype=torch.long) for key in absent}}


# Which of a file's tensors are a network's: under any prefix, in any dictionary, beside what training left there.


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
        keys = [quoted(str(key)) for key in nearest.entries]
        raise InputError(
            f"{where}: expected {what}, of which {len(nearest.missing)} tensors are missing, first "
            f"{nearest.missing[0]}; the file has {few(keys, 3)}. Of another architecture, name that one; of a class of "
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
        told.append(f"left out, beside the network: {few([quoted(key) for key in taken.beside], 3)}")
    return told


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
