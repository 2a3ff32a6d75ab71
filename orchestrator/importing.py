"""`smoothsweep import prior|target`: official weights brought in, converted once, nothing of them executed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import making_folder, write_file
from sweeps.imported import CARD, WEIGHTS

CLASSES = {"facescrub": 530, "celeba": 1000, "celeba64": 1000, "stanford_dogs": 120, "imagenette": 10}


def import_prior_file(file: Path, out: Path) -> int:
    """Convert an official StyleGAN2 pickle into a folder that a sweep can name. Returns the exit code."""
    from core.priors.official.importer import import_prior
    from core.priors.official.writing import write_imported_prior

    imported = import_prior(file)
    write_imported_prior(imported, out)
    config = imported.generator.config
    print(f"{file.name}: StyleGAN2 of {config.resolution} pixels, {config.num_ws} w vectors of {config.w_dim}")
    print(f"SHA-256 {imported.facts.sha256}")
    print(imported.facts.licence)
    print(f"in a sweep file:  prior: {{kind: folder, path: {out}}}")
    return 0


def import_target_file(
    file: Path,
    out: Path,
    *,
    architecture: str,
    classes: int,
    data: str | None,
    data_path: Path | None,
    image_size: int,
    transform_input: bool | None,
    alpha: float | None,
) -> int:
    """Convert an official checkpoint into a folder that a sweep can name; test it where the data are given."""
    from core.models.classifiers import check_image_size
    from core.models.official_targets import import_target

    if data is not None and CLASSES[data] != classes:
        raise InputError(f"--classes: expected {CLASSES[data]} for {data}, got {classes}")
    if data_path is not None and data is None:
        raise InputError("--data-path: expected only with --data, got no --data")
    check_image_size(architecture, image_size)
    refuse_existing(out)
    model, facts = import_target(
        file, architecture=architecture, num_classes=classes, transform_input=transform_input, protocol="paper"
    )
    accuracies = _test(model, data, data_path, image_size) if data_path is not None else {}
    card = {
        "architecture": architecture,
        "num_classes": classes,
        "image_size": image_size,
        "transform_input": bool(transform_input),
        "data": data,
        "defense": None if alpha is None else {"kind": "label_smoothing", "alpha": alpha},
        "source": {"file": file.name, **asdict(facts)},
        **accuracies,
    }
    write_folder(out, card, {name: value.contiguous() for name, value in model.state_dict().items()})
    print(f"{file.name}: {architecture} of {classes} classes, {facts.tensors} tensors ({facts.wrapping})")
    for name, value in accuracies.items():
        print(f"{name.replace('_', ' ')}: {value:.2%}")
    if not accuracies:
        print("test accuracy: not measured (give --data and --data-path); the first sweep measures it")
    print(f"in a sweep file:  recipe: {{imported: {out}}}   or   judges: {{evaluator: {{imported: {out}}}}}")
    return 0


def refuse_existing(out: Path) -> None:
    """Raise InputError rather than write over an earlier import."""
    if out.exists():
        raise InputError(f"--out {out}: expected a new folder, got one that exists; name another or remove it")


def write_folder(out: Path, card: dict[str, Any], weights: dict[str, Any]) -> None:
    """weights.safetensors and target.json, written beside `out` and renamed: nothing is ever half there."""
    from safetensors.torch import save

    with making_folder(out) as draft:
        write_file(draft / WEIGHTS, save(weights))
        write_file(draft / CARD, json.dumps(card, indent=1, ensure_ascii=False) + "\n")


def _test(model: Any, data: str, path: Path, image_size: int) -> dict[str, float]:
    """Test accuracy on the published test split; of inception_v3 under both conventions of its input."""
    import torch

    from core.models.inference import evaluate_accuracy
    from tasks.context import TaskContext
    from tasks.data import prepare_private
    from tasks.files import load_images

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        config = {"kind": data, "path": str(path), "size": image_size, "split_seed": 42, "on_corrupt": "refuse"}
        prepare_private(config, {}, Path(folder), TaskContext(work=Path(folder)))
        test = load_images(Path(folder), "test")
        model.to(device)
        accuracies = {"test_acc": evaluate_accuracy(model, test, image_size=image_size, device=device)}
        if model.architecture == "inception_v3":
            model.backbone.transform_input = not model.backbone.transform_input
            accuracies["test_acc_other_input"] = evaluate_accuracy(model, test, image_size=image_size, device=device)
            model.backbone.transform_input = not model.backbone.transform_input
    model.to("cpu")
    return accuracies
