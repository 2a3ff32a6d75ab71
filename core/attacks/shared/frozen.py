"""Lend a network to an attack without leaving traces on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def frozen(*models: object) -> Iterator[None]:
    """Every nn.Module among `models` is in eval mode, its parameters without gradients; restored afterwards.

    Other callables (a plain function as target) are left alone.
    """
    modules = [module for model in models if isinstance(model, nn.Module) for module in model.modules()]
    parameters = [p for model in models if isinstance(model, nn.Module) for p in model.parameters()]
    modes = [module.training for module in modules]
    wanted = [parameter.requires_grad for parameter in parameters]
    try:
        for module in modules:
            module.training = False
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter, flag in zip(parameters, wanted, strict=True):
            parameter.requires_grad_(flag)
