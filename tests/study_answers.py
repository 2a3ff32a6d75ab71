"""A small study whose pictures say by their colours what they are, and files of annotators who answer as told."""

import base64
import io
import json
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.made_stores import commit, stages_of
from tests.tiny import write_tiny

ALPHAS = [-0.2, 0.0, 0.1]
PEOPLE, SIDE = 12, 16
REAL_RED = 240


def red_of(alpha):
    """The red of a recipe's reconstructions, 0 to 255."""
    return 40 + 60 * ALPHAS.index(alpha)


def _coloured(count, red, greens):
    images = np.zeros((count, 3, SIDE, SIDE), np.uint8)
    images[:, 0], images[:, 1] = red, np.asarray(greens)[:, None, None] * 16 + 8
    return images


def _data(folder, stage):
    labels = np.repeat(np.arange(PEOPLE), 4)
    images = _coloured(len(labels), REAL_RED, labels)
    images[:, 2] = (np.arange(len(labels)) % 4 * 50)[:, None, None]
    save_file({"images": images, "labels": labels}, str(folder / "train.safetensors"))
    (folder / "names.json").write_text(json.dumps([f"Person <b>{label}</b>" for label in range(PEOPLE)]))


def _reconstructions(folder, stage):
    labels = np.repeat(np.arange(PEOPLE), 2)
    alpha = stage.inputs["attack"].inputs["target"].config["defense"]["alpha"]
    images = _coloured(len(labels), red_of(alpha), labels)
    images[:, 2] = np.where(np.arange(len(labels)) % 2, 255, 0)[:, None, None]  # the second is not the attack's best
    save_file({"images": images, "labels": labels}, str(folder / "images.safetensors"))


FILES = {"data": _data, "loot": _reconstructions}


def made_sweep(folder: Path, **changes) -> tuple[Path, Path]:
    """A sweep file of three recipes, and a store with their pictures."""
    settings = {"grid": {"recipe.defense.alpha": ALPHAS}, "seeds": [1, 2], "baseline": {}, **changes}
    settings.setdefault("data", {"kind": "synthetic", "identities": PEOPLE, "train_per_class": 4, "size": 32})
    sweep = write_tiny(folder, **settings)
    store = Store(root=folder / "store")
    for stage in stages_of(trials_of(load_sweep(sweep))):
        if stage.name in FILES:
            commit(store, stage, partial(FILES[stage.name], stage=stage))
    return sweep, store.root


def colours(uri: str) -> tuple[int, int, int]:
    """Red, green and blue of a picture in a page, all of one colour."""
    image = Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1])))
    return tuple(int(value) for value in np.asarray(image).reshape(-1, 3).mean(0).round())


def answers_file(path: Path, key: dict, choices: list, *, who: str = "Ann", number: int = 1, **changes) -> Path:
    """What the page saves for an annotator."""
    content = {
        "format": 1,
        "study": key["digest"],
        "annotator": {"id": f"{number:016x}", "name": who},
        "answers": choices,
        **changes,
    }
    path.write_text(json.dumps(content))
    return path


def choosing(key: dict, recipe) -> list:
    """The positions of somebody who always chooses this recipe (or what `recipe(number)` says), and passes checks."""
    of = recipe if callable(recipe) else lambda number: recipe
    chosen = []
    for number, question in enumerate(key["questions"]):
        options = question["options"]
        wanted = of(number)
        other = next(place for place, option in enumerate(options) if option is not None)
        chosen.append(options.index(wanted) if wanted in options and question["real"] is None else other)
    return chosen
