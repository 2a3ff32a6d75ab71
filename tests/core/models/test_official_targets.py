"""Official checkpoints: both published forms come in, and everything else is refused in one line."""

import hashlib
import os

import pytest
import torch
import torchvision

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.official_targets import import_target, read_official_checkpoint


class Hostile:
    """Runs a command when it is unpickled the usual way."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


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
    [
        (bare_file, "bare", "model.", None),
        (trainer_file, "model_state_dict", "model._orig_mod.", 100),
    ],
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


@pytest.mark.parametrize("prefix", ["", "model.", "module.", "module.model._orig_mod.", "_orig_mod.module."])
@pytest.mark.parametrize("key", [None, "model_state_dict", "state_dict"])
def test_every_wrapping_and_prefix_is_read(network, tmp_path, prefix, key):
    state = {prefix + name: value for name, value in network.state_dict().items()}
    torch.save({key: state, "epoch": "last"} if key else state, tmp_path / "x.pth")
    got = read_official_checkpoint(tmp_path / "x.pth")
    assert list(got) == list(network.state_dict())
    assert all(torch.equal(got[name], value) for name, value in network.state_dict().items())
    assert bring(tmp_path / "x.pth")[1].epoch is None  # "last" is no number


def test_optimizer_state_is_ignored(network, tmp_path):
    content = torch.load(trainer_file(network, tmp_path / "a.pth"), weights_only=True)
    content["optimizer_state_dict"] = {"state": {0: {"exp_avg": torch.full((3,), float("nan"))}}}
    torch.save(content, tmp_path / "b.pth")
    assert bring(tmp_path / "b.pth")[1].tensors == len(network.state_dict())


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


def test_an_auxiliary_head_must_keep_its_1000_outputs(inception, tmp_path):
    state = {**inception.state_dict(), "AuxLogits.fc.weight": torch.zeros(5, 768)}
    path = tmp_path / "inception.pth"
    torch.save(state, path)
    with pytest.raises(InputError, match=r"AuxLogits.fc.weight: expected shape \(1000, 768\), got \(5, 768\)"):
        bring(path, architecture="inception_v3", num_classes=5, transform_input=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 530}, r"expected 530 classes, got 7 \(rows of fc.weight\)"),
        ({"architecture": "densenet121"}, "expected densenet121, whose classification layer is classifier.weight"),
        ({"architecture": "resnet34"}, r"as resnet34: \d+ missing keys, first backbone.layer1.2"),
        ({"architecture": "resnet_small"}, "expected resnet_small, whose classification layer is head.weight; there"),
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
    ("change", "message"),
    [
        (lambda s: s["fc.bias"].fill_(float("nan")), "head.bias: expected finite numbers, got NaN or infinity"),
        (lambda s: s["bn1.running_var"].fill_(float("inf")), "backbone.bn1.running_var: expected finite numbers"),
        (lambda s: s.pop("conv1.weight"), "1 missing keys, first backbone.conv1.weight"),
        (lambda s: s.update(surplus=torch.zeros(1)), "1 unknown keys, first backbone.surplus"),
        (lambda s: s.update({"fc.bias": torch.zeros(8)}), r"head.bias: expected shape \(7,\), got \(8,\)"),
        (lambda s: s.update({"fc.weight": torch.zeros(7)}), "whose classification layer is fc.weight; there is none"),
        (lambda s: s.update({"fc.bias": "text"}), "'fc.bias': expected a tensor, got str"),
        (lambda s: s.update({"model.fc.bias": torch.zeros(7)}), "expected every tensor once"),
    ],
)
def test_weights_that_do_not_fit_are_refused(network, tmp_path, change, message):
    state = {key: value.clone() for key, value in network.state_dict().items()}
    change(state)
    torch.save(state, tmp_path / "odd.pth")
    with pytest.raises(InputError, match=message) as raised:
        bring(tmp_path / "odd.pth")
    assert "odd.pth" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "expected a dictionary of tensors, got list"),
        ({}, "expected a dictionary of tensors"),
        ({"model_state_dict": {}}, "expected a dictionary of tensors"),
        ({"other": {"a": torch.zeros(1)}}, "'other': expected a tensor, got dict"),
        ({"model": {"a": {}}}, "'a': expected a tensor, got dict"),
        ({"model": {"a": torch.zeros(1)}}, "whose classification layer is fc.weight; there is none"),
    ],
)
def test_other_contents_are_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(InputError, match=message):
        bring(tmp_path / "odd.pth")


def test_damaged_and_missing_files_are_named(network, tmp_path):
    path = bare_file(network, tmp_path / "x.pth")
    path.write_bytes(path.read_bytes()[:-1000])
    for wrong, message in ((path, "is cut short"), (tmp_path / "absent.pth", "no file")):
        with pytest.raises(InputError, match=message) as raised:
            bring(wrong)
        assert wrong.name in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("place", ["beside", "inside"])
def test_code_in_a_checkpoint_is_not_run(network, tmp_path, place):
    witness = tmp_path / "witness"
    content = {"epoch": 1, "model_state_dict": network.state_dict()}
    if place == "beside":
        content["extra"] = Hostile(f"touch {witness}")
    else:
        content["model_state_dict"]["extra"] = Hostile(f"touch {witness}")
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(InputError, match=r"holds more than tensors .*refused, none of its code was run"):
        bring(tmp_path / "x.pth")
    assert not witness.exists()
