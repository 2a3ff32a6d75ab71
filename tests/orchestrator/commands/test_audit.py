"""`smoothsweep audit`: refusals before anything runs, and one audit from model to pages."""

import json
import re
import shutil

import pytest
import torch
from PIL import Image

from smoothsweep.orchestrator.cli import main
from tests.foreign_classifier import PEOPLE, SIDE
from tests.orchestrator.commands.owned_model import IMAGENET, audit

STATED = ["--architecture", "resnet18", "--image-size", SIDE]
URL = ["http://127.0.0.1:9/model", "--image-size", SIDE, "--yes", "--data", "PEOPLE", "--public", "PUBLIC"]
EARLY = [  # what follows `audit`: options of the owner's model, or a whole command; the line
    (["--minutes", "0"], "--minutes: expected more than 0, got 0"),
    (["--minutes", "nan"], "--minutes: expected more than 0, got nan"),
    (["--minutes", "3", "--effort", "quick"], "--minutes: expected none with --effort"),
    (["--people", "1"], "--people: expected at least 2, got 1"),
    (["--judge", "eve"], "--judge: expected one of synthetic, facenet"),
    (["--judge", "facenet"], "--judge: expected facenet=FILE"),
    (["--judge", "swag_vit_b_16"], "FILE with the file of its weights, or staged by smoothsweep weights stage"),
    (["--judge", "synthetic=own.pth"], "--judge: expected no file with synthetic"),
    (["--seeds", "0"], "--seeds: expected between 1 and 5, got 0"),
    (["--epochs", "3"], "--epochs: expected only with --reference or --fix, which train, got 3"),
    (["--fix", "--epochs", "0"], "--epochs: expected at least 1, got 0"),
    (["--reference", "resnet81"], "efficientnet_b2, got 'resnet81'; did you mean 'resnet18'?"),
    (["--reference", "vit_b_16", "--image-size", SIDE], "--reference vit_b_16: expected images of 224 pixels"),
    (["--trained-on-data", *STATED], "to say which images are for training and which for testing"),
    (["--gallery", "PEOPLE"], "--data, --gallery: expected one of them, got both"),
    (["--image-size", SIDE], "--architecture: expected the network that own.pth holds, e.g. resnet18, got none"),
    (["--architecture", "resnet18"], "--image-size: expected the side in pixels"),
    ([*STATED, "--mean", 0, 0, 0], "--mean, --std: expected both"),
    ([*STATED, "--answers", "labels"], "--answers: expected none with"),
    (["--architecture", "resnet34", "--image-size", SIDE], "as resnet34: expected resnet34"),
    (["--architecture", "resnet81", "--image-size", SIDE], "got 'resnet81'; did you mean 'resnet18'?"),
    (["MODEL"], "--data, --gallery: expected one of them, got neither"),
    (["MODEL", "--data", "PEOPLE"], "--public: expected images of the same kind that show none of these people"),
    (["MODEL", "--gallery", "PEOPLE", "--public", "PUBLIC", "--trained-on-data"], "--trained-on-data: expected none"),
    (["GONE", "--data", "PEOPLE", "--public", "PUBLIC"], "MODEL GONE: expected "),
    (["MODEL", "--data", "GONE", "--public", "PUBLIC"], "--data GONE: expected "),
    (["MODEL", "--gallery", "GONE", "--public", "PUBLIC"], "--gallery GONE: expected "),
    (["MODEL", "--data", "PEOPLE", "--public", "GONE"], "--public GONE: expected "),
    ([*URL, "--input-range", 0, 1], "--input-range: expected none with an HTTP endpoint"),
    ([*URL, "--architecture", "resnet18"], "--architecture: expected none with an HTTP endpoint"),
]


