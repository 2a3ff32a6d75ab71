"""Classifiers and judges of somebody else's: checkpoints become the same function; the gate against a wrong reading."""

import hashlib
from dataclasses import replace

import pytest
import torch
import torchvision
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import face_ir50, load_embedder, to_template
from smoothsweep.core.models.inference import USUAL, Normalisation, evaluate_logits, input_layer
from smoothsweep.core.models.official import PUBLISHED, import_target
from smoothsweep.core.models.reading import (
    Claim,
    MisreadModel,
    Readings,
    as_flags,
    check_reading,
    order_by_name,
    usual_orders,
)
from smoothsweep.orchestrator.cli import main
from smoothsweep.workbench import as_arguments


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=7).eval()


def trainer_file(network, path, prefix="model._orig_mod."):
    """As the published trainer saves: weights, optimizer and epoch."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.0)  # fills its state and changes nothing
    network(torch.ones(2, 3, 32, 32)).sum().backward()
    optimizer.step()
    state = {prefix + key: value for key, value in network.state_dict().items()}
    content = {"epoch": 100, "model_state_dict": state, "optimizer_state_dict": optimizer.state_dict()}
    network.zero_grad()
    torch.save(content, path)
    return path


def bare_file(network, path, prefix="model."):
    torch.save({prefix + key: value for key, value in network.state_dict().items()}, path)
    return path


def bring(path, **changes):
    options = {"architecture": "resnet18", "num_classes": 7, "transform_input": None, "protocol": "paper"}
    return import_target(path, **{**options, **changes})


@pytest.mark.parametrize(
    ("write", "wrapping", "prefix", "epoch"),
    [(bare_file, "bare", "model.", None), (trainer_file, "model_state_dict", "model._orig_mod.", 100)],
)
def test_both_official_forms_give_the_same_function(network, tmp_path, write, wrapping, prefix, epoch):
    path = write(network, tmp_path / "Classifier_0.9493.pth")
    target, facts = bring(path)
    images = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        torch.testing.assert_close(target(images), network(images))
    assert not target.training and target.num_classes == 7
    assert facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (facts.wrapping, facts.prefix, facts.epoch) == (wrapping, prefix, epoch)
    assert facts.tensors == len(network.state_dict()) and facts.transform_input is None
    assert (facts.architecture, facts.num_classes, facts.protocol) == ("resnet18", 7, "paper")


@pytest.fixture(scope="module")
def inception():
    """A published evaluation model of 5 classes: its auxiliary head keeps 1,000."""
    torch.manual_seed(0)
    network = torchvision.models.Inception3(1000, aux_logits=True, init_weights=False)
    network.fc = torch.nn.Linear(2048, 5)
    return network.eval()


def test_inception_needs_its_input_transform_said(inception, tmp_path):
    path = bare_file(inception, tmp_path / "inception.pth")
    options = {"architecture": "inception_v3", "num_classes": 5}
    with pytest.raises(InputError, match="transform_input: expected true or false for inception_v3, got none"):
        bring(path, **options)
    images = torch.rand(1, 3, 96, 96) * 2 - 1
    for flag in (True, False):
        target, facts = bring(path, **options, transform_input=flag)
        assert facts.transform_input is flag and facts.tensors == 580
        inception.transform_input = flag
        with torch.no_grad():
            torch.testing.assert_close(target(images), inception(images))
    with pytest.raises(InputError, match="expected 6 classes, got 5"):
        bring(path, architecture="inception_v3", num_classes=6, transform_input=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 530}, r"expected 530 classes, got 7 \(rows of model.fc.weight\)"),
        (
            {"architecture": "densenet121"},
            r"expected densenet121, of which \d+ tensors are missing.*model\.conv1\.weight",
        ),
        ({"architecture": "resnet34"}, r"of which \d+ tensors are missing, first model\.layer1\.2"),
        ({"architecture": "resnet_small"}, "expected resnet_small, of which .*torch.export.save"),
        ({"architecture": "resnet19"}, "architecture: expected one of"),
        ({"transform_input": True}, "transform_input: expected it with inception_v3 only"),
        ({"protocol": "official"}, "protocol: expected one of paper, clean"),
    ],
)
def test_wrong_descriptions_are_refused(network, tmp_path, changes, message):
    path = bare_file(network, tmp_path / "x.pth")
    with pytest.raises(InputError, match=message) as raised:
        bring(path, **changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "expected a dictionary of tensors, got list"),
        ({}, "expected a dictionary of tensors"),
        ({"other": {"a": torch.zeros(1)}}, "the file has 'a'"),
        ({"model": {"a": {}}}, "expected a dictionary of tensors, got one that holds none"),
    ],
)
def test_other_contents_are_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(InputError, match=message):
        bring(tmp_path / "odd.pth")


def prefixed(network, prefix):
    return {prefix + key: value for key, value in network.state_dict().items()}


LOSS = {"criterion.weight": torch.ones(7), "val_acc.confmat": torch.zeros(7, 7)}
HEAD = {"head.weight": torch.ones(7, 7), "head.bias": torch.ones(7)}


@pytest.mark.parametrize(
    ("prefix", "beside"),
    [
        ("net.", {}),
        ("backbone.", LOSS),
        ("_module.", {}),
        ("module.", {"n_averaged": torch.tensor(3)}),
        ("student.model._orig_mod.", LOSS),
        ("a.head.", HEAD),
        ("net.", HEAD),
    ],
)
def test_any_prefix_is_read_and_what_lies_beside_is_left_out_and_named(network, tmp_path, prefix, beside):
    torch.save({"state_dict": {**beside, **prefixed(network, prefix)}, "epoch": 3}, tmp_path / "x.ckpt")
    target, facts = bring(tmp_path / "x.ckpt")
    assert torch.equal(target.head.weight, network.fc.weight) and (facts.prefix, facts.epoch) == (prefix, 3)
    assert all(any(key in remark for remark in facts.remarks) for key in list(beside)[:3])
    assert bool(facts.remarks) == bool(beside)


def test_counters_of_profilers_are_left_out_and_own_names_are_read_under_a_prefix(network, tmp_path):
    own = bring(bare_file(network, tmp_path / "x.pth"))[0]
    state = {**prefixed(own, "smoothed."), "smoothed.backbone.layer1.total_ops": torch.zeros(1)}
    torch.save(state, tmp_path / "own.pth")
    again, facts = bring(tmp_path / "own.pth")
    assert torch.equal(again.head.weight, network.fc.weight)
    assert facts.prefix == "smoothed." and "total_ops" in facts.remarks[0]


SETS = {
    "two keys": (lambda raw, ema: {"state_dict": raw, "state_dict_ema": ema}, "state_dict", "state_dict_ema"),
    "within one another": (lambda raw, ema: {"model": raw, "ema": {"shadow": ema}}, "model", "ema.shadow"),
    "two prefixes": (
        lambda raw, ema: {
            "state_dict": {f"{p}.{k}": v for p, s in (("model", raw), ("avg", ema)) for k, v in s.items()}
        },
        "state_dict.model",
        "state_dict.avg",
    ),
    "bare": (lambda raw, ema: raw | {f"avg.{k}": v for k, v in ema.items()}, "bare", "avg"),
}


@pytest.mark.parametrize("kind", SETS)
def test_of_several_sets_one_is_taken_and_the_others_are_named(network, tmp_path, kind):
    make, first, second = SETS[kind]
    averaged = {key: value + 1 for key, value in network.state_dict().items()}
    torch.save(make(network.state_dict(), averaged), tmp_path / "x.pth")
    target, facts = bring(tmp_path / "x.pth")
    assert torch.equal(target.head.weight, network.fc.weight)
    assert f"{first} is taken" in facts.remarks[0] and facts.remarks[0].endswith(f" {second}")
    assert torch.equal(bring(tmp_path / "x.pth", weights=second)[0].head.weight, network.fc.weight + 1)
    assert torch.equal(bring(tmp_path / "x.pth", weights=first)[0].head.weight, network.fc.weight)
    with pytest.raises(InputError, match=f"--weights: expected one of .*{first}, {second}; got 'emma'"):
        bring(tmp_path / "x.pth", weights="emma")


@pytest.fixture
def narrow(monkeypatch):
    """The two at an eighth of their width, which is all that is other about them."""
    for name in ("ir50", "ir152"):
        monkeypatch.setitem(KINDS, name, replace(KINDS[name], sizes={"width": 8}))


def trained(network: nn.Module) -> nn.Module:
    """Statistics of BatchNorm that are not those of a new network."""
    with torch.no_grad():
        network.train()(torch.rand(2, 3, 64, 64) * 2 - 1)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "saved", "zipped"),
    [
        ("ir50", lambda state: state, True),
        ("ir50", lambda state: {f"module.{key}": value for key, value in state.items()}, False),
        ("mobilefacenet_a", lambda state: {"iter": 1, "net_state_dict": state}, True),
    ],
)
def test_a_checkpoint_becomes_a_judge_with_the_same_features(narrow, tmp_path, capsys, name, saved, zipped):
    network = trained(KINDS[name].make())
    file, out = tmp_path / "published.pth", tmp_path / "judge.safetensors"
    torch.save(saved(network.state_dict()), file, _use_new_zipfile_serialization=zipped)
    assert main(["import", "judge", str(file), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert PUBLISHED[name] in said and f"{{name: {name}, weights: {out}}}" in said and f"--judge {name}={out}" in said
    images = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        assert torch.equal(load_embedder(name, out)(images), network(images))
    assert main(["import", "judge", str(file), "--out", str(out)]) == 2
    assert "expected a new file" in capsys.readouterr().err


def test_features_are_those_of_the_published_forward_pass(narrow):
    """Stem, units, output layer, then unit length, on the face where the 112-pixel template has it."""
    network, images = trained(face_ir50(width=8)), torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        maps = network.body(network.input_layer(to_template(images)))
        features = network.output_layer(maps)
        found = network(images)
    assert torch.allclose(found, features / features.norm(dim=1, keepdim=True)) and found.shape == (2, 64)


def without(state, key):
    return {name: value for name, value in state.items() if name != key}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda state: without(state, "body.3.res_layer.1.weight"),
            "of IR-50 (face.evoLVe) differ 1 tensors, first body.3.res_layer.1.weight",
        ),
        (lambda state: {**state, "body.3.res_layer.5.fc1.weight": torch.zeros(1)}, "first body.3.res_layer.5.fc1"),
        (lambda state: {**state, "output_layer.3.weight": torch.zeros(64, 9)}, "first output_layer.3.weight"),
        (lambda state: {**state, "output_layer.4.running_var": torch.full((64,), float("nan"))}, "NaN or infinity"),
        (lambda state: {"weights": state, "code": slice(0)}, "refused, none of its code was run"),
        (lambda state: {"fc.weight": torch.zeros(2, 2)}, "expected the weights of one of FaceNet"),
    ],
)
def test_what_fits_no_embedder_is_one_line_and_nothing_is_written(narrow, tmp_path, capsys, changed, said):
    file, out = tmp_path / "other.pth", tmp_path / "judge.safetensors"
    torch.save(changed(face_ir50(width=8).state_dict()), file)
    assert main(["import", "judge", str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not out.exists()


CLASSES = 6
NAMES = ("dot", "Ann", "cy", "bob", "eve", "fay")
SIZES = torch.tensor([5, 9, 4, 8, 6, 7])
IMAGENET = USUAL["ImageNet mean/std"]


def images(per_class=20, noise=3.0, seed=0):
    """Squares of six shades, 25 apart, in the order of NAMES."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat_interleave(per_class)
    shades = 60 + 25 * labels[:, None, None, None] + noise * torch.randn(len(labels), 1, 4, 4, generator=generator)
    pixels = shades.expand(-1, 3, -1, -1).round().clamp(0, 255).to(torch.uint8)
    return ImageSet(images=pixels, labels=labels, names=NAMES)


