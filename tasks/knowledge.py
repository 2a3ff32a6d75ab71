"""Knowledge extraction: what a surrogate trained on reconstructions knows of private images (paper section 4.1)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import score_surrogate
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, save_rows
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import Training, save_classifier, train_alone

PLAIN = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def extract_knowledge(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the surrogate's weights and history, and images.parquet: how many images of each attacked class it is
    asked about. Returns xi_train and xi_test over these classes."""
    train, test = load_images(inputs["data"], "train"), load_images(inputs["data"], "test")
    reconstructions = reconstructed_images(inputs[RECONSTRUCTIONS], config["image_size"])
    stolen = ImageSet(images=reconstructions["images"], labels=reconstructions["labels"], names=train.names)
    surrogate, records = train_alone(Training.of({**config, "defense": PLAIN}), stolen, None, context)
    save_classifier(out, surrogate, records)
    parts = {"train": train, "test": test}
    logits = {
        name: evaluate_logits(surrogate, part.images, image_size=config["image_size"], device=context.device)
        for name, part in parts.items()
    }
    attacked = stolen.labels.unique()
    counts = {name: [int((part.labels == label).sum()) for label in attacked] for name, part in parts.items()}
    save_rows(out / "images.parquet", pd.DataFrame({"class": attacked.numpy(), **counts}))
    return {**score_surrogate(logits["train"], train.labels, logits["test"], test.labels, attacked=attacked)}
