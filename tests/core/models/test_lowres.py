"""Networks of the low-resolution papers and their Fréchet distances, against the official code."""

import pytest
import torch
import torchvision

from smoothsweep.core.data.images import stretched
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.fidelity import fid, whole_batches
from smoothsweep.core.models.classifiers import ARCHITECTURES, FEW, FewChannels, build_classifier
from smoothsweep.core.models.fid import (
    PUBLISHED_FIDS,
    load_imagenet_inception,
    lomma_bytes,
    plg_input,
    plg_input_of_reconstructions,
)
from smoothsweep.core.models.weight_files import file_sha256
from tests.lowres import (
    blocky,
    digest_of,
    golden,
    has_golden,
    images64,
    networks,
    normal,
    pooled,
    s,
    state_by_formula,
    thinned,
    u,
)


def test_numbers_by_formula_are_the_official_ones():
    for make, name in ((u, "recipe_u_probe"), (normal, "recipe_normal_probe")):
        assert torch.equal(make("probe", (8,)), golden(name).float())


OFFICIAL = {
    "vgg16_bn": "VGG16",
    "ir50_64": "FaceNet64",
    "ir50_112": "FaceNet112",
    "ir152_64": "IR152_64",
    "efficientnet_b0": "EfficientNet_b0",
    "efficientnet_b1": "EfficientNet_b1",
    "efficientnet_b2": "EfficientNet_b2",
}
TRUNK_PARAMETERS = {
    "vgg16_bn": 14_723_136,
    "ir50_64": 30_727_360,
    "ir50_112": 43_574_976,
    "ir152_64": 57_889_984,
    "efficientnet_b0": 4_007_548,
    "efficientnet_b1": 6_513_184,
    "efficientnet_b2": 7_700_994,
}


def official_shapes(model):
    """Our state dictionary under the official names."""
    named = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    return {
        key.replace("head.", "fc_layer.", 1) if key.startswith("head.") else key.removeprefix("backbone."): shape
        for key, shape in named.items()
    }


def by_formula(architecture, name):
    """The network with the weights of the golden numbers, its own input layer in front."""
    with torch.device("meta"):
        shapes = official_shapes(build_classifier(architecture, 1000, protocol="paper"))
    model = build_classifier(architecture, 1000, protocol="paper")
    state = state_by_formula(name, shapes)
    own = {
        key.replace("fc_layer", "head") if key.startswith("fc_layer") else f"backbone.{key}": value
        for key, value in state.items()
    }
    model.load_state_dict(own, strict=False)
    return model.eval()


def shown(images):
    """Images in [0, 1] as everything here has them."""
    return 2 * images - 1


def images112():
    return 0.5 * u("net_img112", (2, 3, 112, 112)) + 0.5 * blocky("net_blk112", 2, 112)


@pytest.mark.parametrize("architecture", OFFICIAL)
def test_names_shapes_and_counts_are_the_official_ones(architecture):
    with torch.device("meta"):
        model = build_classifier(architecture, 1000, protocol="paper")
    shapes, known = official_shapes(model), networks()[OFFICIAL[architecture]]
    assert len(shapes) == known["tensors"] and digest_of(shapes) == known["sha256"]
    assert sum(p.numel() for p in model.parameters()) == known["parameters"]
    trunk = model.backbone.feature
    assert sum(p.numel() for p in trunk.parameters()) == TRUNK_PARAMETERS[architecture]


@pytest.mark.parametrize(
    ("architecture", "tolerance"),
    [
        ("ir50_64", 2e-5),
        ("efficientnet_b0", 1e-4),
        pytest.param("ir50_112", 2e-5, marks=pytest.mark.slow),
        pytest.param("ir152_64", 2e-5, marks=pytest.mark.slow),
        pytest.param("efficientnet_b1", 2e-3, marks=pytest.mark.slow),
        pytest.param("efficientnet_b2", 1e-4, marks=pytest.mark.slow),
    ],
)
def test_features_and_logits_are_those_of_the_official_network(architecture, tolerance):
    official, images = OFFICIAL[architecture], images112() if architecture == "ir50_112" else images64()[:2]
    check(by_formula(architecture, official), official, images, tolerance)


def check(model, official, images, tolerance):
    with torch.no_grad():
        features = model.embed(shown(images))
        found = {"feature": features, "logits": model.head(features)}
    for name, values in found.items():
        expected = golden(f"net_{official}_{name}")
        torch.testing.assert_close(thinned(values, expected.shape[1]), expected, atol=tolerance, rtol=0)
        if has_golden(whole := f"net_{official}_{name}_sum"):
            torch.testing.assert_close(values.double().sum(1), golden(whole), atol=1e-2, rtol=0)


