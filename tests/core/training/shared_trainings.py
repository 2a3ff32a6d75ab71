"""The trainings of attacks' own networks, small, by one process or by a team."""

import re

import torch
from torch import nn

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.distillation.students import PublicBatches, StudentState, distil
from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.config import GanTraining, PlainGanConfig
from smoothsweep.core.attacks.gan.draws import Draws
from smoothsweep.core.attacks.gan.losses import Wasserstein
from smoothsweep.core.attacks.gan.networks import Critic
from smoothsweep.core.attacks.gan.training import new_pair, train_pair
from smoothsweep.core.attacks.plg.config import ConditionalTraining
from smoothsweep.core.attacks.plg.draws import Draws as LabelledDraws
from smoothsweep.core.attacks.plg.training import new_state, train
from smoothsweep.core.models.classifiers import build_classifier

CPU = torch.device("cpu")


def public(count, side):
    numbers = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (count, 3, side, side), generator=numbers, dtype=torch.uint8)


def resting(network, still):
    """With `still` its batch norms normalise by what they have kept, so that rows do not depend on each other."""
    for module in network.modules():
        if still and isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def kept(losses, **networks):
    weights = {
        f"{name}.{key}": value.detach().clone()
        for name, network in networks.items()
        for key, value in network.named_parameters()
    }
    return {**weights, "losses": torch.tensor(losses, dtype=torch.float64)}


def general(team, still):
    recipe = GanTraining(width=4, epochs=2, batch_size=8, critic_steps=2, z_dim=5, lr=1e-3)
    state = new_pair(PlainGanConfig(resolution=32, z_dim=5, width=4), recipe, Critic, CPU, team)
    resting(state.generator, still)
    draws = Draws(public(24, 32), recipe, streams=1, device=CPU)
    train_pair(state, draws, Wasserstein(critic=state.discriminator), steps=6, team=team)
    found = kept(state.losses, generator=state.generator, discriminator=state.discriminator)
    # What an instance norm takes away again: the gradient of a bias before one is nothing but rounding.
    return {key: value for key, value in found.items() if not re.search(r"\.ls\.\d\.0\.bias", key)}


def conditional(team, still):
    recipe = ConditionalTraining(steps=3, critic_steps=2, batch_size=8, width=2, z_dim=4, lr=1e-3)
    config = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2)
    state = new_state(config, recipe, "clean", CPU, team)
    resting(state.generator, still)
    draws = LabelledDraws(public(12, 16), torch.arange(12).reshape(3, 4), config, recipe, "clean")
    train(state, draws, lambda images: images.mean((2, 3)), team=team)
    moved = [value for key, value in state.discriminator.state_dict().items() if key.endswith("weight_u")]
    found = kept(state.losses, generator=state.generator, discriminator=state.discriminator)
    return {**found, "spectral": torch.cat([value.flatten() for value in moved])}


def student(team, still):
    recipe = Distillation(architectures=("resnet_small",), pretrained=False, epochs=2, batch_size=8)
    state = StudentState.fresh(team.join(build_classifier("resnet_small", 3, protocol="clean", seed=1)), recipe)
    resting(state.network, still)
    batches = PublicBatches(public(24, 32), recipe, CPU)
    distil(state, batches.at, lambda images: images.mean((2, 3)), recipe, steps=6, per_epoch=3, team=team)
    return kept(state.losses, student=state.network)


TRAININGS = {"general_gan": general, "plg_gan": conditional, "students": student}
