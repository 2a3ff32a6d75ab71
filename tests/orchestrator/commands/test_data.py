"""`smoothsweep data check` on one's own pictures, and `init`, whose file fits them and is taken by `plan`."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from smoothsweep.core.metrics.power import QUICKSTART, Design
from smoothsweep.core.metrics.power import planned as planned_power
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.load import load_sweep
from tests.labelled_files import encoded, folders, pixels, regular_folders, scene


def others_in(root, *more):
    return folders(root, {f"{i}.png": encoded(pixels(900 + i)) for i in range(3)} | dict(more))


def test_own_data_that_are_fine_exit_with_0(tmp_path, capsys):
    own, others = regular_folders(tmp_path / "own"), others_in(tmp_path / "public")
    assert main(["data", "check", str(own), "--public", str(others)]) == 0
    shown = capsys.readouterr()
    assert "classes: 2; 8 training and 2 test images" in shown.out and shown.err == ""


def test_a_private_picture_among_the_public_ones_exits_with_2_and_its_names(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    others = others_in(tmp_path / "public", ("same.bmp", encoded(pixels(12), "BMP")))
    assert main(["data", "check", str(own), "--public", str(others)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"smoothsweep: --public {others}: expected none of the pictures")
    assert said.endswith("got 1 of them: bob/2.png = same.bmp\n")


def test_bits_are_said_and_taken(tmp_path, capsys):
    """Deep pictures that use 12 bits: a fault with the largest value until `--bits` says so; `init` writes it down."""
    values = np.arange(64, dtype=np.uint16).reshape(8, 8) * 65
    layout = {
        f"{who}/{i}.png": encoded(Image.fromarray(values + 9 * k + i)) for k, who in enumerate("ab") for i in range(4)
    }
    own = folders(tmp_path / "own", layout)
    assert main(["data", "check", str(own)]) == 1
    assert "4107" in capsys.readouterr().out
    assert main(["data", "check", str(own), "--bits", "14"]) == 0
    assert main(["init", "--data", str(own), "--out", str(tmp_path / "s.yaml"), "--bits", "14"]) == 0
    assert load_sweep(tmp_path / "s.yaml").sweep.data.bits == 14


def test_what_was_looked_for_on_public_images_is_said(tmp_path, capsys):
    """Without an embedder copies alone; with one, whether it can tell these pictures apart, which it cannot."""
    own, others = regular_folders(tmp_path / "own"), others_in(tmp_path / "public")
    assert main(["data", "check", str(own), "--public", str(others)]) == 0
    assert "copies alone" in capsys.readouterr().out
    assert main(["data", "check", str(own), "--public", str(others), "--judge", "synthetic"]) == 0
    shown = capsys.readouterr().out
    assert "synthetic" in shown and "copies alone: with --judge" not in shown


def test_what_loading_would_refuse_exits_with_1(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    (own / "ann" / "0.png").write_bytes(b"no picture")
    assert main(["data", "check", str(own)]) == 1
    assert "unreadable: ann/0.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--public", "other", "--as", "celeba"], "--public other: expected none beside --as celeba"),
        (["--bits", "12", "--as", "celeba"], "--bits 12: expected none beside --as celeba"),
        (["--judge", "nobody"], "--judge: expected one of"),
        (["--classes", "3"], "--classes 3: expected --as beside it, got none"),
        (["--pictures", "crops"], "--pictures crops: expected --as beside it, got none"),
        ([], "expected a Parquet file or a folder, got nothing at this path"),
        (["--public", "nowhere"], "expected a Parquet file or a folder, got nothing at this path"),
    ],
)
def test_wrong_questions_are_one_line(tmp_path, capsys, more, line):
    own = regular_folders(tmp_path / "own") if "nowhere" in more else tmp_path / "nothing"
    assert main(["data", "check", str(own), *more]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


def written(capsys, out, *more):
    assert main(["init", "--out", str(out), *map(str, more)]) == 0
    capsys.readouterr()
    return load_sweep(out).sweep


def planned(capsys, out, tmp_path):
    assert main(["plan", str(out), "--store", str(tmp_path / "store"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def public(tmp_path):
    return folders(tmp_path / "public", {f"{i}.png": encoded(scene(300 + i, side=40)) for i in range(30)})


def test_sizes_and_counts_are_those_of_the_data_and_plan_takes_the_file(tmp_path, public, capsys):
    own = folders(
        tmp_path / "our: #people",
        {f"{who}/{i}.png": encoded(scene(10 * who + i, side=90)) for who in range(3) for i in range(4)},
    )
    sweep = written(capsys, tmp_path / "own.yaml", "--data", own, "--public", public)
    assert sweep.data.path == str(own) and sweep.public.path == str(public)
    assert (sweep.data.size, sweep.public.size) == (32, 32), "public images have 40 pixels"
    assert sweep.data.largest_classes is None and sweep.public.limit is None
    assert sweep.prior.components == 15 and sweep.recipe.batch_size == 2
    text = (tmp_path / "own.yaml").read_text()
    assert "# Your images: 3 classes with 9 training images, 3 to 3 of each." in text
    assert planned(capsys, tmp_path / "own.yaml", tmp_path)["trials"] == 24


def test_without_data_the_file_has_names_to_fill_in_and_plan_takes_it_too(tmp_path, capsys):
    sweep = written(capsys, tmp_path / "own.yaml")
    assert (sweep.data.path, sweep.public.path) == ("faces.parquet", "other-people.parquet")
    assert planned(capsys, tmp_path / "own.yaml", tmp_path)["trials"] == 24


def test_images_that_are_no_faces_get_another_judge_and_other_words(tmp_path, capsys):
    sweep = written(capsys, tmp_path / "own.yaml", "--no-faces")
    assert set(sweep.judges.built) == {"evaluator", "general"}
    text = (tmp_path / "own.yaml").read_text()
    words = text.lower().replace(
        "kind: eigenfaces", ""
    )  # the method's name in the literature, whatever the images show
    assert not [word for word in ("people", "person", "face", "embedder") if word in words], text
    assert planned(capsys, tmp_path / "own.yaml", tmp_path)["trials"] == 24


def test_what_the_sweep_can_tell_is_said_beforehand(tmp_path, capsys):
    """Three seeds, 20 classes, four recipes, two losses and eight images, as the file has them."""
    assert main(["init", "--out", str(tmp_path / "own.yaml")]) == 0
    design = Design(seeds=3, classes=20, recipes=4, attacks=2, images=8)
    points = math.ceil(100 * planned_power(QUICKSTART, design).tells)
    text = capsys.readouterr().out
    assert f"with 3 seeds and 20 classes this sweep can detect differences of {points} points or more" in text
    assert "for 10 points: " in text and "times the time" not in text


NAMES = {"my faces & co": "my-faces-co", "\u2026": "own", "x" * 200: "x" * 64, "-a.": "a", "2024": "2024"}


@pytest.mark.parametrize("given", NAMES)
def test_a_name_is_made_of_any_path(tmp_path, capsys, given):
    sweep = written(capsys, tmp_path / "s.yaml", "--data", regular_folders(tmp_path / given))
    assert sweep.name == NAMES[given]


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        ("there", "expected a new file"),
        ("folder", "expected a file in a folder that is there"),
        ("bare", "expected --data beside it, got none"),
        ("broken", "got 1 faults (smoothsweep data check lists them): unreadable: ann/0.png"),
        ("shared", "got 1 of them: ann/1.png = copy.png"),
        ("nothing", "got nothing at this path"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tmp_path, public, capsys, harm, line):
    own, out = regular_folders(tmp_path / "own"), tmp_path / ("no/own.yaml" if harm == "folder" else "own.yaml")
    given = ["--data", own, "--public", public]
    if harm == "there":
        out.write_text("mine")
    elif harm == "bare":
        given = ["--public", public]
    elif harm == "broken":
        (own / "ann" / "0.png").write_bytes(b"x")
    elif harm == "shared":
        (public / "copy.png").write_bytes((own / "ann" / "1.png").read_bytes())
    elif harm == "nothing":
        given = ["--data", tmp_path / "nowhere"]
    assert main(["init", "--out", str(out), *map(str, given)]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert out.read_text() == "mine" if harm == "there" else not out.exists()
