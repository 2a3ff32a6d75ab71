"""A brought-in classifier: its weights as they are, its numbers on our test images, both conventions of Inception."""

import json

import pytest
import torch

from core.errors import InputError
from tasks import imported
from tasks.context import TaskContext
from tasks.files import load_tensors, save_tensors
from tasks.imported import adopt_classifier


@pytest.fixture
def brought(clean, tmp_path):
    """A folder as `smoothsweep import target` leaves it, made of the pipeline's target; its configuration, inputs."""
    save_tensors(tmp_path / "brought" / "weights.safetensors", clean.tensors("target", "weights"))
    config = {
        "architecture": "resnet_small", "num_classes": 3, "image_size": 32, "transform_input": False, "seed": 0,
        "path": str(tmp_path / "brought"), "protocol": "clean",
    }  # fmt: skip
    return config, {"data": clean.folder("data")}, TaskContext(work=tmp_path)


def test_it_is_copied_and_tested_like_a_target_of_ours(clean, brought, tmp_path):
    config, inputs, context = brought
    (tmp_path / "out").mkdir()
    metrics = adopt_classifier(config, inputs, tmp_path / "out", context)
    made, ours = load_tensors(tmp_path / "out" / "weights.safetensors"), clean.tensors("target", "weights")
    assert set(made) == set(ours) and all(torch.equal(made[name], ours[name]) for name in ours)
    assert {name: metrics[name] for name in ("test_acc", "ece")} == pytest.approx(
        {name: clean.metrics("target")[name] for name in ("test_acc", "ece")}
    )
    tested = load_tensors(tmp_path / "out" / "test_logits.safetensors")
    torch.testing.assert_close(tested["logits"], clean.tensors("target", "test_logits")["logits"])


def test_another_number_of_classes_than_the_datas_is_refused(brought, tmp_path):
    config, inputs, context = brought
    with pytest.raises(InputError, match="expected a classifier of the data's 3 classes, got one of 4"):
        adopt_classifier({**config, "num_classes": 4}, inputs, tmp_path / "out", context)


def test_of_inception_the_accuracy_under_the_other_input_stands_beside_it(clean, brought, tmp_path, monkeypatch):
    """The network itself is half a minute; what counts is which convention each accuracy was taken under."""
    config, inputs, context = brought
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
    assert metrics["test_acc"] == pytest.approx(clean.metrics("target")["test_acc"])
    labels = clean.tensors("data", "test")["labels"]
    assert metrics["test_acc_other_input"] == pytest.approx((labels == 2).double().mean().item())
    assert json.dumps(metrics)
