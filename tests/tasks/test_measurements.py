"""Measurements as stages: maps of features, gradients, knowledge of a surrogate, robustness, membership."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from labelled_files import people
from published_trees import facescrub
from scipy import stats
from tiny import write_tiny

import smoothsweep
from smoothsweep.core.analysis.embeddings import feature_distances
from smoothsweep.core.analysis.gradients import RANGES, follow_gradients
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.published import write_published
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.gradients import LOSSES, Gradients
from smoothsweep.core.membership.base import log_odds, margins
from smoothsweep.core.membership.measuring import roc_auc
from smoothsweep.core.models.inference import embed_images, evaluate_logits
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.core.training.batches import network_input, rank_batches
from smoothsweep.orchestrator.cli import main
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_tensors
from smoothsweep.tasks.judging import (
    collect_gradients,
    extract_knowledge,
    follow_classes,
    judge_features,
    judge_membership,
    judge_robustness,
)
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.settings import check_features, check_membership, check_shadow
from smoothsweep.tasks.target import train_shadow
from smoothsweep.tasks.training import Training, load_classifier, new_classifier

CONFIG = {"classes": 2, "perplexity": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def judged(clean, tmp_path_factory):
    """The features of the pipeline's target, and what the stage makes of them."""
    folder = tmp_path_factory.mktemp("features")
    (out := folder / "out").mkdir()
    data, recipe = load_images(clean.folder("data"), "train"), config_of(clean.folder("target"))
    target = load_classifier(clean.folder("target"), recipe, "cpu")
    features = embed_images(target, data.images, image_size=recipe["image_size"])
    save_tensors(folder / "features.safetensors", {"train_features": features, "train_labels": data.labels})
    metrics = judge_features(CONFIG, {"features": folder}, out, TaskContext(work=folder))
    return features, data.labels, metrics, out


def test_the_files_hold_every_image_once_and_the_metrics_are_medians(judged):
    features, labels, metrics, out = judged
    distances, points = pd.read_parquet(out / "distances.parquet"), pd.read_parquet(out / "map.parquet")
    expected = feature_distances(features, labels)
    for name in ("intra", "inter", "intra_nearest", "inter_nearest"):
        values = expected[name]
        assert distances[name].tolist() == pytest.approx(values.tolist())
        assert metrics[f"features_{name}"] == pytest.approx(values.quantile(0.5).item())
    assert distances["class"].tolist() == labels.tolist()
    assert sorted(points["row"]) == [row for row, label in enumerate(labels.tolist()) if label in (0, 2)]
    assert points["class"].tolist() == labels[points["row"].tolist()].tolist()
    assert points[["tsne_x", "tsne_y", "pca_x", "pca_y"]].notna().all(axis=None)


RENDERED = {"kind": "synthetic", "identities": 5, "train_per_class": 4}


@pytest.mark.parametrize(
    ("data", "most"),
    [
        (RENDERED, 8),
        ({**RENDERED, "samples_per_class": 3}, 6),
        ({"kind": "labelled", "test_fraction": 0.1}, 6),
        ({"kind": "labelled", "test_fraction": 0.1, "samples_per_class": 2}, 4),
    ],
)
def test_images_are_counted_before_anything_is_trained(tmp_path, data, most):
    """Two classes are mapped."""
    inputs = {"data": {"split_seed": 1, "path": str(people(tmp_path / "people.parquet")), **data}}
    check_features({**CONFIG, "perplexity": most - 0.5}, inputs)
    with pytest.raises(InputError, match=f"perplexity: expected less than the {most} training images to map"):
        check_features({**CONFIG, "perplexity": float(most)}, inputs)


@pytest.mark.parametrize("per_class", [None, 4])
def test_a_published_set_is_counted_where_it_is(tmp_path, per_class):
    """Actors come first: of the five people the first and the last are mapped."""
    data = {"kind": "facescrub", "classes": 5, "split_seed": 42, "path": str(facescrub(tmp_path / "faces"))}
    data |= {"samples_per_class": per_class} if per_class else {}
    written = write_published(
        "facescrub", data["path"], tmp_path / "out", size=4, classes=5, samples_per_class=per_class
    )
    labels = load_images(tmp_path / "out", "train").labels
    assert written.num_train == len(labels)
    most = int(((labels == 0) | (labels == 4)).sum())
    check_features({**CONFIG, "perplexity": most - 0.5}, {"data": data})
    with pytest.raises(InputError, match=f"perplexity: expected less than the {most} training images to map"):
        check_features({**CONFIG, "perplexity": float(most)}, {"data": data})
    check_features({**CONFIG, "perplexity": 900.0}, {"data": {**data, "path": str(tmp_path / "elsewhere")}})


