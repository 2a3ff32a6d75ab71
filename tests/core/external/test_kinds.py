"""What somebody calls a model, and what a file is by what is in it."""

import io
import os
import resource
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import kinds
from smoothsweep.core.external.kinds import (
    KINDS,
    Named,
    agree_to,
    agreed_to,
    as_source,
    kind_of,
    kind_of_file,
    needs_consent,
)
from smoothsweep.core.readers.files import MOST_BYTES
from smoothsweep.tasks.external import copy_external


@pytest.mark.parametrize(
    ("text", "kind", "stem"),
    [
        ("python:my.module:load", "function", "python-my.module-load"),
        ("http://host/v1/x", "endpoint", "http-host-v1-x"),
        ("https://host:8000/", "endpoint", "https-host-8000"),
        ("https://host/a?x=1", "endpoint", "https-host-a"),
        ("https://host/a#f?x", "endpoint", "https-host-a"),
        ("http://h/" + "a" * 99, "endpoint", "http-h-" + "a" * 73),
        ("http://host/..", "endpoint", "http-host"),
    ],
)
def test_a_name_is_no_path(text, kind, stem):
    source = as_source(text)
    assert isinstance(source, Named) and (source.kind, source.stem, kind_of(source)) == (kind, stem, kind)


@pytest.mark.parametrize("text", ["model.pt", "python", "http:/host", "ftp://host/x", "my/python:a:b", " http://host"])
def test_anything_else_is_a_path(text):
    assert as_source(text) == Path(text)


def test_a_name_is_shown_without_secrets_and_not_without_end():
    named = Named("https://token@host/a?key=word")
    assert "token" not in named.name + str(named) + named.stem and "word" not in named.name + str(named) + named.stem
    assert named.name == str(named) and len(Named("http://host/" + "a" * 999).name) == 300


def archive(path, *names):
    with zipfile.ZipFile(path, "w") as written:
        for name in names:
            written.writestr(name, b"")
    return path


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["m/constants.pkl", "m/code/a.py"], "torchscript"),
        (["m/code/a.py", "m/x", "m/constants.pkl"], "torchscript"),
        (["m/constants.pkl"], None),
        (["m/code/a.py"], None),
        (["m/constants.pkl", "m/decode/a.py"], None),
        (["m/models/model.json"], "torch_export"),
        (["m/x", "m/models/a/b.json", "m/y"], "torch_export"),
        (["m/models/model.pt"], None),
        (["m/other/model.json"], None),
        (["m/constants.pkl", "m/models/x"], None),
        (["m/constants.pkl", "m/code/a.py", "m/models/model.json"], "torch_export"),
        (["m/data.pkl", "m/version"], None),
        (["models/model.json"], None),
    ],
)
def test_an_archive_is_what_is_in_its_folder(tmp_path, names, kind):
    path = archive(tmp_path / "model.bin", *names)
    assert kind_of_file(path) == kind == kind_of(path)


def test_what_is_no_archive_is_none_and_onnx_goes_by_its_name(tmp_path):
    (tmp_path / "text.pt").write_text("no archive")
    (tmp_path / "folder").mkdir()
    damaged = archive(tmp_path / "damaged.pt", "m/constants.pkl", "m/code/a.py")
    content = bytearray(damaged.read_bytes())
    content[content.index(b"PK\x01\x02")] = 0
    damaged.write_bytes(content)
    assert zipfile.is_zipfile(io.BytesIO(content))
    for name in ("text.pt", "folder", "nothing", "damaged.pt"):
        assert kind_of_file(tmp_path / name) is None
    assert kind_of_file(tmp_path / "nothing.onnx") == "onnx"
    assert kind_of_file(archive(tmp_path / "x.onnx", "m/models/model.json")) == "onnx"


def test_the_files_of_stores_and_imported_folders_are_called_as_ever():
    """Whoever renames one can no longer open what was imported yesterday."""
    files = {
        "torchscript": "program.torchscript",
        "torch_export": "program.pt2",
        "onnx": "model.onnx",
        "function": "function.json",
        "endpoint": "endpoint.json",
    }
    assert {name: KINDS[name].file for name in files} == files


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
