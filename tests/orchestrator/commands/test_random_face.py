"""`smoothsweep import prior random-face`, of a tiny graph in the place of the package's, and `audit --prior`."""

import hashlib
import json
import zipfile

import numpy as np
import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.weight_files import find_file, weight_folders
from smoothsweep.core.priors import random_face
from smoothsweep.core.priors.random_face import WHEEL, PublishedFile, import_package, package_files
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import imported_prior
from tests.tiny_random_face import graph_of, imported_folder, package_numbers

CHANNELS = (4, 8, 4, 4, 4)


@pytest.fixture(scope="module")
def files():
    graphs = zip(("MappingNetwork", "SynthesisNetwork"), map(graph_of, package_numbers(CHANNELS)), strict=True)
    return {f"{name}.{kind}": part for name, graph in graphs for kind, part in zip(("xml", "bin"), graph, strict=True)}


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The tiny files in a package's folder; their checksums count as the published ones."""
    published = {
        name: PublishedFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    }
    monkeypatch.setattr(random_face, "FILES", published)
    place = tmp_path / "random_face"
    (place / "data").mkdir(parents=True)
    for name, content in files.items():
        (place / "data" / name).write_bytes(content)
    return place


def imported(place, out, *more):
    return main(["import", "prior", "random-face", str(place), "--out", str(out), *more])


def test_the_package_becomes_priors_with_their_licence_and_stays(tmp_path, folder, capsys):
    out = tmp_path / "out"
    assert imported(folder, out, "--resolution", "64", "--images", "26") == 0
    said = capsys.readouterr().out
    assert "non-commercial" in said and "dB from the whole image" in said
    assert load_prior(out / "64").resolution == 64 and load_prior(out / "128").resolution == 128
    facts = json.loads((out / "64" / "import.json").read_text())
    assert "non-commercial" in facts["licence"] and facts["read_out"]["images"] == 26
    assert facts["read_out"]["psnr_db"] >= facts["read_out"]["psnr_db_closed_form"]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert imported(folder, out, "--resolution", "64") == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}


def test_the_numbers_come_in_under_our_names(folder):
    network, (mapping, synthesis) = import_package(folder), package_numbers(CHANNELS)
    assert network.config.channels == CHANNELS and network.resolution == 128
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    assert (state["mapping.layers.1.weight"] == mapping["177"]).all()
    assert (state["first.constant"] == synthesis["m.input.input"]).all()
    gained = synthesis["m.layers.1.conv2.conv.modulation.weight"] * synthesis["Constant_217"].item()
    np.testing.assert_allclose(state["stages.1.conv2.style.weight"], gained, rtol=1e-6)
    noise = synthesis["1601"][0].transpose(1, 2, 0)
    assert (state["stages.1.conv1.noise"] == noise).all()
    order = [0, 1, 2, 3, 6, 9, 4, 7, 10, 5, 8, 11]  # averages of three channels, then each kind of detail of them
    assert (state["to_image.bias"] == synthesis["m.layers.3.to_img.bias"].ravel()[order]).all()


@pytest.mark.skipif(find_file(WHEEL, weight_folders()) is None, reason="the wheel of random-face is not staged")
def test_the_published_package_gives_the_known_numbers():
    network, total = import_package(find_file(WHEEL, weight_folders())), hashlib.sha256()
    for name, value in network.state_dict().items():
        if name != "mapping.mean":
            total.update(name.encode() + value.numpy().tobytes())
    assert total.hexdigest() == "f349f97e2fb5ab0aee92d5d0d7a9b4906795eb8654a84d5f4e098843557e88db"


def test_a_wheel_is_read_as_its_folder(tmp_path, folder):
    with zipfile.ZipFile(tmp_path / "wheel.whl", "w") as wheel:
        for file in (folder / "data").iterdir():
            wheel.write(file, f"random_face/data/{file.name}")
        wheel.writestr("random_face-1.dist-info/METADATA", "")
    assert package_files(tmp_path / "wheel.whl") == package_files(folder)


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (
            lambda data: (data / "SynthesisNetwork.bin").write_bytes(
                b"\1" + (data / "SynthesisNetwork.bin").read_bytes()[1:]
            ),
            "another version",
        ),
        (
            lambda data: (data / "SynthesisNetwork.bin").write_bytes((data / "SynthesisNetwork.bin").read_bytes() * 2),
            "MiB",
        ),
        (lambda data: (data / "MappingNetwork.bin").unlink(), "MappingNetwork.bin: cannot be read"),
        (lambda data: (data / "SynthesisNetwork.xml").unlink(), "expected a folder with"),
    ],
)
def test_another_package_is_one_line_and_nothing_is_written(tmp_path, folder, capsys, harm, expected):
    harm(folder / "data")
    assert imported(folder, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and expected in error and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["random-face"], "pip download --no-deps random-face==2021.7.21.1"),
        (["random-face", "nowhere.whl"], "Apache-2.0"),
        (["random-face", "--images", "3"], "--images: expected"),
        (["random-face", "--judge", "nobody=x"], "--judge: expected NAME=FILE"),
        (["ffhq.pkl", "--images", "30"], "images: expected it with random-face only"),
    ],
)
def test_what_cannot_be_imported_is_one_line(tmp_path, monkeypatch, capsys, arguments, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(random_face, "weight_folders", list)
    monkeypatch.setattr(random_face, "PACKAGE", "no_such_package_here")
    assert main(["import", "prior", *arguments, "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and expected in error and not (tmp_path / "out").exists()


def test_an_audit_takes_the_least_resolution_that_the_model_sees(tmp_path):
    for resolution in (64, 128):
        imported_folder(tmp_path, resolution)
    eyes = (19.0, 20.0, 45.0, 20.0, 64.0)
    assert imported_prior(tmp_path, eyes, 64)["resolution"] == 128  # of 64 pixels the frame would show 40
    assert imported_prior(tmp_path, None, 64)["resolution"] == 64
    assert imported_prior(tmp_path, None, 1000)["resolution"] == 128
    assert imported_prior(tmp_path / "64", None, 64) == {"kind": "folder", "path": str(tmp_path / "64")}


@pytest.mark.parametrize(
    ("place", "eyes", "expected"),
    [
        ("nowhere", None, "a folder that `smoothsweep import prior` wrote"),
        ("64", (19.0, 20.0, 45.0, 20.0, 64.0), "--eyes: expected none"),
        (".", (19.0, 20.0, 45.0, 20.0, 64.5), "whole pixels"),
        (".", (30.0, 20.0, 34.0, 20.0, 64.0), "more around the face"),
    ],
)
def test_a_prior_that_an_audit_cannot_use_is_refused(tmp_path, place, eyes, expected):
    imported_folder(tmp_path)
    with pytest.raises(InputError, match=expected):
        imported_prior(tmp_path / place, eyes, 64)
