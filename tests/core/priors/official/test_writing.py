import json

import pytest
import torch
from official_pickle import write_official_pickle

from smoothsweep.core import files
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.official import writing
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.writing import load_import_manifest, write_imported_prior
from smoothsweep.core.priors.registry import load_discriminator, load_prior, save_prior
from smoothsweep.core.priors.settings import DISCRIMINATOR
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

CONFIG = StyleGAN2Config(
    resolution=8, z_dim=6, w_dim=5, mapping_layers=1, channel_base=32, channel_max=4, conv_clamp=256, mbstd_group=None
)


def imported_from(path, seed=0):
    write_official_pickle(path, CONFIG, seed=seed, num_fp16_res=1)
    return import_prior(path)


@pytest.fixture
def imported(tmp_path):
    return imported_from(tmp_path / "network.pkl")


def equal(first, second):
    theirs = second.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in first.state_dict().items())


def test_round_trip(imported, tmp_path):
    target = tmp_path / "new" / "prior"
    write_imported_prior(imported, target)
    names = sorted(path.name for path in target.iterdir())
    assert names == ["discriminator.safetensors", "import.json", "prior.json", "weights.safetensors"]
    assert [path.name for path in target.parent.iterdir()] == ["prior"]
    generator, discriminator = load_prior(target), load_discriminator(target)
    assert generator.config == discriminator.config == CONFIG
    assert equal(generator, imported.generator) and equal(discriminator, imported.discriminator)
    assert not discriminator.training and not any(p.requires_grad for p in discriminator.parameters())


def test_manifest(imported, tmp_path):
    write_imported_prior(imported, tmp_path / "prior")
    manifest = load_import_manifest(tmp_path / "prior")
    assert manifest["sha256"] == imported.facts.sha256 and manifest["file"] == "network.pkl"
    assert manifest["networks"]["D"]["arguments"]["num_fp16_res"] == 1
    assert manifest["networks"]["G_ema"]["arguments"]["synthesis_kwargs"]["conv_clamp"] == 256
    assert "non-commercial" in manifest["licence"]
    assert str(tmp_path) not in json.dumps(manifest)


def test_the_identical_import_again_changes_nothing(imported, tmp_path):
    target = tmp_path / "prior"
    write_imported_prior(imported, target)
    before = {path.name: path.stat().st_mtime_ns for path in target.iterdir()}
    write_imported_prior(imported, target)
    assert {path.name: path.stat().st_mtime_ns for path in target.iterdir()} == before


def test_another_directory_is_left_alone(imported, tmp_path):
    target = tmp_path / "prior"
    write_imported_prior(imported, target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    other = imported_from(tmp_path / "other.pkl", seed=9)
    with pytest.raises(InputError, match="it already holds another import"):
        write_imported_prior(other, target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    weights = (target / DISCRIMINATOR).read_bytes()
    (target / DISCRIMINATOR).write_bytes(weights[:-4] + b"\0\0\0\0")
    with pytest.raises(InputError, match="it already holds another import"):
        write_imported_prior(imported, target)


@pytest.mark.parametrize("content", [None, "file.txt"])
def test_a_directory_of_something_else_is_refused(imported, tmp_path, content):
    target = tmp_path / "prior"
    target.mkdir()
    if content:
        (target / content).write_text("mine")
    with pytest.raises(InputError, match="expected a new directory or this very import"):
        write_imported_prior(imported, target)
    assert [path.name for path in target.iterdir()] == ([content] if content else [])


def test_a_failure_leaves_nothing(imported, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "save_discriminator", fail)
    with pytest.raises(InputError, match="prior: cannot be written: No space left on device"):
        write_imported_prior(imported, tmp_path / "out" / "prior")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_faster_import_of_the_same_file_is_no_error(imported, tmp_path, monkeypatch):
    target, rename = tmp_path / "prior", files.rename_folder

    def race(draft, final):
        monkeypatch.setattr(files, "rename_folder", rename)
        write_imported_prior(imported, target)
        rename(draft, final)

    monkeypatch.setattr(files, "rename_folder", race)
    write_imported_prior(imported, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.pkl", "prior"]


def test_a_prior_without_discriminator(imported, tmp_path):
    save_prior(imported.generator, tmp_path / "prior")
    with pytest.raises(InputError, match=r"discriminator\.safetensors: expected a safetensors file"):
        load_discriminator(tmp_path / "prior")
    with pytest.raises(InputError, match="expected the JSON description of an import"):
        load_import_manifest(tmp_path / "prior")
    description = json.loads((tmp_path / "prior" / "prior.json").read_text())
    eigenfaces = {"kind": "eigenfaces", "config": {"resolution": 8, "components": 4}}
    assert description["kind"] == "stylegan2"
    (tmp_path / "prior" / "prior.json").write_text(json.dumps(eigenfaces))
    with pytest.raises(InputError, match="kind: expected stylegan2 with a discriminator, got 'eigenfaces'"):
        load_discriminator(tmp_path / "prior")