def test_the_vgg_evaluating_training_and_its_gradient():
    model, images = by_formula("vgg16_bn", "VGG16"), images64()
    check(model, "VGG16", images[:2], 1e-4)
    pixels = images[:2].clone().requires_grad_(True)
    (model(shown(pixels)) * s("net_VGG16_w", (2, 1000))).sum().backward()
    torch.testing.assert_close(pixels.grad[:, :, ::4, ::4].flatten(1), golden("net_VGG16_grad_x"), atol=2e-3, rtol=1e-3)
    with torch.no_grad():
        features = model.train().embed(shown(images))
        logits = model.head(features)
    torch.testing.assert_close(thinned(features, 128), golden("net_VGG16_train_feature"), atol=2e-3, rtol=0)
    torch.testing.assert_close(thinned(logits, 100), golden("net_VGG16_train_logits"), atol=2e-3, rtol=0)


def test_mid_puts_its_bottleneck_where_the_official_vgg_has_it():
    model = build_classifier("vgg16_bn", 1000, protocol="paper")
    make_defense("mid", beta=0.01).prepare(model, generator=torch.Generator().manual_seed(0))
    known = networks()["VGG16_vib"]
    names = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    renamed = {
        key.replace("backbone.", "").replace("head.statistics", "st_layer").replace("head.", "fc_layer."): shape
        for key, shape in names.items()
    }
    assert len(renamed) == known["tensors"] and digest_of(renamed) == known["sha256"]
    state = state_by_formula("VGG16_vib", renamed)
    back = {
        key.replace("st_layer", "head.statistics").replace("fc_layer.", "head.")
        if not key.startswith("feature")
        else f"backbone.{key}": value
        for key, value in state.items()
    }
    model.load_state_dict(back, strict=False)
    model.eval()
    with torch.no_grad():
        features = model.embed(shown(images64()[:2]))
        mu, raw = model.head.statistics(features).chunk(2, 1)
        std = torch.nn.functional.softplus(raw - 5)
        code = mu + std * normal("net_vib_eps", (2, 1024))
        logits = torch.nn.functional.linear(code, model.head.weight, model.head.bias)
    for name, values in (("feature", features), ("mu", mu), ("std", std), ("logits", logits)):
        expected = golden(f"net_VGG16_vib_{name}")
        torch.testing.assert_close(thinned(values, expected.shape[1]), expected, atol=1e-4, rtol=0)


def test_the_norm_before_the_head_keeps_its_bias_at_zero():
    model = build_classifier("vgg16_bn", 5, protocol="clean").train()
    step = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    model(torch.rand(4, 3, 64, 64)).square().sum().backward()
    step.step()
    assert torch.equal(model.backbone.bn.bias, torch.zeros(2048))
    assert not torch.equal(model.backbone.bn.weight, torch.ones(2048))


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_no_network_has_a_strided_pointwise_convolution_of_few_channels(architecture):
    """Its gradient ends the process: the small evaluator's workers were killed on every machine with AVX-512."""
    with torch.device("meta"):
        model = build_classifier(architecture, 4, protocol="clean")
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Conv2d) and module.kernel_size == (1, 1) and module.stride != (1, 1):
            assert module.in_channels >= FEW or isinstance(module, FewChannels), name


def test_a_strided_pointwise_convolution_of_few_channels_is_the_plain_one():
    torch.manual_seed(2)
    ours, plain = (kind(8, 16, 1, 2, bias=False).double() for kind in (FewChannels, torch.nn.Conv2d))
    ours.load_state_dict(plain.state_dict())
    images = torch.randn(3, 8, 9, 12, dtype=torch.float64)
    found, expected = (conv(images.clone().requires_grad_(True)) for conv in (ours, plain))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    mine, theirs = (
        torch.autograd.grad(out.square().sum(), conv.weight)[0] for out, conv in ((found, ours), (expected, plain))
    )
    torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=0)


def test_imagenet_weights_serve_the_convolutions_alone(tmp_path, monkeypatch):
    from torchvision.models import efficientnet_b0

    import smoothsweep.core.models.classifiers as classifiers

    network = efficientnet_b0(weights=None)
    monkeypatch.setattr(classifiers, "read_pretrained_state", lambda *_: network.state_dict())
    model = build_classifier("efficientnet_b0", 1000, protocol="paper", pretrained=True, seed=3)
    fresh = build_classifier("efficientnet_b0", 1000, protocol="paper", seed=3)
    ours = model.backbone.feature[0].state_dict()
    assert all(torch.equal(ours[key], value) for key, value in network.features.state_dict().items())
    assert torch.equal(model.head.weight, fresh.head.weight)
    assert ARCHITECTURES["ir50_64"].weights_url is None
    with pytest.raises(InputError, match="expected an architecture with ImageNet weights, got ir50_64"):
        monkeypatch.undo()
        build_classifier("ir50_64", 5, protocol="clean", pretrained=True)


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
