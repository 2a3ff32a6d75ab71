"""The data stages: what reaches the target, the prior and the judges."""

import json

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.images import ImageSet
from tasks.context import TaskContext
from tasks.data import _largest_classes, prepare_private, prepare_public
from tasks.files import load_images, load_tensors

SYNTHETIC = {"kind": "synthetic", "identities": 3, "size": 32, "spread": 0.4, "seed": 5, "train_per_class": 4,
             "test_per_class": 2}  # fmt: skip


def prepare(tmp_path, name, **changes):
    out = tmp_path / name
    out.mkdir()
    metrics = prepare_private({**SYNTHETIC, **changes}, {}, out, TaskContext(work=tmp_path))
    return load_images(out, "train"), load_images(out, "test"), metrics


def test_the_low_data_study_takes_the_first_images_and_leaves_the_test_set_alone(tmp_path):
    train, test, metrics = prepare(tmp_path, "all")
    few, same_test, few_metrics = prepare(tmp_path, "few", samples_per_class=2)
    assert (metrics["num_train"], few_metrics["num_train"], metrics["num_classes"]) == (12, 6, 3)
    assert torch.equal(test.images, same_test.images)
    for label in range(3):
        assert torch.equal(few.images[few.labels == label], train.images[train.labels == label][:2])


def test_train_and_test_images_differ(tmp_path):
    train, test, _ = prepare(tmp_path, "all")
    assert not any(torch.equal(a, b) for a in train.images for b in test.images)


def test_public_images_are_those_of_the_public_population(tmp_path):
    config = {"kind": "synthetic", "identities": 5, "per_identity": 2, "size": 32, "spread": 0.6, "seed": 5}
    assert prepare_public(config, {}, tmp_path, TaskContext(work=tmp_path)) == {"num_public": 10}
    assert load_tensors(tmp_path / "images.safetensors")["images"].shape == (10, 3, 32, 32)


def test_a_folder_of_pictures_goes_the_same_way(tmp_path):
    from PIL import Image

    for name, colour in (("b", "red"), ("a", "blue")):
        for number in range(4):
            path = tmp_path / "people" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 40), colour).save(path)
            Image.effect_noise((40, 40), 20 + number).convert("RGB").save(path)
    out = tmp_path / "out"
    out.mkdir()
    config = {"kind": "labelled", "path": str(tmp_path / "people"), "size": 16, "test_fraction": 0.25, "split_seed": 1,
              "on_corrupt": "refuse", "crop": "centre"}  # fmt: skip
    metrics = prepare_private(config, {}, out, TaskContext(work=tmp_path))
    assert metrics["num_classes"] == 2 and metrics["num_train"] + metrics["num_test"] == 8
    assert sorted(json.loads((out / "names.json").read_text())) == ["a", "b"]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=40), st.integers(2, 4))
def test_the_largest_classes_are_kept_and_renumbered_by_size(labels, count):
    labels = torch.tensor([*range(6), *labels])
    images = torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8)
    images[:, 0, 0, 0] = labels.to(torch.uint8)
    data = ImageSet(images=images, labels=labels, names=tuple("abcdef"))
    train, test = _largest_classes(data, data, count)
    sizes = torch.bincount(train.labels)
    assert train.num_classes == count and sizes.tolist() == sorted(sizes.tolist(), reverse=True)
    assert min(sizes) >= max([torch.bincount(labels)[i] for i in range(6) if "abcdef"[i] not in train.names], default=0)
    for part in (train, test):
        marks = [part.names[label] for label in part.labels]
        assert ["abcdef"[mark] for mark in part.images[:, 0, 0, 0]] == marks