@pytest.mark.parametrize(("more", "line"), EARLY)
def test_what_is_wrong_is_one_line_before_pictures_are_compared_and_nothing_is_written(
    owned, tmp_path, capsys, more, line
):
    """That takes most of a minute where there are thousands, and is said."""
    root, people, public = owned
    places = {"MODEL": root / "own.pth", "PEOPLE": people, "PUBLIC": public}
    whole = [] if not str(more[0]).startswith("--") else ["MODEL", "--data", "PEOPLE", "--public", "PUBLIC"]
    given = [str(places.get(one, one)) for one in (*whole, *more)]
    assert main(["audit", *given, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("smoothsweep: ") and said.err.count("\n") == 1 and not said.out
    assert line in said.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [["target", "GONE", "--classes", "2"], ["judge", "GONE"]])
def test_a_file_to_import_that_is_not_there_is_named(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert main(["import", *command]) == 2
    assert capsys.readouterr().err.startswith("smoothsweep: FILE GONE: expected ") and not [*tmp_path.iterdir()]


def test_a_reading_that_does_not_recognise_the_people_is_refused_with_the_one_that_does(owned, tmp_path, capsys):
    assert audit(owned, *STATED, out=tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "as stated: use --mean 0.485 0.456" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_place_of_another_models_audits_is_refused(owned, tmp_path, capsys):
    """Also of one whose weights differ a little."""
    root, out = owned[0], tmp_path / "out"
    given = [*map(str, STATED), *IMAGENET]
    imported = ["import", "target", str(root / "own.pth"), "--classes", str(len(PEOPLE)), *given]
    assert main([*imported, "--out", str(out / "model")]) == 0
    before = {path: path.read_bytes() for path in (out / "model").iterdir()}
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"] = state["fc.bias"] + 1e-3
    torch.save(state, tmp_path / "own.pth")
    assert audit((tmp_path, *owned[1:]), *given, out=out) == 2
    said = capsys.readouterr().err
    assert said == f"smoothsweep: --out {out}: expected a folder of this model's audits, got one of another model\n"
    assert {path: path.read_bytes() for path in (out / "model").iterdir()} == before


def test_a_person_s_picture_among_the_public_ones_is_refused_by_name_and_nothing_is_written(owned, tmp_path, capsys):
    root, people, public = owned
    picture, others = next(people.rglob("*.png")), shutil.copytree(public, tmp_path / "public")
    Image.open(picture).save(others / "copy.bmp")
    given = ["--data", str(people), "--public", str(others), "--out", str(tmp_path / "out")]
    assert main(["audit", str(root / "own.pth"), *given, "--architecture", "resnet18", "--image-size", str(SIDE)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{picture.relative_to(people)} = copy.bmp\n") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_from_a_checkpoint_to_the_pages(owned, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--architecture", "resnet18", "--image-size", SIDE, *IMAGENET, "--epochs", "3", "--people", "3"]
    assert audit(owned, *options, "--reference", "--minutes", "0.1", out=out) == 0
    found = json.loads((out / "audit.json").read_text())
    [left] = found["said"]["trainings"]
    assert left.startswith("Not tried: ") and "plain training" in left and found["beside"] == []
    assert found["test_acc"] > 0.8 and len({one["name"] for one in found["people"]} & set(PEOPLE)) == 3
    [control] = [one["leak"] for one in found["reached"] if one["control"]]
    assert max(one["leak"] for one in found["reached"]) > control
    for name in ("audit.html", "audit.pdf", "audit.yaml"):
        assert (out / name).is_file()
    before = capsys.readouterr().out
    assert found["said"]["answer"][0][:40] in before
    assert "baseline" not in before, "a sweep's table compares recipes, of which an audit has none"
    redacted = {"html": b"data:image/png", "pdf": b"/Subtype /Image", "json": b'"file"'}
    assert all(mark in (out / f"audit.{ending}").read_bytes() for ending, mark in redacted.items())
    assert audit(owned, *options, "--reference", "--minutes", "0.1", "--redact", out=out) == 0
    written = {ending: (out / f"audit.{ending}").read_bytes() for ending in redacted}
    assert not [ending for ending, mark in redacted.items() if mark in written[ending]]
    page = re.sub(rb"<(style|script).*?</\1>|<[^>]+>", b" ", written["html"], flags=re.DOTALL)
    text = capsys.readouterr().out.encode() + page + written["json"]
    assert not [name for name in PEOPLE if re.search(rb"\b%b\b" % name.encode(), text)]
    assert audit(owned, *options, "--fix", "--effort", "quick", out=out) == 0  # nothing is done twice
    said, found = capsys.readouterr().out, json.loads((out / "audit.json").read_text())
    assert "converted before" in said and "to come: plain training" in said
    so_far, then = said.index(f"so far: {out / 'audit.html'}"), said.index(f"audit: {out / 'audit.html'}")
    assert so_far < then, "who waits for what comes after the first answer hears of the pages"
    assert [one["role"] for one in found["beside"]][:2] == ["model", "reference"]
    assert all(one["training_s"] > 0 for one in found["beside"][1:])
    assert found["beside"][0]["test_acc"] == found["test_acc"]
