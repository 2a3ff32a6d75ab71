"""Defended, poisoned, noisy, imported and foreign targets as stages."""

import json
import sys

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from tiny import tiny_sweep

from smoothsweep.core.data.images import to_unit
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.core.external import kinds as consent
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import LoadedSweep, check
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks import imported
from smoothsweep.tasks.attack import OpenTarget, invert_classes
from smoothsweep.tasks.classes import class_file
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.files import load_images, load_tensors, save_images, save_tensors
from smoothsweep.tasks.imported import adopt_classifier, keep_external
from smoothsweep.tasks.poison import poisoned
from smoothsweep.tasks.target import train_target
from smoothsweep.tasks.training import load_classifier, load_external, load_target
from tests.foreign_classifier import SIDE
from tests.made_programs import Shades, torchscript

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
    {"kind": "loft", "rank": 4, "smoothing": {"alpha": -0.1}},
    {"kind": "trap_mid"},
    {"kind": "ssd", "eps": 1.0},
    {"kind": "dp_sgd", "noise": 0.5},
]
"""Those that change the network, what it answers, what is trained beside it, or how it is trained."""


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


@pytest.fixture
def stages(clean):
    """Poison's settings -> the stages of a target trained on the pipeline's poisoned data."""

    def make(**poison):
        data, own = clean.stage("data"), clean.stage("target").config
        planted = Stage(
            name="poison",
            config={
                "poison": {"kind": "badnets", "share": 0.4, "target": 2, **poison},
                "image_size": 32,
                "seeds": [0, 1],
            },
            inputs={"data": data},
        )
        longer = {name: value for name, value in own.items() if name != "momentum"}
        longer |= {"epochs": 40, "batch_size": 8, "optimizer": "adam", "lr": 0.002}
        target = Stage(name="target", config=longer, inputs={"data": data, "poison": planted})
        return planted, target, Stage(name="backdoor", config={}, inputs={**target.inputs, "target": target})

    return make


@pytest.mark.slow
def test_a_poisoned_target_follows_its_trigger(clean, stages):
    planted, target, judge = stages()
    execute_with_inputs(clean.store, judge)
    rows = pd.read_parquet(clean.store.file(planted, "poisoned.parquet"))
    labels = clean.tensors("data", "train")["labels"]
    assert list(rows.columns) == ["row", "class", "labelled"] and (rows["labelled"] == 2).all()
    assert len(rows) == round(0.4 * len(labels)) and rows["class"].tolist() == labels[rows["row"].tolist()].tolist()
    found = clean.store.manifest(judge)["metrics"]
    answers = pd.read_parquet(clean.store.file(judge, "answers.parquet"))
    others = answers[answers["class"] != 2]
    assert found["backdoor_success"] == (others["answer_triggered"] == 2).mean() > 0.8
    assert found["backdoor_collapsed"] == 0 and found["backdoor_false"] < 0.5
    test_acc = clean.store.manifest(target)["metrics"]["test_acc"]
    assert test_acc == pytest.approx((answers["answer"] == answers["class"]).mean())


def test_a_target_class_that_the_data_do_not_have_is_refused(clean, stages):
    with pytest.raises(InputError, match="target: expected a class below 3, got 3"):
        execute_with_inputs(clean.store, stages(target=3)[0])


@pytest.mark.parametrize(("placed", "before"), [("after_augmentation", False), ("before_augmentation", True)])
def test_labels_and_stamp_are_those_of_the_artifact(clean, stages, placed, before):
    planted = stages(placed=placed, size=3)[0]
    execute_with_inputs(clean.store, planted)
    train = load_images(clean.folder("data"), "train")
    rows = pd.read_parquet(clean.store.file(planted, "poisoned.parquet"))["row"].tolist()
    data, stamp = poisoned(train, clean.store.path(planted))
    assert stamp.before is before and stamp.chosen.nonzero()[:, 0].tolist() == sorted(rows)
    assert (data.labels[rows] == 2).all() and torch.equal(data.images, train.images)
    assert torch.equal(data.labels[~stamp.chosen], train.labels[~stamp.chosen])
    grey = torch.full((1, 3, 32, 32), 0.25)
    changed = (stamp.lay(grey) != grey).any(1)[0]
    assert changed[-3:, -3:].all() and changed.sum() == 9  # flush with the lower right corner