@pytest.mark.parametrize("door", ["plan", "run"])
def test_a_perplexity_too_large_is_one_line_and_nothing_is_written(tmp_path, capsys, door):
    sweep = write_tiny(tmp_path, judges={"features": {"perplexity": 32}})
    assert main([door, str(sweep), "--store", str(tmp_path / "store")]) == 2
    line = capsys.readouterr().err
    expected = "perplexity: expected less than the 32 training images to map, got 32"
    assert line == f"smoothsweep: judge features: {expected}\n" and not (tmp_path / "store").exists()


SETTINGS = {
    "per_class": 2,
    "seed": 5,
    "truncation_psi": 1.0,
    "truncation_cutoff": None,
    "crop": 28,
    "steps": 3,
    "lr": 0.05,
}


@pytest.fixture(scope="module")
def made(paper, tmp_path_factory):
    """(configuration, inputs, folder of the artifact, metrics) of two of the three people."""
    config = {"settings": SETTINGS, "image_size": 32, "protocol": "paper", "classes": [2, 0], "rows_per_batch": None}
    inputs = {"target": paper.folder("target"), "prior": paper.folder("attack.prior")}
    out, work = (tmp_path_factory.mktemp(name) for name in ("gradients", "work"))
    return config, inputs, out, collect_gradients(config, inputs, out, TaskContext(work=work))


@pytest.fixture(scope="module")
def followed(paper):
    """Class -> loss -> quantity -> [steps], each class followed by itself."""
    prior = load_prior(paper.folder("attack.prior"))
    target = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    settings = Gradients(**SETTINGS)
    ways = {"protocol": "paper", "image_size": 32, "execution": Execution(ExecutionConfig(), "cpu")}
    return {
        person: {loss: follow_gradients(prior, target, person, settings, loss, **ways) for loss in LOSSES}
        for person in (0, 2)
    }


def curve(followed, person, loss, quantity):
    return np.nanmean(followed[person][loss][quantity].double().numpy(), 1)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")  # no cosine in the first step
def test_every_class_has_its_own_curves_in_the_order_of_the_sweep(made, followed):
    table = pd.read_parquet(made[2] / "per_class.parquet")
    assert table["class"].tolist() == [2, 0]
    assert set(table) == {"class", *(f"gradients_{name}_{loss}" for name in RANGES for loss in LOSSES)}
    for loss in LOSSES:
        for name in RANGES:
            expected = [np.nanmean(curve(followed, person, loss, name)) for person in (2, 0)]
            assert table[f"gradients_{name}_{loss}"].tolist() == pytest.approx(expected, abs=1e-5)
            assert made[3][f"gradients_{name}_{loss}"] == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_the_bands_are_means_over_classes_with_students_t(made, followed):
    rows = pd.read_parquet(made[2] / "gradients.parquet").set_index(["loss", "quantity", "step"]).sort_index()
    assert len(rows) == len(LOSSES) * len(RANGES) * 3
    for loss in LOSSES:
        for name in RANGES:
            values = np.stack([curve(followed, person, loss, name) for person in (0, 2)])
            for step in range(3):
                row = rows.loc[(loss, name, step)]
                if name == "cosine" and step == 0:
                    assert row["classes"] == 0 and np.isnan(row["mean"])
                    continue
                assert row["mean"] == pytest.approx(values[:, step].mean(), abs=1e-5) and row["classes"] == 2
                half = stats.t.ppf(0.975, 1) * values[:, step].std(ddof=1) / np.sqrt(2)
                low, high = RANGES[name] or (-np.inf, np.inf)
                ends = max(low, values[:, step].mean() - half), min(high, values[:, step].mean() + half)
                assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-3)


