import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from smoothsweep.core.data.packed import pack_images, packed_bytes


@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 7), size=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_packed_file_is_an_ordinary_safetensors_file(tmp_path_factory, count, size, seed):
    folder = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    labels = torch.from_numpy(rng.integers(0, 9, count))
    with pack_images(folder / "a.safetensors", labels, size) as put:
        for i in rng.permutation(count).tolist():
            put(i, images[i])
    tensors = load_file(folder / "a.safetensors")
    assert torch.equal(tensors["labels"], labels) and np.array_equal(tensors["images"], images)
    assert (folder / "a.safetensors").stat().st_size == packed_bytes(count, size)
    assert [file.name for file in folder.iterdir()] == ["a.safetensors"]


def test_nothing_stays_behind_an_error_and_what_was_there_is_kept(tmp_path):
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="stop"), pack_images(file, torch.arange(2), 4) as put:
        put(0, np.zeros((3, 4, 4), dtype=np.uint8))
        raise RuntimeError("stop")
    assert file.read_bytes() == b"before" and len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize(("row", "shape"), [(2, (3, 4, 4)), (-1, (3, 4, 4)), (0, (4, 4, 3))])
def test_rows_that_do_not_fit_are_refused(tmp_path, row, shape):
    with pytest.raises(ValueError, match="of 2: got"), pack_images(tmp_path / "a", torch.arange(2), 4) as put:
        put(row, np.zeros(shape, dtype=np.uint8))


def test_half_precision_goes_through_unrounded(tmp_path):
    images = torch.randn(3, 3, 5, 5).half()
    with pack_images(tmp_path / "x.safetensors", torch.arange(3), 5, torch.float16) as put:
        for row, image in enumerate(images.numpy()):
            put(row, image)
        with pytest.raises(ValueError, match="row 0"):
            put(0, images[0].float().numpy())
    found = load_file(tmp_path / "x.safetensors")
    assert torch.equal(found["images"], images) and found["labels"].tolist() == [0, 1, 2]
    assert (tmp_path / "x.safetensors").stat().st_size == packed_bytes(3, 5, torch.float16)
