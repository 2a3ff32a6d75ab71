"""Sweeps that read something from outside: which stage reads it, and ways in which it may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from smoothsweep.core.attacks.registry import save_network
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.embedders import own_weights
from smoothsweep.core.priors.registry import save_discriminator, save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.sweeps.expand import check
from tests.every_stage import imported_folder
from tests.official_gans import networks_of
from tests.pipeline import SETTINGS
from tests.tiny import tiny_sweep

SAYS = "expected what it held when this was planned"
NETWORK = {
    "resolution": 32,
    "z_dim": 8,
    "w_dim": 8,
    "mapping_layers": 2,
    "channel_base": 64,
    "channel_max": 8,
    "conv_clamp": None,
    "mbstd_group": None,
}


def pictures(folder, people, each):
    """A folder per person; every picture another grey."""
    for person in range(people):
        for number in range(each):
            path = folder / f"person {person}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (40 * person + 20, 20 * number, 90)).save(path)
    return folder


def flat(folder, count):
    folder.mkdir()
    for number in range(count):
        Image.new("L", (32, 32), 4 * number).save(folder / f"{number:03}.png")
    return folder


def prior_folder(folder):
    torch.manual_seed(0)
    config = StyleGAN2Config(**NETWORK)
    save_prior(StyleGAN2(config), folder)
    save_discriminator(StyleGAN2Discriminator(config), folder)
    assert NetworkCard(kind="stylegan2", config=config).plain["config"]["resolution"] == 32
    return folder


def perturbed(path):
    """Weights that load as well, and are others."""
    save_file({name: value * 1.01 for name, value in load_file(path).items()}, path)


def other_picture(folder):
    Image.new("RGB", (32, 32), (1, 2, 3)).save(sorted(folder.rglob("*.png"))[0])


def one_more(folder):
    shutil.copy(sorted(folder.rglob("*.png"))[0], sorted(folder.rglob("*.png"))[0].with_name("zz.png"))


def one_fewer(folder):
    sorted(folder.rglob("*.png"))[-1].unlink()


class Case:
    """A sweep that reads something from outside: which stage reads it, and ways in which it may change."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        changes, self.names, self.file, self.ways = getattr(self, f"_{kind}")(tiny_sweep())
        raw = {**tiny_sweep(), "grid": {}, "baseline": {}, "judges": {}, **changes}
        self.stages = with_ancestors(list(inversion_stages(check(raw, kind), 1)))
        self.reading = next(stage for stage in self.stages if stage.name == self.names)

    def _labelled(self, tiny):
        file = pictures(self.folder / "faces", 3, 6)
        return (
            {"data": {"kind": "labelled", "path": str(file), "size": 32}},
            "data",
            file,
            (other_picture, one_more, one_fewer),
        )

    def _unlabelled(self, tiny):
        file = flat(self.folder / "public", 30)
        return (
            {"public": {"kind": "unlabelled", "path": str(file), "size": 32}},
            "public",
            file,
            (other_picture, one_more, one_fewer),
        )

    def _embedder(self, tiny):
        file = self.folder / "weights.safetensors"
        shutil.copy(own_weights("synthetic"), file)
        judge = {"embedder": {"name": "synthetic", "weights": str(file)}}
        return {"judges": judge}, "embeddings", file, (perturbed, Path.unlink, lambda path: path.write_bytes(b"junk"))

    def _imported(self, tiny):
        torch.manual_seed(0)
        network = build_classifier("resnet_small", 4, pretrained=False, protocol="clean")
        place = imported_folder(
            self.folder / "target", network.state_dict(), architecture="resnet_small", num_classes=4
        )
        file = Path(place) / "weights.safetensors"
        return {"recipe": {"imported": place}}, "imported", file, (perturbed, Path.unlink)

    def _prior(self, tiny):
        place = prior_folder(self.folder / "prior")
        prior = {"prior": {"kind": "folder", "path": str(place)}, "public": None}
        return prior, "prior", place / "weights.safetensors", (perturbed, Path.unlink)

    def _discriminator(self, tiny):
        changes, name, file, ways = self._prior(tiny)
        attack = {"attack": {**tiny["attack"], "discriminator_weight": 0.1}}
        return {**changes, **attack}, name, file.with_name("discriminator.safetensors"), ways

    def _gan(self, tiny):
        place = self.folder / "gan"
        place.mkdir()
        for name, network in networks_of("general_gan").items():
            save_network(network, place, name)
        attack = {"kind": "gmi", "gan": {"imported": str(place)}, "steps": 2, "selected": 2}
        changes = {"attack": attack, "data": SETTINGS["data"], "public": SETTINGS["public"]}
        return (
            changes,
            "general_gan",
            place,
            (
                lambda path: perturbed(path / "generator.network.safetensors"),
                lambda path: (path / "notes.txt").write_text("beside them"),
            ),
        )


CASES = ("labelled", "unlabelled", "embedder", "imported", "prior", "discriminator", "gan")


def made_inputs(store, stage):
    for source in stage.inputs.values():
        execute_with_inputs(store, source)
