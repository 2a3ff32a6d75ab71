"""Knowledge extraction: what a surrogate trained on reconstructions knows of private images (paper section 4.1)."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.metrics.knowledge import score_surrogate
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import Training, save_classifier, train_alone

PLAIN = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def extract_knowledge(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes the surrogate's weights and history; returns xi_train and xi_test over the attacked classes."""
    train, test = load_images(inputs["data"], "train"), load_images(inputs["data"], "test")
    reconstructions = reconstructed_images(inputs["loot"], config["image_size"])
    stolen = ImageSet(images=reconstructions["images"], labels=reconstructions["labels"], names=train.names)
    surrogate, records = train_alone(Training.of({**config, "defense": PLAIN}), stolen, None, context)
    save_classifier(out, surrogate, records)
    logits = {
        name: evaluate_logits(surrogate, part.images, image_size=config["image_size"], device=context.device)
        for name, part in (("train", train), ("test", test))
    }
    attacked = stolen.labels.unique()
    return {**score_surrogate(logits["train"], train.labels, logits["test"], test.labels, attacked=attacked)}
