"""`smoothsweep data check` on one's own pictures: exit codes, names, and what may be said beside it."""

import pytest

from smoothsweep.orchestrator.cli import main
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


def test_what_loading_would_refuse_exits_with_1(tmp_path, capsys):
    own = regular_folders(tmp_path / "own")
    (own / "ann" / "0.png").write_bytes(b"no picture")
    assert main(["data", "check", str(own)]) == 1
    assert "unreadable: ann/0.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--public", "other", "--as", "celeba"], "--public other: expected none beside --as celeba"),
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
