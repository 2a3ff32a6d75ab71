"""What a stage of an attack is given, by the names that it needs."""

import torch

from tasks.attacking import given_of
from tasks.files import save_tensors


def test_only_what_is_needed_is_given(tmp_path):
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    save_tensors(tmp_path / "images.safetensors", {"images": images})
    given = given_of(("public", "pool"), {"protocol": "clean"}, {"public": tmp_path, "pool": tmp_path}, "cpu")
    assert torch.equal(given.public, images) and given.prior is None and given.discriminator is None
    assert given.parts.keys() == {"pool"} and torch.equal(given.parts["pool"]["images"], images)
    assert given_of(("pool",), {"protocol": "clean"}, {"public": tmp_path, "pool": tmp_path}, "cpu").public is None
