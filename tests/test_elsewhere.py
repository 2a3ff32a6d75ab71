"""The device of tests/elsewhere.py refuses what a card refuses, allows what it allows, and computes as the CPU."""

import copy

import pytest
import torch
from torch import nn

from tests.elsewhere import ELSEWHERE, ElsewhereTensor, elsewhere


@pytest.fixture
def there():
    with elsewhere() as device:
        yield device


REFUSED = {
    "two devices": lambda there: torch.ones(3, device=there) + torch.ones(3),
    "in place": lambda there: torch.ones(3).add_(torch.ones(3, device=there)),
    "indexed by one that lies there": lambda there: torch.ones(3)[torch.tensor([0, 1], device=there)],
    "values from here": lambda there: torch.ones(3, device=there).index_put_((torch.tensor([0, 1]),), torch.ones(2)),
    "a generator from here": lambda there: torch.rand(3, device=there, generator=torch.Generator()),
    "a generator from there": lambda there: torch.rand(3, generator=torch.Generator(there)),
    "numpy": lambda there: torch.ones(3, device=there).numpy(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_card_refuses_it_refuses(name, there):
    with pytest.raises(RuntimeError, match=r"expected|numpy"):
        REFUSED[name](there)


def test_what_a_card_allows_it_allows(there):
    x = torch.tensor([1.0, 2.0, 3.0], device=there)
    assert isinstance(x, ElsewhereTensor) and x.device == ELSEWHERE
    assert (x + torch.tensor(1.0)).tolist() == [2.0, 3.0, 4.0]
    assert x[torch.tensor([0, 2])].tolist() == [1.0, 3.0] and x[x > 1].sum().item() == 5.0
    assert x.new_tensor([5.0]).tolist() == [5.0] and torch.as_tensor([2], device=there).tolist() == [2]
    assert type(x.cpu()) is torch.Tensor and x.cpu().numpy().tolist() == [1.0, 2.0, 3.0]
    here = torch.zeros(3)
    here.copy_(x)
    assert here.tolist() == [1.0, 2.0, 3.0]
    assert torch.rand(2, device=there, generator=torch.Generator(there).manual_seed(0)).device == ELSEWHERE


def trained(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 2))
    model = copy.deepcopy(model.to(device)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.rand(8, 2, 4, 4).to(device)).square().mean().backward()
        optimizer.step()
    again = copy.deepcopy(model)
    again.load_state_dict({name: tensor.cpu() for name, tensor in model.state_dict().items()})
    return {name: tensor.cpu() for name, tensor in again.state_dict().items()}


def test_a_training_there_has_the_numbers_of_one_here(there):
    for (name, here), found in zip(trained("cpu").items(), trained(there).values(), strict=True):
        assert torch.equal(here, found), name
