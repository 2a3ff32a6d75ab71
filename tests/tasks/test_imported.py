"""A brought-in classifier: its weights as they are, its numbers on our test images, both conventions of Inception."""

import json

import pytest
import torch

from smoothsweep.core.data.images import to_unit
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import expected_calibration_error
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.tasks import imported
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.imported import adopt_classifier


@pytest.fixture
def brought(clean, tmp_path):
    """A folder as `smoothsweep import target` leaves it, its configuration, inputs, and the classifier in it.

    It is the pipeline's target, which has learnt nothing in its few steps, with a head that recognises the test images.
    """
    model = build_classifier("resnet_small", 3, protocol="clean")
    model.load_state_dict(clean.tensors("target", "weights"))
    tested = clean.tensors("data", "test")
    with torch.no_grad():
        features = model.eval().embed(to_unit(tested["images"]))
        wanted = torch.eye(3)[tested["labels"]]
        model.head.weight.copy_(torch.linalg.lstsq(features - features.mean(0), wanted, driver="gelsd").solution.T)
        model.head.bias.copy_(-model.head.weight @ features.mean(0))
    save_tensors(tmp_path / "brought" / "weights.safetensors", model.state_dict())
    config = {
        "architecture": "resnet_small",
        "num_classes": 3,
        "image_size": 32,
        "transform_input": False,
        "seed": 0,
        "path": str(tmp_path / "brought"),
        "protocol": "clean",
    }
    return config, {"data": clean.folder("data")}, TaskContext(work=tmp_path), model


def test_it_is_copied_and_tested_like_a_target_of_ours(clean, brought, tmp_path):
    config, inputs, context, model = brought
    (tmp_path / "out").mkdir()
    metrics = adopt_classifier(config, inputs, tmp_path / "out", context)
    made, ours = load_tensors(tmp_path / "out" / "weights.safetensors"), model.state_dict()
    assert set(made) == set(ours) and all(torch.equal(made[name], ours[name]) for name in ours)
    test = clean.tensors("data", "test")
    with torch.no_grad():
        logits = model(to_unit(test["images"]))
    tested = load_tensors(tmp_path / "out" / "test_logits.safetensors")
    torch.testing.assert_close(tested["logits"], logits)
    assert metrics["test_acc"] == (logits.argmax(1) == test["labels"]).double().mean().item() > 0.9
    assert metrics["ece"] == pytest.approx(
        expected_calibration_error(logits, test["labels"], protocol="clean", bins=10)
    )


def test_one_that_recognises_nobody_is_refused(clean, brought, tmp_path):
    config, inputs, context, _ = brought
    save_tensors(tmp_path / "brought" / "weights.safetensors", clean.tensors("target", "weights"))
    (tmp_path / "out").mkdir()
    with pytest.raises(
        InputError, match=r"got 33\.3% of 12 \(chance 33\.3%\); no usual normalisation, size or class order fits"
    ):
        adopt_classifier(config, inputs, tmp_path / "out", context)


def test_another_number_of_classes_than_the_datas_is_refused(brought, tmp_path):
    config, inputs, context, _ = brought
    with pytest.raises(InputError, match="expected a classifier of the data's 3 classes, got one of 4"):
        adopt_classifier({**config, "num_classes": 4}, inputs, tmp_path / "out", context)


def test_of_inception_the_accuracy_under_the_other_input_stands_beside_it(clean, brought, tmp_path, monkeypatch):
    """The network itself is half a minute; what counts is which convention each accuracy was taken under."""
    config, inputs, context, _ = brought
    loaded = []

    def load(folder, config, device):
        model = imported_loader(folder, {**config, "architecture": "resnet_small", "transform_input": False}, device)
        loaded.append(config["transform_input"])
        if config["transform_input"]:
            model.head.bias.data[2] += 1e6  # says class 2 whatever it sees
        return model

    imported_loader = imported.load_classifier
    monkeypatch.setattr(imported, "load_classifier", load)
    (tmp_path / "out").mkdir()
    metrics = adopt_classifier({**config, "architecture": "inception_v3"}, inputs, tmp_path / "out", context)
    assert loaded == [False, True]
    assert metrics["test_acc"] > 0.9
    labels = clean.tensors("data", "test")["labels"]
    assert metrics["test_acc_other_input"] == pytest.approx((labels == 2).double().mean().item())
    assert json.dumps(metrics)