class Shades(nn.Module):
    """Knows each person's shade as it looks under `trained`; its outputs are in the order `outputs` of the classes."""

    def __init__(self, trained: Normalisation, outputs: torch.Tensor):
        super().__init__()
        shades = ((60 + 25.0 * torch.arange(CLASSES)) / 127.5 - 1)[:, None, None, None].expand(-1, 3, 1, 1)
        self.known = input_layer(trained)(shades).mean((1, 2, 3))[outputs]
        self.normalise = nn.Identity()

    def wants(self, normalisation):
        self.normalise = input_layer(normalisation)

    def forward(self, x):
        return -(self.normalise(x).mean((1, 2, 3))[:, None] - self.known).abs()


def judge(trained, outputs, card, order, *, data=None, accuracy=None):
    """check_reading as `tasks.imported` calls it: the model's outputs brought into the claimed order of the data."""
    data, model = data or images(), Shades(trained, outputs)
    model.known = model.known[order]
    model.wants(card)
    logits = evaluate_logits(model, data.images, image_size=4)
    claim = Claim(normalisation=card, order=order, accuracy=accuracy)
    check_reading(model, data, logits, claim, orders=usual_orders(NAMES, SIZES), image_size=4, device="cpu", where="f")
    return model


def alphabetical():
    """(outputs: the class of each output, order: the output of each class)."""
    order = order_by_name(sorted(NAMES), NAMES, "f")
    return torch.argsort(order), order


