"""Checkpoints as torch writes them, and how ours are read and compared."""

import io
import zipfile

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.checkpoints import StoredTensor, read_checkpoint
from smoothsweep.core.pickles.cursor import Refused

ZIPPED, LEGACY = True, False


def unknown(module, name):
    raise InputError(f"f: {module}.{name} is none of a tensor")


def read(content):
    return read_checkpoint(memoryview(content), name="f", unknown=unknown)


def saved(value, zipped=ZIPPED, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped, **options)
    return buffer.getvalue()


def refused(content):
    with pytest.raises((InputError, Refused)) as caught:
        read(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(ours, theirs):
    if isinstance(ours, StoredTensor):
        got = ours.tensor()
        return got.dtype == theirs.dtype and torch.equal(got, theirs.detach())
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list | tuple):
        return type(ours) in (list, tuple) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def archive_of(stream, **data):
    """An archive as torch writes it, around any stream."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", stream)
        archive.writestr("archive/byteorder", b"little")
        for key, content in data.items():
            archive.writestr(f"archive/data/{key[1:]}", content)
    return buffer.getvalue()
