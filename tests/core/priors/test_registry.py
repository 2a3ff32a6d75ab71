import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors import registry
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import NETWORKS, PRIORS, brings_network, make_settings
from smoothsweep.core.priors.registry import from_files, load_prior, save_prior
from smoothsweep.core.priors.settings import SHIPPED
from tests.core.priors.examples import network_of


def eigenfaces():
    return network_of("eigenfaces")


@pytest.fixture(params=NETWORKS)
def prior(request):
    return network_of(request.param)


KNOWN = ", ".join(sorted(NETWORKS))


def images_of(prior):
    with torch.no_grad():
        return prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(3, 0)), psi=0.7))


def test_every_network_is_found_again_by_its_class():
    for name, kind in NETWORKS.items():
        if name == "held":  # whose class is its caller's
            continue
        network = network_of(name)
        assert type(network) is kind.load() and type(network.config) is kind.config
        assert registry.card_of(network).kind == name and name in PRIORS[brings_network(name)].networks


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


def test_the_slope_of_the_mapping_is_what_its_latents_show(prior):
    """Along a line of z a coordinate grows `slope` times as fast just below zero as just above it."""
    ends = torch.from_numpy(prior.sample_z(64, 0))
    for start, end in ends.split(2):
        w = prior.map(torch.lerp(start, end, torch.linspace(0, 1, 2001, dtype=ends.dtype)[:, None]))[:, 0].detach()
        rises = (w[:-1] < 0) & (w[1:] > 0)
        rises[:3] = rises[-3:] = False
        for place, coordinate in rises.nonzero().tolist():
            line = w[place - 2 : place + 4, coordinate].double()
            below, above = line[1] - line[0], line[5] - line[4]
            expected = 1.0 if prior.mapping_slope is None else prior.mapping_slope
            assert float(below / above) == pytest.approx(expected, rel=0.1)
            return
    pytest.fail("no coordinate crosses zero")


def test_half_precision_on_disk_becomes_single_precision(prior, tmp_path):
    files = {"weights": tmp_path / "a.safetensors", "description": tmp_path / "a.json"}
    registry.write_prior(prior, **files, dtype="float16")
    assert {value.dtype for value in load_file(files["weights"]).values()} == {torch.float16}
    loaded = registry.read_prior(**files)
    assert {value.dtype for value in loaded.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(images_of(loaded), images_of(prior), atol=0.05, rtol=0.05)


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
            f"kind: expected one of {KNOWN}, got 'stylegan3'",
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
        from_files(make_settings("shipped", name="ffhq"))
