"""Checkpoints of GANs in the layouts of the official code, of small networks made here."""

import torch

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, Critic, MinibatchDiscriminator, PlainGenerator
from smoothsweep.core.attacks.training_settings import ConditionalConfig, PlainGanConfig
from tests.plg import official

SIZE = {"resolution": 32, "z_dim": 5, "width": 2}


def networks_of(part, *, classes=3, **changes):
    """The networks of a part, with weights that are not those of another seed."""
    torch.manual_seed(8)
    size = SIZE | changes
    if part == "plg_gan":
        return {"generator": ConditionalGenerator(ConditionalConfig(classes=classes, output="unit", **size))}
    plain = PlainGanConfig(**size)
    if part == "general_gan":
        return {"generator": PlainGenerator(plain), "discriminator": Critic(plain)}
    judge = MinibatchDiscriminator(PlainGanConfig(**size, classes=classes))
    return {"generator": PlainGenerator(plain), "discriminator": judge}


def official_file(network, path, change=lambda state: None, prefix="module."):
    """As the official scripts save it: `state_dict` of DataParallel, or PLG-MI's `model` beside its optimiser."""
    state = network.state_dict()
    if isinstance(network, ConditionalGenerator):
        state = {official(key, "G"): value for key, value in state.items()}
        change(state)
        torch.save({"model": state, "opt": torch.optim.Adam(network.parameters()).state_dict()}, path)
        return path
    state = {f"{prefix}{key}": value for key, value in state.items()}
    change(state)
    torch.save({"state_dict": state}, path)
    return path


def official_files(part, folder, **changes):
    """Name of each network of a part -> its official file."""
    made = networks_of(part, **changes)
    ending = "pth.tar" if part == "plg_gan" else "tar"
    return {name: official_file(network, folder / f"{part}_{name}.{ending}") for name, network in made.items()}
