"""The stage that says how a target places its training images (the paper's Figures 4 and 5)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from smoothsweep.core.analysis.embeddings import feature_distances, map_features, mapped_rows
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_tensors, save_rows
from smoothsweep.tasks.settings import embedding_settings

COLUMNS = ("intra", "inter", "intra_nearest", "inter_nearest")


def judge_features(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes map.parquet (row, class, t-SNE and PCA of the classes that are mapped) and distances.parquet (row, class,
    distances of every training image, scaled by the largest); returns the medians of the distances.
    """
    settings = embedding_settings(config)
    real = load_tensors(inputs["features"] / "features.safetensors")
    features, labels = real["train_features"].float(), real["train_labels"]
    rows = mapped_rows(labels, settings.classes)
    settings.check_samples(len(rows))
    spread = feature_distances(features, labels)
    context.progress(0.3, "distances are done")
    mapped = map_features(features[rows], settings)
    points = {
        "row": rows,
        "class": labels[rows],
        "tsne_x": mapped.tsne[:, 0],
        "tsne_y": mapped.tsne[:, 1],
        "pca_x": mapped.pca[:, 0],
        "pca_y": mapped.pca[:, 1],
    }
    save_rows(out / "map.parquet", pd.DataFrame({name: values.numpy() for name, values in points.items()}))
    distances = pd.DataFrame({name: getattr(spread, name).numpy() for name in COLUMNS})
    save_rows(out / "distances.parquet", distances.assign(**{"class": labels.numpy()}))
    medians = distances.median()
    return {f"features_{name}": None if pd.isna(medians[name]) else float(medians[name]) for name in COLUMNS}
