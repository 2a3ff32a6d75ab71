"""MATLAB files: what scipy writes is read, and what would decompress to too much is not."""

import struct
import zlib

import numpy as np
import pytest
import scipy.io

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers import matlab
from smoothsweep.core.readers.matlab import read_matlab

VARIABLES = {
    "labels": np.arange(12).reshape(3, 4),
    "names": np.array(["a", "b"], object),
    "scores": np.linspace(0, 1, 500),
}


@pytest.mark.parametrize("compressed", [True, False])
def test_the_variables_asked_for_are_read_and_no_others(tmp_path, compressed):
    path = tmp_path / "some.mat"
    scipy.io.savemat(path, VARIABLES, do_compression=compressed)
    found = read_matlab(path, ["scores", "labels"], most_bytes=path.stat().st_size)
    assert {name for name in found if not name.startswith("__")} == {"labels", "scores"}
    np.testing.assert_array_equal(found["labels"], VARIABLES["labels"])
    np.testing.assert_array_equal(found["scores"][0], VARIABLES["scores"])
    with pytest.raises(InputError, match=r"some\.mat: expected at most"):
        read_matlab(path, ["labels"], most_bytes=path.stat().st_size - 1)


def element(kind, content, order="<"):
    return struct.pack(f"{order}II", kind, len(content)) + content


def written(*elements, order="<"):
    """A file of version 5: 116 bytes of text, 8 of an offset, the version and the order of bytes."""
    head = b"MATLAB 5.0".ljust(124) + struct.pack(f"{order}H", 0x0100) + (b"IM" if order == "<" else b"MI")
    return head + b"".join(elements)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("sizes", "fine"),
    [
        ([100], True),
        ([60, 40], True),
        ([101], False),
        ([60, 41], False),
        ([1, 100], False),
        ([0, 0, 100], True),
    ],
)
@pytest.mark.parametrize("between", [b"", b"plain"])
def test_all_compressed_elements_together_have_a_bound(monkeypatch, order, sizes, fine, between):
    """An element of another kind stands between, and may be as large as it likes."""
    monkeypatch.setattr(matlab, "_MOST_DECOMPRESSED", 100)
    parts = [element(15, zlib.compress(b"\0" * size), order) for size in sizes]
    plain = [element(14, between * 99, order)] if between else []
    content = written(*plain, *(part for one in parts for part in (one, *plain)), order=order)
    if fine:
        return matlab._check_elements(content)
    with pytest.raises(ValueError, match="more than 100 bytes when decompressed"):
        matlab._check_elements(content)


def test_a_step_is_a_megabyte_and_the_sum_is_of_all_steps(monkeypatch):
    content = written(element(15, zlib.compress(b"\0" * (3 * 2**20))))
    monkeypatch.setattr(matlab, "_MOST_DECOMPRESSED", 3 * 2**20)
    matlab._check_elements(content)
    monkeypatch.setattr(matlab, "_MOST_DECOMPRESSED", 3 * 2**20 - 1)
    with pytest.raises(ValueError, match="when decompressed"):
        matlab._check_elements(content)
    assert matlab._MOST_DECOMPRESSED < 256 * 2**20


def test_what_is_cut_or_damaged_is_left_to_scipy(tmp_path):
    whole = zlib.compress(b"\0" * 1000)
    for content in (b"", written(), written(element(15, whole))[:-9], written()[:60], written(b"\x0f\0\0\0")):
        matlab._check_elements(content)
    with pytest.raises(zlib.error):
        matlab._check_elements(written(element(15, b"no stream of zlib")))
