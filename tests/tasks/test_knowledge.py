"""Knowledge extraction: the surrogate has seen reconstructions alone, and is tested on private images it could know."""

import math

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import network_input, rank_batches
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.judging import extract_knowledge
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import Training, load_classifier, new_classifier

RATES = [1e-4 + (0.05 - 1e-4) * (1 + math.cos(math.pi * epoch / 2)) / 2 for epoch in range(2)]


def surrogate_of(pipeline):
    config = {**pipeline.config("knowledge"), "defense": {"kind": "label_smoothing", "alpha": 0.0}}
    return load_classifier(pipeline.folder("knowledge"), config, "cpu")


def trained_by_hand(pipeline):
    """Two epochs of SGD on reconstructions: plain cross entropy, cosine rate, momentum, decay of the official one."""
    reconstructions, config = reconstructed_images(pipeline.folder("loot"), 32), pipeline.config("knowledge")
    shared = config["protocol"] == "paper"  # the official surrogate draws once for a whole batch
    augmentation = Augmentation(hue=0.0, shared=shared)
    recipe = TrainingRecipe(batch_size=9, image_size=32, augmentation=augmentation)
    model = new_classifier(Training.of({**config, "defense": {"kind": "label_smoothing"}}), 3).to(
        memory_format=torch.channels_last
    )
    velocity = [torch.zeros_like(weight) for weight in model.train().parameters()]
    for epoch, rate in enumerate(RATES):
        for batch in rank_batches(reconstructions["images"], reconstructions["labels"], recipe, seed=2000, epoch=epoch):
            loss = F.cross_entropy(model(network_input(batch, 32)), batch.labels)
            gradients = torch.autograd.grad(loss, model.parameters())
            with torch.no_grad():
                for weight, speed, gradient in zip(model.parameters(), velocity, gradients, strict=True):
                    speed.mul_(0.9).add_(gradient + 1e-4 * weight)
                    weight -= rate * speed
    return model.eval()


def test_the_surrogate_is_trained_on_the_reconstructions_alone(pipeline):
    expected = trained_by_hand(pipeline).state_dict()
    for name, value in pipeline.tensors("knowledge", "weights").items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4, msg=name)
    history = pd.read_parquet(pipeline.folder("knowledge") / "history.parquet")
    assert history["lr"].tolist() == pytest.approx(RATES) and history["alpha"].tolist() == [0.0, 0.0]


@torch.no_grad()
def test_its_score_is_its_accuracy_on_the_private_images(pipeline):
    model, metrics = surrogate_of(pipeline), pipeline.metrics("knowledge")
    for part in ("train", "test"):
        data = pipeline.tensors("data", part)
        right = model(data["images"].float() / 127.5 - 1).argmax(1) == data["labels"]
        assert metrics[f"xi_{part}"] == pytest.approx(right.double().mean().item())


def test_images_of_classes_that_were_not_attacked_do_not_count(clean, tmp_path):
    reconstructions = reconstructed_images(clean.folder("loot"), 32)
    kept = reconstructions["labels"] != 1
    save_tensors(
        tmp_path / "loot" / "images.safetensors", {name: value[kept] for name, value in reconstructions.items()}
    )
    inputs = {"data": clean.folder("knowledge.data"), "loot": tmp_path / "loot"}
    metrics = extract_knowledge(clean.config("knowledge"), inputs, tmp_path, TaskContext(work=tmp_path))
    config = {**clean.config("knowledge"), "defense": {"kind": "label_smoothing"}}
    model, data = load_classifier(tmp_path, config, "cpu"), load_tensors(inputs["data"] / "test.safetensors")
    right = model(data["images"].float() / 127.5 - 1).argmax(1) == data["labels"]
    assert metrics["xi_test"] == pytest.approx(right[data["labels"] != 1].double().mean().item())
    train = load_tensors(inputs["data"] / "train.safetensors")
    asked = pd.read_parquet(tmp_path / "images.parquet").set_index("class")
    known = {name: part["labels"][part["labels"] != 1] for name, part in (("train", train), ("test", data))}
    for name, labels in known.items():
        classes, counts = labels.unique(return_counts=True)
        assert asked[name].to_dict() == dict(zip(classes.tolist(), counts.tolist(), strict=True))
