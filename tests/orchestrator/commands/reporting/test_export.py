"""`smoothsweep export`: its numbers are those of the sweep, its pictures say where they come from, and a redacted one
names nobody."""

import csv
import json
import re
import shutil
import zlib
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.page.pictures import KEY
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


@pytest.fixture(scope="module")
def reported(shared, tmp_path_factory):
    """The report of the same sweep: verdicts.parquet and results.parquet."""
    out = tmp_path_factory.mktemp("reported")
    assert main(["report", str(shared.sweep), "--store", str(shared.store), "--out", str(out)]) == 0
    return out


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def alpha_of(recipe):
    # As it can be typed: with a plain minus sign and space.
    return 0.0 if recipe == "plain training" else float(recipe.split(" ")[-1])


def test_the_table_has_the_reductions_of_the_verdicts_and_the_means_of_the_trials(whole, reported):
    verdicts = pd.read_parquet(reported / "verdicts.parquet").set_index("recipe")
    results = pd.read_parquet(reported / "results.parquet")
    assert set(verdicts.index) < set(results["recipe"]), "the two join by recipe"
    rows = rows_of(whole / "tables" / "recipes.csv")
    assert len(rows) == 3 and [row["role"] for row in rows].count("baseline") == 1
    for row in rows:
        mine = results[results["recipe"] == row["recipe"]]
        strongest = mine[~mine["attack_control"]].groupby("attack")["embedder_acc1"].mean().max()
        assert float(row["embedder_acc1"]) == pytest.approx(strongest) and row["seeds"] == "3"
        assert float(row["test_acc"]) == pytest.approx(mine["test_acc"].mean())
        if row["role"] == "baseline":
            assert row["reduction"] == "" and row["reduction_differs"] == ""
            continue
        told = verdicts.loc[row["recipe"]]
        for name in ("reduction", "reduction_low", "reduction_high", "p"):
            assert float(row[name]) == pytest.approx(told[name]), name
        assert row["verdict"] == told["verdict"]
        assert (row["reduction_differs"] == "yes") == (told["verdict"] in ("reduces", "leaks more"))
    words = {alpha_of(row["recipe"]): row["verdict"] for row in rows}
    assert words == {0.0: "", 0.1: "inconclusive", -0.2: "reduces"}, "the rates were made so"


def test_every_recipe_under_every_attack_is_there_with_the_trials_means(whole, reported):
    results = pd.read_parquet(reported / "results.parquet")
    rows = rows_of(whole / "tables" / "attacks.csv")
    assert len(rows) == len(ALPHAS) * 3 and [row["role"] for row in rows].count("control") == 3
    means = results.groupby(["recipe", "attack_settings"])["embedder_acc1"].mean()
    assert sorted(float(row["embedder_acc1"]) for row in rows) == pytest.approx(sorted(means))


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


def test_references_are_of_what_was_used_and_of_nothing_else(whole):
    keys = re.findall(r"^@\w+\{(\w+),", (whole / "references.bib").read_text(), re.MULTILINE)
    smoothing = {"szegedy2016rethinking", "struppek2024careful"}
    assert set(keys) == {"smoothsweep", "struppek2022plug", "turk1991eigenfaces"} | smoothing


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
