"""`smoothsweep audit`: refusals before anything runs, the portfolio by access, and one audit from model to pages."""

import dataclasses
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.access import ACCESS_LEVELS
from smoothsweep.core.audit.portfolio import MOST_SEEDS, Reach, portfolio, spread
from smoothsweep.core.audit.references import trained_beside
from smoothsweep.core.audit.timing import training_seconds
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.models.weight_files import WEIGHT_FILES
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit import auditing, work
from smoothsweep.orchestrator.commands.audit.forecast import Cost, forecast, timed_once
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, refinements
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import as_file, audit_sweep
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.axes import sweep_axes
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.yaml_reader import read_yaml
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, SIDE, trained_resnet, write_people

REACH = get_args(Reach)
RENDERED = {"embedder": {"name": "synthetic"}}
IMAGENET = ["--mean", *map(str, IMAGENET_MEAN), "--std", *map(str, IMAGENET_STD)]


def write_public(folder: Path, count: int = 300) -> Path:
    """Noisy squares of any shade."""
    generator = np.random.default_rng(5)
    folder.mkdir()
    for at in range(count):
        pixels = generator.normal(generator.uniform(0, 255), 12, (SIDE, SIDE, 3)).clip(0, 255).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{at:04}.png")
    return folder


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """Somebody's people, other people, and a ResNet-18 with ImageNet's normalisation and alphabetical classes."""
    root = tmp_path_factory.mktemp("owned")
    people, public = write_people(root / "people"), write_public(root / "public")
    torch.save(trained_resnet(people, sorted(PEOPLE)).state_dict(), root / "own.pth")
    return root, people, public


def audit(owned, *more, out: Path, public: bool = True) -> int:
    root, people, others = owned
    given = ["audit", str(root / "own.pth"), "--data", str(people), "--out", str(out)]
    return main([*given, *(["--public", str(others)] if public else []), *map(str, more)])


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--image-size", SIDE], "--architecture: expected the network that own.pth holds, e.g. resnet18, got none"),
        (["--architecture", "resnet18"], "--image-size: expected the side in pixels"),
        (["--minutes", "0"], "--minutes: expected more than 0, got 0"),
        (["--minutes", "nan"], "--minutes: expected more than 0, got nan"),
        (["--people", "1"], "--people: expected at least 2, got 1"),
        (["--judge", "eve"], "--judge: expected one of synthetic, facenet"),
        (["--judge", "facenet"], "--judge: expected facenet=FILE"),
        (["--judge", "swag_vit_b_16"], "FILE with the file of its weights, or staged by smoothsweep weights stage"),
        (["--judge", "synthetic=own.pth"], "--judge: expected no file with synthetic"),
        (["--seeds", "0"], "--seeds: expected between 1 and 5, got 0"),
        (["--epochs", "3"], "--epochs: expected only with --reference or --fix, which train, got 3"),
        (["--fix", "--epochs", "0"], "--epochs: expected at least 1, got 0"),
        (["--reference", "resnet81"], "efficientnet_b2, got 'resnet81'; did you mean 'resnet18'?"),
        (["--reference", "vit_b_16", "--image-size", SIDE], "--reference vit_b_16: expected images of 224 pixels"),
        (["--architecture", "resnet18", "--image-size", SIDE], "as stated: use --mean 0.485 0.456"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(owned, tmp_path, capsys, more, line):
    assert audit(owned, *more, out=tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.startswith("smoothsweep: ") and said.count("\n") == 1
    assert line in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--image-size", SIDE], "--architecture: expected the network that own.pth holds, e.g. resnet18, got none"),
        (["--architecture", "resnet18"], "--image-size: expected the side in pixels"),
        (["--architecture", "resnet18", "--image-size", SIDE, "--mean", 0, 0, 0], "--mean, --std: expected both"),
        (["--architecture", "resnet18", "--image-size", SIDE, "--answers", "labels"], "--answers: expected none with"),
    ],
)
def test_flags_that_are_wrong_are_told_before_pictures_are_read(owned, tmp_path, capsys, monkeypatch, more, line):
    """Reading and comparing them takes most of a minute where there are thousands."""
    monkeypatch.setattr(auditing, "refuse_shared", lambda *_: pytest.fail("pictures were compared"))
    assert audit(owned, *more, out=tmp_path / "out") == 2
    said = capsys.readouterr()
    assert line in said.err and not said.out


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            ["--input-range", 0, 1],
            "--input-range: expected none with an HTTP endpoint, which is sent pictures, got 0 1",
        ),
        (
            ["--mean", 0.5, 0.25, 0],
            "--mean: expected none with an HTTP endpoint, which is sent pictures, got 0.5 0.25 0",
        ),
        (["--architecture", "resnet18"], "--architecture: expected none with an HTTP endpoint"),
    ],
)
def test_flags_that_mean_nothing_to_an_endpoint_are_told_before_pictures_are_read(
    owned, tmp_path, capsys, monkeypatch, more, line
):
    monkeypatch.setattr(auditing, "refuse_shared", lambda *_: pytest.fail("pictures were compared"))
    given = ["audit", "http://127.0.0.1:9/model", "--image-size", SIDE, "--yes", "--data", owned[1]]
    given += ["--public", owned[2], "--out", tmp_path / "out", *more]
    assert main(list(map(str, given))) == 2
    said = capsys.readouterr()
    assert line in said.err and not said.out


