import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors import registry
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.card import CONFIGS, MobileStyleGANConfig, StyleGAN2Config
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.registry import NETWORKS, SHIPPED, load_prior, load_shipped_prior, save_prior
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tests.tiny_random_face import random_generator


def eigenfaces():
    images = torch.randint(0, 256, (9, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return fit_eigenfaces(images, components=4, seed=0)


def stylegan2():
    config = StyleGAN2Config(
        resolution=8, z_dim=6, w_dim=5, mapping_layers=2, channel_base=32, channel_max=4, conv_clamp=256.0
    )
    return StyleGAN2(config, seed=3)


def mobilestylegan():
    return random_generator(MobileStyleGANConfig(channels=(8, 8), z_dim=6, w_dim=5, frame=(0.1, 0.2, 0.7)))


@pytest.fixture(params=[eigenfaces, stylegan2, mobilestylegan], ids=lambda make: make.__name__)
def prior(request):
    return request.param()


def images_of(prior):
    with torch.no_grad():
        return prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(3, 0)), psi=0.7))


def test_every_kind_is_covered():
    assert {type(prior) for prior in (eigenfaces(), stylegan2(), mobilestylegan())} == set(NETWORKS.values())
    assert NETWORKS.keys() == CONFIGS.keys()


def test_round_trip(prior, tmp_path):
    save_prior(prior, tmp_path / "new" / "prior")
    loaded = load_prior(tmp_path / "new" / "prior")
    assert isinstance(loaded, Prior) and loaded.config == prior.config
    assert torch.equal(images_of(loaded), images_of(prior))
    assert not loaded.training and not any(weight.requires_grad for weight in loaded.parameters())
    assert sorted(path.name for path in (tmp_path / "new" / "prior").iterdir()) == [
        "prior.json",
        "weights.safetensors",
    ]
    modes = {path.stat().st_mode for path in (tmp_path / "new" / "prior").iterdir()}
    assert len(modes) == 1


def test_half_precision_on_disk_becomes_single_precision(prior, tmp_path):
    files = {"weights": tmp_path / "a.safetensors", "description": tmp_path / "a.json"}
    registry.write_prior(prior, **files, dtype=torch.float16)
    assert {value.dtype for value in load_file(files["weights"]).values()} == {torch.float16}
    loaded = registry.read_prior(**files)
    assert {value.dtype for value in loaded.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(images_of(loaded), images_of(prior), atol=0.05, rtol=0.05)


def test_refuses_to_save_what_it_could_not_load(tmp_path):
    with pytest.raises(ValueError, match="expected one of eigenfaces, mobilestylegan, stylegan2, got Linear"):
        save_prior(torch.nn.Linear(1, 1), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_nothing_behind(prior, tmp_path, monkeypatch):
    def fail(path, data):
        path.touch()
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        save_prior(prior, tmp_path)
    assert not list(tmp_path.iterdir())


def described(prior, tmp_path, change):
    save_prior(prior, tmp_path)
    path = tmp_path / "prior.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(kind="stylegan3"),
            "kind: expected one of eigenfaces, mobilestylegan, stylegan2, got 'stylegan3'",
        ),
        (lambda d: d.pop("kind"), "keys version, kind and config"),
        (lambda d: d["config"].update(extra=1), "config: expected the keys components, resolution"),
        (lambda d: d["config"].update(components="4"), "components: expected a whole number of at least 1, got '4'"),
        (lambda d: d["config"].update(components=0), "components: expected a whole number of at least 1, got 0"),
        (lambda d: d["config"].update(components=5), r"components: expected shape \[5, 192\], got \[4, 192\]"),
    ],
)
def test_refuses_a_wrong_description(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_prior(described(eigenfaces(), tmp_path, change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("std"), "1 tensors are missing, the first is std"),
        (lambda s: s.update(more=torch.zeros(1)), "1 unknown tensors, the first is more"),
        (lambda s: s["mean"].fill_(float("nan")), "mean: expected finite numbers"),
        (lambda s: s.update(std=torch.zeros(4, dtype=torch.int64)), "expected float32 or float16, got torch.int64"),
    ],
)
def test_refuses_wrong_weights(tmp_path, change, message):
    save_prior(eigenfaces(), tmp_path)
    state = load_file(tmp_path / "weights.safetensors")
    change(state)
    save_file(state, tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match=message):
        load_prior(tmp_path)


def test_refuses_missing_and_foreign_files(tmp_path):
    with pytest.raises(InputError, match=r"prior.json: expected the JSON description"):
        load_prior(tmp_path)
    save_prior(eigenfaces(), tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match="expected a safetensors file"):
        load_prior(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(InputError, match="expected a safetensors file"):
        load_prior(tmp_path)


def test_shipped_names():
    assert "stylegan2_synthetic64" in SHIPPED
    with pytest.raises(InputError, match="expected one of stylegan2_synthetic64, got 'ffhq'"):
        load_shipped_prior("ffhq")
