"""Models of somebody else: programs, functions, endpoints and recognisers of faces, brought in with what they give."""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.core.isolation import process as isolated
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import portfolio, untried
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.orchestrator.commands.requests import Reading
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.parts import LabelledData
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import prepare_private
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.imported import adopt_classifier, keep_external
from smoothsweep.tasks.training import load_classifier, load_external
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, SIDE, write_people
from tests.made_endpoint import serving
from tests.made_programs import NAMES, Deciding, Softmaxed, exported, shades_of, torchscript
from tests.orchestrator.commands.owned_model import IMAGENET, sweep_of, write_public

SIZED = ["--image-size", str(SIDE)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A user's people, and programs that know them."""
    root = tmp_path_factory.mktemp("made")
    people = write_people(root / "people")
    network = shades_of(people)
    torchscript(network, root / "logits.pt")
    torchscript(Softmaxed(network), root / "scores.pt")
    torchscript(Deciding(network), root / "labels.pt")
    exported(network, root / "logits.pt2")
    return root


class Here:
    """In the place of `IsolatedProgram`: the same loader's program, in this process. For what is not about where."""

    def __init__(self, program, *, loader, device, settings=None, **_):
        module, function = loader.split(":")
        with warnings.catch_warnings(action="ignore"):  # as there
            loaded = getattr(import_module(module), function)(program, settings, device)
        self.facts, self._answer = loaded.facts, loaded.answer

    def arranged(self, layout, dtype):
        return self

    def __call__(self, images):
        return self._answer(images)


@pytest.fixture
def here(monkeypatch):
    """No process is started for a program."""
    monkeypatch.setattr(isolated, "IsolatedProgram", Here)


def bring(made, name, out, *more):
    given = ["import", "target", str(made / name), "--classes", str(len(PEOPLE)), "--data", str(made / "people")]
    return main([*given, "--out", str(out), *IMAGENET, *more])


@pytest.fixture(scope="module")
def brought(made, tmp_path_factory):
    """name -> the folder that the import wrote."""
    root = tmp_path_factory.mktemp("brought")
    said = {
        "logits.pt": SIZED,
        "logits.pt2": [],
        "labels.pt": [*SIZED, "--answers", "labels"],
        "scores.pt": [*SIZED, "--answers", "probabilities"],
    }
    for name, more in said.items():
        assert bring(made, name, root / name, *more) == 0
    return root


@pytest.mark.parametrize(
    ("name", "kind", "access"),
    [
        ("logits.pt", "torchscript", "gradients"),
        ("scores.pt", "torchscript", "gradients"),
        ("labels.pt", "torchscript", "labels"),
        ("logits.pt2", "torch_export", "gradients"),
    ],
)
def test_the_card_says_what_a_program_is_and_gives(brought, name, kind, access):
    card = ImportedClassifier(imported=str(brought / name)).checked
    assert (card.architecture, card.access, card.image_size) == (kind, access, SIDE)
    assert card.test_acc > 0.9 and set(card.class_names) == set(NAMES)
    assert card.source.sha256 and card.reading["outside"]["access"] == access


@pytest.mark.parametrize(
    ("name", "more", "line"),
    [
        ("logits.pt", [], "--image-size: expected the side in pixels that this TorchScript program was trained at"),
        ("logits.pt", [*SIZED, "--answers", "probabilities"], "say that the answers are logits"),
        ("scores.pt", SIZED, "add up to one: say --answers probabilities"),
        ("logits.pt", [*SIZED, "--architecture", "resnet18"], "--architecture: expected none with a TorchScript"),
        ("logits.pt2", ["--image-size", "64"], "--image-size: expected 32, which"),
        ("logits.pt", [*SIZED, "--classes", "7"], "expected logits of shape [3, 7], got [3, 6]"),
    ],
)
def test_what_a_program_contradicts_is_one_line_and_nothing_is_written(made, here, tmp_path, capsys, name, more, line):
    assert bring(made, name, tmp_path / "out", *more) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def adopted(made, folder, place):
    """The artifact of an imported program, as the stage leaves it, with its manifest."""
    model = ImportedClassifier(imported=str(folder))
    data, out = place / "data", place / "artifact"
    data.mkdir(), out.mkdir()
    context = TaskContext(work=place, device="cpu")
    settings = LabelledData(kind="labelled", path=str(made / "people"), size=SIDE).model_dump(exclude_none=True)
    prepare_private(settings, {}, data, context)
    config = {**model.checked.reading, "path": str(folder), "seed": 0, "protocol": "clean"}
    metrics = adopt_classifier(config, {"data": data}, out, context)
    (out / "manifest.json").write_text(json.dumps({"config": config, "metrics": metrics}))
    return out, config, metrics, data


def test_views_of_an_adopted_program_answer_in_the_datas_order_and_no_further_than_it_gives(made, brought, tmp_path):
    out, config, metrics, data = adopted(made, brought / "logits.pt", tmp_path)
    assert metrics["test_acc"] > 0.9 and metrics["ece"] is not None
    target = OpenTarget(out, {"image_size": SIDE}, "cpu")
    test = load_images(data, "test")
    view = target.view("gradients")
    images = test.images.float() / 127.5 - 1
    assert (view.labels(images) == test.labels).double().mean() == metrics["test_acc"]
    assert view.logits(images[:2].requires_grad_(True)).requires_grad and view.queries == len(images) + 2
    with pytest.raises(InputError, match="expected a network with layers, got a TorchScript program"):
        load_classifier(out, config, "cpu")


def test_a_program_that_says_the_class_alone_has_no_calibration_and_shows_no_scores(made, brought, tmp_path):
    out, _, metrics, data = adopted(made, brought / "labels.pt", tmp_path)
    assert metrics["test_acc"] > 0.9 and metrics["ece"] is None
    target = OpenTarget(out, {"image_size": SIDE}, "cpu")
    images = load_images(data, "test").images[:4].float() / 127.5 - 1
    assert target.view("labels").labels(images).shape == (4,)
    with pytest.raises(InputError, match="expected access to its scores, got a model that gives labels alone"):
        target.view("scores")


def audit_file(made, folder, tmp_path, access, change=lambda tree: None):
    people, attacks = made / "people", portfolio(access, "whole")
    return sweep_of(folder, (made, people, people), tmp_path, change, reach="whole", attacks=attacks)


def test_an_attack_that_needs_more_than_the_program_gives_is_refused_at_the_start(made, brought, tmp_path):
    file = audit_file(made, brought / "labels.pt", tmp_path, "gradients")
    with pytest.raises(
        InputError,
        match="expected an attack on labels, which is all that a TorchScript program gives "
        "here, got ppa, which needs gradients",
    ):
        load_sweep(file)
    load_sweep(audit_file(made, brought / "labels.pt", tmp_path, "labels"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda tree: tree["judges"].update(evaluator=tree["recipe"]), "judges.evaluator: expected a classifier with"),
        (lambda tree: tree["judges"].update(features={}), "judges.features: expected none for a TorchScript program"),
        (lambda tree: tree["judges"].update(robustness={}), "judges.robustness: expected none for a TorchScript"),
    ],
)
def test_judges_that_look_at_layers_are_refused(made, brought, tmp_path, change, line):
    with pytest.raises(InputError, match=line):
        load_sweep(audit_file(made, brought / "logits.pt", tmp_path, "gradients", change))


