from __future__ import annotations

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.shared.frozen import frozen


def test_modes_and_flags_come_back_even_after_an_error():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model.train()
    model[1].eval()
    model[0].bias.requires_grad_(False)
    with pytest.raises(KeyError), frozen(model, abs, None):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
        raise KeyError
    assert [module.training for module in model] == [True, False, True] and model.training
    assert [parameter.requires_grad for parameter in model.parameters()] == [True, False, True, True]


def test_a_frozen_network_still_passes_gradients_to_its_input():
    model, x = nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True)
    with frozen(model):
        model(x).sum().backward()
    assert x.grad.abs().sum() > 0 and model.weight.grad is None
