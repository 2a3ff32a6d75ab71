"""`smoothsweep export`: pictures that say where they come from, nobody named in a redacted one; the toy page."""

import csv
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
import zlib
from hashlib import sha256

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.page.pictures import KEY
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.shared_sweep import ALPHAS, IMAGES, NAMES, PEOPLE, SEEDS


def exported(shared, out, *more):
    given = ["export", str(shared.sweep), "--store", str(shared.store), "--out", str(out), *more]
    return main(given)


@pytest.fixture(scope="module")
def whole(shared, tmp_path_factory):
    """An export with everything that is there by default, but one format of figures."""
    out = tmp_path_factory.mktemp("whole") / "export"
    assert exported(shared, out, "--figures", "svg") == 0
    return out


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_images_are_the_strongest_attacks_first_ones_and_say_where_they_come_from(shared, whole):
    entries = json.loads((whole / "images" / "provenance.json").read_text())
    assert len(entries) == len(ALPHAS) * PEOPLE
    pictures = sorted(path for path in whole.glob("images/*/*/*.png"))
    assert {whole / entry["file"] for entry in entries} == set(pictures)
    rows = {row["recipe"]: row for row in rows_of(whole / "tables" / "recipes.csv")}
    for entry in entries:
        content = (whole / entry["file"]).read_bytes()
        assert sha256(content).hexdigest() == entry["sha256"]
        image = Image.open(whole / entry["file"])
        inside = json.loads(image.text[KEY])
        assert inside == {name: value for name, value in entry.items() if name not in ("file", "sha256")}
        made = np.asarray(image)[0, 0]
        assert made[1] == entry["class"] * IMAGES * 8, "the attack's first of this class"
        assert made[2] == int(entry["stages"]["reconstructions"][:2], 16) and made[0] == 0, "of this very stage"
        assert (shared.store / "loot" / entry["stages"]["reconstructions"] / "manifest.json").is_file()
        assert (entry["seed"], entry["rank"]) == (SEEDS[0], 1)
        assert entry["attack"] == rows[entry["recipe"]]["attack"]
        assert entry["class_name"] == NAMES[entry["class"]]
        rate = shared.rates[entry["trial"]][entry["class"]]
        assert entry["matched"] == (rate > 0), "the first is a hit wherever one is"


def test_all_images_are_every_seed_attack_and_rank(shared, tmp_path):
    assert exported(shared, tmp_path / "e", "--images", "all", "--figures", "none", "--tables", "none") == 0
    entries = json.loads((tmp_path / "e" / "images" / "provenance.json").read_text())
    assert len(entries) == len(ALPHAS) * 3 * len(SEEDS) * PEOPLE * IMAGES
    assert len({entry["file"] for entry in entries}) == len(entries)
    assert {(entry["seed"], entry["rank"]) for entry in entries} == {(s, r) for s in SEEDS for r in (1, 2)}
    assert not (tmp_path / "e" / "tables").exists() and not (tmp_path / "e" / "figures").exists()


def streams(content):
    """What compressed streams of a file hold, beside its bytes."""
    yield content
    for start in re.finditer(rb"stream\r?\n|IDAT", content):
        try:
            yield zlib.decompressobj().decompress(content[start.end() :])
        except zlib.error:
            continue


def test_a_redacted_export_has_no_name_and_no_picture(shared, tmp_path):
    assert exported(shared, tmp_path / "e", "--redact") == 0
    files = [path for path in (tmp_path / "e").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".pdf", ".svg", ".png", ".tex", ".csv", ".md", ".bib", ".json"}
    found = b"\n".join(piece for path in files for piece in streams(path.read_bytes()))
    assert not re.search(rb"zuzanna|quill", found, re.IGNORECASE) and str(shared.store).encode() not in found
    assert not (tmp_path / "e" / "images").exists()
    assert json.loads((tmp_path / "e" / "export.json").read_text())["redacted"] is True


def test_the_index_lists_every_file_and_the_same_export_is_written_again(shared, whole, tmp_path):
    index = json.loads((whole / "export.json").read_text())
    there = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    assert there == {*index["files"], "export.json"}
    assert (index["sweep"], index["protocol"], index["images"]) == ("tiny", "clean", "best")
    assert index["trials"] == {"finished": 27, "planned": 27}
    again = tmp_path / "again"
    (again).mkdir()  # an empty folder is as good as none
    for _ in range(2):  # and so is an export that nobody edited
        assert exported(shared, again, "--figures", "svg") == 0
    assert {name: (again / name).read_bytes() for name in index["files"]} == {
        name: (whole / name).read_bytes() for name in index["files"]
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again"], "nothing is left beside it"


EMPTY = {"--figures": "none", "--images": "none"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"--tables": "latex,word"}, "--tables: expected some of latex,csv,md, or none, got 'latex,word'"),
        ({"--tables": ""}, "--tables: expected some of latex,csv,md, or none, got ''"),
        ({"--figures": "svg,svg"}, "--figures: expected each format once, got 'svg,svg'"),
        ({"--figures": "none,svg"}, "--figures: expected some of pdf,svg,png, or none, got 'none,svg'"),
        ({"--redact": None, "--images": "best"}, "--images best: expected none beside --redact, which shows nobody"),
        ({"--store": "nowhere"}, "expected the store of an earlier run, got nothing there"),
        ({"--set": "seeds=[77]"}, "expected a finished trial in"),
        ({"SWEEP": "toy"}, "expected a sweep that trains and attacks models"),
        ({**EMPTY, "--out": "file"}, "expected a folder, got a file"),
        ({**EMPTY, "--out": "other"}, "expected a new or empty folder, got one that holds notes.txt"),
        (
            {**EMPTY, "--out": "edited"},
            "expected a new or empty folder, got an export whose tables/recipes.md was edited",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_nothing_is_written(given, line, shared, whole, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for name, edited in (("other", "notes.txt"), ("edited", "tables/recipes.md")):
        shutil.copytree(whole, tmp_path / name)
        (tmp_path / name / edited).write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    given = {"SWEEP": str(shared.sweep), "--store": str(shared.store), "--out": "e"} | given
    typed = ["export", given.pop("SWEEP"), "--out", str(tmp_path / given.pop("--out"))]
    assert main([*typed, *(one for pair in given.items() for one in pair if one is not None)]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert line in told and {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


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
