"""Trained targets as MLflow models. Run as a program of its own, so that the driver never loads torch.

    python -m orchestrator.tracking.exporting SPECS.json

SPECS.json is a list of {"artifact": folder of a `target` stage, "config": its configuration, "out": folder to make};
one line of JSON per model goes to stdout: {"out", "error"}. It ends when its stdin is closed.

The models are written as `pt2` (torch.export): a graph and plain tensors, which load without our code and without
unpickling (MLFLOW_ALLOW_PICKLE_DESERIALIZATION=false accepts them). A pickled module would be neither.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import mlflow.pytorch
import numpy as np
import torch
from mlflow.models.signature import ModelSignature
from mlflow.types import Schema, TensorSpec

from smoothsweep.tasks.training import defense_from, load_classifier

TOLERANCE = 1e-5  # of the logits, between the network and its copy
CHECKED_IMAGES = 3  # another number than the example's, so that a batch size frozen into the graph is found


def export(artifact: Path, config: dict[str, Any], out: Path) -> None:
    """Write one target and read it back. One whose answers are noisy is read without noise.

    Raises ValueError where the copy's logits are not the network's.
    """
    defense = defense_from(config)
    if defense.leaves != "gradients":
        raise ValueError("behind answers that are altered at inference: with the weights come the network's own")
    model = load_classifier(artifact, config, "cpu", readout=defense.noiseless)
    side = config["image_size"]
    signature = ModelSignature(
        inputs=Schema([TensorSpec(np.dtype("float32"), (-1, 3, side, side), name="images")]),
        outputs=Schema([TensorSpec(np.dtype("float32"), (-1, model.num_classes), name="logits")]),
    )
    draw = np.random.default_rng(0).uniform(-1, 1, (2 + CHECKED_IMAGES, 3, side, side)).astype("float32")
    mlflow.pytorch.save_model(
        model,
        str(out),
        signature=signature,
        input_example=draw[:2],  # two: torch.export freezes a batch of one
        serialization_format="pt2",
        pip_requirements=[f"torch=={torch.__version__.split('+')[0]}", f"mlflow=={mlflow.__version__}"],
    )
    images = torch.from_numpy(draw[2:])
    copy = mlflow.pytorch.load_model(str(out))
    with torch.no_grad():
        gap = float((copy(images) - model(images)).abs().max())
    if not gap <= TOLERANCE:
        raise ValueError(f"the exported model's logits differ by {gap:g}")


def main(specs: Path) -> None:
    """Export every model of the list; one that fails does not keep the others."""
    threading.Thread(target=_end_with_caller, daemon=True).start()
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    for spec in json.loads(specs.read_text()):
        error, out = None, Path(spec["out"])
        try:
            export(Path(spec["artifact"]), spec["config"], out)
        except Exception as problem:  # the caller passes it on to the user
            error = f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:300]
            shutil.rmtree(out, ignore_errors=True)
        print(json.dumps({"out": spec["out"], "error": error}), flush=True)


def _end_with_caller() -> None:
    """End this process when the caller's end of stdin is closed, also where it was killed."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