@pytest.mark.parametrize("trained", USUAL)
@pytest.mark.parametrize("accuracy", [None, 0.97])
def test_the_right_card_passes_and_the_model_stays_as_it_was(trained, accuracy):
    outputs, order = alphabetical()
    model = judge(USUAL[trained], outputs, USUAL[trained], order, accuracy=accuracy)
    expected = input_layer(USUAL[trained])(torch.ones(1, 3, 1, 1))
    assert torch.equal(model.normalise(torch.ones(1, 3, 1, 1)), expected)


@pytest.mark.parametrize("trained", USUAL)
@pytest.mark.parametrize("card", USUAL)
def test_every_wrong_normalisation_is_named(trained, card):
    outputs, order = alphabetical()
    if trained == card:
        return
    with pytest.raises(InputError, match=rf"\d% with {trained.replace('[', '.').replace(']', '.')}; .* as stated"):
        judge(USUAL[trained], outputs, USUAL[card], order)


@pytest.mark.parametrize("shift", [None, 1, -1])
def test_numbered_classes_are_tried_in_natural_order_and_the_order_is_handed_over(shift):
    """s1, s2, ..., s12: by text s10 comes after s1. The names by output are what `--class-names` takes."""
    names = tuple(sorted(f"s{number}" for number in range(1, 13)))
    sizes, data = torch.ones(12, dtype=torch.int64), torch.arange(12).repeat_interleave(20)
    natural = sorted(names, key=lambda name: int(name[1:]))
    order = order_by_name(natural, names, "f") if shift is None else torch.arange(12).roll(shift)
    test = ImageSet(images=torch.zeros(240, 3, 4, 4, dtype=torch.uint8), labels=data, names=names)
    logits = torch.nn.functional.one_hot(order, 12)[data].float()
    claim = Claim(normalisation=IMAGENET, order=torch.arange(12))
    orders = usual_orders(names, sizes)
    assert any(torch.equal(order, usual) for usual in orders.values())
    with pytest.raises(MisreadModel, match="with classes") as raised:
        check_reading(
            Shades(IMAGENET, torch.arange(6)),
            test,
            logits,
            claim,
            orders=orders,
            image_size=4,
            device="cpu",
            where="f",
            readings=Readings.none(IMAGENET),
        )
    found = raised.value.class_names
    assert torch.equal(order_by_name(found, names, "f"), order)
    assert shift is not None or list(found) == natural


