"""The registry of embedders, the files it refuses, and the embedder of synthetic people."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import FACES, KINDS
from smoothsweep.core.models.embedders import load_embedder

pytestmark = pytest.mark.usefixtures("quick_programs")


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**31))
def test_features_do_not_depend_on_the_batch(count, seed):
    images = torch.rand(count, 3, 64, 64, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    net = load_embedder("synthetic")
    assert torch.allclose(net(images)[-1:], net(images[-1:]), atol=1e-5)


def test_blur_small_pictures_and_mirrors_are_forgiven():
    net = load_embedder("synthetic")
    faces = synthetic_faces(population="private", identities=20, per_identity=4, spread=0.4, seed=8)
    images = faces.images.float() / 127.5 - 1
    small = torch.nn.functional.interpolate(images, size=32, mode="bilinear", antialias=True)
    blurred = torch.nn.functional.interpolate(small, size=64, mode="bilinear")
    centres = torch.nn.functional.normalize(net(images).view(20, 4, -1).mean(dim=1), dim=1)
    for changed in (small, blurred, images.flip(-1)):
        named = (net(changed) @ centres.T).argmax(dim=1)
        assert (named == faces.labels).float().mean() >= 0.9


@pytest.mark.parametrize("name", FACES)
def test_missing_file_is_named(name, tmp_path):
    with pytest.raises(InputError, match=r"no file .*absent\.safetensors; expected a safetensors file"):
        load_embedder(name, tmp_path / "absent.safetensors")


def test_round_trip_of_every_architecture(tmp_path, monkeypatch):
    for name in ("ir50", "ir152"):  # at an eighth of their width: as they are they take a quarter of a gigabyte each
        monkeypatch.setitem(KINDS, name, replace(KINDS[name], sizes={"width": 8}))
    for name in FACES:
        net = KINDS[name].make().eval()
        save_file(net.state_dict(), tmp_path / f"{name}.safetensors")
        images = torch.rand(1, 3, 64, 64) * 2 - 1
        assert torch.equal(load_embedder(name, tmp_path / f"{name}.safetensors")(images), net(images).detach())
