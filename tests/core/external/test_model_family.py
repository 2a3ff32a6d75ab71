"""Every kind of foreign model of the table: recognised, imported, answering as the network it holds, and no more.

A new kind needs no line here, but an example of its own in the folder beside this file: `examples/<name>.py`.
"""

import io
import pickle
import subprocess
import sys
import zipfile
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, as_source, kind_of, needs_consent
from smoothsweep.core.isolation.sandbox import can_isolate
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.tasks.external import keep_external, load_external
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


def test_each_kind_has_words_a_file_and_names_that_no_other_has():
    kinds = KINDS.values()
    assert all(kind.words.split(" ")[0] in ("a", "an") and kind.__doc__ for kind in kinds)
    assert len({kind.words for kind in kinds}) == len({kind.file for kind in kinds}) == len(KINDS)
    prefixes = [prefix for kind in kinds for prefix in (*kind.prefixes, kind.makes) if prefix]
    assert not [(a, b) for a in prefixes for b in prefixes if a is not b and a.startswith(b)]
    options = [field.name for kind in kinds for field in fields(kind)]
    assert len(set(options)) == len(options)
    assert all(bool(fields(kind)) == any(kind.options) for kind in kinds)


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
