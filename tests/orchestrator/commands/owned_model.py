"""An owner's model, people and other people, and the audit's sweep file of them."""

from pathlib import Path

import numpy as np
from PIL import Image

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import as_file, audit_sweep, portfolio
from smoothsweep.sweeps.imported import ImportedClassifier
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, SIDE

IMAGENET = ["--mean", *map(str, IMAGENET_MEAN), "--std", *map(str, IMAGENET_STD)]


def write_public(folder: Path, count: int = 300) -> Path:
    """Noisy squares of any shade."""
    generator = np.random.default_rng(5)
    folder.mkdir()
    for at in range(count):
        pixels = generator.normal(generator.uniform(0, 255), 12, (SIDE, SIDE, 3)).clip(0, 255).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{at:04}.png")
    return folder


def audit(owned, *more, out: Path, public: bool = True) -> int:
    root, people, others = owned
    given = ["audit", str(root / "own.pth"), "--data", str(people), "--out", str(out)]
    return main([*given, *(["--public", str(others)] if public else []), *map(str, more)])


def sweep_of(imported, owned, tmp_path, change=lambda tree: None, **given) -> Path:
    """The audit's sweep file, changed."""
    _, people, public = owned
    file, card = tmp_path / "audit.yaml", ImportedClassifier(imported=str(imported)).checked
    reach = given.pop("reach", "quick")
    attacks = portfolio(card.access, reach)
    usual = {"people": 3, "seeds": [1], "has_second": reach == "whole", "independent": {}, "attacks": attacks}
    given = {"public": public, **usual, **given}
    change(tree := audit_sweep(model=imported, card=card, data=people, **given))
    file.write_text(as_file(tree))
    return file
