"""Networks of targets: heads, parts, sizes they take; training recipes."""

import hashlib
from collections import OrderedDict

import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.errors import InputError
from smoothsweep.core.models import classifiers
from smoothsweep.core.models.architectures import ANATOMY, LEAST, blocks_of, check_image_size, parameters_of
from smoothsweep.core.models.checkpoints import load_published_state
from smoothsweep.core.models.classifiers import ARCHITECTURES, LogitsWithAuxiliary, build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate


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
    name = f"{architecture}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}.pth"
    file.rename(hub / name)
    entry = ARCHITECTURES[architecture]
    changed = type(entry)(**{**vars(entry), "weights_url": f"https://example.org/{name}"})
    monkeypatch.setitem(classifiers.ARCHITECTURES, architecture, changed)
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


def test_the_papers_recipe():
    recipe = TrainingRecipe(architecture="resnet152", epochs=100, image_size=224)
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.image_size) == ("resnet152", 100, 128, 224)
    assert (recipe.optimizer, recipe.lr, recipe.betas, recipe.weight_decay) == ("adam", 1e-3, (0.9, 0.999), 0)
    augmentation = Augmentation(crop_scale=(0.85, 1), brightness=0.2, contrast=0.2, saturation=0.1, hue=0.1, flip=0.5)
    assert recipe.augmentation == augmentation and augmentation.crop_ratio == (1, 1)
    rates = [learning_rate(recipe, e) for e in range(100)]
    assert rates == pytest.approx([1e-3] * 75 + [1e-4] * 15 + [1e-5] * 10)


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
