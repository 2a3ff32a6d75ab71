import hashlib
from collections import OrderedDict

import pytest
import torch
import torchvision

from core.errors import InputError
from core.models import classifiers
from core.models.classifiers import ARCHITECTURES, LogitsWithAuxiliary, build_classifier, check_image_size
from core.models.pretrained import load_published_state, pretrained_weights_path


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty torch hub cache."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def publish(hub, monkeypatch, architecture, network):
    """Store a network as if torch hub had fetched it, and name it after its content."""
    file = hub / "weights.pth"
    torch.save(network.state_dict(), file)
    name = f"{architecture}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}.pth"
    file.rename(hub / name)
    entry = ARCHITECTURES[architecture]
    changed = type(entry)(**{**vars(entry), "weights_url": f"https://example.org/{name}"})
    monkeypatch.setitem(classifiers.ARCHITECTURES, architecture, changed)
    return hub / name


@pytest.mark.parametrize("architecture", ["resnet_small", "vgg_small"])
@pytest.mark.parametrize("size", [32, 64, 112])
def test_small_networks_take_every_size(architecture, size):
    model = build_classifier(architecture, 7, seed=0)
    images = torch.rand(2, 3, size, size) * 2 - 1
    assert model(images).shape == (2, 7)
    torch.testing.assert_close(model.eval().head(model.embed(images)), model(images))
    assert model.num_classes == 7 and model.embed(images).shape == (2, model.feature_dim)
    assert 150_000 < sum(p.numel() for p in model.parameters()) < 400_000


@pytest.mark.parametrize("architecture", ["resnet18", "densenet121"])
def test_torchvision_networks_keep_their_function(architecture):
    model = build_classifier(architecture, 5, seed=0).eval()
    reference = torchvision.models.get_model(architecture, weights=None, num_classes=5).eval()
    load_published_state(model, reference.state_dict(), ARCHITECTURES[architecture].head)
    images = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        torch.testing.assert_close(model(images), reference(images))
        torch.testing.assert_close(model.head(model.embed(images)), model(images))


def test_every_architecture_names_an_existing_head():
    for name in ("resnet50", "resnext50", "densenet169", "vit_b_16"):
        with torch.device("meta"):
            model = build_classifier(name, 3, seed=0)
        assert isinstance(model.head, torch.nn.Linear) and model.feature_dim in (768, 1664, 2048)


def test_initialisation_depends_on_the_seed_alone():
    before = torch.get_rng_state()
    first, again, other = (build_classifier("resnet_small", 4, seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
    assert not torch.equal(first["backbone.stem.0.weight"], other["backbone.stem.0.weight"])


def test_inception_has_an_auxiliary_head_of_1000_and_an_explicit_input_transform(monkeypatch):
    # The published initialisation draws 27 million truncated normals, which is of no interest here.
    entry = ARCHITECTURES["inception_v3"]
    quick = lambda: torchvision.models.Inception3(1000, aux_logits=True, init_weights=False)  # noqa: E731
    monkeypatch.setitem(classifiers.ARCHITECTURES, "inception_v3", type(entry)(**{**vars(entry), "build": quick}))
    model = build_classifier("inception_v3", 5, seed=0)
    assert model.backbone.transform_input is False
    assert build_classifier("inception_v3", 5, seed=0, transform_input=True).backbone.transform_input is True
    assert len(model.state_dict()) == 580
    out = model.train()(torch.rand(2, 3, 299, 299))
    assert isinstance(out, LogitsWithAuxiliary)
    assert out.logits.shape == (2, 5) and out.auxiliary.shape == (2, 1000)
    assert model.eval()(torch.rand(2, 3, 299, 299)).shape == (2, 5)
    with pytest.raises(InputError, match="at most 1000 classes"):
        build_classifier("inception_v3", 1001, seed=0)


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
        build_classifier("resnet152", 10, pretrained=True, seed=0)
    assert "resnet152-f82ba261.pth" in str(raised.value) and str(hub) in str(raised.value)
    assert list(hub.iterdir()) == []
    assert pretrained_weights_path("https://x.org/a/b-1.pth") == hub / "b-1.pth"


def test_a_damaged_weight_file_is_refused(hub, monkeypatch):
    path = publish(hub, monkeypatch, "resnet18", torchvision.models.resnet18(weights=None))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="damaged"):
        build_classifier("resnet18", 10, pretrained=True, seed=0)


def test_a_file_that_is_no_weight_file_is_refused(hub, monkeypatch):
    content = b"not a checkpoint"
    path = hub / f"resnet18-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    path.write_bytes(content)
    entry = ARCHITECTURES["resnet18"]
    changed = type(entry)(**{**vars(entry), "weights_url": f"https://example.org/{path.name}"})
    monkeypatch.setitem(classifiers.ARCHITECTURES, "resnet18", changed)
    with pytest.raises(InputError, match="no readable weight file"):
        build_classifier("resnet18", 10, pretrained=True, seed=0)


def test_published_key_spellings():
    model = build_classifier("densenet121", 3, seed=0)
    reference = torchvision.models.densenet121(weights=None, num_classes=3)
    spelled = OrderedDict()
    for key, value in reference.state_dict().items():
        key = key.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2.")
        spelled["module.model._orig_mod." + key] = value
    load_published_state(model, spelled, "classifier")
    assert torch.equal(model.head.weight, reference.classifier.weight)
    first_layer = "features.denseblock1.denselayer1.norm1.weight"
    assert torch.equal(model.backbone.get_parameter(first_layer), reference.get_parameter(first_layer))


def test_states_that_do_not_fit_are_refused():
    model = build_classifier("resnet18", 3, seed=0)
    state = torchvision.models.resnet18(weights=None, num_classes=3).state_dict()
    with pytest.raises(InputError, match=r"1 missing keys, first backbone.conv1.weight"):
        load_published_state(model, {k: v for k, v in state.items() if k != "conv1.weight"}, "fc")
    with pytest.raises(InputError, match=r"1 unknown keys, first backbone.extra"):
        load_published_state(model, {**state, "extra": torch.zeros(1)}, "fc")
    with pytest.raises(InputError, match=r"head.bias: expected shape \(3,\), got \(4,\)"):
        load_published_state(model, {**state, "fc.bias": torch.zeros(4)}, "fc")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet19", 5, {}), "architecture: expected one of resnet_small, vgg_small, .*got 'resnet19'"),
        (("resnet18", 1, {}), "at least 2, got 1"),
        (("resnet18", 5, {"protocol": "papers"}), "protocol: expected one of paper, clean, got 'papers'"),
        (("resnet_small", 5, {"pretrained": True}), "with ImageNet weights, got resnet_small"),
        (("resnet_small", 5, {"transform_input": True}), "transform_input: expected it with inception_v3 only"),
    ],
)
def test_wrong_requests_are_refused(arguments, message):
    name, num_classes, options = arguments
    with pytest.raises(InputError, match=message):
        build_classifier(name, num_classes, seed=0, **options)


def test_image_sizes_are_checked():
    check_image_size("vit_b_16", 224)
    check_image_size("resnet_small", 32)
    for name, size, message in (
        ("vit_b_16", 64, "expected images of 224 pixels, got 64"),
        ("inception_v3", 64, "at least 299 pixels, got 64"),
        ("resnet_small", 16, "at least 32 pixels, got 16"),
    ):
        with pytest.raises(InputError, match=message):
            check_image_size(name, size)
