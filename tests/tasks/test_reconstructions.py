"""The reconstructions: every row is the image of the latents and the label in the same row of the attack's artifact."""

import json

import torch
import torch.nn.functional as F

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, with_class
from smoothsweep.core.attacks.kept_networks import save_network
from smoothsweep.core.attacks.training_settings import ConditionalConfig
from smoothsweep.tasks import reconstructions
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from tests.tasks.travelling import made


def synthesised(pipeline):
    """The central 28 of 32 pixels of every reconstruction, unclipped; and the labels."""
    prior, made = pipeline.tensors("loot.prior", "weights"), pipeline.tensors("attack", "reconstructions")
    images = prior["mean"] + ((made["w"][:, 0] * prior["std"]) @ prior["components"]).view(-1, 3, 32, 32)
    assert len(made["labels"].unique()) == 3 and len(torch.unique(made["w"], dim=0)) == len(made["w"])
    return images[:, :, 2:30, 2:30], made["labels"]


def resized(images, side):
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=True)


def test_clean_reconstructions_are_the_cropped_image_in_bytes_under_its_own_label(clean):
    images, labels = synthesised(clean)
    reconstructions = reconstructed_images(clean.folder("loot"), 32)
    expected = ((images.clamp(-1, 1) + 1) * 127.5).round()
    assert (
        reconstructions["images"].dtype == torch.uint8
        and (reconstructions["images"].float() - expected).abs().max() <= 1
    )
    assert ((reconstructions["images"].float() - expected) != 0).float().mean() < 0.001  # of rounding
    assert torch.equal(reconstructions["labels"], labels)
    assert clean.metrics("loot") == {"num_images": len(labels), "rows_halved": 0}


def test_paper_reconstructions_are_the_unclipped_image_at_every_judges_size_under_its_own_label(paper):
    images, labels = synthesised(paper)
    names = sorted(path.name for path in paper.folder("loot").glob("*.safetensors"))
    assert names == ["images.safetensors", "images_32.safetensors"]  # the embedder resizes by itself
    for size, side in ((None, 28), (32, 32)):
        reconstructions = reconstructed_images(paper.folder("loot"), size)
        assert reconstructions["images"].dtype == torch.float16 and torch.equal(reconstructions["labels"], labels)
        torch.testing.assert_close(reconstructions["images"].float(), resized(images, side), rtol=1e-3, atol=2e-3)


def test_reconstructions_of_a_parts_own_generator_are_what_that_generator_makes_of_the_latents(tmp_path):
    """Also where tanh stands for [0, 1]: what a judge gets is in [-1, 1], and unclipped under paper."""
    config = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2, output="unit")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        generator = ConditionalGenerator(config).eval()
        generator.rgb.weight.mul_(30)  # beyond [0, 1], where clipping shows
    (tmp_path / "gan").mkdir()
    save_network(generator, tmp_path / "gan", "generator")
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    w, labels = torch.cat([with_class(z[2 * c : 2 * c + 2], c) for c in range(3)]), torch.tensor([0, 0, 1, 1, 2, 2])
    save_tensors(tmp_path / "attack" / "reconstructions.safetensors", {"w": w, "labels": labels})
    (tmp_path / "attack" / "names.json").write_text(json.dumps(["a", "b", "c"]))
    (tmp_path / "gan" / "names.json").write_text(json.dumps(["a", "b", "c"]))
    inputs = {"plg_gan": tmp_path / "gan", "attack": tmp_path / "attack"}
    made("loot", {"protocol": "paper", "crop": None, "sizes": [0]}, inputs, tmp_path / "loot")
    with torch.no_grad():
        expected = 2 * generator(z, labels) - 1
    found = reconstructed_images(tmp_path / "loot", None)
    assert expected.min() < -1 and torch.equal(found["labels"], labels)
    torch.testing.assert_close(found["images"].float(), expected, rtol=1e-3, atol=2e-3)


def test_more_images_than_a_batch_lie_in_the_order_of_the_latents(clean, tmp_path, monkeypatch):
    monkeypatch.setattr(reconstructions, "BATCH", 4)
    stage = clean.stage("loot")
    inputs = {"prior": clean.folder("loot.prior"), "attack": clean.folder("attack")}
    made("loot", stage.config, inputs, tmp_path / "again")
    before, again = (reconstructed_images(folder, None) for folder in (clean.folder("loot"), tmp_path / "again"))
    assert len(before["labels"]) > 2 * 4 and torch.equal(again["labels"], before["labels"])
    assert (again["images"].int() - before["images"].int()).abs().max() <= 1
    assert len(torch.unique(again["images"].flatten(1), dim=0)) == len(torch.unique(before["images"].flatten(1), dim=0))
