"""A device that is not the CPU, with numbers: for tests without a GPU that tensors are made where they are used.

A tensor of it says that it is on "meta" and holds its numbers on the CPU. An operation that mixes it with a tensor of
the CPU raises, as on a card, where torch allows two things: a tensor without dimensions, and one that is an index. A
random draw there takes no generator of the CPU. FakeTensor, which is alike, stops wherever a value is read.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.optim.optimizer import _get_fused_kernels_supported_devices
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

ELSEWHERE = torch.device("meta")
"""The one device beside the CPU whose backward pass asks for no card."""

aten = torch.ops.aten
MOVES = {aten.copy_.default, aten._to_copy.default}
FROM_NUMBERS = {torch.tensor, torch.as_tensor, torch.asarray}
INDEXES = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}


class ElsewhereTensor(Tensor):
    """A tensor that says it is elsewhere; `held` has its numbers, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> ElsewhereTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=ELSEWHERE,
            requires_grad=held.requires_grad,
        )
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"ElsewhereTensor({self.held!r})"

    @property
    def is_meta(self) -> bool:
        """It has numbers, which load_state_dict and others doubt of what is on meta."""
        return False

    @property
    def data(self) -> Tensor:
        """The numbers of any tensor; to set it changes them too."""
        return Tensor.data.__get__(self)

    @data.setter
    def data(self, other: ElsewhereTensor) -> None:
        Tensor.data.__set__(self, other)
        self.held = other.held

    def tolist(self) -> Any:
        return self.cpu().tolist()  # which torch refuses of what is no plain tensor

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _there(func, args, dict(kwargs or {}))


_there_drawn: list[torch.Generator] = []
"""The generators that are elsewhere. What an operation is given is another object of the same generator."""


class _Generator(torch.Generator):
    """A generator that is elsewhere if it was asked for there."""

    def __new__(cls, device: torch.device | str = "cpu") -> _Generator:
        made = super().__new__(cls, "cpu")
        if torch.device(device) == ELSEWHERE:
            _there_drawn.append(made)
        return made

    @property
    def device(self) -> torch.device:
        return ELSEWHERE if _is_there(self) else torch.device("cpu")


def _is_there(generator: torch.Generator) -> bool:
    return generator._cdata in {one._cdata for one in _there_drawn}


class _Elsewhere(TorchDispatchMode):
    """What is asked to be made elsewhere is."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _there(func, args, dict(kwargs or {}))


class _FromNumbers(TorchFunctionMode):
    """torch.tensor(numbers, device=ELSEWHERE) by way of the CPU, as on a card; by itself it drops the numbers."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func is Tensor.new_tensor and isinstance(args[0], ElsewhereTensor):
            given = {"dtype": args[0].dtype, "device": ELSEWHERE, **given}
            func, args = torch.tensor, args[1:]
        if func not in FROM_NUMBERS or given.get("device") is None or torch.device(given["device"]) != ELSEWHERE:
            return func(*args, **given)
        return func(*args, **{**given, "device": "cpu"}).to(ELSEWHERE)


@contextmanager
def elsewhere() -> Generator[torch.device]:
    """Within it, and within this thread, `ELSEWHERE` is a device that computes, always in the precision of its tensors.

    torch.autocast does nothing there: it knows no such device.
    """
    autocast = torch.autocast

    def known(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return nullcontext() if device_type == ELSEWHERE.type else autocast(device_type, *args, **kwargs)

    fused = [*_get_fused_kernels_supported_devices(), ELSEWHERE.type]
    with (
        patch.object(torch, "autocast", known),
        patch.object(torch, "Generator", _Generator),
        patch("torch.optim.optimizer._get_fused_kernels_supported_devices", lambda: fused),
        _Elsewhere(),
        _FromNumbers(),
    ):
        try:
            yield ELSEWHERE
        finally:
            _there_drawn.clear()


def _there(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    leaves, _ = tree_flatten((args, kwargs))
    some = any(isinstance(leaf, ElsewhereTensor) for leaf in leaves)
    asked = kwargs.get("device")
    to = torch.device(asked) == ELSEWHERE if asked is not None else some
    _check_generators(func, leaves, to)
    if some or to:
        _check_tensors(func, args, leaves)
    if not some and not to:
        return func(*args, **kwargs)
    held_args, held_kwargs = tree_map_only(ElsewhereTensor, lambda one: one.held, (args, kwargs))
    if asked is not None:
        held_kwargs["device"] = torch.device("cpu")
        if func is aten._to_copy.default and to != some:
            held_kwargs["non_blocking"] = False
    found = func(*held_args, **held_kwargs)
    if func is aten.copy_.default:
        return args[0]
    if to:
        found = tree_map_only(Tensor, ElsewhereTensor, found)
        return return_and_correct_aliasing(func, args, kwargs, found)
    return found


def _check_generators(func: Any, leaves: Sequence[Any], to: bool) -> None:
    """Raise RuntimeError where the draws are made on another device than the numbers."""
    if any(_is_there(leaf) != to for leaf in leaves if isinstance(leaf, torch._C.Generator)):
        raise RuntimeError(f"{func}: expected a generator of the device of its numbers, got one of another")


def _check_tensors(func: Any, args: tuple[Any, ...], leaves: Sequence[Any]) -> None:
    """Raise RuntimeError where a card would refuse tensors of two devices."""
    if func in MOVES:
        return
    if func in INDEXES and isinstance(args[0], ElsewhereTensor):
        leaves = tree_flatten([args[0], *args[2:]])[0]
    others = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, ElsewhereTensor)]
    if any(other.dim() for other in others):
        raise RuntimeError(f"{func}: expected all tensors on one device, found at least two, {ELSEWHERE} and cpu")
