"""The rehearsals of the paper's tables: the doors as a user opens them, and published trees of drawn people."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.priors.registry import read_prior
from smoothsweep.core.priors.settings import SHIPPED
from smoothsweep.sweeps.load import read_yaml
from tests.official_pickle import write_official_pickle

REPOSITORY = Path(__file__).resolve().parents[1]
FACESCRUB = tuple((group, f"{name}_Doe") for group in ("actors", "actresses") for name in ("Ada", "Bo", "J.K."))

TARGETS = {
    "seeds": [42],
    "tracking.models": "none",
    "recipe.image_size": 32,
    "recipe.pretrained": "false",
    "recipe.epochs": 2,
    "recipe.batch_size": 20,
}
"""How targets are trained in every rehearsal: a size and a length that two cores have time for."""

EVALUATOR = {"architecture": "resnet18", "image_size": 32, "pretrained": False, "epochs": 2, "batch_size": 16}
ATTACKED = {
    "attack.candidates": 2,
    "attack.batch_size": 2,
    "attack.selected": 2,
    "attack.selection_repeats": 1,
    "attack.pool.crop": 50,
    "judges": json.dumps({"evaluator": EVALUATOR}),
}
"""Few latents, before a small evaluator alone."""
LATENTS, STEPS = 8, 1
COUNTS = {"attack.pool.size": LATENTS, "attack.steps": STEPS}
"""What sweeps over both data sets set cell by cell."""


def smoothsweep(*arguments: object, code: int = 0) -> str:
    """What the command prints; it must end with this exit code."""
    command, begun = [sys.executable, "-m", "smoothsweep", *map(str, arguments)], time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    took = f"({time.monotonic() - begun:.0f} s)"
    print("$ smoothsweep", *(str(one) if len(str(one)) < 200 else "..." for one in arguments), took, "\n" + done.stdout)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


def options(*settings: dict[str, object]) -> list[str]:
    """--set options; later settings replace earlier ones."""
    merged = {key: value for one in settings for key, value in one.items()}
    return [part for key, value in merged.items() for part in ("--set", f"{key}={value}")]


def shipped_cells(sweep: str, changes: dict[str, Callable[[object], object]], without: str = "") -> list[dict]:
    """The cells of a shipped sweep, changed under these keys where they have them, and without one key."""
    raw = read_yaml((REPOSITORY / "sweeps" / f"{sweep}.yaml").read_text(encoding="utf-8"), sweep)
    kept = [{key: value for key, value in cell.items() if key != without} for cell in raw["cells"]]
    return [{key: changes[key](value) if key in changes else value for key, value in cell.items()} for cell in kept]


def run_table(sweep: str, rows: list[int], given: list[str], store: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Run a shipped sweep to its end: results, numbers beside the paper's, and what it printed.

    Every trial is done, and the printed rows compared are exactly `rows`.
    """
    text = smoothsweep("run", f"sweeps/{sweep}.yaml", *given, "--store", store, "--yes")
    folder = store / "sweeps" / sweep
    results, compared = (pd.read_parquet(folder / f"{name}.parquet") for name in ("results", "published_comparison"))
    assert set(results["status"]) == {"done"} and set(results["protocol"]) == {"paper"}
    assert sorted(set(compared["paper_row"])) == rows and "Compared with the paper's Table" in text
    printed = compared[compared["paper"].notna() & (compared["metric"] == "test_acc")]
    assert printed["ours"].notna().all()
    return results, compared, text


def facescrub_tree(folder: Path, pictures: int, people=FACESCRUB, seed: int = 3) -> Path:
    """So many pictures of each of these (group, person)."""
    for person, number, image in _people(len(people), pictures, seed):
        group, name = people[person]
        _save(image, folder / group / "faces" / name / f"{number}.jpg")
    return folder


def celeba_tree(folder: Path, pictures: int, identities: int, seed: int = 4) -> Path:
    """Ready square crops, and the two lists."""
    names = []
    for person, number, image in _people(identities, pictures, seed):
        names.append((f"{person * pictures + number + 1:06d}.jpg", person + 1))
        _save(image, folder / "img_align_celeba" / names[-1][0])
    (folder / "identity_CelebA.txt").write_text("".join(f"{name} {identity}\n" for name, identity in names))
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} 0\n" for name, _ in names))
    return folder


def imagenette_tree(folder: Path, classes: int, train: int, val: int) -> Path:
    """Drawn people stand for the ten things."""
    for label, number, image in _people(classes, train + val, seed=5):
        part = "train" if number < train else "val"
        _save(image, folder / part / f"n{label:08d}" / f"n{label:08d}_{number}.JPEG")
    return folder


def _people(identities, pictures, seed):
    """(person, which of the pictures, the picture)."""
    faces = synthetic_faces(population="private", identities=identities, per_identity=pictures, size=96, seed=seed)
    for i, image in enumerate(faces.images.permute(0, 2, 3, 1).numpy()):
        yield int(faces.labels[i]), i % pictures, image


def _save(image: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).resize((250, 250)).save(path, format="JPEG", quality=92)


def imported_prior(folder: Path) -> Path:
    """The shipped generator pickled in the official layout, with a discriminator, and imported through the door."""
    shipped = SHIPPED["stylegan2_synthetic64"]
    generator = read_prior(weights=shipped.with_suffix(".safetensors"), description=shipped.with_suffix(".json"))
    write_official_pickle(folder / "ffhq.pkl", generator.config, generator=dict(generator.state_dict()))
    smoothsweep("import", "prior", folder / "ffhq.pkl", "--out", folder / "priors" / "ffhq")
    return folder / "priors" / "ffhq"


def random_network(network: torch.nn.Module, images: torch.Tensor) -> torch.nn.Module:
    """Random weights whose features tell images apart: BatchNorm has seen some, or everything would look the same."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if isinstance(module, torch.nn.BatchNorm2d | torch.nn.BatchNorm1d):
            module.momentum = None
    with torch.no_grad():
        network.train()(images)
    return network.eval()
