"""The loot: every row is the image of the latents and the label in the same row of the attack's artifact."""

import torch
import torch.nn.functional as F

from tasks.loot import loot_images


def synthesised(pipeline):
    """The central 28 of 32 pixels of every reconstruction, unclipped; and the labels."""
    prior, made = pipeline.tensors("loot.prior", "weights"), pipeline.tensors("attack", "reconstructions")
    images = prior["mean"] + ((made["w"][:, 0] * prior["std"]) @ prior["components"]).view(-1, 3, 32, 32)
    assert len(made["labels"].unique()) == 3 and len(torch.unique(made["w"], dim=0)) == len(made["w"])
    return images[:, :, 2:30, 2:30], made["labels"]


def resized(images, side):
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=True)


def test_clean_loot_is_the_cropped_image_in_bytes_under_its_own_label(clean):
    images, labels = synthesised(clean)
    loot = loot_images(clean.folder("loot"), 32)
    expected = ((images.clamp(-1, 1) + 1) * 127.5).round()
    assert loot["images"].dtype == torch.uint8 and (loot["images"].float() - expected).abs().max() <= 1
    assert ((loot["images"].float() - expected) != 0).float().mean() < 0.001  # of rounding
    assert torch.equal(loot["labels"], labels)
    assert clean.metrics("loot") == {"num_images": len(labels), "rows_halved": 0}


def test_paper_loot_is_the_unclipped_image_at_every_judges_size_under_its_own_label(paper):
    images, labels = synthesised(paper)
    names = sorted(path.name for path in paper.folder("loot").glob("*.safetensors"))
    assert names == ["images.safetensors", "images_32.safetensors"]  # the embedder resizes by itself
    for size, side in ((None, 28), (32, 32)):
        loot = loot_images(paper.folder("loot"), size)
        assert loot["images"].dtype == torch.float16 and torch.equal(loot["labels"], labels)
        torch.testing.assert_close(loot["images"].float(), resized(images, side), rtol=1e-3, atol=2e-3)