def test_an_audit_leaves_out_what_the_model_cannot_be_shown_and_says_so(brought):
    card = ImportedClassifier(imported=str(brought / "labels.pt")).checked
    [said] = untried("gradients", card)
    left = {settings["kind"] for settings in portfolio("gradients", "whole")}
    left -= {settings["kind"] for settings in portfolio("labels", "whole")}
    assert (
        "selection_only" in left and all(ATTACKS[kind].title in said for kind in left) and "gives labels alone" in said
    )
    assert untried("labels", card) == ()


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


def bring_named(model, people, out, *more):
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
    assert bring_named(server.url, people, tmp_path / "out", *more) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
    assert len(server.seen) == before and not (tmp_path / "out").exists()


@pytest.mark.parametrize("url", ["{}?api_key=QZXJ", "{}?sig=QZXJ", "{}#access_token=QZXJ", "http://QZXJ@127.0.0.1:1/x"])
@pytest.mark.parametrize("command", ["import", "audit"])
def test_a_url_with_a_secret_is_refused_and_stands_nowhere(server, people, tmp_path, capsys, url, command):
    before, given = len(server.seen), url.format(server.url)
    if command == "import":
        assert bring_named(given, people, tmp_path / "out", "--yes") == 2
    else:
        more = ["--public", str(people), "--image-size", str(SIDE), "--yes", "--out", str(tmp_path / "out")]
        assert main(["audit", given, "--data", str(people), *more]) == 2
    said = capsys.readouterr()
    assert "expected http(s)://HOST/PATH without user, query or fragment; a token's place is" in said.err
    assert said.err.count("\n") == 1 and "QZXJ" not in said.out + said.err
    assert len(server.seen) == before and not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"QZXJ" in path.read_bytes()]
    assert not [path for path in tmp_path.rglob("*") if "QZXJ" in path.name]


