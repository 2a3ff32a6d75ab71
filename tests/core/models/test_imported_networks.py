"""Official checkpoints of targets and judges: the same function, and what is refused."""

import hashlib
from dataclasses import replace

import pytest
import torch
import torchvision
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import face_ir50, load_embedder, to_template
from smoothsweep.core.models.official import PUBLISHED, import_target
from smoothsweep.orchestrator.cli import main


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


UNITS = {"ir50": (3, 4, 14, 3), "ir152": (3, 8, 36, 3)}
PARAMETERS = {"ir50": 43_574_976, "ir152": 70_737_600}


def published_names(units):
    """Weights by name and shape, as face.evoLVe's modules make them: stem, units of four stages, output layer."""
    found = {"input_layer.0.weight": (64, 3, 3, 3), **batch_norm("input_layer.1", 64), "input_layer.2.weight": (64,)}
    number, inputs = 0, 64
    for stage, count in enumerate(units):
        outputs = 64 * 2**stage
        for _ in range(count):
            unit = f"body.{number}"
            if inputs != outputs:
                found[f"{unit}.shortcut_layer.0.weight"] = (outputs, inputs, 1, 1)
                found |= batch_norm(f"{unit}.shortcut_layer.1", outputs)
            found |= batch_norm(f"{unit}.res_layer.0", inputs)
            found[f"{unit}.res_layer.1.weight"] = (outputs, inputs, 3, 3)
            found[f"{unit}.res_layer.2.weight"] = (outputs,)
            found[f"{unit}.res_layer.3.weight"] = (outputs, outputs, 3, 3)
            found |= batch_norm(f"{unit}.res_layer.4", outputs)
            number, inputs = number + 1, outputs
    found |= batch_norm("output_layer.0", 512)
    found |= {"output_layer.3.weight": (512, 512 * 49), "output_layer.3.bias": (512,)}
    return found | batch_norm("output_layer.4", 512)


def batch_norm(name, width):
    found = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return found | {f"{name}.num_batches_tracked": ()}


@pytest.mark.parametrize("name", UNITS)
def test_the_networks_have_the_published_names_and_sizes(name):
    with torch.device("meta"):
        network = KINDS[name].make()
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == published_names(UNITS[name])
    assert sum(value.numel() for value in network.parameters()) == PARAMETERS[name]


@pytest.fixture
def narrow(monkeypatch):
    """The two at an eighth of their width, which is all that is other about them."""
    for name in UNITS:
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
