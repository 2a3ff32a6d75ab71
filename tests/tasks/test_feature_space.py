"""The stage of the target's features: what it writes, and what is refused before anything is trained."""

import pandas as pd
import pytest
from labelled_files import people
from published_trees import facescrub
from tiny import write_tiny

from smoothsweep.core.analysis.embeddings import feature_distances
from smoothsweep.core.data.published import write_published
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import embed_images
from smoothsweep.orchestrator.cli import main
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_images, save_tensors
from smoothsweep.tasks.judging import judge_features
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.settings import check_features
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