@pytest.mark.parametrize(("answers", "access"), [("logits", "scores"), ("labels", "labels")])
def test_an_endpoint_becomes_a_target_and_is_never_asked_again_for_what_it_said(
    server, people, tmp_path, capsys, answers, access
):
    out = tmp_path / "out"
    assert bring_named(server.url, people, out, "--yes", *FAST, "--answers", answers) == 0
    model = ImportedClassifier(imported=str(out))
    assert (model.checked.architecture, model.checked.access) == ("endpoint", access)
    assert f"images of {SIDE} pixels, sent as pictures" in capsys.readouterr().out
    assert model.checked.test_acc > 0.9 and set(model.checked.class_names) == set(NAMES)
    assert json.loads(model.file.read_text())["url"] == server.url
    asked = KeptAnswers(answers_database(out)).asked
    for path in out.iterdir():
        path.unlink()
    out.rmdir()
    assert bring_named(server.url, people, out, "--yes", *FAST, "--answers", answers) == 0
    assert KeptAnswers(answers_database(out)).asked == asked > 0


def test_a_budget_that_is_spent_stops_in_one_line_and_a_larger_one_goes_on(server, people, tmp_path, capsys):
    out = tmp_path / "out"
    assert bring_named(server.url, people, out, "--yes", *FAST, "--queries", 5) == 2
    assert "expected no more than 5 queries" in capsys.readouterr().err and not out.exists()
    assert bring_named(server.url, people, out, "--yes", *FAST, "--queries", 500) == 0


