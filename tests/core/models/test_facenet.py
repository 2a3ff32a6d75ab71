"""FaceNet from a local file: the published layout, what does not fit, and what it computes."""

import hashlib

import pytest
import torch
from facenet_pytorch import InceptionResnetV1
from safetensors.torch import save_file
from torch.nn import functional

from smoothsweep.core.errors import InputError
from smoothsweep.core.models import embedders, weight_files
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.weight_files import WEIGHT_FILES, WeightFile

pytestmark = pytest.mark.usefixtures("quick_programs")

FILE_NAME = WEIGHT_FILES["facenet"].file_name


@pytest.fixture(scope="module")
def published():
    """facenet-pytorch's network with random numbers, and its state as the published file has it."""
    torch.manual_seed(0)
    network = InceptionResnetV1(pretrained=None, classify=True, num_classes=8631)
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)  # the signal reaches the end
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    network.classify = False
    return network.eval()


@pytest.fixture
def file(published, tmp_path):
    torch.save(published.state_dict(), tmp_path / FILE_NAME)
    return tmp_path / FILE_NAME


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A named folder, and an empty torch hub."""
    monkeypatch.setenv(weight_files.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))


@pytest.mark.parametrize("size", [160, 112, 224])
def test_equals_the_published_network_on_images_of_160_pixels(published, file, size):
    net = load_embedder("facenet", file)
    assert not net.training and not any(p.requires_grad for p in net.parameters())
    coarse = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 2 - 1
    images = functional.interpolate(coarse, size=size, mode="bicubic")
    resized = images
    if size != 160:
        resized = functional.interpolate(images, size=(160, 160), mode="bilinear", antialias=True)
    features = net(images)
    with torch.no_grad():
        torch.testing.assert_close(features, published(resized))
    assert features.shape == (2, 512) and features.dtype == torch.float32
    torch.testing.assert_close(features.norm(dim=1), torch.ones(2))
    assert (features[0] - features[1]).norm() > 0.05  # the comparison would notice a wrong picture


def test_safetensors_and_a_missing_head_do_as_well(published, file, tmp_path):
    state = {k: v.contiguous() for k, v in published.state_dict().items() if not k.startswith("logits.")}
    save_file(state, tmp_path / "converted.safetensors")
    images = torch.rand(1, 3, 160, 160) * 2 - 1
    expected = load_embedder("facenet", file)(images)
    assert torch.equal(load_embedder("facenet", tmp_path / "converted.safetensors")(images), expected)
    old = {k: v for k, v in state.items() if "num_batches" not in k}
    torch.save(old, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert torch.equal(load_embedder("facenet", tmp_path / "old.pt")(images), expected)


def test_without_a_path_the_staged_file_is_used_if_its_checksum_is_right(file, folders, monkeypatch):
    with pytest.raises(InputError, match=r"is damaged or another file: expected 106.7 MiB with SHA-256 281cebca"):
        load_embedder("facenet")
    entry = WEIGHT_FILES["facenet"]
    right = WeightFile(**{**vars(entry), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})
    monkeypatch.setitem(embedders.WEIGHT_FILES, "facenet", right)
    assert load_embedder("facenet")(torch.zeros(1, 3, 64, 64)).shape == (1, 512)