def test_without_public_images_one_line_says_what_to_bring(owned, tmp_path, capsys):
    assert audit(owned, out=tmp_path / "out", public=False) == 2
    assert "--public: expected images of the same kind that show none of these people" in capsys.readouterr().err


def test_a_person_s_picture_among_the_public_ones_is_refused_by_name_and_nothing_is_written(owned, tmp_path, capsys):
    root, people, public = owned
    picture, others = next(people.rglob("*.png")), shutil.copytree(public, tmp_path / "public")
    Image.open(picture).save(others / "copy.bmp")
    given = ["--data", str(people), "--public", str(others), "--out", str(tmp_path / "out")]
    assert main(["audit", str(root / "own.pth"), *given, "--architecture", "resnet18", "--image-size", str(SIDE)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{picture.relative_to(people)} = copy.bmp\n") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_attacker_has_the_attacks_of_their_level_and_below_and_always_a_control(access):
    first, every = portfolio(access, whole=False), portfolio(access, whole=True)
    level = ACCESS_LEVELS.index(access)
    for tree in (first, every):
        kinds = [ATTACKS[settings["kind"]] for settings in tree]
        assert any(kind.control for kind in kinds) and not all(kind.control for kind in kinds)
        assert max(ACCESS_LEVELS.index(kind.access) for kind in kinds) == level
    assert all(settings in every for settings in first)


@pytest.fixture(scope="module")
def imported(owned, tmp_path_factory):
    """The folder of the model."""
    folder = tmp_path_factory.mktemp("imported") / "model"
    reading = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    assert main(["import", "target", str(owned[0] / "own.pth"), *reading, "--out", str(folder)]) == 0
    return folder


def sweep_of(imported, owned, tmp_path, **given) -> Path:
    """The audit's sweep file."""
    _, people, public = owned
    file, card = tmp_path / "audit.yaml", ImportedClassifier(imported=str(imported)).checked
    reach = given.pop("reach", "quick")
    attacks = portfolio("gradients", whole=reach == "whole", adapted=reach == "adapted")
    usual = {"people": 3, "seeds": [1], "has_second": reach == "whole", "independent": {}, "attacks": attacks}
    given = {"public": public, **usual, **given}
    file.write_text(as_file(audit_sweep(model=imported, card=card, data=people, **given)))
    return file


def test_the_written_sweep_file_is_one_that_run_takes(imported, owned, tmp_path):
    file = sweep_of(imported, owned, tmp_path, reach="whole")
    loaded = load_sweep(file)
    assert loaded.sweep.classes == (0, 2, 5) and "&id" not in file.read_text()


@pytest.mark.parametrize(
    ("independent", "reach", "judges"),
    [
        ({}, "quick", {"evaluator"}),
        (RENDERED, "quick", {"embedder"}),
        (RENDERED, "adapted", {"embedder"}),
        (RENDERED, "whole", {"embedder", "evaluator"}),
        ({"general": {}}, "quick", {"general"}),
    ],
)
def test_an_evaluator_is_trained_where_nobody_else_judges_and_with_all_attacks(
    imported, owned, tmp_path, independent, reach, judges
):
    """The first answer of an independent judge does not wait for a training that it does not need."""
    found = load_sweep(sweep_of(imported, owned, tmp_path, independent=independent, reach=reach)).sweep.judges
    assert {name for name in ("embedder", "general", "evaluator") if getattr(found, name) is not None} == judges


def test_rendered_faces_need_no_public_images_of_the_user(imported, owned, tmp_path):
    loaded = load_sweep(sweep_of(imported, owned, tmp_path, public=None, independent=RENDERED))
    assert loaded.sweep.public.kind == "synthetic" and loaded.sweep.public.size == loaded.sweep.data.size


def test_a_judge_of_anything_is_taken_from_its_file_or_from_where_it_is_staged(tmp_path, monkeypatch):
    def judged(said):
        needed = [field.name for field in dataclasses.fields(AuditRequest) if field.default is dataclasses.MISSING]
        return AuditRequest(**dict.fromkeys(needed) | {"judge": said}).independent

    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    own = tmp_path / "own.pth"
    own.touch()
    named = {"general": {"name": "swag_vit_b_16", "weights": str(own)}}
    assert judged(f"swag_vit_b_16={own}") == named and judged(None) == {}
    staged = tmp_path / "staged" / WEIGHT_FILES["swag_vit_b_16"].file_name
    staged.parent.mkdir()
    own.rename(staged)
    assert judged("swag_vit_b_16")["general"]["weights"] == str(staged)


def test_numbers_that_contradict_a_card_are_shown_as_they_were_typed(imported, owned, tmp_path, capsys):
    given = ["--data", owned[1], "--public", owned[2], "--out", tmp_path / "out", "--mean", 0.5, 0.25, 0]
    assert main(["audit", *map(str, [imported, *given])]) == 2
    assert capsys.readouterr().err.endswith("whose target.json says it, got 0.5 0.25 0\n")


def test_controls_alone_are_a_sweep_of_a_model_that_may_be_asked_too_little(imported, owned, tmp_path):
    """As of an endpoint whose queries no attack fits into: the page says what was left out."""
    controls = [one for one in portfolio("labels", whole=True) if ATTACKS[one["kind"]].control]
    found = trials_of(load_sweep(sweep_of(imported, owned, tmp_path, attacks=controls)))
    assert len(found) == len(controls) and all(trial.is_control for trial in found)


def test_people_are_taken_evenly():
    assert spread(3, 20) == [0, 1, 2] and spread(100, 5) == [0, 25, 50, 74, 99]


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("fix", [False, True])
def test_rounds_begin_small_and_only_grow(access, seeds, fix):
    beside = trained_beside("resnet18", image_size=SIDE, transform_input=False, fix=True) if fix else ()
    found = [FIRST, *refinements(access, beside, seeds=seeds)]
    sizes = [(len(one.seeds), REACH.index(one.reach), len(one.beside)) for one in found]
    assert sizes[0] == (1, 0, 0) and sizes[-1] == (5, 2, len(beside))
    assert all(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for a, b in pairwise(sizes))
    slow = next(size for size in sizes if size[1] == 2)
    assert slow[0] >= seeds  # the seeds asked for come before the slow attacks


def test_what_is_trained_beside_the_model_are_trials_of_the_same_sweep(imported, owned, tmp_path):
    """Its file is one that `run` takes; the reference is its baseline, and everybody meets the same attacks."""
    beside = trained_beside("resnet18", image_size=SIDE, transform_input=False, fix=True)
    loaded = load_sweep(sweep_of(imported, owned, tmp_path, reach="adapted", beside=beside))
    trials = trials_of(loaded)
    recipes = [trial.settings.recipe for trial in trials]
    assert [getattr(recipe, "imported", None) is not None for recipe in recipes].count(True) == len(trials) // 5
    plain = [t for t in trials if t.cell.is_baseline]
    assert {t.settings.recipe.defense.final_alpha for t in plain} == {0.0} and len(plain) == len(trials) // 5
    attacks = {}
    for trial in trials:
        attacks.setdefault(trial.cell.axes["recipe_settings"], []).append(trial.cell.axes["attack_settings"])
    assert len({tuple(each) for each in attacks.values()}) == 1 and len(attacks) == 5
    axis = sweep_axes(loaded, trials)[0]
    names = list(dict.fromkeys(axis.values[t.cell.axes[axis.key]] for t in trials))
    assert names == ["imported model", *(one.label for one in beside)] and beside[0].label == "plain training"
    assert axis.bare and axis.defense


def test_a_training_is_forecast_from_a_few_of_its_steps(imported, owned, tmp_path):
    """Per epoch and image; what is in the store costs nothing."""
    tree = read_yaml(
        sweep_of(
            imported,
            owned,
            tmp_path,
            beside=trained_beside("resnet18", image_size=SIDE, transform_input=False, epochs=7, fix=False),
        ).read_text(),
        "audit",
    )
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    with pytest.raises(FileNotFoundError):
        forecast(tree, store)
    loaded = load_sweep(tmp_path / "audit.yaml")
    stages = {stage.name: stage for trial in trials_of(loaded) for stage in trial.stages}
    execute_with_inputs(store, stages["data"])
    asked = []

    def timed(recipe, **given):
        asked.append((recipe.architecture, recipe.epochs, given))
        return 70.0

    cost = forecast(tree, store, timed=timed)
    assert {name for name, _, _ in asked} == {"resnet18", "vgg_small"} and cost.training == 140.0
    assert (7, SIDE) in {(epochs, given["side"]) for _, epochs, given in asked}
    assert cost.without(cost).device_s == 0
    recipe = TrainingRecipe(architecture="resnet_small", epochs=4, batch_size=4, image_size=32)
    assert {timed_once(recipe, images=8, classes=2, side=16) for _ in range(3)} and timed_once.cache_info().hits >= 2
    seconds = [training_seconds(recipe, images=n, classes=2, side=16) for n in (8, 800)]
    assert 0 < seconds[0] < seconds[1]


class Clock:
    """An audit whose rounds take what they were forecast to take, in seconds, and do nothing. slow: of all attacks
    together beyond the quick ones."""

    def __init__(
        self, monkeypatch, card, *, first: float, training: float, seed: float, slow: float = 0.0, stored: float = 0.0
    ) -> None:
        """stored: device-seconds of what is in the store."""
        self.now, self.done, self.said = 0.0, [], []

        def cost(many: int, seeds: int) -> float:
            return training * many + seed * (seeds - 1)

        def do(_, one):
            self.done.append(one)
            self.now += first if one is FIRST else cost(len(one.beside), len(one.seeds))
            return 0

        fakes = {
            "START_S": 0.0,
            "wall_seconds": float,
            "open_store": str,
            "_say_where": id,
            "_look_for_the_same": id,
            "imported_model": lambda request, people: (request.model, card),
            "forecast": lambda tree, store: Cost(
                training=cost(len(tree.get("cells", [1])) - 1, len(tree["seeds"])),
                rest=slow * (len(tree["grid"]["attack"]) > len(portfolio("gradients", whole=False))),
                done=stored,
            ),
        }
        for name, fake in fakes.items():
            for module in (auditing, work):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fake)
        monkeypatch.setattr(work.Work, "do", do)
        monkeypatch.setattr(work.Work, "spent", property(lambda _: self.now))
        monkeypatch.setattr(work.Work, "write", lambda one, *more: self.said.extend([*one.unfit, *more]))


@pytest.mark.parametrize(
    ("minutes", "seeds", "many", "left", "short"),
    [
        (1, 1, 0, "plain training", False),  # nothing but the first answer
        (4, 1, 1, "smoothing", False),
        (20, 1, 4, "", False),
        (60, 3, 4, "", False),
        (12, 3, 4, "", True),
    ],
)
def test_what_there_is_no_time_for_is_left_out_and_said(
    imported, owned, capsys, monkeypatch, minutes, seeds, many, left, short
):
    """The first answer takes a minute, a training two, a further seed of everything one."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=60, training=120, seed=60)
    given = ["--fix", "--minutes", minutes, "--seeds", seeds, "--out", imported.parent / "out"]
    people, public = map(str, owned[1:])
    assert main(["audit", str(imported), "--data", people, "--public", public, *map(str, given)]) == 0
    assert clock.done[0] is FIRST and max(len(one.beside) for one in clock.done) == many
    said = capsys.readouterr().out
    assert said.count("to come: ") == many and said.count("Not tried: ") == 4 - many and left in said
    assert any("--seeds 3 was asked for" in line for line in clock.said) == short
    assert clock.now <= 60 * minutes or not left


@pytest.mark.parametrize(("minutes", "seeds"), [(2.5, 1), (3, 2), (4.8, 3)])
def test_time_that_the_slow_attacks_do_not_fit_into_goes_to_seeds_of_the_quick_ones(
    imported, owned, monkeypatch, minutes, seeds
):
    """The first answer takes 100 seconds, the second seed 60, the third 120; slow attacks are expected to take twice
    what was spent, and one seed tells nothing."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=100, training=0, seed=60, slow=1)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", str(minutes), "--out", str(imported.parent / "out")]
    assert main(["audit", str(imported), *given]) == 0
    assert [len(one.seeds) for one in clock.done] == list(range(1, seeds + 1))
    assert {one.reach for one in clock.done} == {"quick"}


