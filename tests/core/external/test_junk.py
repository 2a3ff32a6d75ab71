"""Files that are none, or too large: one line, before anything of them is read; consent is to the content."""

import os
import resource
import struct
from hashlib import sha256

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import kinds
from smoothsweep.core.external.kinds import KINDS, agree_to, agreed_to, kind_of_file, needs_consent
from smoothsweep.core.readers.files import MOST_BYTES
from smoothsweep.tasks.external import copy_external
from tests.made_programs import Shades, torchscript

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_no_file_is_one_line_and_not_waited_for(kind, tmp_path):
    os.mkfifo(path := tmp_path / KINDS[kind].file)
    assert kind_of_file(path) == (kind if KINDS[kind].is_named(path) else None)
    with pytest.raises(InputError, match="expected a regular file") as refused:
        KINDS[kind].open(path, {}, CPU)
    assert "\n" not in str(refused.value)
    for ask in (agreed_to, agree_to):
        with pytest.raises(InputError, match="expected a regular file"):
            ask(path)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_file_larger_than_any_model_is_one_line_and_not_read(kind, tmp_path):
    with (path := tmp_path / KINDS[kind].file).open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # a hole
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for refused in (
        lambda: KINDS[kind].open(path, {}, CPU),
        lambda: agreed_to(path),
        lambda: copy_external(path, tmp_path / "copy"),
    ):
        with pytest.raises(InputError, match=f"{path}: expected ") as line:
            refused()
        assert "\n" not in str(line.value)
    assert not (tmp_path / "copy").exists() and [one.name for one in tmp_path.iterdir()] == [path.name]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 * 2**10


def test_members_that_lie_in_one_another_take_no_more_than_the_process_may(tmp_path):
    """A member that claims more than the file has."""
    path = torchscript(Shades(torch.linspace(-1, 1, 4)).eval(), tmp_path / "good.pt")
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    for offset in (20, 24):  # compressed and plain size of the first member in the list
        content[at + offset : at + offset + 4] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected a TorchScript program, got: ") as refused:
        KINDS["torchscript"].open(path, {}, CPU)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [*KINDS, "resnet18", "a kind of tomorrow"])
@pytest.mark.parametrize("able", [True, False])
def test_programs_need_consent_where_they_cannot_be_isolated(kind, able, monkeypatch):
    monkeypatch.setattr(kinds, "can_isolate", lambda: able)
    assert needs_consent(kind) is (kind in KINDS and not (able and KINDS[kind].computes_alone))


def test_consent_is_to_the_content_and_lies_in_the_users_settings(tmp_path, monkeypatch):
    """In XDG_CONFIG_HOME, else in ~/.config, by SHA-256: another home has agreed to nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    first, second, third = (tmp_path / name for name in ("a.pt", "b.pt", "c.pt"))
    for model, content in ((first, b"one"), (second, b"two"), (third, b"one")):
        model.write_bytes(content)
    agree_to(first)
    assert [agreed_to(model) for model in (first, second, third)] == [True, False, True]
    noted = tmp_path / "config" / "smoothsweep" / "agreed" / sha256(b"one").hexdigest()
    assert noted.is_file()
    first.write_bytes(b"One")
    assert not agreed_to(first)
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert not agreed_to(third)
    with pytest.raises(FileNotFoundError):
        agreed_to(tmp_path / "nothing")
