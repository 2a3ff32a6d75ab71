"""Embedders and feature networks: published names and numbers."""

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from facenet_pytorch import InceptionResnetV1
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from torchvision.models import VisionTransformer, ViT_B_16_Weights, vit_b_16

from smoothsweep.core.errors import InputError
from smoothsweep.core.models import embedders, weight_files
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import (
    PIXELS,
    SwagViT,
    load_embedder,
    swag_state,
    to_template,
)
from smoothsweep.core.models.fid import fid_input, load_inception, tf1_bilinear
from smoothsweep.core.models.fid_network import FidInception
from smoothsweep.core.models.weight_files import WEIGHT_FILES, WeightFile, file_sha256
from tests.lowres import digest_of

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


DATA = Path(__file__).parents[3].parent / "shared" / "data"

SHAPES = {  # numbers of parameters, and a digest of the names and shapes of all tensors, as the papers' files have them
    "mobilefacenet_a": (999_552, "18453905a53935d2"),
    "mobilefacenet_b": (999_936, "9c7d0d7e33dc7e55"),
    "ir50": (43_574_976, "df5947f8f0b22a2c"),
    "ir152": (70_737_600, "a44f34ca98cbab00"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_state_dict_has_the_published_names_and_shapes(name):
    with torch.device("meta"):
        network = KINDS[name].make()
    digest = digest_of({key: tuple(value.shape) for key, value in network.state_dict().items()})
    assert (sum(value.numel() for value in network.parameters()), digest[:16]) == SHAPES[name]


def test_template_places_the_frame_and_repeats_its_edge():
    images = torch.arange(88.0).view(1, 1, 88, 1).expand(1, 3, 88, 88) / 88
    template = to_template(images)
    assert template.shape == (1, 3, 112, 112)
    assert torch.equal(template[:, :, 24:, 12:100], images)
    assert torch.equal(template[:, :, 0], template[:, :, 24])
    assert torch.equal(template[..., 0], template[..., 12]) and torch.equal(template[..., 111], template[..., 99])
    assert torch.equal(to_template(torch.full((1, 3, 64, 64), 0.25)), torch.full((1, 3, 112, 112), 0.25))


def _labelled_faces() -> tuple[torch.Tensor, np.ndarray]:
    table = pd.read_parquet(DATA / "lfw-faces" / "faces.parquet")
    counts = table.label.value_counts()
    people = sorted(counts[counts >= 15].index)[:10]
    table = table[table.label.isin(people)].groupby("label").head(8)
    pixels = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in table.image]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1, table.label.to_numpy()


@pytest.mark.parametrize("name", ["mobilefacenet_a", "mobilefacenet_b"])
def test_real_weights_verify_real_people(name):
    weights = DATA / "weights" / f"{name}.safetensors"
    if not weights.is_file() or not (DATA / "lfw-faces" / "faces.parquet").is_file():
        pytest.skip("the MobileFaceNet weights or the labelled faces are not here")
    images, labels = _labelled_faces()
    features = load_embedder(name, weights)(images)
    cosines = (features @ features.T).numpy()
    pairs = np.triu_indices(len(labels), 1)
    same = (labels[:, None] == labels)[pairs]
    genuine, impostor = cosines[pairs][same], cosines[pairs][~same]
    area_under_curve = (genuine[:, None] > impostor[None]).mean()
    assert area_under_curve > 0.95


SMALL = {"layers": 2, "heads": 2, "width": 8, "hidden": 12}


@pytest.fixture(scope="module")
def published_of_general():
    """A network as torchvision publishes it, ImageNet head and all."""
    torch.manual_seed(3)
    network = VisionTransformer(image_size=PIXELS, patch_size=16, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=12)
    nn.init.normal_(network.heads.head.weight)
    return network.eval()


def test_features_are_what_torchvisions_own_network_hands_its_head(published_of_general):
    judge = SwagViT(**SMALL)
    judge.load_state_dict(swag_state(published_of_general.state_dict()))
    seen = []
    hook = published_of_general.heads.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    pixels = torch.randint(
        0, 256, (2, 3, PIXELS, PIXELS), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )
    published_of_general(ViT_B_16_Weights.IMAGENET1K_SWAG_LINEAR_V1.transforms()(pixels))
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


def test_the_published_file_is_read_and_what_is_none_is_refused(published_of_general, tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "swag_vit_b_16", replace(KINDS["swag_vit_b_16"], sizes=SMALL))
    path = tmp_path / "vit_b_16_lc_swag-4e70ced5.pth"
    torch.save(published_of_general.state_dict(), path)
    judge = load_embedder("swag_vit_b_16", path)
    assert not judge.training and not any(p.requires_grad for p in judge.parameters())
    assert torch.equal(judge.network.class_token, published_of_general.class_token)
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"^embedder swag_vit_b_16: .*missing keys, first network\."):
        load_embedder("swag_vit_b_16", path)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file as pytorch-fid publishes it, with random numbers that keep the activations in range."""
    torch.manual_seed(0)
    network = FidInception()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
    path = tmp_path_factory.mktemp("fid") / "weights.pth"
    torch.save({k: v for k, v in network.state_dict().items() if "num_batches" not in k}, path)
    return path


@pytest.fixture(scope="module")
def network(weights):
    return load_inception("fid_inception", weights, sha256=file_sha256(weights))


def batch(count, height, width, seed=0):
    """Images in [-1, 1] with structure at several scales."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 5, 5, generator=generator) * 2 - 1
    smooth = functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(-1, 1)
    return (smooth + 0.1 * torch.randn(smooth.shape, generator=generator)).clamp(-1, 1)


def test_loaded_network_is_frozen_and_pools_2048_features(network):
    assert not network.training and not any(p.requires_grad for p in network.parameters())
    features = network(fid_input(batch(2, 299, 299), "paper"))
    assert features.shape == (2, 2048) and features.dtype == torch.float32
    with pytest.raises(ValueError, match=r"expected images \[N, 3, 299, 299\], got \[1, 3, 64, 64\]"):
        network(torch.zeros(1, 3, 64, 64))


def test_checksum_is_the_published_one_unless_another_is_given(weights):
    with pytest.raises(InputError, match=r"expected 91\.2 MiB with SHA-256 6726825d0af5.*got .* MiB with [0-9a-f]{64}"):
        load_inception("fid_inception", weights)
    load_inception("fid_inception", weights, sha256=file_sha256(weights)[:8].upper())


@pytest.mark.parametrize("size", [(64, 64), (299, 299), (400, 320)])
def test_clean_features_equal_torch_fidelity(weights, network, size):
    extractors = pytest.importorskip("torch_fidelity.feature_extractor_inceptionv3")
    build = extractors.FeatureExtractorInceptionV3
    reference = build("inception", ["2048"], feature_extractor_weights_path=str(weights))
    images = batch(2, *size).add(1).mul(127.5).round().to(torch.uint8)
    expected = reference(images)[0]
    assert (expected[0] - expected[1]).abs().mean() > 0.01  # the comparison would notice a wrong network
    torch.testing.assert_close(network(fid_input(images, "clean")), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(32, 48), (299, 299), (301, 500)])
def test_tf1_resize_equals_torch_fidelity_bit_for_bit(size):
    module = pytest.importorskip("torch_fidelity.interpolate_compat_tensorflow")
    images = batch(2, *size).add(1).mul(127.5).round()
    expected = module.interpolate_bilinear_2d_like_tensorflow1x(images, size=(299, 299), align_corners=False)
    assert torch.equal(tf1_bilinear(images, 299), expected)
