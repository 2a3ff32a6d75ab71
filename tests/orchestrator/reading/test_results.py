"""Rows by class: what a judge left, and of how many images."""

from types import SimpleNamespace

import pandas as pd

from smoothsweep.orchestrator.reading.results import least_of_data, per_class_rows


class Made:
    """A stage without inputs."""

    def __init__(self, name):
        self.name, self.fingerprint, self.inputs = name, name, {}


class Shelf:
    """A store of files by the name of their stage; manifests hold metrics."""

    def __init__(self, root, metrics=None):
        self.root, self.metrics = root, metrics or {}

    def has(self, stage):
        return (self.root / stage.name).is_dir() or stage.name in self.metrics

    def file(self, stage, name):
        path = self.root / stage.name / name
        return path if path.exists() else None

    def manifest(self, stage):
        return {"metrics": self.metrics[stage.name]}


def write(folder, **frames):
    folder.mkdir()
    for name, rows in frames.items():
        pd.DataFrame(rows).to_parquet(folder / f"{name}.parquet")


def test_every_rate_knows_of_how_many_images_it_is(tmp_path):
    """A judge of all images; one that asked about some, beside natural ones, and had no answer once; an old one."""
    write(
        tmp_path / "judge_embedder",
        per_class={"class": [0, 3], "embedder_acc1": [0.5, 1.0]},
        per_image={"class": [0, 0, 3, 3, 3], "hit": [True, False, True, True, True]},
    )
    write(
        tmp_path / "judge_asked",
        per_class={"class": [0, 3], "asked_acc1": [1.0, 0.0]},
        per_image={
            "kind": ["loot", "loot", "loot", "same", "other"],
            "class": [0, 0, 3, 0, 3],
            "hit": pd.array([True, None, False, True, False], dtype="boolean"),
        },
    )
    write(tmp_path / "judge_evaluator", per_class={"class": [0, 3], "attack_acc1": [0.25, 0.75]})
    write(tmp_path / "judge_gradients", per_class={"class": [0, 3], "gradients_zero_ce": [0.0, 0.0]})
    stages = [SimpleNamespace(name=name) for name in ("target", *sorted(path.name for path in tmp_path.iterdir()))]
    rows = per_class_rows([SimpleNamespace(id="t", stages=stages)], Shelf(tmp_path)).set_index("class")
    assert rows["embedder_acc1_images"].to_dict() == {0: 2, 3: 3}
    assert rows["asked_acc1_images"].to_dict() == {0: 1, 3: 1}
    assert "attack_acc1_images" not in rows and rows["attack_acc1"].to_dict() == {0: 0.25, 3: 0.75}


def test_test_images_are_the_fewest_of_any_trial(tmp_path):
    def trial(*names):
        return SimpleNamespace(stages=[Made(name) for name in names])

    store = Shelf(tmp_path, {"data": {"num_test": 40.0}, "target": {"num_test": 7}})
    assert least_of_data([trial("data"), trial("target")], store, "num_test") == 40
    assert least_of_data([trial("target")], store, "num_test") is None
    assert least_of_data([trial("data")], Shelf(tmp_path, {"data": {"num_test": None}}), "num_test") is None
