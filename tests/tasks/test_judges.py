"""The judges' numbers from their features and images alone: accuracies, distances, verdicts."""

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from torch import nn

from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import load_classifier


def floats(images):
    """Images of either protocol as floats in [-1, 1]."""
    return images.float() / 127.5 - 1 if images.dtype == torch.uint8 else images.float()


def at_32(images):
    images = floats(images)
    if images.shape[-1] == 32:
        return images
    return F.interpolate(images, size=(32, 32), mode="bilinear", align_corners=False, antialias=True)


@torch.no_grad()
def evaluator_features(pipeline, images):
    name = "judge_evaluator.evaluator"
    model = load_classifier(pipeline.folder(name), pipeline.config(name), "cpu")
    return model.embed(at_32(images)), model.head.weight, model.head.bias


@torch.no_grad()
def embedder_features(images):
    return load_embedder("synthetic")(floats(images))


def nearest(features, labels, real, real_labels):
    """Distance to the nearest real image of the same class, and its row, by brute force."""
    found = []
    for row, label in zip(features.double(), labels, strict=True):
        distances = (real.double() - row).square().sum(1).sqrt()
        distances[real_labels != label] = torch.inf
        found.append((distances.min().item(), distances.argmin().item()))
    distance, index = zip(*found, strict=True)
    return torch.tensor(distance, dtype=torch.float64), list(index)


def checked_verdicts(folder, judge, logits, labels, distance, index):
    rows = pd.read_parquet(folder / "per_image.parquet")
    predicted = logits.argmax(1)
    assert rows["class"].tolist() == labels.tolist() and rows["rank"].tolist() == [0, 1, 2] * 3
    assert rows["predicted"].tolist() == predicted.tolist()
    assert rows["hit"].tolist() == (predicted == labels).tolist()
    assert rows["distance"].tolist() == pytest.approx(distance.tolist(), rel=1e-3) and rows["nearest"].tolist() == index
    classes = pd.read_parquet(folder / "per_class.parquet")
    share = [(predicted == labels)[labels == c].float().mean().item() for c in range(3)]
    assert classes["class"].tolist() == [0, 1, 2] and classes[f"{judge}_acc1"].tolist() == pytest.approx(share)


@pytest.mark.parametrize("judge", ["evaluator", "embedder"])
def test_embeddings_are_those_of_the_real_images_in_order(pipeline, judge):
    made = pipeline.tensors(f"judge_{judge}.real", "features")
    for part in ("train", "test"):
        data = pipeline.tensors(f"judge_{judge}.real.data", part)
        features = embedder_features if judge == "embedder" else lambda x: evaluator_features(pipeline, x)[0]
        torch.testing.assert_close(made[f"{part}_features"], features(data["images"]), rtol=1e-3, atol=1e-4)
        assert torch.equal(made[f"{part}_labels"], data["labels"])
    assert pipeline.metrics(f"judge_{judge}.real") == {"feature_dim": made["train_features"].shape[1]}


def test_the_evaluators_verdict(pipeline):
    reconstructions = reconstructed_images(pipeline.folder("loot"), 32)
    features, weight, bias = evaluator_features(pipeline, reconstructions["images"])
    logits, labels = features @ weight.T + bias, reconstructions["labels"]
    hits = (logits.argmax(1) == labels).double()
    metrics = pipeline.metrics("judge_evaluator")
    real = {part: pipeline.tensors("judge_evaluator.real.data", part) for part in ("train", "test")}
    train = evaluator_features(pipeline, real["train"]["images"])[0]
    distance, index = nearest(features, labels, train, real["train"]["labels"])
    assert metrics["attack_acc1"] == pytest.approx(hits.mean().item())
    assert metrics["attack_acc5"] == 1.0  # there are three classes
    by_class = torch.stack([hits[labels == c].mean() for c in range(3)])
    assert metrics["attack_acc1_std"] == pytest.approx(by_class.std().item())
    slots = hits.view(3, 3).mean(0)
    assert metrics["attack_acc1_std_slots"] == pytest.approx(slots.std().item())
    own = logits.softmax(1)[torch.arange(9), labels]
    assert metrics["attack_conf"] == pytest.approx(own.mean().item(), rel=1e-3)
    assert metrics["dist_eval"] == pytest.approx((distance**2).mean().item(), rel=1e-3)  # squared, as published
    assert metrics["dist_eval_plain"] == pytest.approx(distance.mean().item(), rel=1e-3)
    assert metrics["dist_knn"] == pytest.approx(metrics["dist_eval"], rel=1e-3)  # all labels are below 300
    assert metrics["dist_knn_plain"] == pytest.approx(metrics["dist_eval_plain"], rel=1e-3)
    assert metrics["attack_acc5_last"] == 1.0
    assert metrics["dist_eval"] != pytest.approx(metrics["dist_eval_plain"], rel=0.01)
    tested = evaluator_features(pipeline, real["test"]["images"])[0] @ weight.T + bias
    right = (tested.argmax(1) == real["test"]["labels"]).double().mean().item()
    assert metrics["evaluator_real_acc"] == pytest.approx(right)
    checked_verdicts(pipeline.folder("judge_evaluator"), "attack", logits, labels, distance, index)