def test_classes_that_are_done_stay_and_a_machine_that_leaves_is_left(made, tmp_path):
    config, inputs, out, metrics = made
    context = TaskContext(work=tmp_path / "work")
    context.work.mkdir()
    follow_classes(config, inputs, [0], context)
    before = {path: path.stat().st_mtime_ns for path in context.work.rglob("*") if path.is_file()}
    with ask_machine_leaving(lambda: True), pytest.raises(MachineLeaving):
        follow_classes(config, inputs, [0, 2], context)
    assert before and before == {path: path.stat().st_mtime_ns for path in before}
    (tmp_path / "out").mkdir()
    assert collect_gradients(config, inputs, tmp_path / "out", context) == metrics
    for name in ("per_class.parquet", "gradients.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / name), pd.read_parquet(out / name))


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


SETTINGS_ROBUSTNESS = {
    "images": 5,
    "steps": 2,
    "generations": 1,
    "population": 2,
    "strong_steps": 2,
    "seed": 4,
    "eps": 0.05,
}


@pytest.fixture(scope="module")
def made_of_robustness(paper, tmp_path_factory):
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    out, work = (tmp_path_factory.mktemp(name) for name in ("robustness", "work"))
    metrics = judge_robustness({"settings": SETTINGS_ROBUSTNESS}, inputs, out, TaskContext(work=work))
    return pd.read_parquet(out / "answers.parquet"), metrics


@pytest.fixture(scope="module")
def shown(paper, made_of_robustness):
    """The images of the table, in [0, 1], with the target that was asked."""
    data = paper.tensors("data", "test")
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    return data["images"][torch.tensor(made_of_robustness[0]["row"])].float() / 255, model


def test_the_rows_are_test_images_with_their_people(paper, made_of_robustness):
    table, labels = made_of_robustness[0], paper.tensors("data", "test")["labels"]
    assert len(table) == 5 and table["row"].is_unique
    assert table["class"].tolist() == labels[torch.tensor(table["row"])].tolist()
    assert (table["target"] != table["class"]).all() and table["target"].between(0, 2).all()


def test_the_answers_are_those_of_the_target_to_these_images(made_of_robustness, shown):
    table, (pictures, model) = made_of_robustness[0], shown
    assert table["answer"].tolist() == model(pictures * 2 - 1).argmax(1).tolist()


def test_one_step_of_the_sign_of_the_gradient_is_fgsm(made_of_robustness, shown):
    table, (pictures, model) = made_of_robustness[0], shown
    labels, given = torch.tensor(table["class"]), pictures.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(F.cross_entropy(model(given * 2 - 1), labels, reduction="sum"), given)
    moved = (pictures + SETTINGS_ROBUSTNESS["eps"] * gradient.sign()).clamp(0, 1)
    assert table["fgsm_untargeted"].tolist() == model(moved * 2 - 1).argmax(1).tolist()
    assert table["zero_gradient"].tolist() == gradient.flatten(1).eq(0).all(1).tolist()


def test_the_numbers_are_shares_of_the_table(made_of_robustness):
    table, metrics = made_of_robustness
    names = [name for name in table if name.endswith("_untargeted")]
    correct = table["answer"] == table["class"]
    for name in names:
        assert metrics[name] == pytest.approx((table[name] != table["class"]).mean())
        wrong = (table[name] != table["class"])[correct]
        assert metrics[f"{name}_correct"] == (pytest.approx(wrong.mean()) if len(wrong) else None)
    robust = correct & (table[names].eq(table["class"], axis=0)).all(axis=1)
    assert metrics["robust_acc"] == pytest.approx(robust.mean())


DATA = {"kind": "synthetic", "identities": 3, "train_per_class": 6, "test_per_class": 4, "size": 32, "seed": 3}


@pytest.fixture(scope="module")
def shadows(paper, tmp_path_factory):
    """Folders of four shadow models of the pipeline's recipe."""
    found = []
    for number in range(4):
        config = {**paper.config("target"), "part": {"model": number, "share": 0.5, "seed": 0}, "seed": 7 + number}
        out, work = (tmp_path_factory.mktemp(name) for name in ("shadow", "work"))
        train_shadow(config, {"data": paper.folder("data")}, out, TaskContext(work=work))
        found.append(out)
    return found


@pytest.fixture(scope="module")
def judged_of_membership(paper, shadows, tmp_path_factory):
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    inputs |= {f"shadow_{number:04d}": folder for number, folder in enumerate(shadows)}
    out, work = (tmp_path_factory.mktemp(name) for name in ("membership", "work"))
    settings = {"shadows": 4, "copies": 2, "levels": 2, "images": 5}
    metrics = judge_membership({"settings": settings}, inputs, out, TaskContext(work=work))
    return pd.read_parquet(out / "scores.parquet"), pd.read_parquet(out / "per_class.parquet"), metrics


def test_every_image_is_in_one_model_of_a_pair_and_answered_by_both(shadows):
    answers = [load_tensors(folder / "answers.safetensors") for folder in shadows]
    assert all((one["inside"] ^ other["inside"]).all() for one, other in (answers[:2], answers[2:]))
    assert {tuple(one["phi"].shape) for one in answers} == {(2, 30)}
    assert not (shadows[0] / "weights.safetensors").exists()


def test_members_are_the_training_images_and_scores_the_targets_own(paper, judged_of_membership):
    table, _, metrics = judged_of_membership
    train, test = (paper.tensors("data", part) for part in ("train", "test"))
    assert table["member"].tolist() == [True] * 18 + [False] * 12
    images, labels = (torch.cat([train[key], test[key]]) for key in ("images", "labels"))
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    logits = evaluate_logits(model, images, image_size=32).numpy()
    assert table["margin"].to_numpy() == pytest.approx(margins(logits, labels.numpy()), abs=1e-4)
    assert table["loss"].to_numpy() == pytest.approx(log_odds(logits, labels.numpy()), abs=1e-4)
    own = table["rmia"].to_numpy()
    assert metrics["membership_auc"] == metrics["membership_rmia_auc"] == roc_auc(own[:18], own[18:])


def test_the_audit_in_memory_has_the_numbers_of_the_stage(paper, tmp_path):
    """All attacks without shadow models, those on labels too: the same images, copies and noise."""
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    out = tmp_path / "judged"
    out.mkdir()
    metrics = judge_membership({"settings": {}}, inputs, out, TaskContext(work=tmp_path))
    train, test = (load_images(paper.folder("data"), part) for part in ("train", "test"))
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    in_memory = smoothsweep.Model(model, image_size=paper.config("target")["image_size"], input_range=(-1, 1))
    found = smoothsweep.membership(in_memory, train, test, progress=False)
    assert {row["attack"]: row["auc"] for row in found.attacks.to_dict("records")} == {
        name: metrics[f"membership_{name}_auc"]
        for name in ("margin", "margin_per_class", "loss", "loss_per_class", "label_views", "label_distance")
    }
    assert (found.shift, found.copies) == (metrics["membership_shift"], metrics["membership_copies"])


def test_labels_are_asked_of_as_many_members_as_others(judged_of_membership):
    table = judged_of_membership[0]
    asked = table["label_views"].notna()
    assert asked[table["member"]].sum() == asked[~table["member"]].sum() == 5
    assert set(table.loc[asked, "label_views"] * 2 % 1) == {0.0}


def test_the_table_by_class_and_nulls(judged_of_membership):
    table, by_class, metrics = judged_of_membership
    mine = table[table["class"] == 1]
    expected = roc_auc(mine.loc[mine["member"], "margin"], mine.loc[~mine["member"], "margin"])
    assert by_class.set_index("class").loc[1, "membership_margin"] == pytest.approx(expected)
    assert metrics["membership_tpr_fpr1"] is None and metrics["membership_least_fpr"] == pytest.approx(1 / 12)
    assert np.isfinite(metrics["membership_shift"]) and metrics["membership_copies"] == 0.0


def test_too_few_images_of_a_class_are_refused_before_any_work():
    check_membership({"settings": {"shadows": 4}}, {"data": DATA})
    few = {**DATA, "train_per_class": 2, "test_per_class": 1}
    check_membership({"settings": {}}, {"data": few})
    with pytest.raises(InputError, match=r"judges.membership: expected at least 2 images of every class"):
        check_membership({"settings": {"shadows": 4}}, {"data": few})
    with pytest.raises(InputError, match=r"judges.membership.shadows: expected 0, or an even number of at least 4"):
        check_membership({"settings": {"shadows": 3}}, {"data": DATA})
    part = {"model": 0, "share": 0.9, "seed": 0}
    recipe = {"architecture": "resnet_small", "image_size": 32, "epochs": 1, "batch_size": 8, "part": part}
    with pytest.raises(InputError, match="got 1 of class 0"):
        check_shadow(recipe, {"data": DATA})
