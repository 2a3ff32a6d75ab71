"""`smoothsweep data check` on one's own pictures: exit codes, names, and what may be said beside it."""

import numpy as np
import pytest
from PIL import Image

from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.load import load_sweep
from tests.labelled_files import encoded, folders, pixels, regular_folders


def public(root, *more):
    return folders(root, {f"{i}.png": encoded(pixels(900 + i)) for i in range(3)} | dict(more))


def test_own_data_that_are_fine_exit_with_0(tmp_path, capsys):
    own, others = regular_folders(tmp_path / "own"), public(tmp_path / "public")
    assert main(["data", "check", str(own), "--public", str(others)]) == 0
    shown = capsys.readouterr()
    assert "classes: 2; 8 training and 2 test images" in shown.out and shown.err == ""


def test_a_private_picture_among_the_public_ones_exits_with_2_and_its_names(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    others = public(tmp_path / "public", ("same.bmp", encoded(pixels(12), "BMP")))
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
    own, others = regular_folders(tmp_path / "own"), public(tmp_path / "public")
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
