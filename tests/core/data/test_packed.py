import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from published_trees import facescrub
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from smoothsweep.core.data.packed import each_in_threads, pack_images, packed_bytes

# Prints by how many bytes the process's memory peaks higher while it writes the large tree than it did with the small.
_PEAKS = """
import resource, sys
from pathlib import Path
import torch
from smoothsweep.core.data.published import write_published

torch.set_num_threads(2)

def write(tree):
    write_published("facescrub", tree, Path(tree) / "out", size=299, classes=2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

small, large = map(write, sys.argv[1:])
print(large - small)
"""


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


def test_a_packed_file_has_the_layout_of_the_library(tmp_path):
    images, labels = torch.zeros(5, 3, 7, 7, dtype=torch.uint8), torch.arange(5)
    with pack_images(tmp_path / "a.safetensors", labels, 7) as put:
        for i in range(5):
            put(i, images[i].numpy())
    save_file({"images": images, "labels": labels}, tmp_path / "b.safetensors")
    with safe_open(tmp_path / "a.safetensors", "pt") as ours, safe_open(tmp_path / "b.safetensors", "pt") as theirs:
        assert set(ours.keys()) == set(theirs.keys())
    assert load_file(tmp_path / "a.safetensors")["labels"].data_ptr() % 8 == 0


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


@pytest.mark.parametrize("workers", [1, 3])
def test_every_item_is_worked_on_once_and_an_error_ends_the_rest(workers):
    done, lock = [], threading.Lock()

    def work(i):
        with lock:
            done.append(i)
        if i == 40 and fails:
            raise KeyError(i)

    fails, before = False, torch.get_num_threads()
    torch.set_num_threads(workers)
    each_in_threads(work, 100)
    assert sorted(done) == list(range(100))
    fails = True
    done.clear()
    with pytest.raises(KeyError, match="40"):
        each_in_threads(work, 2_000)
    torch.set_num_threads(before)
    assert len(done) < 50_000


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path):
    """600 pictures of 299 pixels are 161 MB on disk; the peak of the process rises by a small part of that."""
    for name, count in (("small", 20), ("large", 300)):
        facescrub(tmp_path / name, (("actors", "A", count), ("actresses", "B", count)), size=16)
    trees = [str(tmp_path / name) for name in ("small", "large")]
    grown = subprocess.run([sys.executable, "-c", _PEAKS, *trees], check=True, capture_output=True, text=True).stdout
    assert packed_bytes(600, 299) > 160e6
    assert int(grown) < 30e6


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
