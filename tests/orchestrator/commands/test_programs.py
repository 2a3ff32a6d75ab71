"""Models that answer and show no layers: brought in with what they give, refused to attacks that need more."""

import json
import warnings
from importlib import import_module

import pytest
from PIL import Image

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation import process as isolated
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.sweep_file import LEAST_PUBLIC, portfolio, untried
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.parts import LabelledData
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.data import prepare_private
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.imported import adopt_classifier
from smoothsweep.tasks.training import load_classifier
from tests.foreign_classifier import PEOPLE, SIDE, write_people
from tests.made_programs import NAMES, Deciding, Softmaxed, exported, shades_of, torchscript
from tests.orchestrator.commands.owned_model import IMAGENET, sweep_of

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


def test_a_program_that_recognises_nobody_as_stated_is_refused_with_the_reading_that_fits(made, here, tmp_path, capsys):
    given = ["import", "target", str(made / "labels.pt"), "--classes", str(len(PEOPLE)), "--out", str(tmp_path / "out")]
    given += ["--data", str(made / "people"), "--answers", "labels", *SIZED, "--input-range", "0", "255"]
    assert main(given) == 2
    assert "with ImageNet mean/std" in capsys.readouterr().err


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


def test_too_few_public_images_for_any_prior_are_refused(made, tmp_path, capsys):
    (place := tmp_path / "public").mkdir()
    for number in range(LEAST_PUBLIC - 1):
        Image.new("RGB", (SIDE, SIDE), (9 * number, 60, 20)).save(place / f"{number}.png")
    given = ["--data", str(made / "people"), "--public", str(place), "--out", str(tmp_path / "out"), *SIZED]
    assert main(["audit", str(made / "logits.pt"), *given]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert (
        f"expected at least {LEAST_PUBLIC} images, got {LEAST_PUBLIC - 1}" in line and not (tmp_path / "out").exists()
    )
