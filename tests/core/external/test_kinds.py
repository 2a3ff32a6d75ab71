"""What somebody calls a model, and what a file is by what is in it."""

import io
import zipfile
from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import (
    KINDS,
    Named,
    apply_options,
    as_source,
    is_external,
    kind_made_of,
    kind_of,
    kind_of_file,
)


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


def test_words_that_stand_for_kinds_and_for_networks_of_timm():
    assert [is_external(word) for word in (*KINDS, "resnet18", "timm:resnet10t", None)] == [True] * len(KINDS) + [
        False
    ] * 3
    named = ("timm:resnet10t", "timm:", "resnet10t", "my-timm:x", None)
    assert [kind_made_of(word) for word in named] == ["torch_export", "torch_export", None, None, None]


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


GIVEN = {"yes": True, "queries": 7, "per_second": 0.5, "token_env": "MINE"}


def test_a_kind_gets_the_options_that_were_given_for_it():
    """What was not given, or says no, counts for nothing: for every kind there are the options of all."""
    endpoint = apply_options("endpoint", GIVEN, Named("http://host/"))
    assert endpoint == KINDS["endpoint"](**GIVEN)
    absent = {"yes": False, "queries": None, "per_second": None, "token_env": None}
    assert apply_options("endpoint", absent, Path("a")) == KINDS["endpoint"]()
    for kind in KINDS:
        assert type(apply_options(kind, absent, Path("a"))) is KINDS[kind]
    assert apply_options(None, absent, Path("a")) is None and apply_options(None, {}, Path("a")) is None


@pytest.mark.parametrize("option", GIVEN)
@pytest.mark.parametrize("kind", ["onnx", "function", None])
def test_an_option_of_an_endpoint_is_none_of_another_model(option, kind):
    with pytest.raises(InputError) as refused:
        apply_options(kind, {"yes": False, option: GIVEN[option]}, Path("a/model.pt"))
    flag = {"per_second": "--per-second", "token_env": "--token-env"}.get(option, f"--{option}")
    assert str(refused.value) == f"{flag}: expected it with an HTTP endpoint alone, got a/model.pt"