def test_a_shorter_budget_makes_no_answer_poorer_than_what_the_store_holds(imported, owned, monkeypatch):
    """All seeds of the quick attacks are there, and the minutes are over before the first answer."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=100, training=0, seed=0, slow=1)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "1", "--out", str(imported.parent / "out")]
    assert main(["audit", str(imported), *given]) == 0
    assert [len(one.seeds) for one in clock.done] == list(range(1, MOST_SEEDS + 1))
    assert {one.reach for one in clock.done} == {"quick"}


def test_a_run_of_few_seconds_starts_no_slow_attacks_that_were_never_measured(imported, owned, monkeypatch):
    """The quick attacks lie in the store, where they took half an hour: that this run took a second says nothing."""
    card = ImportedClassifier(imported=str(imported)).checked
    clock = Clock(monkeypatch, card, first=1, training=0, seed=0, slow=1, stored=1800)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "5", "--out", str(imported.parent / "out")]
    assert main(["audit", str(imported), *given]) == 0
    assert {one.reach for one in clock.done} == {"quick"}


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_later_run_begins_with_all_that_the_pages_show(imported, owned, monkeypatch, tmp_path, seeds):
    """All attacks with two seeds are in the store: --seeds 3 with a minute left must not drop the slow ones."""
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    out.mkdir()
    shown = sweep_of(imported, owned, tmp_path, reach="whole", seeds=[1, 2]).read_text()
    (out / "audit.yaml").write_text(shown)
    (out / "audit.json").write_text("{}")
    clock = Clock(monkeypatch, card, first=30, training=0, seed=0)

    def cost(tree, store):
        missing = 3600.0 * (len(tree["seeds"]) > 2)
        return Cost(training=0, rest=missing, done=60.0)

    monkeypatch.setattr(work, "forecast", cost)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "1", "--seeds", str(seeds), "--out", str(out)]
    assert main(["audit", str(imported), *given]) == 0
    assert [(len(one.seeds), one.reach) for one in clock.done] == [(2, "whole")]
    assert any("--seeds 3 was asked for" in line for line in clock.said) == (seeds == 3)


@pytest.mark.parametrize("damage", ["seeds: [1]\n", "grid: {attack: [{kind: ppa}]}\n", "a: [", ""])
def test_pages_of_something_else_begin_anew(imported, owned, monkeypatch, tmp_path, damage):
    card, out = ImportedClassifier(imported=str(imported)).checked, tmp_path / "out"
    out.mkdir()
    (out / "audit.yaml").write_text(damage)
    (out / "audit.json").write_text("{}")
    clock = Clock(monkeypatch, card, first=100, training=0, seed=60, slow=1)
    people, public = map(str, owned[1:])
    given = ["--data", people, "--public", public, "--minutes", "1", "--out", str(out)]
    assert main(["audit", str(imported), *given]) == 0
    assert clock.done == [FIRST]


@pytest.mark.slow
def test_from_a_checkpoint_to_the_pages(owned, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--architecture", "resnet18", "--image-size", SIDE, *IMAGENET, "--epochs", "3", "--people", "3"]
    assert audit(owned, *options, "--reference", "--minutes", "0.1", out=out) == 0
    found = json.loads((out / "audit.json").read_text())
    [left] = found["said"]["trainings"]
    assert left.startswith("Not tried: plain training: resnet18, 3 epochs, about ") and found["beside"] == []
    assert found["test_acc"] > 0.8 and len({one["person"] for one in found["people"]} & set(PEOPLE)) == 3
    by_name = {one["attack"]: one["leak"] for one in found["attacks"]}
    assert max(by_name.values()) > by_name["random_latents"]
    for name in ("audit.html", "audit.pdf", "audit.yaml"):
        assert (out / name).is_file()
    before = capsys.readouterr().out
    assert found["said"]["answer"][0][:40] in before
    assert "baseline" not in before, "a sweep's table compares recipes, of which an audit has none"
    assert audit(owned, *options, "--fix", "--minutes", "4", out=out) == 0  # nothing is done twice
    said, found = capsys.readouterr().out, json.loads((out / "audit.json").read_text())
    assert "converted before" in said and "to come: plain training" in said
    so_far, then = said.index(f"so far: {out / 'audit.html'}"), said.index(f"audit: {out / 'audit.html'}")
    assert so_far < then, "who waits for what comes after the first answer hears of the pages"
    assert [one["role"] for one in found["beside"]][:2] == ["model", "reference"]
    assert all(one["device_seconds"]["training"] > 0 for one in found["beside"][1:])
    assert found["beside"][0]["test_acc"] == found["test_acc"]
