"""What the published FIDs show their networks, and of which images: by hand, and against the official numbers."""

import pytest
import torch
import torchvision

from smoothsweep.core.data.images import stretched
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.fidelity import fid, whole_batches
from smoothsweep.core.models.fid import (
    PUBLISHED_FIDS,
    load_imagenet_inception,
    lomma_bytes,
    plg_input,
    plg_input_of_reconstructions,
)
from smoothsweep.core.models.weight_files import file_sha256
from tests.lowres import blocky, golden, pooled, s, u


def test_lommas_bytes_are_the_official_ones_and_never_wrap_around():
    assert torch.equal(lomma_bytes(golden("fid_lomma_scale_in")), golden("fid_lomma_scale_out_uint8"))
    assert lomma_bytes(torch.tensor([-2.0, 1.001, 5.0])).tolist() == [0, 255, 255]


def test_lommas_fid_is_the_official_one():
    def features(images):
        return pooled(lomma_bytes(images).float() / 255) @ s("fid_w", (192, 6))

    found = fid(features(blocky("fid_real", 30)), features(0.8 * blocky("fid_fake", 20)))
    assert found == pytest.approx(golden("fid_lomma_value").item(), abs=2e-2)


def test_plgs_input_is_the_official_one():
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 8, 8)
    torch.testing.assert_close(plg_input(ends)[:, :, 0, 0], golden("fid_plg_inception_zero_one"), atol=1e-5, rtol=0)
    shown = plg_input(2 * u("inception_in", (1, 3, 8, 8)) - 1)
    torch.testing.assert_close(shown[:, :, ::13, ::13], golden("fid_plg_inception_input_subset"), atol=1e-5, rtol=0)
    extremes = torch.stack([shown.min(), shown.max()])
    torch.testing.assert_close(extremes.double(), golden("fid_plg_inception_input_min_max"), atol=1e-5, rtol=0)


def test_plgs_reconstructions_are_stretched_and_its_real_images_are_not():
    grey = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 0.4 - 0.2
    assert torch.equal(plg_input_of_reconstructions(grey), plg_input(stretched((grey + 1) / 2)))
    assert not torch.equal(plg_input_of_reconstructions(grey), plg_input(grey))
    entry = PUBLISHED_FIDS["fid_plg"]
    assert entry.made is plg_input_of_reconstructions and entry.shown is plg_input and not entry.attacked_only


def test_plgs_statistics_drop_what_fills_no_batch():
    features = (pooled(blocky("fid_real", 30)) @ s("fid_w", (192, 6))).tanh()
    kept = whole_batches(features, 8)
    assert len(kept) == 24
    torch.testing.assert_close(kept.mean(0), golden("fid_plg_mu"), atol=1e-5, rtol=0, check_dtype=False)
    torch.testing.assert_close(kept.T.cov(), golden("fid_plg_sigma"), atol=1e-5, rtol=0, check_dtype=False)
    assert len(whole_batches(features, 31)) == len(whole_batches(features, None)) == 30  # too few for one batch: all
    assert len(whole_batches(features, 30)) == 30
    assert PUBLISHED_FIDS["fid_plg"].whole_batches == 100


class Small(torch.nn.Module):
    """With the layers by which the real one is cut, and nothing else of it."""

    def __init__(self, **options):
        super().__init__()
        self.options, self.AuxLogits, self.fc = options, torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
        self.bn = torch.nn.BatchNorm1d(4)

    def forward(self, images):
        return self.fc(self.bn(images))


def test_torchvisions_weights_come_in_checked_and_without_their_head(tmp_path, monkeypatch):
    monkeypatch.setattr(torchvision.models, "Inception3", Small)
    path, published = tmp_path / "inception.pth", Small()
    torch.save(published.state_dict(), path)
    with pytest.raises(InputError, match="weights inception_v3"):
        load_imagenet_inception(path)  # not the published file
    network = load_imagenet_inception(path, sha256=file_sha256(path))
    assert network.options == {"init_weights": False, "transform_input": False}
    assert not network.training and not any(weight.requires_grad for weight in network.parameters())
    images = torch.ones(2, 4)
    assert torch.equal(network(images), published.eval().bn(images))
    torch.save({"fc.weight": torch.zeros(2, 4)}, path)
    with pytest.raises(InputError, match="missing keys"):
        load_imagenet_inception(path, sha256=file_sha256(path))
