"""The example in two dimensions: the artifact is the climb and the map of a network trained as the notebook says."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import make_blobs

from smoothsweep.core.analysis import toy
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.toy import run_toy

ALPHA, STEPS = -0.05, 1500  # of 5000, which tests/core/analysis/test_toy.py takes to the digit


def trained():
    points, labels = make_blobs(
        n_samples=500, centers=[(0, -10), (-10, 10), (10, 10)], cluster_std=1.6, random_state=17
    )
    points, labels = torch.from_numpy(points).float(), torch.from_numpy(labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        hidden = [
            layer
            for width in (2, 20)
            for layer in (torch.nn.Linear(width, 20), torch.nn.BatchNorm1d(20), torch.nn.ReLU())
        ]
        net = torch.nn.Sequential(*hidden, torch.nn.Linear(20, 3, bias=False))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    soft = (1 - ALPHA) * F.one_hot(labels, 3) + ALPHA / 3
    for _ in range(STEPS):
        loss = -(soft * net(points).log_softmax(1)).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval(), points, labels


@pytest.mark.slow
def test_the_artifact_holds_climb_and_map_of_the_trained_network(tmp_path, monkeypatch):
    monkeypatch.setattr(toy, "train_toy", partial(toy.train_toy, steps=STEPS))
    metrics = run_toy({"alpha": ALPHA}, {}, tmp_path, TaskContext(work=tmp_path))
    made = load_tensors(tmp_path / "toy.safetensors")
    net, points, labels = trained()
    assert torch.equal(made["points"], points) and torch.equal(made["labels"], labels)
    assert metrics["steps"] == len(made["path"]) - 2
    end, endless = made["path"][-1], made["endless_path"]
    with torch.no_grad():
        assert made["path"][0].tolist() == [-3.0, -10.0] and net(made["path"][-2:-1]).softmax(1)[0, 2] > 0.95
        axis = torch.linspace(-15, 15, len(made["axis"]))
        probability = net(torch.cartesian_prod(axis, axis).flip(1)).softmax(1).view(len(axis), len(axis), 3)
    torch.testing.assert_close(made["axis"], axis)
    torch.testing.assert_close(made["confidence"], probability.max(2).values, atol=1e-3, rtol=1e-3)
    assert (made["prediction"] == probability.argmax(2)).float().mean() > 0.999
    distances = [(points[labels == 2] - place).norm(dim=1).min().item() for place in (end, endless[-1])]
    assert [metrics["distance"], metrics["distance_no_stop"]] == pytest.approx(distances, rel=1e-5)
    assert len(endless) == 5001 and torch.equal(endless[: len(made["path"])], made["path"])
    soft = (1 - ALPHA) * F.one_hot(labels, 3) + ALPHA / 3
    loss = -(soft * net.train()(points).log_softmax(1)).sum(1).mean().item()
    assert metrics["train_loss"] == pytest.approx(loss, abs=1e-5)
