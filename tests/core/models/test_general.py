"""The general judge's features: torchvision's own network and transforms, its published names, strictly."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torchvision.models import VisionTransformer, ViT_B_16_Weights, vit_b_16

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import PIXELS, SwagViT, load_embedder, swag_state

SMALL = {"layers": 2, "heads": 2, "width": 8, "hidden": 12}


@pytest.fixture(scope="module")
def published():
    """A network as torchvision publishes it, ImageNet head and all."""
    torch.manual_seed(3)
    network = VisionTransformer(image_size=PIXELS, patch_size=16, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=12)
    nn.init.normal_(network.heads.head.weight)
    return network.eval()


def test_features_are_what_torchvisions_own_network_hands_its_head(published):
    judge = SwagViT(**SMALL)
    judge.load_state_dict(swag_state(published.state_dict()))
    seen = []
    hook = published.heads.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    pixels = torch.randint(
        0, 256, (2, 3, PIXELS, PIXELS), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )
    published(ViT_B_16_Weights.IMAGENET1K_SWAG_LINEAR_V1.transforms()(pixels))
    hook.remove()
    features = judge.eval()(pixels.float() / 127.5 - 1)
    torch.testing.assert_close(features, nn.functional.normalize(seen[0]), atol=1e-5, rtol=0)
    small = judge(torch.zeros(3, 3, 64, 64))
    assert small.shape == (3, 8) and torch.allclose(small.norm(dim=1), torch.ones(3))


def test_the_names_are_those_of_the_published_network():
    with torch.device("meta"):
        theirs, ours = vit_b_16().state_dict(), SwagViT().state_dict()
    assert {name: value.shape for name, value in swag_state(theirs).items()} == {
        name: value.shape for name, value in ours.items()
    }


def test_the_published_file_is_read_and_what_is_none_is_refused(published, tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "swag_vit_b_16", replace(KINDS["swag_vit_b_16"], sizes=SMALL))
    path = tmp_path / "vit_b_16_lc_swag-4e70ced5.pth"
    torch.save(published.state_dict(), path)
    judge = load_embedder("swag_vit_b_16", path)
    assert not judge.training and not any(p.requires_grad for p in judge.parameters())
    assert torch.equal(judge.network.class_token, published.class_token)
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"^embedder swag_vit_b_16: .*missing keys, first network\."):
        load_embedder("swag_vit_b_16", path)
