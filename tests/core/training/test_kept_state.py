"""A state that goes into a checkpoint and back is the same state; nothing that changes is left out."""

import dataclasses
import io
import math

import pytest
import torch

import tools.weights.train_generator  # noqa: F401 - their states are looked for below
from smoothsweep.core.errors import InputError
from smoothsweep.core.training.gan_pair import GanPair, KeptState, descend, fresh_pair

CONSTANT = {"config", "recipe", "settings", "protocol", "seed", "device", "number"}


def kinds(base=KeptState):
    return [kind for own in base.__subclasses__() for kind in (own, *kinds(own))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    lr: float = 0.1
    betas: tuple[float, float] = (0.0, 0.9)

    @property
    def settings(self):
        return dataclasses.asdict(self)


def pair(seed=1, **recipe):
    made = Recipe(**recipe)
    networks = fresh_pair(
        lambda: torch.nn.Linear(2, 3), lambda: torch.nn.BatchNorm1d(3), made, seed=seed, device=torch.device("cpu")
    )
    return GanPair(config=Recipe(), recipe=made, **networks)


def step(state):
    loss = state.discriminator(state.generator(torch.arange(8.0).reshape(4, 2))).square().mean()
    descend(state.generator_adam, loss)
    descend(state.discriminator_adam, state.discriminator(torch.arange(6.0).reshape(2, 3)).square().sum())
    state.step += 1
    state.losses.append([loss.item(), math.nan])


def in_a_file(state):
    """What a weights-only load finds in a file of it."""
    buffer = io.BytesIO()
    torch.save(state.checkpoint(), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def same(one, other):
    torch.testing.assert_close(one.checkpoint(), other.checkpoint(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__module__)
def test_every_field_is_kept_or_tells_one_training_from_another(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    kept = {*kind.MODULES, *kind.VALUES, *kind.ROWS}
    assert kept <= fields and fields - kept <= CONSTANT
    assert len(kept) == len(kind.MODULES) + len(kind.VALUES) + len(kind.ROWS)


def test_a_state_goes_into_a_file_and_back_to_the_bit():
    state = pair()
    for _ in range(3):
        step(state)
    kept, again = in_a_file(state), pair(seed=2)
    again.restore(kept)
    same(again, state)
    for one in (state, again):
        step(one)
    same(again, state)
    assert kept["step"] == 3 and len(kept["losses"]) == 3  # what was restored from is as it was


def test_a_state_of_another_training_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"^gan checkpoint: recipe: expected .*'lr': 0.2.*, got .*0.1") as refusal:
        pair(lr=0.2).restore(pair().checkpoint())
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=r"^gan checkpoint: config: expected .*, got None"):
        pair().restore({})