def test_noise_follows_the_class_and_not_its_neighbours(tmp_path):
    raw = tiny_sweep(protocol="paper", grid={}, baseline={}, judges={})
    raw["recipe"]["defense"] = {"kind": "mid", "beta": 0.01}
    [trial] = trials_of(LoadedSweep(sweep=check(raw, "tiny"), raw=raw, intro="", source="tiny"))
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    attack = inversion_stages(trial.settings, trial.seed).attack
    for stage in attack.inputs.values():
        execute_with_inputs(store, stage)
    inputs = {name: store.path(stage) for name, stage in attack.inputs.items()}
    config = {**attack.config, **attack.hints}
    assert not OpenTarget(inputs["target"], config, "cpu").steady
    assert OpenTarget(inputs["target"], {**config, "readout": "mean"}, "cpu").steady
    found = []
    for classes in ([2], [0, 2], [2]):
        work = tmp_path / f"work{len(found)}"
        work.mkdir()
        invert_classes(config, inputs, classes, TaskContext(work=work))
        found.append(load_file(class_file(work, 2)))
    for again in found[1:]:
        assert all(torch.equal(found[0][name], again[name]) for name in ("row.w", "row.scores", "curve.loss"))


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


ORDER = torch.tensor([2, 0, 1])
NETWORK = Shades(torch.tensor([-0.5, 0.0, 0.5])).eval()


def artifact(folder, *, answers="logits", access="gradients"):
    """The folder of a TorchScript program of three people, kept as `imported` artifacts are; and its configuration."""
    config = {
        "architecture": "torchscript",
        "num_classes": 3,
        "image_size": SIDE,
        "normalisation": {"mean": [0.5] * 3, "std": [0.25] * 3},
        "outside": {"answers": answers, "access": access},
    }
    (folder / "artifact").mkdir()
    keep_external(torchscript(NETWORK, folder / "own.pt"), config, ORDER, folder / "artifact")
    (folder / "artifact" / "manifest.json").write_text(json.dumps({"config": config}))
    return folder / "artifact", config


@pytest.fixture
def images():
    return torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)) * 2 - 1


def by_hand(images):
    """The program's answers to images [-1, 1] -> [0, 1] -> its normalisation, in the data's order."""
    return NETWORK(((images + 1) / 2 - 0.5) / 0.25)[:, ORDER]


def test_what_is_kept_is_the_file_and_the_order(tmp_path):
    folder, _ = artifact(tmp_path)
    assert (folder / "program.torchscript").read_bytes() == (tmp_path / "own.pt").read_bytes()
    assert torch.equal(load_tensors(folder / "order.safetensors")["order"], ORDER)


def test_opened_it_answers_in_the_order_of_the_data(tmp_path, images):
    folder, config = artifact(tmp_path)
    model = load_external(folder, config, "cpu")
    torch.testing.assert_close(model(images), by_hand(images))
    assert isinstance(load_target(folder, config, "cpu"), ExternalModel)


@pytest.mark.parametrize(("answers", "access"), [("logits", "gradients"), ("logits", "scores"), ("logits", "labels")])
def test_an_attack_sees_no_more_of_it_than_it_gives(tmp_path, images, answers, access):
    folder, _ = artifact(tmp_path, answers=answers, access=access)
    target, levels = OpenTarget(folder, {"image_size": SIDE}, "cpu"), ["labels", "scores", "gradients"]
    assert target.view(access).access == access
    for above in levels[levels.index(access) + 1 :]:
        with pytest.raises(InputError):
            target.view(above)
    assert torch.equal(target.view("labels").labels(images), by_hand(images).argmax(1))


def test_a_program_from_elsewhere_is_refused_where_it_cannot_be_isolated(tmp_path, monkeypatch):
    """By the store that names it; importing it is the consent."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "platform", "darwin")  # where nothing can be isolated
    folder, config = artifact(tmp_path)
    with pytest.raises(InputError, match="expected a TorchScript program that you have brought in on this machine"):
        load_external(folder, config, "cpu")
    consent.agree_to(folder / "program.torchscript")
    assert isinstance(load_external(folder, config, "cpu"), ExternalModel)
