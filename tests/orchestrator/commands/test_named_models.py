"""Functions and endpoints, brought in by name: nothing is sent without consent, and what was answered stays."""

import json
import sys
from pathlib import Path

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import Named
from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.imported import keep_external
from smoothsweep.tasks.training import load_external
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, SIDE, write_people
from tests.made_endpoint import serving
from tests.made_programs import NAMES, shades_of
from tests.orchestrator.commands.owned_model import sweep_of

CODE = """
import torch
from tests.made_programs import Shades

def load():
    network = Shades(torch.zeros(6))
    network.load_state_dict(torch.load({weights!r}, weights_only=True))
    return network
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """Where a user's consent is noted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people") / "people")


@pytest.fixture(scope="module")
def network(people):
    return shades_of(people)


@pytest.fixture(scope="module")
def server(network):
    mean, std = (torch.tensor(values) for values in (IMAGENET_MEAN, IMAGENET_STD))

    def scores(pixels):
        images = ((torch.from_numpy(pixels.copy()).float() / 255 - mean) / std).permute(2, 0, 1)
        return network(images[None])[0].tolist()

    with serving(scores) as made:
        yield made


def bring(model, people, out, *more):
    given = ["import", "target", model, "--classes", str(len(PEOPLE)), "--data", str(people), "--out", str(out)]
    return main([*given, "--image-size", str(SIDE), *map(str, more)])


FAST = ["--per-second", "10000"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ([], "expected --yes, since up to 5000 pictures would be sent to it"),
        (["--queries", "9"], "expected --yes, since up to 9 pictures"),
        (["--yes", "--queries", "0"], "--queries: expected at least 1, got 0"),
        (["--yes", "--per-second", "nan"], "--per-second: expected more than 0, got nan"),
        (["--yes", "--input-range", "0", "1"], "--input-range: expected none with an HTTP endpoint"),
        (["--yes", "--token-env", "NOBODY_SET_THIS"], "expected its token in the environment variable NOBODY_SET_THIS"),
    ],
)
def test_without_consent_or_with_wrong_terms_nothing_is_sent(server, people, tmp_path, capsys, more, line):
    before = len(server.seen)
    assert bring(server.url, people, tmp_path / "out", *more) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert len(server.seen) == before and not (tmp_path / "out").exists()


@pytest.mark.parametrize("url", ["{}?api_key=QZXJ", "{}?sig=QZXJ", "{}#access_token=QZXJ", "http://QZXJ@127.0.0.1:1/x"])
@pytest.mark.parametrize("command", ["import", "audit"])
def test_a_url_with_a_secret_is_refused_and_stands_nowhere(server, people, tmp_path, capsys, url, command):
    before, given = len(server.seen), url.format(server.url)
    if command == "import":
        assert bring(given, people, tmp_path / "out", "--yes") == 2
    else:
        more = ["--public", str(people), "--image-size", str(SIDE), "--yes", "--out", str(tmp_path / "out")]
        assert main(["audit", given, "--data", str(people), *more]) == 2
    said = capsys.readouterr()
    assert "expected http(s)://HOST/PATH without user, query or fragment; a token's place is" in said.err
    assert said.err.count("\n") == 1 and "QZXJ" not in said.out + said.err
    assert len(server.seen) == before and not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"QZXJ" in path.read_bytes()]
    assert not [path for path in tmp_path.rglob("*") if "QZXJ" in path.name]


def test_an_audit_of_an_endpoint_asks_for_consent_too(server, people, tmp_path, capsys):
    given = ["audit", server.url, "--data", str(people), "--public", str(people), "--image-size", str(SIDE)]
    before = len(server.seen)
    assert main([*given, "--out", str(tmp_path / "out")]) == 2
    assert "expected --yes, since up to 5000 pictures would be sent to it" in capsys.readouterr().err
    assert len(server.seen) == before and not (tmp_path / "out").exists()


def test_terms_are_for_endpoints_alone(people, tmp_path, capsys):
    torch.save({}, tmp_path / "own.pth")
    assert bring(str(tmp_path / "own.pth"), people, tmp_path / "out", "--architecture", "resnet18", "--yes") == 2
    assert "--yes: expected it with an HTTP endpoint alone" in capsys.readouterr().err


