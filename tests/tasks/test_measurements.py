"""Measurements as stages: maps of features, gradients, knowledge of a surrogate, robustness, membership."""

import pandas as pd
import pytest
from labelled_files import people
from published_trees import facescrub
from tiny import write_tiny

import smoothsweep
from smoothsweep.core.data.published import write_published
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import embed_images
from smoothsweep.orchestrator.cli import main
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_tensors
from smoothsweep.tasks.judging import (
    collect_gradients,
    extract_knowledge,
    follow_classes,
    judge_features,
    judge_membership,
)
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.settings import check_features, check_membership, check_shadow
from smoothsweep.tasks.target import train_shadow
from smoothsweep.tasks.training import load_classifier

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
    assert pd.read_parquet(out / "per_class.parquet")["class"].tolist() == [2, 0]
    for name in ("per_class.parquet", "gradients.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / name), pd.read_parquet(out / name))


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
