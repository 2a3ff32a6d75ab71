"""The target's stage against a loop written out: batches, loss, learning rate of every epoch, what it reports."""

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import network_input, network_seed, rank_batches
from smoothsweep.tasks.training import Training, load_classifier, new_classifier

ALPHA, RATES = 0.3, [0.02, 0.002]  # a milestone at half of two epochs


def smoothed(logits, labels, alpha):
    """Cross entropy with (1 - alpha) on the label and alpha / C on every class."""
    logs = logits - logits.logsumexp(dim=1, keepdim=True)
    return -((1 - alpha) * logs[torch.arange(len(labels)), labels] + alpha * logs.mean(dim=1)).mean()


def trained_by_hand(data, config):
    """Two epochs of SGD (Adam blows rounding up); the model, and (loss, accuracy, logit gap) of every epoch."""
    recipe = TrainingRecipe(batch_size=9, image_size=32, augmentation=Augmentation(hue=0.0))
    model = new_classifier(Training.of(config), 3).to(memory_format=torch.channels_last).train()
    velocity = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    rows = []
    for epoch, rate in enumerate(RATES):
        losses, hits, gaps = [], [], []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(network_seed(1, epoch, 0))
            for batch in rank_batches(data["images"], data["labels"], recipe, seed=1, epoch=epoch):
                logits = model(network_input(batch, 32))
                loss = smoothed(logits, batch.labels, ALPHA)
                gradients = torch.autograd.grad(loss, model.parameters())
                with torch.no_grad():
                    for (name, weight), gradient in zip(model.named_parameters(), gradients, strict=True):
                        velocity[name].mul_(0.9).add_(gradient + 0.01 * weight)
                        weight -= rate * velocity[name]
                own = logits.detach()[torch.arange(len(logits)), batch.labels]
                losses += [loss.item()] * len(logits)
                hits += (logits.argmax(1) == batch.labels).tolist()
                gaps += (own - (logits.detach().sum(1) - own) / 2).tolist()
        rows.append([sum(values) / len(values) for values in (losses, hits, gaps)])
    return model.eval(), rows


def test_two_epochs_are_those_of_a_loop_written_out(pipeline):
    data = pipeline.tensors("data", "train")
    model, rows = trained_by_hand(data, pipeline.config("target"))
    for name, value in pipeline.tensors("target", "weights").items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-3, atol=2e-5, msg=name)
    history = pd.read_parquet(pipeline.folder("target") / "history.parquet")
    assert history["epoch"].tolist() == [0, 1]
    assert history["lr"].tolist() == pytest.approx(RATES) and history["alpha"].tolist() == [ALPHA] * 2
    for row, (loss, hits, gap) in zip(history.itertuples(), rows, strict=True):
        assert (row.loss, row.train_acc, row.logit_gap) == pytest.approx((loss, hits, gap), rel=1e-3, abs=1e-4)


def test_the_report_is_that_of_the_test_images(pipeline):
    tested, metrics = pipeline.tensors("target", "test_logits"), pipeline.metrics("target")
    test = pipeline.tensors("data", "test")
    model = load_classifier(pipeline.folder("target"), pipeline.config("target"), "cpu")
    logits = model(test["images"].float() / 127.5 - 1)
    torch.testing.assert_close(tested["logits"], logits, rtol=1e-4, atol=1e-4)
    assert torch.equal(tested["labels"], test["labels"])
    right = tested["logits"].argmax(1) == test["labels"]
    assert metrics["test_acc"] == pytest.approx(right.float().mean().item())
    rows = pd.read_parquet(pipeline.folder("target") / "per_class.parquet")
    assert rows["class"].tolist() == [0, 1, 2]
    by_class = [right[test["labels"] == c].float().mean().item() for c in range(3)]
    assert rows["test_acc"].tolist() == pytest.approx(by_class)
    history = pd.read_parquet(pipeline.folder("target") / "history.parquet")
    last = history.iloc[-1]
    assert metrics["train_acc"] == last["train_acc"] and metrics["logit_gap"] == last["logit_gap"]
    assert metrics["epochs_trained"] == 2 and last["test_acc"] == pytest.approx(metrics["test_acc"])


def test_calibration_is_over_ten_bins_of_the_test_images(pipeline):
    tested = pipeline.tensors("target", "test_logits")
    confidence, predicted = F.softmax(tested["logits"], 1).max(1)
    squares = 0.0
    for low in torch.arange(10) / 10:
        inside = (confidence >= low) & (confidence < low + 0.1)
        if inside.any():
            gap = (predicted == tested["labels"])[inside].double().mean() - confidence[inside].double().mean()
            squares += inside.double().mean() * gap**2
    assert confidence.max() < 1  # where the protocols agree
    assert pipeline.metrics("target")["ece"] == pytest.approx(float(squares) ** 0.5, abs=1e-6)
