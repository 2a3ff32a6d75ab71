"""The data stages: what reaches the target, the prior and the judges."""

import json

import torch

from tasks.context import TaskContext
from tasks.data import prepare_private, prepare_public
from tasks.files import load_images, load_tensors
from tests.labelled_files import parquet, png

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


def test_the_largest_classes_are_the_same_people_to_those_who_see_few_images_of_each(tmp_path):
    """The target of a low-data study sees few images of each class, its judges all of them."""
    sizes = (5, 9, 6, 12, 7)
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    names = [f"person {label}" for label in labels]
    table = parquet(tmp_path / "faces.parquet", image=[png(i) for i in range(len(labels))], identity=names)
    config = {"kind": "labelled", "path": str(table), "size": 8, "test_fraction": 0.2, "split_seed": 1,
              "on_corrupt": "refuse", "crop": "centre", "largest_classes": 3}  # fmt: skip
    seen = {}
    for name, more in (("target", {"samples_per_class": 5}), ("judge", {})):
        (tmp_path / name).mkdir()
        prepare_private({**config, **more}, {}, tmp_path / name, TaskContext(work=tmp_path))
        seen[name] = [load_images(tmp_path / name, part) for part in ("train", "test")]
    (few, few_test), (all_of_them, test) = seen["target"], seen["judge"]
    assert few.names == all_of_them.names == ("person 3", "person 1", "person 4")
    assert torch.bincount(few.labels).tolist() == [5, 5, 5]
    assert torch.equal(few_test.labels, test.labels) and torch.equal(few_test.images, test.images)
    known = {image.numpy().tobytes(): int(all_of_them.labels[i]) for i, image in enumerate(all_of_them.images)}
    assert [known[image.numpy().tobytes()] for image in few.images] == few.labels.tolist()