@given(st.permutations(range(CLASSES)))
def test_any_order_of_the_classes_is_noticed(outputs):
    """Also one that leaves some people where they are, and so stays above chance."""
    assume(outputs != list(range(CLASSES)))
    with pytest.raises(InputError, match=r"with (the )?(alphabetical )?classes"):
        judge(IMAGENET, torch.tensor(outputs), IMAGENET, torch.arange(CLASSES))


def test_an_accuracy_that_is_not_reached_is_refused_although_above_chance():
    outputs, order = alphabetical()
    blurred = images(noise=120.0)
    judge(IMAGENET, outputs, IMAGENET, order, data=blurred)
    with pytest.raises(InputError, match=r"its card states 99\.0%\); no usual normalisation, size or class order fits"):
        judge(IMAGENET, outputs, IMAGENET, order, data=blurred, accuracy=0.99)


def test_a_normalisation_is_what_torchvision_makes_of_it():
    from torchvision.transforms.functional import normalize

    pictures = torch.rand(2, 3, 5, 5)
    got = input_layer(IMAGENET)(pictures * 2 - 1)
    torch.testing.assert_close(got, normalize(pictures, list(IMAGENET.mean), list(IMAGENET.std)))
    torch.testing.assert_close(input_layer(Normalisation.of_range(0, 255))(pictures * 2 - 1), pictures * 255)
    assert isinstance(input_layer(Normalisation.of_range(-1, 1)), nn.Identity)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": (0.0, 0.0)},
        {"std": (0.0, 1.0, 1.0)},
        {"std": (float("nan"),) * 3},
        {"mean": (float("inf"), 0.0, 0.0)},
        {"std": (-1.0, 1.0, 1.0)},
    ],
)
def test_impossible_normalisations_are_refused(wrong):
    with pytest.raises(InputError, match="expected three numbers"):
        Normalisation(**wrong)
    for low, high in ((1, 0), (0, 0), (float("nan"), 1), (0, float("inf"))):
        with pytest.raises(InputError, match="input range"):
            Normalisation.of_range(low, high)


