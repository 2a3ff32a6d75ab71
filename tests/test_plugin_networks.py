"""An attack from another package whose part leaves a network of a kind of its own, which draws its images."""

import json

import pytest
import yaml
from tiny import tiny_sweep

from tests.test_plugins import fake, ours

CODE = '''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from smoothsweep.core.attacks.shared.base import Attack, MadePart, Part, PartKind, Reconstructions
from smoothsweep.core.cards import NetworkKind


@dataclass(frozen=True, kw_only=True)
class ShadesConfig:
    """Settings of the network.

    Attributes:
        resolution: Side of its images in pixels.
    """

    resolution: int


@dataclass(frozen=True, kw_only=True)
class Shades(Attack):
    """Mean public image, darker or brighter."""

    title: ClassVar[str] = "shades of the mean image"
    own_parts: ClassVar[Mapping[str, PartKind]] = {
        "own_shades": PartKind(
            version=1,
            make="shades_networks:make",
            trains=True,
            told_protocol=False,
            networks={"shades": NetworkKind(config=ShadesConfig, network="shades_networks:ShadesNetwork")},
        )
    }

    @property
    def parts(self):
        return (Part(name="own_shades", needs=("public",), settings={}),)

    @property
    def needs(self):
        return ("own_shades",)

    @property
    def decoder(self):
        return "own_shades"

    def invert(self, view, inputs, target_class, *, seed):
        import torch

        assert type(inputs.networks["own_shades"]["generator"]).__name__ == "ShadesNetwork"
        return Reconstructions(w=torch.linspace(0.5, 1.5, self.selected).reshape(-1, 1, 1))
'''
NETWORKS = """
import torch
from shades import ShadesConfig
from smoothsweep.core.attacks.shared.base import MadePart
from torch import nn


class ShadesNetwork(nn.Module):
    num_ws, w_dim, z_dim = 1, 1, 1

    def __init__(self, config):
        super().__init__()
        self.config, self.resolution = config, config.resolution
        self.mean = nn.Parameter(torch.zeros(3, config.resolution, config.resolution))

    def synthesize(self, w):
        return w[:, :, :, None] * self.mean


def make(settings, inputs, view, part_context):
    network = ShadesNetwork(ShadesConfig(resolution=inputs.public.shape[-1]))
    network.mean.data = inputs.public.float().mean(0) / 127.5 - 1
    return MadePart(tensors={}, networks={"generator": network.eval().requires_grad_(False)})
"""
RUN = """
import sys
from pathlib import Path
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
store = open_store(sys.argv[2])
for trial in trials_of(load_sweep(Path(sys.argv[1]))):
    for stage in trial.stages:
        execute_with_inputs(store, stage)
"""
TAKEN = CODE.replace('"shades": NetworkKind', '"critic": NetworkKind')


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "shades.yaml"
    settings = tiny_sweep(
        name="shades", attack={"kind": "shades", "selected": 3}, prior=None, judges={}, grid={}, baseline={}
    )
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return path


def test_its_network_is_kept_read_and_draws_the_reconstructions(tmp_path, sweep):
    place = fake(tmp_path / "site", "shading", "1.0", {"attacks": "shades = shades:Shades"})
    (tmp_path / "site" / "shades.py").write_text(CODE)
    (tmp_path / "site" / "shades_networks.py").write_text(NETWORKS)
    done = ours(["-c", RUN, str(sweep), str(tmp_path / "store")], [place])
    assert done.returncode == 0, done.stderr
    [card] = (tmp_path / "store").glob("own_shades/*/generator.network.json")
    assert json.loads(card.read_text())["kind"] == "shades"
    assert list((tmp_path / "store").glob("loot/*/manifest.json"))


def test_a_kind_of_network_of_ours_is_not_its_own(tmp_path, sweep):
    place = fake(tmp_path / "site", "shading", "1.0", {"attacks": "shades = shades:Shades"})
    (tmp_path / "site" / "shades.py").write_text(TAKEN)
    refused = ours(["-m", "smoothsweep", "plan", str(sweep), "--store", str(tmp_path / "store")], [place])
    assert refused.returncode == 2
    assert "expected names of networks that no other attack has, got critic" in refused.stderr.splitlines()[-1]
