"""The page of the two-dimensional example: known arrays in the store, their numbers on the page."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

STEPS = {0.0: 763, 0.05: 3113, -0.05: 53}
CENTRES = np.array([[6.0, -4.0], [-6.0, -4.0], [0.0, 7.0]])


@pytest.fixture
def made(repository, tmp_path):
    """The shipped sweep and a store with straight paths, of which the last left all bounds."""
    sweep, store = repository / "sweeps" / "toy.yaml", Store(root=tmp_path / "store")
    store.open_for_writing()
    labels = np.repeat([0, 1, 2], 30)
    points = CENTRES[labels] + np.random.default_rng(1).normal(0, 1, (90, 2))
    axis = np.linspace(-15, 15, 100)
    distances = np.linalg.norm(np.stack(np.meshgrid(axis, axis), axis=-1)[:, :, None] - CENTRES, axis=-1)
    for trial in trials_of(load_sweep(sweep)):
        (stage,), alpha = trial.stages, trial.settings.alpha
        if alpha not in STEPS:
            continue
        path = np.linspace(CENTRES[1], CENTRES[1] + (1 - abs(alpha)) * (CENTRES[2] - CENTRES[1]), STEPS[alpha] + 2)
        endless = np.concatenate([path[:5], [[1e30, -1e30], [np.inf, np.nan]]]) if alpha < 0 else path
        draft = store.draft(stage)
        arrays = {"points": points, "labels": labels, "axis": axis, "path": path, "endless_path": endless}
        closeness = np.exp(distances.min(-1, keepdims=True) - distances)
        arrays |= {"confidence": 1 / closeness.sum(-1), "prediction": distances.argmin(-1)}
        save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, str(draft / "toy.safetensors"))
        end = float(np.linalg.norm(points[labels == 2] - path[-1], axis=1).min())
        metrics = {"steps": STEPS[alpha], "distance": end, "train_loss": 0.1}
        metrics["distance_no_stop"] = None if alpha < 0 else end
        identity = {**stage.identity(), "fingerprint": stage.fingerprint, "inputs": {}}
        store.commit(stage, draft, {**identity, "metrics": metrics})
    return sweep, store.root


def test_the_page_has_the_numbers_beside_the_papers_and_draws_every_point_north_up(made, repository, tmp_path, capsys):
    sweep, store = made
    out = tmp_path / "out"
    assert main(["report", str(sweep), "--store", str(store), "--out", str(out)]) == 0
    page, text = (out / "report.html").read_text(), capsys.readouterr().out
    for row in json.loads((repository / "sweeps" / "paper" / "toy.json").read_text())["rows"]:
        assert f"<td>{row['steps']}</td>" in page and str(row["steps"]) in text
    for steps in STEPS.values():
        assert f"<td>{steps:,}</td>" in page and f"{steps}" in text
    assert page.count("left all bounds") == 1 and "https://" not in page
    assert {path.name for path in (out / "figures").iterdir()} == {"toy-1.svg", "toy-2.svg", "overview.png"}
    tree = ElementTree.fromstring((out / "figures" / "toy-2.svg").read_text())
    images = [one for one in tree.iter() if one.tag.endswith("}image")]
    yellow = [one for one in tree.iter() if "stroke: #ffd60a" in one.get("style", "")]
    assert len(images) == len(yellow) == len(STEPS), "a background and a path in each panel"
    with Image.open(out / "figures" / "overview.png") as picture:
        panel = np.asarray(picture.convert("RGB")).astype(int)
    height, side = panel.shape[0], panel.shape[1] // len(STEPS)
    north, south_west = panel[height // 7, side // 2 + 30], panel[height * 4 // 5, side // 5]
    assert north[0] > north[2] + 20, "orange pentagons live in the north"
    assert south_west[2] > south_west[0] + 20, "blue squares live in the south-west"