class Stripes(nn.Module):
    """Knows six people by the shade of the red channel, in images of `side` pixels with channels in this order."""

    def __init__(self, side: int, channels: str):
        super().__init__()
        self.side, self.channels, self.normalise = side, channels, nn.Identity()
        self.known = (60 + 25.0 * torch.arange(CLASSES)) / 127.5 - 1

    def wants(self, normalisation):
        self.normalise = input_layer(normalisation)

    def forward(self, x):
        x = self.normalise(x)
        if self.channels == "bgr":
            x = x.flip(1)
        # Its shade is that of the red channel; any other size than its own shifts what it sees by chance.
        off = 0.0 if x.shape[-1] == self.side else 0.6 * (x.shape[-1] % 7 - 3)
        return -(x[:, 0].mean((1, 2))[:, None] + off - self.known).abs()


def coloured():
    """As `images`, of which the other channels show another person's shade."""
    data = images()
    pixels = data.images.clone()
    pixels[:, 1:] = images().images[(torch.arange(len(data)) * 7 + 31) % len(data)][:, 1:]
    return ImageSet(images=pixels, labels=data.labels, names=NAMES)


@pytest.mark.parametrize(
    ("side", "channels", "flags"),
    [
        (64, "rgb", "use --image-size 64"),
        (32, "bgr", "use --input-range -1 1 and --channels bgr"),
        (64, "bgr", "use --image-size 64 and --input-range -1 1 and --channels bgr"),
        (32, "rgb", None),
    ],
)
def test_a_wrong_size_and_swapped_channels_are_named_with_the_flags_to_give(side, channels, flags):
    model, data = Stripes(side, channels), coloured()
    logits = evaluate_logits(model, data.images, image_size=32)
    claim = Claim(normalisation=Normalisation(), order=torch.arange(CLASSES))
    tell = lambda: check_reading(model, data, logits, claim, orders={}, image_size=32, device="cpu", where="f")  # noqa: E731
    if flags is None:
        tell()
    else:
        with pytest.raises(InputError) as told:
            tell()
        assert str(told.value).endswith(flags) and "\n" not in str(told.value)
        enlarged = f" (of images loaded with {data.size}, so that a still larger size may be right);" in str(told.value)
        assert enlarged == ("--image-size" in flags), "48 may be the best of a model for 64 where the images have 32"


@pytest.mark.parametrize(
    ("side", "then", "flags"),
    [
        (32, as_flags, "use --input-range -1 1 and --channels rgb"),
        (64, as_flags, "use --image-size 64 and --input-range -1 1 and --channels rgb"),
        (32, as_arguments, "say input_range=(-1, 1) and channels='rgb' to Model"),
    ],
)
def test_channels_stated_as_blue_first_by_mistake_are_named_with_what_takes_it_back(side, then, flags):
    """What is said without them is the default: the rest of the line alone is what was said already."""
    model, data = Stripes(side, "rgb"), coloured()
    stated = Normalisation(channels="bgr")
    model.wants(stated)
    claim = Claim(normalisation=stated, order=torch.arange(CLASSES))
    logits = evaluate_logits(model, data.images, image_size=32)
    with pytest.raises(InputError) as told:
        check_reading(model, data, logits, claim, orders={}, image_size=32, device="cpu", where="f", then=then)
    assert str(told.value).endswith(flags) and "% with RGB, inputs in [-1, 1]" in str(told.value)
