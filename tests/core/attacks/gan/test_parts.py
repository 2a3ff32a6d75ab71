"""The low-resolution GANs as parts: what they are trained on, and under whose name they refuse their settings."""

import pytest
import torch

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.gan.config import GanTraining, PlainGanConfig
from smoothsweep.core.attacks.gan.draws import Draws
from smoothsweep.core.attacks.gan.losses import InversionSpecific, Wasserstein
from smoothsweep.core.attacks.gan.networks import Critic, MinibatchDiscriminator
from smoothsweep.core.attacks.gan.training import new_pair, train_pair
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.transforms import resize_uint8
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from tests.nonsense import nonsense_for

CPU, CLASSES = torch.device("cpu"), 3
RECIPE = {"width": 2, "epochs": 1, "batch_size": 4, "critic_steps": 2, "z_dim": 4, "seed": 5}
SETTINGS = {
    "general_gan": (GanTraining, "gan"),
    "specific_gan": (GanTraining, "gan"),
    "students": (Distillation, "students"),
}


class Silent:
    """A context that keeps nothing."""

    def last_state(self):
        return None

    def keep_state(self, state):
        pass

    def progress(self, fraction, text):
        pass


@pytest.fixture(scope="module")
def public():
    """Larger than the networks, to which it is reduced."""
    random = torch.Generator().manual_seed(2)
    return torch.randint(0, 256, (8, 3, 40, 40), generator=random, dtype=torch.uint8)


def looked():
    """A target by a formula, seen with its gradients."""
    target = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return view_of(target, "gradients", num_classes=CLASSES, image_size=32, execution=Execution(ExecutionConfig(), CPU))


def by_hand(kind, public, recipe):
    """The pair after its training, step by step as the parts' documentation has it."""
    view, critic = looked(), kind == "general_gan"
    config = PlainGanConfig(resolution=32, z_dim=4, width=2, classes=0 if critic else CLASSES)
    pair = new_pair(config, recipe, Critic if critic else MinibatchDiscriminator, CPU)
    if critic:
        objective = Wasserstein(critic=pair.discriminator)
    else:
        objective = InversionSpecific(
            discriminator=pair.discriminator,
            protocol="clean",
            soft_labels=lambda images, step: view.scores(2 * images - 1),
        )
    draws = Draws(resize_uint8(public, 32), recipe, streams=1 if critic else 3, device=CPU)
    train_pair(pair, draws, objective, steps=2)
    return pair


@pytest.mark.parametrize("kind", ["general_gan", "specific_gan"])
def test_a_pair_is_trained_on_the_public_images_at_the_targets_size(kind, public):
    protocol = None if kind == "general_gan" else "clean"
    made = PARTS[kind].function()(RECIPE, AttackInputs(protocol=protocol, public=public), looked(), Silent())
    expected = by_hand(kind, public, GanTraining(**RECIPE))
    for name, network in made.networks.items():
        state = getattr(expected, name).state_dict()
        assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
    assert set(made.networks) == {"generator", "discriminator"}
    assert torch.equal(made.tensors["losses"].nan_to_num(), torch.tensor(expected.losses).nan_to_num())


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_part_refuses_its_settings_under_the_keys_of_the_sweep_file(kind, public):
    (declared, key), view = SETTINGS[kind], looked()
    for field, value in dict(nonsense_for(declared)).items():
        with pytest.raises(InputError) as refusal:
            PARTS[kind].function()({field: value}, AttackInputs(protocol="clean", public=public), view, Silent())
        assert str(refusal.value).startswith(f"attack.{key}.{field}: expected "), (field, value, str(refusal.value))
