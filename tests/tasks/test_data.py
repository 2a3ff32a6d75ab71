"""Data as stages keep them; the order of classes that every stage holds to."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.table import measured
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.tasks.classes import NAMES_FILE, class_names_of
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import prepare_private
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.registry import TASKS, task
from tests.core.attacks.examples import needed, prior_of
from tests.every_stage import every_stage, imported_folder
from tests.labelled_files import parquet, png
from tests.tiny import tiny_sweep


def test_the_largest_classes_are_the_same_people_to_those_who_see_few_images_of_each(tmp_path):
    """The target of a low-data study sees few images of each class, its judges all of them."""
    sizes = (5, 9, 6, 12, 7)
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    names = [f"person {label}" for label in labels]
    table = parquet(tmp_path / "faces.parquet", image=[png(i) for i in range(len(labels))], identity=names)
    config = {
        "kind": "labelled",
        "path": str(table),
        "size": 8,
        "test_fraction": 0.2,
        "split_seed": 1,
        "on_corrupt": "refuse",
        "crop": "centre",
        "largest_classes": 3,
    }
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


PEOPLE = ["ann", "bob", "cleo", "dan"]


def few_of(roles):
    """Of roles that differ by their number alone (a hundred shadow models) the first and the last."""
    stems = {}
    for role in roles:
        stems.setdefault(role.rstrip("0123456789"), []).append(role)
    return [role for same in stems.values() for role in dict.fromkeys([same[0], same[-1]])]


LABELLED = {kind: few_of(task.labelled) for kind, task in TASKS.items() if task.labelled}
OTHERS = {
    "permuted": (["bob", "ann", "cleo", "dan"], "got 'bob' as class 0, which is 'ann' there"),
    "last two swapped": (["ann", "bob", "dan", "cleo"], "got 'dan' as class 2, which is 'cleo' there"),
    "one fewer": (PEOPLE[:3], "expected the 4 classes of .*, got 3"),
    "somebody else": ([*PEOPLE[:3], "eve"], "got 'eve' as class 3, which is 'dan' there"),
}


def labelled(folder: Path, names=PEOPLE) -> Path:
    folder.mkdir(parents=True)
    (folder / NAMES_FILE).write_text(json.dumps(names))
    return folder


@pytest.mark.parametrize("kind", LABELLED)
def test_no_kind_of_stage_takes_another_order_of_classes(tmp_path, kind):
    for number, (other, case) in enumerate(product(LABELLED[kind][1:], OTHERS)):
        names, message = OTHERS[case]
        folder = tmp_path / str(number)
        inputs = {name: labelled(folder / name, names if name == other else PEOPLE) for name in LABELLED[kind]}
        context = TaskContext(work=folder)
        with pytest.raises(InputError, match=message):
            task(kind).function()({}, inputs, folder / "out", context)
        if TASKS[kind].shard:
            with pytest.raises(InputError, match=message):
                task(kind).shard_function()({}, inputs, [0], context)
        assert not (folder / "out").exists(), (other, case)


def test_an_attacks_names_are_its_targets_or_the_datas_where_it_sees_none(tmp_path):
    target, data = labelled(tmp_path / "target", ["cleo", "dan"]), labelled(tmp_path / "data", ["ann", "bob"])
    assert class_names_of({"data": data, "target": target}) == ("cleo", "dan")
    assert class_names_of({"data": data}) == ("ann", "bob")


@pytest.mark.parametrize("kind", LABELLED)
def test_no_kind_of_stage_takes_labels_without_names(tmp_path, kind):
    for missing in LABELLED[kind]:
        inputs = {name: labelled(tmp_path / missing / name) for name in LABELLED[kind]}
        (inputs[missing] / NAMES_FILE).unlink()
        with pytest.raises(InputError, match=f"^{missing} .*expected the names of its classes"):
            task(kind).function()({}, inputs, tmp_path / "out", TaskContext(work=tmp_path))


def test_every_input_with_classes_is_compared(tmp_path, monkeypatch):
    """Of trials that have every kind of stage: an input is left out only if no label is in it."""
    model = build_classifier("resnet_small", 4, protocol="clean", seed=0)
    imported = imported_folder(tmp_path / "brought", model.state_dict(), architecture="resnet_small", num_classes=4)
    goals = {0.0: None, -0.2: {"trial": {"recipe.defense.alpha": 0.0}}}
    goal = [{"recipe.defense.alpha": alpha, "recipe.stop_at_test_acc": other} for alpha, other in goals.items()]
    stages = [*every_stage(tmp_path, cells=goal), *every_stage(tmp_path, recipe={"imported": imported})]
    stages += every_stage(tmp_path, recipe={**tiny_sweep()["recipe"], "poison": {"kind": "badnets", "size": 3}})
    for settings in ({"loss": "cross_entropy", "temperature": {}}, {"loss": "logit", "feature_weight": 1.0}):
        stages += every_stage(tmp_path, attack={**tiny_sweep()["attack"], **settings})
    weights = {"weights": str(tmp_path / "fid.safetensors")}
    judges = {
        "features": {"perplexity": 5.0},
        "gradients": {"steps": 3},
        "robustness": {"eps": 0.1},
        "membership": {"shadows": 4},
        "fid_lomma": weights,
        "fid_plg": weights,
        "general": {**weights, "verify": None},
        "embedder": {**tiny_sweep()["judges"]["embedder"], "verify": None},
        "evaluator": tiny_sweep()["judges"]["evaluator"],
    }
    judges |= {
        name: dict(judge.example) for name, judge in measured().items() if not judge.requested_by and name not in judges
    }
    stages += every_stage(tmp_path, judges=judges)
    for kind in (kind for kind, attack in ATTACKS.items() if not attack.control):
        attack = {"kind": kind, "selected": 2, **needed(kind)}
        usual = prior_of(kind) or tiny_sweep()["prior"]
        made = make_attack(kind, **needed(kind))
        prior = usual if "prior" in made.needs else None
        fitted = prior is not None and prior["kind"] == "shipped" and "public" not in made.reads
        public = None if fitted else {**tiny_sweep()["public"], "identities": 64}
        stages += every_stage(tmp_path, attack=attack, public=public, prior=prior)
    assert {stage.name for stage in stages} == set(TASKS) - {"toy", "sleep"}
    assert any("reference" in stage.inputs for stage in stages)
    for stage in stages:
        has_classes = {n for n, source in stage.inputs.items() if source.name == "data" or TASKS[source.name].labelled}
        assert has_classes <= set(TASKS[stage.name].labelled), stage.name