@pytest.mark.parametrize(("answers", "access"), [("logits", "scores"), ("labels", "labels")])
def test_an_endpoint_becomes_a_target_and_is_never_asked_again_for_what_it_said(
    server, people, tmp_path, capsys, answers, access
):
    out = tmp_path / "out"
    assert bring(server.url, people, out, "--yes", *FAST, "--answers", answers) == 0
    model = ImportedClassifier(imported=str(out))
    assert (model.checked.architecture, model.checked.access) == ("endpoint", access)
    assert f"images of {SIDE} pixels, sent as pictures" in capsys.readouterr().out
    assert model.checked.test_acc > 0.9 and set(model.checked.class_names) == set(NAMES)
    assert json.loads(model.file.read_text())["url"] == server.url
    asked = KeptAnswers(answers_database(out)).asked
    for path in out.iterdir():
        path.unlink()
    out.rmdir()
    assert bring(server.url, people, out, "--yes", *FAST, "--answers", answers) == 0
    assert KeptAnswers(answers_database(out)).asked == asked > 0


def test_a_budget_that_is_spent_stops_in_one_line_and_a_larger_one_goes_on(server, people, tmp_path, capsys):
    out = tmp_path / "out"
    assert bring(server.url, people, out, "--yes", *FAST, "--queries", 5) == 2
    assert "expected no more than 5 queries" in capsys.readouterr().err and not out.exists()
    assert bring(server.url, people, out, "--yes", *FAST, "--queries", 500) == 0


def test_a_function_becomes_a_target_that_gives_gradients(network, people, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    (tmp_path / "own_model_of_people.py").write_text(CODE.format(weights=str(tmp_path / "weights.pth")))
    reading = ["--mean", *IMAGENET_MEAN, "--std", *IMAGENET_STD]
    assert bring("python:own_model_of_people:load", people, tmp_path / "out", *reading) == 0
    sys.modules.pop("own_model_of_people")
    card = ImportedClassifier(imported=str(tmp_path / "out")).checked
    assert (card.architecture, card.access) == ("function", "gradients") and card.test_acc > 0.9
    assert "every use of it runs the code of python:own_model_of_people:load" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["function", "endpoint"])
def test_a_folder_from_somebody_else_runs_no_code_and_sends_nothing(
    server, network, people, tmp_path, monkeypatch, kind
):
    """Sweep file and folder may both be somebody else's: what this user has imported is noted beside neither."""
    monkeypatch.chdir(tmp_path)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    (tmp_path / "own_model_elsewhere.py").write_text(CODE.format(weights=str(tmp_path / "weights.pth")))
    model = server.url if kind == "endpoint" else "python:own_model_elsewhere:load"
    terms = ["--yes", *FAST] if kind == "endpoint" else ["--mean", *IMAGENET_MEAN, "--std", *IMAGENET_STD]
    assert bring(model, people, tmp_path / "out", *terms) == 0
    sys.modules.pop("own_model_elsewhere", None)
    file, before = sweep_of(tmp_path / "out", (None, people, people), tmp_path, reach="whole"), len(server.seen)
    load_sweep(file)  # ours
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    with pytest.raises(InputError, match="that you have brought in yourself by `smoothsweep import target`"):
        load_sweep(file)
    artifact, config = tmp_path / "artifact", ImportedClassifier(imported=str(tmp_path / "out")).checked.reading
    artifact.mkdir()
    keep_external(ImportedClassifier(imported=str(tmp_path / "out")).file, config, torch.arange(6), artifact)
    with pytest.raises(InputError, match="got one from elsewhere"):  # nor an artifact of a store
        load_external(artifact, config, "cpu")
    assert len(server.seen) == before and "own_model_elsewhere" not in sys.modules


@pytest.mark.parametrize(
    ("model", "folder", "title"),
    [
        (Path("/models/alice.v2.pth"), "alice.v2", "alice.v2"),
        (Named("python:mymodel:make"), "python-mymodel-make", "python:mymodel:make"),
        (Named("https://me:word@example.org/a?token=x"), "https-example.org-a", "https://***@example.org/a?***"),
    ],
)
def test_a_page_calls_a_model_what_its_user_calls_it_and_shows_no_secret(model, folder, title):
    request = AuditRequest(model=model)
    assert (request.folder.name, request.title) == (folder, title)
