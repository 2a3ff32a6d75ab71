"""Every kind of foreign model of the table: recognised, imported, answering as the network it holds, and no more.

A new kind needs no line here, but an example of its own in the folder beside this file: `examples/<name>.py`.
"""

import io
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from dataclasses import fields
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.errors import InputError
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
from smoothsweep.core.isolation.sandbox import can_isolate
from smoothsweep.core.readers.files import MOST_BYTES
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.tasks.imported import copy_external, keep_external
from smoothsweep.tasks.training import load_external
from tests.foreign_classifier import SIDE
from tests.made_programs import Shades

CLASSES, CPU = 4, torch.device("cpu")
ORDER = [2, 0, 3, 1]  # of the data's classes: another than the model's


def example(name):
    return import_module(f"tests.core.external.examples.{name}")


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-0.6, 0.5, CLASSES)).eval()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where a user's consent is noted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "made").mkdir()
    return tmp_path


def pictures():
    """Of eight bits, in [-1, 1]: what an endpoint is sent as well."""
    shown = torch.randint(0, 256, (5, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(3))
    return shown.float() / 127.5 - 1


def test_reading_the_table_loads_no_torch():
    code = "import sys, smoothsweep.core.external.kinds; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_recognised_imported_and_answers_as_the_network_it_holds(name, network, home, capsys, monkeypatch):
    with example(name).made(network, home / "made") as (model, options):
        assert kind_of(as_source(str(model))) == name
        given = ["import", "target", str(model), "--classes", str(CLASSES), "--image-size", str(SIDE)]
        assert main([*given, "--out", str(home / "out"), *options]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        assert f"{KINDS[name].words} of {CLASSES} classes" in said
        brought = ImportedClassifier(imported=str(home / "out"))
        assert (brought.architecture, brought.checked.access) == (name, example(name).ACCESS)
        assert brought.file.name == KINDS[name].file
        (home / "artifact").mkdir()
        config = brought.checked.reading
        keep_external(brought.file, config, torch.tensor(ORDER), home / "artifact")
        answers(load_external(home / "artifact", config, "cpu"), network, example(name).ACCESS)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "another user"))
        if KINDS[name].computes_alone and can_isolate():
            load_external(home / "artifact", config, "cpu")
        else:
            with pytest.raises(InputError, match="got one from elsewhere"):
                load_external(home / "artifact", config, "cpu")


def answers(model, network, access):
    """The network's logits in the data's order, alone and among others, with gradients where there are any."""
    images = pictures().requires_grad_(True)
    wanted = network(images)[:, ORDER]
    found = model(images)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model(images[3:4]), found[3:4], rtol=1e-5, atol=1e-5)
    assert found.requires_grad == (access == "gradients")
    if access == "gradients":
        (gradient,), (right,) = (torch.autograd.grad(one[:, 1].sum(), images) for one in (found, wanted))
        torch.testing.assert_close(gradient, right, rtol=1e-3, atol=1e-6)
    assert access in ACCESS_LEVELS


@pytest.mark.parametrize("name", KINDS)
def test_an_option_of_one_kind_is_refused_with_every_other(name, network, home, capsys):
    others = [(kind, field) for key, kind in KINDS.items() if key != name for field in fields(kind)]
    with example(name).made(network, home / "made") as (model, options):
        for kind, field in others:
            flag = f"--{field.name.replace('_', '-')}"
            more = [flag] if field.metadata.get("action") else [flag, "1"]
            given = ["import", "target", str(model), "--classes", str(CLASSES), "--image-size", str(SIDE), *options]
            assert main([*given, "--out", str(home / "out"), *more]) == 2
            said = capsys.readouterr().err
            assert f"{flag}: expected it with {kind.words} alone" in said and said.count("\n") == 1
    assert not (home / "out").exists()


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (Path.mkdir, (self.place,))


def hostile(file, place):
    """Contents in the place of the file's: shortened, of noise, pickles; of an archive each of its members, too."""
    good, evil, objects = file.read_bytes(), pickle.dumps(Evil(place)), io.BytesIO()
    np.save(objects, np.array([Evil(place)], dtype=object), allow_pickle=True)
    yield from (b"", good[: len(good) // 2], good[:-1], np.random.default_rng(0).bytes(200), evil, objects.getvalue())
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for name in members:
            for content in (evil, objects.getvalue()):
                changed = io.BytesIO()
                with zipfile.ZipFile(changed, "w") as archive:
                    for one, before in members.items():
                        archive.writestr(one, content if one == name else before)
                yield changed.getvalue()


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.prefixes])
def test_a_hostile_file_is_one_line_and_nothing_in_it_is_unpickled(name, network, home):
    """A kind that says that its files only compute is held to it: no content makes anything else happen."""
    with example(name).made(network, home / "made") as (model, _):
        refused = 0
        for number, content in enumerate(hostile(Path(model), home / "it was unpickled")):
            path = home / f"{number}{Path(model).suffix}"
            path.write_bytes(content)
            try:
                KINDS[name].open(path, {"answers": "logits"}, CPU)
            except InputError as error:
                refused += 1
                assert str(path) in str(error) and "\n" not in str(error)
        assert refused >= 6 and (needs_consent(name) or not (home / "it was unpickled").exists())


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
    """A renamed file could not be opened where it was imported before."""
    files = {
        "torchscript": "program.torchscript",
        "torch_export": "program.pt2",
        "onnx": "model.onnx",
        "function": "function.json",
        "endpoint": "endpoint.json",
    }
    assert {name: KINDS[name].file for name in files} == files


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
    if not able:
        monkeypatch.setattr(sys, "platform", "darwin")
    assert needs_consent(kind) is (kind in KINDS and not (can_isolate() and KINDS[kind].computes_alone))


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
