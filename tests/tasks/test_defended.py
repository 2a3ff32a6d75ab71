"""Defended targets: trained, saved, loaded again, read as the protocol says, stopped at an accuracy."""

import json

import pandas as pd
import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.files import load_tensors, save_images
from smoothsweep.tasks.target import train_target
from smoothsweep.tasks.training import load_classifier

MID = {"kind": "mid", "beta": 0.01}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    faces = synthetic_faces(population="private", identities=3, per_identity=6, size=32, seed=1)
    for part in ("train", "test"):
        save_images(folder, part, faces)
    return folder


def config(defense, *, protocol="clean", **changes):
    recipe = Recipe(
        architecture="resnet_small", pretrained=False, image_size=32, epochs=3, batch_size=9, defense=defense
    )
    settings = recipe.model_dump(mode="json", exclude_none=True)
    return {**settings, "defense": recipe.defense.resolved(protocol), "seed": 3, "protocol": protocol, **changes}


def trained(settings, data, folder, **inputs):
    work = folder / "work"
    work.mkdir(parents=True)
    context = TaskContext(work=work)
    return train_target(settings, {"data": data, **inputs}, folder, context)


DEFENDED = [
    MID,
    {"kind": "skip_removal"},
    {"kind": "freeze", "stages": 1, "smoothing": {"alpha": -0.1}},
    {"kind": "logit_clipping", "norm": 1.0},
    {"kind": "loft", "rank": 4},
    {"kind": "at_at", "steps": 2},
    {"kind": "trap_mid"},
    {"kind": "ssd", "eps": 1.0},
    {"kind": "dp_sgd", "noise": 0.5},
    {"kind": "mixup", "alpha": 0.4},
]


@pytest.mark.parametrize("defense", DEFENDED, ids=lambda d: d["kind"])
def test_a_defended_target_comes_back_as_it_was_tested(defense, data, tmp_path):
    settings = config(defense)
    metrics = trained(settings, data, tmp_path)
    tested = load_tensors(tmp_path / "test_logits.safetensors")
    again = load_classifier(tmp_path, settings, "cpu")
    images = load_tensors(data / "test.safetensors")["images"].float().div(127.5).sub(1)
    torch.testing.assert_close(again(images), tested["logits"], rtol=1e-4, atol=1e-4)
    assert metrics["epochs_trained"] == 3 and not any(p.requires_grad for p in again.parameters())
    assert ("test_acc_mean_readout" in metrics) == (defense["kind"] == "mid")


def test_the_history_has_a_column_for_every_fact(data, tmp_path):
    trained(config({**MID, "beta_warmup": 1.0, "smoothing": {"alpha": 0.1}}), data, tmp_path)
    history = pd.read_parquet(tmp_path / "history.parquet")
    known = ["epoch", "lr", "loss", "train_acc", "test_acc", "seconds", "alpha", "logit_gap"]
    assert list(history.columns) == [*known, "kl", "sigma_mean", "beta"]
    assert history["beta"].tolist() == pytest.approx([0.01 / 3, 0.02 / 3, 0.01])
    assert history["alpha"].tolist() == [0.1] * 3 and history["kl"].gt(0).all()


def test_a_bottleneck_is_read_noisily_under_paper_and_without_noise_under_clean(data, tmp_path):
    images = torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    metrics = {}
    for protocol in ("paper", "clean"):
        folder = tmp_path / protocol
        settings = config({**MID, "beta": 1.0}, protocol=protocol)  # so strong that the noise shows
        metrics[protocol] = trained(settings, data, folder)
        model, same, other = (load_classifier(folder, settings, "cpu", seed=seed) for seed in (0, 0, 1))
        first = model(images)
        assert torch.equal(first, same(images))
        assert torch.equal(first, model(images)) == torch.equal(first, other(images)) == (protocol == "clean")
        for readout in ("mean", "noisy", "expectation"):
            assert load_classifier(folder, settings, "cpu", readout=readout).head.readout == readout
    assert metrics["clean"]["test_acc"] == metrics["clean"]["test_acc_mean_readout"]
    assert metrics["paper"]["test_acc_mean_readout"] == metrics["clean"]["test_acc"]  # the same training


def test_weights_and_readouts_that_do_not_fit_are_one_clear_line(data, tmp_path):
    plain = config({"alpha": 0.0})
    trained(plain, data, tmp_path)
    with pytest.raises(InputError, match="readout: expected none of a network whose answers are not noisy, got 'mean'"):
        load_classifier(tmp_path, plain, "cpu", readout="mean")
    with pytest.raises(InputError, match=r"weights.safetensors: expected weights of resnet_small trained with defense"):
        load_classifier(tmp_path, config(MID), "cpu")
    trained(config(MID), data, tmp_path / "mid")
    with pytest.raises(InputError, match="readout: expected one of noisy, mean, expectation, got 'quiet'"):
        load_classifier(tmp_path / "mid", config(MID), "cpu", readout="quiet")


def test_a_training_stops_at_a_test_accuracy(data, tmp_path):
    full = trained(config({"alpha": 0.0}), data, tmp_path / "full")
    history = pd.read_parquet(tmp_path / "full/history.parquet")
    assert history["test_acc"].notna().all()
    goal = history["test_acc"][1]
    assert history["test_acc"][0] < goal
    metrics = trained(config({"alpha": 0.0}, stop_at_test_acc=goal), data, tmp_path / "stopped")
    assert metrics["epochs_trained"] == 2 and metrics["test_acc"] == goal and full["epochs_trained"] == 3
    assert read_progress(tmp_path / "stopped/work")["fraction"] == 1.0
    (tmp_path / "stopped/manifest.json").write_text(json.dumps({"config": {}, "metrics": metrics}))
    follower = trained(config({"alpha": 0.0}), data, tmp_path / "follower", reference=tmp_path / "stopped")
    assert follower["epochs_trained"] == 2
    with pytest.raises(InputError, match="stop_at_test_acc: expected a number or a reference target, got both"):
        settings = config({"alpha": 0.0}, stop_at_test_acc=0.5)
        trained(settings, data, tmp_path / "both", reference=tmp_path / "stopped")


def test_an_accuracy_that_is_never_reached_is_one_clear_line(data, tmp_path):
    words = r"stop_at_test_acc: expected a test accuracy of 1\.5000 within 3 epochs, got \d\.\d{4} at best \(epoch \d\)"
    with pytest.raises(AccuracyNotReached, match=words):
        trained(config({"alpha": 0.0}, stop_at_test_acc=1.5), data, tmp_path)
    assert not (tmp_path / "weights.safetensors").exists()