def test_a_function_becomes_a_target_that_gives_gradients(network, people, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    (tmp_path / "own_model_of_people.py").write_text(CODE.format(weights=str(tmp_path / "weights.pth")))
    reading = ["--mean", *IMAGENET_MEAN, "--std", *IMAGENET_STD]
    assert bring_named("python:own_model_of_people:load", people, tmp_path / "out", *reading) == 0
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
    assert bring_named(model, people, tmp_path / "out", *terms) == 0
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


class Direction(nn.Module):
    """An embedder: a direction in the plane, by how bright a picture is."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images.mean((1, 2, 3), keepdim=True)[:, 0, 0]
        return torch.cat([mean, (1.0 - mean * mean).clamp_min(0.0).sqrt()], 1)


class ThirdChannel(nn.Module):
    """Tells people apart by the shade of the third channel that it gets, of pictures in [-1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        known = [(20 + 40 * list(PEOPLE).index(name)) / 127.5 - 1 for name in NAMES]
        self.weight = nn.Parameter(torch.tensor(known))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        mean = images[:, 2:].mean((1, 2, 3))
        return 32 * (mean[:, None] * self.weight - self.weight * self.weight / 2)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """A gallery, strangers, an embedder's program; people of whom the red channel alone tells, and their model."""
    root = tmp_path_factory.mktemp("made")
    write_people(root / "people")
    write_public(root / "public")
    torchscript(Direction().eval(), root / "embedder.pt")
    generator = np.random.default_rng(3)
    for shade, (name, count) in enumerate(PEOPLE.items()):
        (root / "red" / name).mkdir(parents=True)
        for at in range(count):
            pixels = generator.normal(generator.uniform(0, 255), 12, (SIDE, SIDE, 3))
            pixels[..., 0] = generator.normal(20 + 40 * shade, 12, (SIDE, SIDE))
            Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(root / "red" / name / f"{at:03}.png")
    torchscript(ThirdChannel().eval(), root / "third.pt")
    return root


def enrolled(gallery: Path, out: Path, *, templates="mean", threshold=None):
    """The gallery as it was enrolled, and the card beside it."""
    asked = Gallery(
        people=gallery / "people",
        templates=templates,
        threshold=threshold,
        strangers=gallery / "public",
    )
    import_recogniser(gallery / "embedder.pt", Reading(image_size=SIDE), asked, out, judge={"name": "synthetic"})
    return read_recogniser(out / EnrolledEmbedder.file), ImportedClassifier(imported=str(out)).checked


def directions(images):
    mean = (images.double() / 127.5 - 1).mean((1, 2, 3))
    return torch.stack([mean, (1 - mean.square()).sqrt()], 1)


@pytest.mark.parametrize("templates", ["mean", "each"])
def test_the_people_of_a_gallery_are_enrolled_by_the_templates_asked_for(gallery, tmp_path, templates):
    """One for a person, which lies between their photographs, or each photograph."""
    held, card = enrolled(gallery, tmp_path / "out", templates=templates)
    assert card.architecture == "recogniser" and card.test_acc > 0.9 and set(card.class_names) == set(PEOPLE)
    train = load_labelled(gallery / "people", size=SIDE).train
    found = directions(train.images)
    if templates == "each":
        assert torch.equal(held.owners, train.labels)
        torch.testing.assert_close(held.templates.double(), found, atol=1e-4, rtol=0)
    else:
        assert held.owners.tolist() == list(range(len(PEOPLE)))
        for person, template in enumerate(held.templates.double()):
            total = found[train.labels == person].sum(0)
            torch.testing.assert_close(template, total / total.norm(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_the_threshold_is_the_one_given_or_lets_one_stranger_in_a_hundred_in(gallery, tmp_path, capsys, threshold):
    held, _ = enrolled(gallery, tmp_path / "out", threshold=threshold)
    assert f"accepted from a cosine of {held.threshold:.3f}" in capsys.readouterr().out
    strangers = load_unlabelled(gallery / "public", size=SIDE, limit=500)
    share = ((directions(strangers) @ held.templates.double().T) >= held.threshold - 1e-5).double().mean().item()
    if threshold:
        assert held.threshold == 0.25 and share > 0.05
    else:
        assert 0 < share < 0.02


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--data", "{people}", "--templates", "each"], "--templates: expected it with --gallery alone, got each"),
        (["--data", "{people}", "--threshold", "0.5"], "--threshold: expected it with --gallery alone, got 0.5"),
        (["--gallery", "{people}", "--threshold", "1.5"], "--threshold: expected a cosine between -1 and 1, got 1.5"),
        (["--gallery", "{people}", "--fix"], "--fix: expected none with --gallery"),
        (["--gallery", "{people}", "--architecture", "resnet18"], "--architecture: expected none with --gallery"),
    ],
)
def test_what_is_said_of_a_gallery_without_one_or_against_it_is_one_line(gallery, tmp_path, capsys, more, line):
    given = [
        "--public",
        str(gallery / "public"),
        "--out",
        str(tmp_path / "out"),
        "--judge",
        "synthetic",
        *SIZED,
    ]
    given += [one.format(people=gallery / "people") for one in more]
    assert main(["audit", str(gallery / "embedder.pt"), *given]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1 and not (tmp_path / "out").exists()