def test_the_embedders_verdict(pipeline):
    reconstructions = reconstructed_images(pipeline.folder("loot"), None)
    real = {part: pipeline.tensors("judge_embedder.real.data", part) for part in ("train", "test")}
    train, test, features = (embedder_features(x["images"]) for x in (real["train"], real["test"], reconstructions))
    head = LogisticRegression(C=30.0, tol=1e-6, max_iter=1000)
    head.fit(F.normalize(train.double()), real["train"]["labels"])
    logits = torch.from_numpy(head.decision_function(F.normalize(features.double())))
    labels, metrics = reconstructions["labels"], pipeline.metrics("judge_embedder")
    hits = (logits.argmax(1) == labels).double()
    distance, index = nearest(features, labels, train, real["train"]["labels"])
    assert metrics["embedder_acc1"] == pytest.approx(hits.mean().item()) and metrics["embedder_acc5"] == 1.0
    by_class = torch.stack([hits[labels == c].mean() for c in range(3)])
    assert metrics["embedder_acc1_std"] == pytest.approx(by_class.std().item())
    assert metrics["dist_face"] == pytest.approx((distance**2).mean().item(), rel=1e-3)
    assert metrics["dist_face_plain"] == pytest.approx(distance.mean().item(), rel=1e-3)
    right, taken = real["test"]["labels"].numpy(), head.predict(F.normalize(test.double()))
    assert metrics["embedder_real_acc"] == pytest.approx((taken == right).mean())
    assert metrics["embedder_real_acc_balanced"] == pytest.approx(balanced_accuracy_score(right, taken))
    checked_verdicts(pipeline.folder("judge_embedder"), "embedder", logits, labels, distance, index)


def test_the_general_judges_verdict_is_a_linear_head_on_its_own_features(pipeline, tmp_path, monkeypatch):
    """By a network that stands for the published one, which is not here: nine numbers of each picture."""

    class Coarse(nn.Module):
        def forward(self, images):
            return F.normalize(F.adaptive_avg_pool2d(images, 3).flatten(1))

    monkeypatch.setattr(judges, "load_embedder", lambda name, path: Coarse())
    monkeypatch.setattr(judges, "own_weights", lambda name: tmp_path / name)
    config, made = {"network": "swag_vit_b_16"}, {}
    for name in ("real", "judged"):
        made[name] = tmp_path / name
        made[name].mkdir()
    context = TaskContext(work=tmp_path)
    data = pipeline.folder("judge_embedder.real.data")
    assert judges.embed_real_images(config, {"data": data}, made["real"], context) == {"feature_dim": 27}
    features_of_real = load_tensors(made["real"] / "features.safetensors")
    uneven = {key: value[1:] if key.startswith("test") else value for key, value in features_of_real.items()}
    save_tensors(made["real"] / "features.safetensors", uneven)  # the first person has one test image less
    inputs = {"real": made["real"], "loot": pipeline.folder("loot")}
    metrics = judges.judge_by_general_features(config, inputs, made["judged"], context)
    real = {part: pipeline.tensors("judge_embedder.real.data", part) for part in ("train", "test")}
    reconstructions, coarse = reconstructed_images(pipeline.folder("loot"), None), Coarse()
    train, test, features = (coarse(floats(x["images"])) for x in (real["train"], real["test"], reconstructions))
    head = LogisticRegression(C=30.0, tol=1e-6, max_iter=1000).fit(train.double(), real["train"]["labels"])
    logits = torch.from_numpy(head.decision_function(features.double()))
    hits = (logits.argmax(1) == reconstructions["labels"]).double()
    right, taken = real["test"]["labels"][1:].numpy(), head.predict(test[1:].double())
    assert metrics["general_acc1"] == pytest.approx(hits.mean().item()) and metrics["general_acc5"] == 1.0
    assert metrics["general_real_acc"] == pytest.approx((taken == right).mean())
    assert metrics["general_real_acc_balanced"] == pytest.approx(balanced_accuracy_score(right, taken))
    assert set(metrics) == {
        "general_acc1",
        "general_acc5",
        "general_acc1_std",
        "general_real_acc",
        "general_real_acc_balanced",
    }
    distance, index = nearest(features, reconstructions["labels"], train, real["train"]["labels"])
    checked_verdicts(made["judged"], "general", logits, reconstructions["labels"], distance, index)
