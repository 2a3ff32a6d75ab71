"""Networks: torchvision's, ours, and those of the low-resolution papers, against the official code."""

import hashlib
from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.fidelity import fid, whole_batches
from smoothsweep.core.models import classifiers
from smoothsweep.core.models.architectures import ANATOMY, LEAST, blocks_of, check_image_size, parameters_of
from smoothsweep.core.models.checkpoints import load_published_state
from smoothsweep.core.models.classifiers import ARCHITECTURES, FEW, FewChannels, LogitsWithAuxiliary, build_classifier
from smoothsweep.core.models.fid import (
    PUBLISHED_FIDS,
    load_inception,
    lomma_bytes,
    plg_input,
)
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate
from smoothsweep.core.models.weight_files import WEIGHT_FILES, file_sha256
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


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty torch hub cache, and no other folder."""
    monkeypatch.delenv("SMOOTHSWEEP_WEIGHTS", raising=False)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def publish(hub, monkeypatch, architecture, network):
    """Store a network as if torch hub had fetched it, and name it after its content."""
    file = hub / "weights.pth"
    torch.save(network.state_dict(), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    name = f"{architecture}-{digest}.pth"
    file.rename(hub / name)
    found = {"url": f"https://example.org/{name}", "sha256": digest, "mebibytes": None}
    monkeypatch.setitem(WEIGHT_FILES, architecture, replace(WEIGHT_FILES[architecture], **found))
    return hub / name


@pytest.mark.parametrize("architecture", ["resnet_small", "vgg_small"])
@pytest.mark.parametrize("size", [32, 64, 112])
def test_small_networks_take_every_size(architecture, size):
    model = build_classifier(architecture, 7, seed=0, protocol="clean")
    images = torch.rand(2, 3, size, size) * 2 - 1
    assert model(images).shape == (2, 7)
    torch.testing.assert_close(model.eval().head(model.embed(images)), model(images))
    assert model.num_classes == 7 and model.embed(images).shape == (2, model.feature_dim)
    assert 150_000 < sum(p.numel() for p in model.parameters()) < 400_000


@pytest.mark.parametrize(
    ("name", "torchvision_name", "features"),
    [
        ("resnet18", "resnet18", 512),
        ("resnet34", "resnet34", 512),
        ("resnet50", "resnet50", 2048),
        ("resnet101", "resnet101", 2048),
        ("resnet152", "resnet152", 2048),
        ("resnext50", "resnext50_32x4d", 2048),
        ("densenet121", "densenet121", 1024),
        ("densenet169", "densenet169", 1664),
        ("vit_b_16", "vit_b_16", 768),
        ("inception_v3", "inception_v3", 2048),
    ],
)
def test_published_networks_are_torchvisions_with_another_head(name, torchvision_name, features):
    """On the meta device: shapes and names without memory or time."""
    size = 299 if name == "inception_v3" else 224
    with torch.device("meta"):
        model = build_classifier(name, 530, seed=0, protocol="clean").eval()
        options = {"init_weights": False} if name == "inception_v3" else {}
        reference = torchvision.models.get_model(torchvision_name, weights=None, **options)
        images = torch.empty(2, 3, size, size)
        assert model(images).shape == (2, 530) and model.embed(images).shape == (2, features)
    assert model.feature_dim == features and isinstance(model.head, torch.nn.Linear)
    head = ARCHITECTURES[name].head
    ours = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    theirs = {key: tuple(value.shape) for key, value in reference.state_dict().items()}
    assert (ours.pop("head.weight"), ours.pop("head.bias")) == ((530, features), (530,))
    assert (theirs.pop(f"{head}.weight"), theirs.pop(f"{head}.bias")) == ((1000, features), (1000,))
    assert ours == {f"backbone.{key}": shape for key, shape in theirs.items()}


def test_initialisation_depends_on_the_seed_alone():
    before = torch.get_rng_state()
    first, again, other = (
        build_classifier("resnet_small", 4, seed=s, protocol="clean").state_dict() for s in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
    assert not torch.equal(first["backbone.stem.0.weight"], other["backbone.stem.0.weight"])


def test_inception_has_an_auxiliary_head_of_1000_and_an_explicit_input_transform(monkeypatch):
    # The published initialisation draws 27 million truncated normals, which is of no interest here.
    entry = ARCHITECTURES["inception_v3"]
    quick = lambda: torchvision.models.Inception3(1000, aux_logits=True, init_weights=False)  # noqa: E731
    monkeypatch.setitem(classifiers.ARCHITECTURES, "inception_v3", type(entry)(**{**vars(entry), "build": quick}))
    model = build_classifier("inception_v3", 5, seed=0, protocol="clean")
    assert model.backbone.transform_input is False
    mapped = build_classifier("inception_v3", 5, seed=0, transform_input=True, protocol="clean")
    assert mapped.backbone.transform_input is True
    assert len(model.state_dict()) == 580
    out = model.train()(torch.rand(2, 3, 299, 299))
    assert isinstance(out, LogitsWithAuxiliary)
    assert out.logits.shape == (2, 5) and out.auxiliary.shape == (2, 1000)
    assert model.eval()(torch.rand(2, 3, 299, 299)).shape == (2, 5)
    with pytest.raises(InputError, match="at most 1000 classes"):
        build_classifier("inception_v3", 1001, seed=0, protocol="clean")


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("num_classes", [1000, 10])
def test_pretrained_head_stays_only_in_protocol_paper_with_1000_classes(hub, monkeypatch, protocol, num_classes):
    network = torchvision.models.resnet18(weights=None)
    publish(hub, monkeypatch, "resnet18", network)
    model = build_classifier("resnet18", num_classes, pretrained=True, protocol=protocol, seed=0)
    assert torch.equal(model.backbone.conv1.weight, network.conv1.weight)
    kept = model.head.weight.shape == network.fc.weight.shape and torch.equal(model.head.weight, network.fc.weight)
    assert kept == (protocol == "paper" and num_classes == 1000)
    assert model.num_classes == num_classes


def test_missing_pretrained_weights_are_named_and_not_fetched(hub):
    with pytest.raises(InputError) as raised:
        build_classifier("resnet152", 10, pretrained=True, seed=0, protocol="clean")
    assert "resnet152-f82ba261.pth" in str(raised.value) and str(hub) in str(raised.value)
    assert list(hub.iterdir()) == []


def test_published_key_spellings():
    model = build_classifier("densenet121", 3, seed=0, protocol="clean")
    reference = torchvision.models.densenet121(weights=None, num_classes=3)
    spelled = OrderedDict()
    for key, value in reference.state_dict().items():
        key = key.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2.")
        spelled["module.model._orig_mod." + key] = value
    load_published_state(model, spelled, "classifier")
    assert torch.equal(model.head.weight, reference.classifier.weight)
    first_layer = "features.denseblock1.denselayer1.norm1.weight"
    assert torch.equal(model.backbone.get_parameter(first_layer), reference.get_parameter(first_layer))


def test_image_sizes_are_checked():
    assert list(LEAST) == list(ARCHITECTURES)
    check_image_size("vit_b_16", 224)
    check_image_size("resnet_small", 32)
    for name, size, message in (
        ("vit_b_16", 64, "expected images of 224 pixels, got 64"),
        ("inception_v3", 64, "at least 299 pixels, got 64"),
        ("resnet_small", 16, "at least 32 pixels, got 16"),
    ):
        with pytest.raises(InputError, match=message):
            check_image_size(name, size)


@pytest.fixture(scope="module", params=sorted(ANATOMY))
def model(request):
    with torch.device("meta"):
        return build_classifier(request.param, 3, protocol="clean")


def test_stages_and_blocks_hold_every_parameter_once(model):
    anatomy = ANATOMY[model.architecture]
    every = {id(p) for p in model.backbone.parameters()}
    for parts in ([name for stage in anatomy.stages for name in stage], blocks_of(model)):
        held = [id(p) for part in parts for p in parameters_of(model, [part])]
        assert len(held) == len(set(held)) and set(held) == every
        assert all(parameters_of(model, [part]) for part in parts)


def test_hidden_layers_skips_and_norms_are_modules(model):
    anatomy = ANATOMY[model.architecture]
    assert len(anatomy.hidden) >= 2
    for name in anatomy.hidden:
        model.backbone.get_submodule(name)
    for block, attribute in (skip for stage in anatomy.skips for skip in stage):
        assert hasattr(model.backbone.get_submodule(block), attribute)
    if anatomy.last_norm is not None:
        assert isinstance(model.backbone.get_submodule(anatomy.last_norm), torch.nn.BatchNorm1d)


def scheduled(scheduler_of, recipe):
    """The rates that a torch scheduler, stepped after every epoch, would use."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=recipe.lr)
    scheduler = scheduler_of(optimizer)
    rates = []
    for _ in range(recipe.epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@settings(max_examples=25, deadline=None)
@given(epochs=st.integers(1, 60), first=st.integers(1, 98), second=st.integers(1, 98))
def test_milestones_agree_with_torch(epochs, first, second):
    marks = tuple(sorted({first / 100, second / 100}))
    recipe = TrainingRecipe(epochs=epochs, lr_milestones=marks)
    whole = sorted(-(-round(mark * 100) * epochs // 100) for mark in marks)  # rounded up, in integers
    expected = scheduled(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, whole, gamma=0.1), recipe)
    assert [learning_rate(recipe, e) for e in range(epochs)] == pytest.approx(expected)


def test_cosine_agrees_with_torch():
    recipe = TrainingRecipe(epochs=12, lr=0.1, lr_schedule="cosine", lr_min=1e-4)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR
    expected = scheduled(lambda o: annealing(o, T_max=12, eta_min=1e-4), recipe)
    assert [learning_rate(recipe, e) for e in range(12)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": float("nan")}, "training lr"),
        ({"betas": (0.9, 1.0)}, "training betas"),
        ({"momentum": 0.9}, "training momentum: expected 0 with optimizer adam, got 0.9"),
        ({"optimizer": "sgd", "betas": (0.1, 0.1)}, "training betas: expected the default with optimizer sgd"),
        ({"optimizer": "sgd", "momentum": 1.0}, "training momentum"),
        ({"lr_milestones": (0.9, 0.5)}, "training lr_milestones: expected ascending"),
        ({"lr_milestones": (0.5, 1.0)}, "training lr_milestones: expected fractions"),
        ({"lr_milestones": (75, 90)}, "training lr_milestones: expected a number of at most 1, got 75"),
        ({"lr_min": 1e-4}, "training lr_min: expected 0 with lr_schedule multistep"),
        ({"lr_schedule": "cosine", "lr_min": 1.0}, "training lr_min"),
        ({"lr_schedule": "cosine", "lr_factor": 0.5}, "with lr_schedule cosine"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        TrainingRecipe(**changes)


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


def test_imagenet_weights_serve_the_convolutions_alone(hub, monkeypatch):
    network = torchvision.models.efficientnet_b0(weights=None)
    publish(hub, monkeypatch, "efficientnet_b0", network)
    model = build_classifier("efficientnet_b0", 1000, protocol="paper", pretrained=True, seed=3)
    fresh = build_classifier("efficientnet_b0", 1000, protocol="paper", seed=3)
    ours = model.backbone.feature[0].state_dict()
    assert all(torch.equal(ours[key], value) for key, value in network.features.state_dict().items())
    assert torch.equal(model.head.weight, fresh.head.weight)
    with pytest.raises(InputError, match="expected an architecture with ImageNet weights, got ir50_64"):
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
        load_inception("fid_plg", path)  # not the published file
    network = load_inception("fid_plg", path, sha256=file_sha256(path))
    assert network.options == {"init_weights": False, "transform_input": False}
    assert not network.training and not any(weight.requires_grad for weight in network.parameters())
    images = torch.ones(2, 4)
    assert torch.equal(network(images), published.eval().bn(images))
    torch.save({"fc.weight": torch.zeros(2, 4)}, path)
    with pytest.raises(InputError, match="missing keys"):
        load_inception("fid_plg", path, sha256=file_sha256(path))
