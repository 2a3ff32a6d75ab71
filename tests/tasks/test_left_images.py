"""An attack that leaves images itself: they are the reconstructions however classes are cut, none is decoded again."""

import shutil
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pytest
import torch

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import Attack, Reconstructions
from smoothsweep.core.data.images import to_uint8
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.tasks.attack import collect_classes, invert_classes
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from tests.tasks.travelling import made

POOL = {"size": 12, "seed": 11, "truncation_psi": 0.7, "truncation_cutoff": None, "crop": 28}
COMMON = {"image_size": 32, "protocol": "clean"}
ATTACK = {
    **COMMON,
    "kind": "if_gmi",
    "pool": POOL,
    "candidates": 4,
    "stage_steps": [2, 2],
    "lr": 0.05,
    "selected": 3,
    "selection_repeats": 2,
    "classes": "all",
    "seed": [9, 1],
}
ROWS = 3 * 3  # classes and images of each


@pytest.fixture(scope="module")
def left(clean, tmp_path_factory):
    """The artifact of an attack on feature maps, and its inputs."""
    folder = tmp_path_factory.mktemp("left")
    card = StyleGAN2Config(resolution=32, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)
    generator = StyleGAN2(card, seed=1)
    generator.synthesis.b32.torgb.weight.data.mul_(30)  # beyond [-1, 1], where clipping shows
    save_prior(generator, folder / "prior")
    inputs = {"prior": folder / "prior", "target": clean.folder("target")}
    made("pool", {**COMMON, "part": "pool", "settings": POOL}, inputs, folder / "pool")
    given = {**inputs, "pool": folder / "pool"}
    made("candidates", {**COMMON, "part": "candidates", "settings": {}}, given, folder / "candidates")
    inputs |= {"pool": folder / "pool", "candidates": folder / "candidates"}
    metrics = made("attack", ATTACK, inputs, folder / "attack")
    (folder / "attack" / "names.json").write_text((clean.folder("target") / "names.json").read_text())
    return folder / "attack", inputs, metrics


def test_images_lie_beside_the_latents_in_their_order(left):
    folder, _, metrics = left
    found, kept = load_tensors(folder / "reconstructions.safetensors"), load_tensors(folder / "images.safetensors")
    assert kept["images"].shape == (ROWS, 3, 28, 28) and kept["images"].dtype == torch.float16
    assert torch.equal(kept["labels"], found["labels"]) and found["labels"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert "images" not in found and found["w"].shape == (ROWS, 1, 8)
    assert load_tensors(folder / "curves.safetensors")["loss"].shape == (3, 4)
    rows = pd.read_parquet(folder / "rows.parquet")
    assert rows["queries"].tolist() == [4 * (2 + 2 + 2 * 2)] * 3 and metrics["queries"] == 32
    assert set(rows["chosen_stage"]) <= {0.0, 1.0}
    assert metrics["chosen_stage"] == pytest.approx(rows["chosen_stage"].mean())


def test_the_reconstructions_are_what_the_attack_has_left(left, tmp_path):
    folder, _, _ = left
    images = load_tensors(folder / "images.safetensors")["images"].float()
    assert images.abs().max() > 1
    made("loot", {"protocol": "clean", "crop": 28}, {"attack": folder}, tmp_path / "clean")
    found = reconstructed_images(tmp_path / "clean", None)
    assert torch.equal(found["images"], to_uint8(images)) and found["labels"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    made("loot", {"protocol": "paper", "crop": 28, "sizes": [0, 20]}, {"attack": folder}, tmp_path / "paper")
    assert torch.equal(reconstructed_images(tmp_path / "paper", None)["images"].float(), images)
    assert reconstructed_images(tmp_path / "paper", 20)["images"].shape == (ROWS, 3, 20, 20)


def test_it_is_the_same_from_one_task_and_from_several_of_which_one_was_lost(left, tmp_path):
    folder, inputs, _ = left
    context = TaskContext(work=tmp_path / "work")
    for classes in ([2], [0]):  # the task of class 1 never came back
        invert_classes(ATTACK, inputs, classes, context)
    (tmp_path / "out").mkdir()
    collect_classes(ATTACK, inputs, tmp_path / "out", context)
    for name in ("images", "reconstructions", "curves"):
        whole, cut = (load_tensors(place / f"{name}.safetensors") for place in (folder, tmp_path / "out"))
        assert whole.keys() == cut.keys() and all(torch.equal(whole[key], cut[key]) for key in whole)
    shutil.rmtree(tmp_path / "work")


@dataclass(frozen=True, kw_only=True)
class Shades(Attack):
    """An attack on pixels: no prior, no latents, images alone, darker from one class to the next."""

    leaves_images: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()

    def invert(self, view, inputs, target_class, *, seed):
        shade = -target_class / 4 - torch.arange(self.selected) / 64
        return Reconstructions(images=shade.half()[:, None, None, None].expand(-1, 3, 16, 16).clone())


@pytest.fixture
def shades(clean, monkeypatch, tmp_path):
    """The artifact of an attack that searches in no latents."""
    monkeypatch.setitem(ATTACKS, "shades", Shades)
    config = {**COMMON, "kind": "shades", "selected": 2, "classes": [0, 2], "seed": [1]}
    made("attack", config, {"target": clean.folder("target")}, tmp_path / "attack")
    (tmp_path / "attack" / "names.json").write_text((clean.folder("target") / "names.json").read_text())
    return tmp_path / "attack"


def test_an_attack_without_latents_leaves_images_alone(shades, tmp_path):
    found = load_tensors(shades / "reconstructions.safetensors")
    assert found.keys() == {"labels"} and found["labels"].tolist() == [0, 0, 2, 2]
    made("loot", {"protocol": "clean"}, {"attack": shades}, tmp_path / "loot")
    images = reconstructed_images(tmp_path / "loot", None)
    assert images["labels"].tolist() == [0, 0, 2, 2] and images["images"].shape == (4, 3, 16, 16)
    expected = [round((1 + value) * 127.5) for value in (0, -1 / 64, -2 / 4, -2 / 4 - 1 / 64)]
    assert images["images"][:, 0, 0, 0].tolist() == expected
