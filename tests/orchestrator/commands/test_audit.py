"""`smoothsweep audit`: refusals before anything runs, what it tries within time and budget, and a model's pages."""

import json
import re
import shutil
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.data.sources import Counted, count_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Budget
from smoothsweep.core.external.named import KeptAnswers, answers_database
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.auditing import (
    FIRST,
    Allowance,
    Work,
    allowance_of,
    chosen,
    steps_of,
)
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.subject import judge_of, judges_of
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    audit_trainings,
    label_of,
    portfolio,
    spread_classes,
)
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep
from tests.foreign_classifier import PEOPLE, SIDE
from tests.made_endpoint import serving
from tests.memorising import NOISE, Memory, write_split
from tests.orchestrator.commands.owned_model import IMAGENET, audit, sweep_of, write_public

STATED = ["--architecture", "resnet18", "--image-size", SIDE]
URL = ["http://127.0.0.1:9/model", "--image-size", SIDE, "--yes", "--data", "PEOPLE", "--public", "PUBLIC"]
EARLY = [  # what follows `audit`: options of the owner's model, or a whole command; the line
    (["--minutes", "0"], "--minutes: expected more than 0, got 0"),
    (["--minutes", "nan"], "--minutes: expected more than 0, got nan"),
    (["--minutes", "3", "--effort", "quick"], "--minutes: expected none with --effort"),
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
    (["--trained-on-data", *STATED], "to say which images are for training and which for testing"),
    (["--gallery", "PEOPLE"], "--data, --gallery: expected one of them, got both"),
    (["--image-size", SIDE], "--architecture: expected the network that own.pth holds, e.g. resnet18, got none"),
    (["--architecture", "resnet18"], "--image-size: expected the side in pixels"),
    ([*STATED, "--mean", 0, 0, 0], "--mean, --std: expected both"),
    ([*STATED, "--answers", "labels"], "--answers: expected none with"),
    (["--architecture", "resnet34", "--image-size", SIDE], "as resnet34: expected resnet34"),
    (["--architecture", "resnet81", "--image-size", SIDE], "got 'resnet81'; did you mean 'resnet18'?"),
    (["MODEL"], "--data, --gallery: expected one of them, got neither"),
    (["MODEL", "--data", "PEOPLE"], "--public: expected images of the same kind that show none of these people"),
    (["MODEL", "--gallery", "PEOPLE", "--public", "PUBLIC", "--trained-on-data"], "--trained-on-data: expected none"),
    (["GONE", "--data", "PEOPLE", "--public", "PUBLIC"], "MODEL GONE: expected "),
    (["MODEL", "--data", "GONE", "--public", "PUBLIC"], "--data GONE: expected "),
    (["MODEL", "--gallery", "GONE", "--public", "PUBLIC"], "--gallery GONE: expected "),
    (["MODEL", "--data", "PEOPLE", "--public", "GONE"], "--public GONE: expected "),
    ([*URL, "--input-range", 0, 1], "--input-range: expected none with an HTTP endpoint"),
    ([*URL, "--architecture", "resnet18"], "--architecture: expected none with an HTTP endpoint"),
]


@pytest.mark.parametrize(("more", "line"), EARLY)
def test_what_is_wrong_is_one_line_before_pictures_are_compared_and_nothing_is_written(
    owned, tmp_path, capsys, more, line
):
    """That takes most of a minute where there are thousands, and is said."""
    root, people, public = owned
    places = {"MODEL": root / "own.pth", "PEOPLE": people, "PUBLIC": public}
    whole = [] if not str(more[0]).startswith("--") else ["MODEL", "--data", "PEOPLE", "--public", "PUBLIC"]
    given = [str(places.get(one, one)) for one in (*whole, *more)]
    assert main(["audit", *given, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("smoothsweep: ") and said.err.count("\n") == 1 and not said.out
    assert line in said.err and not (tmp_path / "out").exists()


def test_a_reading_that_does_not_recognise_the_people_is_refused_with_the_one_that_does(owned, tmp_path, capsys):
    assert audit(owned, *STATED, out=tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "as stated: use --mean 0.485 0.456" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_place_of_another_models_audits_is_refused(owned, tmp_path, capsys):
    """Also of one whose weights differ a little."""
    root, out = owned[0], tmp_path / "out"
    given = [*map(str, STATED), *IMAGENET]
    imported = ["import", "target", str(root / "own.pth"), "--classes", str(len(PEOPLE)), *given]
    assert main([*imported, "--out", str(out / "model")]) == 0
    before = {path: path.read_bytes() for path in (out / "model").iterdir()}
    state = torch.load(root / "own.pth", weights_only=True)
    state["fc.bias"] = state["fc.bias"] + 1e-3
    torch.save(state, tmp_path / "own.pth")
    assert audit((tmp_path, *owned[1:]), *given, out=out) == 2
    said = capsys.readouterr().err
    assert said == f"smoothsweep: --out {out}: expected a folder of this model's audits, got one of another model\n"
    assert {path: path.read_bytes() for path in (out / "model").iterdir()} == before


def test_a_person_s_picture_among_the_public_ones_is_refused_by_name_and_nothing_is_written(owned, tmp_path, capsys):
    root, people, public = owned
    picture, others = next(people.rglob("*.png")), shutil.copytree(public, tmp_path / "public")
    Image.open(picture).save(others / "copy.bmp")
    given = ["--data", str(people), "--public", str(others), "--out", str(tmp_path / "out")]
    assert main(["audit", str(root / "own.pth"), *given, "--architecture", "resnet18", "--image-size", str(SIDE)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{picture.relative_to(people)} = copy.bmp\n") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_from_a_checkpoint_to_the_pages(owned, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--architecture", "resnet18", "--image-size", SIDE, *IMAGENET, "--epochs", "3", "--people", "3"]
    assert audit(owned, *options, "--reference", "--minutes", "0.1", out=out) == 0
    found = json.loads((out / "audit.json").read_text())
    [left] = found["said"]["trainings"]
    assert left.startswith("Not tried: ") and "plain training" in left and found["beside"] == []
    assert found["test_acc"] > 0.8 and len({one["name"] for one in found["people"]} & set(PEOPLE)) == 3
    [control] = [one["leak"] for one in found["reached"] if one["control"]]
    assert max(one["leak"] for one in found["reached"]) > control
    for name in ("audit.html", "audit.pdf", "audit.yaml"):
        assert (out / name).is_file()
    before = capsys.readouterr().out
    assert found["said"]["answer"][0][:40] in before
    assert "baseline" not in before, "a sweep's table compares recipes, of which an audit has none"
    redacted = {"html": b"data:image/png", "pdf": b"/Subtype /Image", "json": b'"file"'}
    assert all(mark in (out / f"audit.{ending}").read_bytes() for ending, mark in redacted.items())
    assert audit(owned, *options, "--reference", "--minutes", "0.1", "--redact", out=out) == 0
    written = {ending: (out / f"audit.{ending}").read_bytes() for ending in redacted}
    assert not [ending for ending, mark in redacted.items() if mark in written[ending]]
    page = re.sub(rb"<(style|script).*?</\1>|<[^>]+>", b" ", written["html"], flags=re.DOTALL)
    text = capsys.readouterr().out.encode() + page + written["json"]
    assert not [name for name in PEOPLE if re.search(rb"\b%b\b" % name.encode(), text)]
    assert audit(owned, *options, "--fix", "--effort", "quick", out=out) == 0  # nothing is done twice
    said, found = capsys.readouterr().out, json.loads((out / "audit.json").read_text())
    assert "converted before" in said and "to come: plain training" in said
    so_far, then = said.index(f"so far: {out / 'audit.html'}"), said.index(f"audit: {out / 'audit.html'}")
    assert so_far < then, "who waits for what comes after the first answer hears of the pages"
    assert [one["role"] for one in found["beside"]][:2] == ["model", "reference"]
    assert all(one["training_s"] > 0 for one in found["beside"][1:])
    assert found["beside"][0]["test_acc"] == found["test_acc"]


@given(st.integers(2, 400), st.integers(2, 60))
def test_people_are_spread_over_all_of_them(classes, most):
    found = spread_classes(classes, most)
    assert found == sorted(set(found)) and len(found) == min(classes, most)
    assert found[0] == 0 and found[-1] == classes - 1
    gaps = [b - a for a, b in pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


# The sweep file


def test_what_is_trained_beside_the_model_are_trials_of_the_same_sweep(imported, owned, tmp_path):
    """Its file is one that `run` takes; the reference is its baseline, and everybody meets the same attacks."""
    trainings = audit_trainings(AuditRequest(fix=True), ImportedClassifier(imported=str(imported)).checked)
    loaded = load_sweep(sweep_of(imported, owned, tmp_path, reach="adapted", trainings=trainings))
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
    assert names == ["imported model", *map(label_of, trainings)]
    assert axis.bare and axis.defense


# Who judges


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A folder with the files of two embedders, and an empty one where files are staged."""
    monkeypatch.setenv("SMOOTHSWEEP_WEIGHTS", str(tmp_path / "staged"))
    (tmp_path / "staged").mkdir()
    for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50", "swag_vit_b_16"):
        (tmp_path / f"{name}.safetensors").touch()
    return tmp_path


A, B, IR50 = (f"{name}=PLACE/{name}.safetensors" for name in ("mobilefacenet_a", "mobilefacenet_b", "ir50"))
GENERAL = "swag_vit_b_16=PLACE/swag_vit_b_16.safetensors"


def second(place, *options, gallery=None):
    """The second judge of an audit with these options `--judge`."""
    options = [option.replace("PLACE", str(place)) for option in options]
    first, found = judges_of(AuditRequest(judge=options or None, data=None, gallery=gallery))
    assert first == judge_of(options[0] if options else None)
    return found.get("embedder", {}).get("name")


@pytest.mark.parametrize(
    ("options", "found"),
    [((A,), "mobilefacenet_b"), ((B,), "mobilefacenet_a"), ((A, IR50), "ir50"), (("synthetic",), None), ((), None)],
)
def test_the_second_is_the_one_that_is_named_or_whose_weights_lie_beside_the_first_s(weights, options, found):
    assert second(weights, *options) == found and second(weights, GENERAL) is None
    assert second(weights, *options, gallery=weights) == (found if len(options) == 2 else None), "it may be under audit"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((A, A), "--judge: expected two different embedders, got mobilefacenet_a twice"),
        ((GENERAL, A), "--judge: expected two embedders of faces where it is said"),
        ((A, A, A), "--judge: expected it once or twice, got it 3 times"),
    ],
)
def test_a_wrong_second_is_refused(weights, options, line):
    with pytest.raises(InputError, match=line):
        second(weights, *options)


# Efforts and their time


REFERENCE = ({"architecture": "resnet18", "epochs": 40},)
MINUTES = {"first": 1, "quick": 2, "standard": 4, "full": 8}


@pytest.mark.parametrize(
    ("given", "trainings", "effort"),
    [
        ({"effort": "quick"}, (), "quick"),
        ({"effort": "full"}, (), "full"),
        ({"minutes": 4.9}, (), "quick"),
        ({"minutes": 5}, (), "standard"),
        ({"minutes": 9}, (), "full"),
        ({}, (), "standard"),
        ({"fix": True, "effort": "quick"}, REFERENCE, "quick"),
        ({"fix": True, "minutes": 2}, REFERENCE, "first"),
        ({"seeds": 2, "minutes": 2}, (), "first"),
        ({"reference": "", "minutes": 8}, REFERENCE, "standard"),
        ({"reference": ""}, REFERENCE, "full"),
        ({"fix": True}, REFERENCE, "full"),
    ],
)
def test_after_the_first_answer_an_audit_makes_the_effort_that_was_asked_for_or_the_largest_that_fits(
    given, trainings, effort
):
    """A minute of it is over. Without either, one that fits into 5 minutes, or 20 with a reference."""
    request = AuditRequest(**given)
    steps = steps_of(trainings, seeds=request.seeds)
    found = chosen(steps, request, lambda step: 60 * MINUTES[step.effort], spent=60)
    assert found.effort == effort and found.seeds >= (request.seeds if effort != "first" else 1)
    assert chosen(steps, request, lambda step: 0.0).effort == given.get("effort", "full"), "what is done is shown"
    for before, after in pairwise(steps):
        assert after.seeds >= before.seeds and after.shadows > before.shadows


def work_of(owned, imported, folder, **given):
    model = ImportedClassifier(imported=str(imported))
    known = {"model": model.folder, "data": owned[1], "public": owned[2], "people": 3, "out": folder}
    people = given.pop("counted", None) or count_labelled(owned[1])
    return Work(
        request=AuditRequest(**known | given), model=model.folder, card=model.checked, people=people, started=0.0
    )


@pytest.mark.parametrize(
    ("access", "each", "trained"), [("gradients", 9, True), ("labels", 9, False), ("scores", 1, False)]
)
def test_shadow_models_grow_with_the_effort_and_are_left_out_where_they_say_nothing(
    owned, imported, tmp_path, access, each, trained
):
    """An attacker who sees labels compares no scores; a person with one image leaves no half to train on."""
    pictures = Counter({(label, split): each for label in range(6) for split in ("train", "test")[: 1 + (each > 1)]})
    given = {"counted": Counted(classes=6, pictures=pictures), "reference": "", "trained_on_data": True}
    work = work_of(owned, imported, tmp_path, access=access, **given)
    trees = [work.shadow_tree(step) for step in steps_of(work.trainings)]
    counts = [tree and tree["judges"]["membership"]["shadows"] for tree in trees]
    assert counts == ([None, 4, 8, 16] if trained else [None] * 4)


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_audit_shows_no_more_than_its_access_and_attacks_so_many_people(owned, imported, tmp_path, access):
    tree = work_of(owned, imported, tmp_path, access=access, people=4).tree(FIRST)
    tried = [ATTACKS[one["kind"]].access for one in tree["grid"]["attack"]]
    assert max(map(ACCESS_LEVELS.index, tried)) == ACCESS_LEVELS.index(access) and len(set(tried)) > 1
    assert tree["classes"] == [0, 2, 3, 5]


# Queries of an endpoint


SHOWN, MEMBERS, OTHERS = 14, 180, 120
"""Pictures for each image: itself, its mirror image, six shifted copies, six under noise; images of three people."""


def kinds(attacks):
    return [one["kind"] for one in attacks]


@pytest.mark.parametrize(
    ("queries", "kept"),
    [
        (None, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
        (1099, ["random_latents"]),
        (1100, ["selection_only", "random_latents"]),  # 500 pictures and their mirrors, beside 100 for reading
        (21_099, ["selection_only", "random_latents"]),
        (21_100, ["cma_es", "selection_only", "random_latents"]),  # 1,000 for each of 20 people, from the same pool
        (181_099, ["cma_es", "selection_only", "random_latents"]),
        (181_100, ["cma_es", "rlb_mi", "selection_only", "random_latents"]),  # 8,000 for each
        (10**6, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
    ],
)
def test_attacks_that_do_not_fit_are_left_out_and_named_with_what_they_need(queries, kept):
    allowance, every = Allowance(queries=queries, reading=100, per_second=5, people=20), portfolio("scores", "whole")
    assert kinds(allowance.fitting(every)) == kept
    said = allowance.left_out(every)
    assert len(said) == 5 - len(kept) and all(line.startswith("Not tried: ") for line in said)
    assert all(f"at 5 a second; --queries {queries} does not allow it" in line for line in said)
    if "rlb_mi" not in kept:
        assert "RLB-MI, which may ask 160,000 queries for 20 people (8,000 a person)" in " ".join(said)
    assert allowance.covers(allowance.fitting(every), seeds=1)
    assert allowance.covers(every, seeds=9) == (queries is None)


def split(root, train, test):
    """People's images in folders train and test; in one folder alone where there are none for testing."""
    for part, count in (("train", train), ("test", test)):
        for person in ("ann", "bob", "cem"):
            folder = root / part / person if test else root / person
            folder.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                (folder / f"{at:03}.png").write_bytes(b"")
    return root


def asking(data, budget, *, access, people=3):
    agreed, known = Budget(queries=budget, per_second=10.0), {"access": access, "scores": access != "labels"}
    return allowance_of(agreed, count_labelled(data), attacked=people, membership=True, **known)


@pytest.mark.parametrize(
    ("access", "budget", "drawn", "fits"),
    [
        # 8 to find out what it gives, the test images twice; of scores 1,000 for selection; then 2 or 0 of each image
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS), None, True),
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS) - 1, MEMBERS - 1, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (50 + 50), 50, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20), 20, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20) - 1, None, False),
        ("labels", 8 + 240 + 12 * (MEMBERS + OTHERS), None, True),
        ("labels", 8 + 240 + 12 * (30 + 30) + 23, 30, True),
        ("labels", 8 + 240 + 12 * 40 - 1, None, False),
    ],
)
def test_membership_takes_no_more_than_the_budget_leaves(tmp_path, access, budget, drawn, fits):
    found = asking(split(tmp_path, MEMBERS // 3, OTHERS // 3), budget, access=access)
    assert found.reading + found.measuring + found.queries_of(found.fitting(portfolio(access))) <= budget
    if not fits:
        [line] = found.unmeasured
        per = SHOWN if access == "scores" else SHOWN - 2
        assert found.membership is None and found.measuring == 0
        assert f"may ask {per * (MEMBERS + OTHERS):,} queries" in line and f"--queries {budget} does not" in line
        return
    assert found.membership == {"trained_on_data": True, **({"images": drawn} if drawn else {})}
    few = [min(count, drawn or count) for count in (MEMBERS, OTHERS)]
    assert found.measuring == 12 * sum(few) + (2 * (MEMBERS + OTHERS) if access == "scores" else 0)
    assert not found.unmeasured


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """Where a user's consent is noted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "budget", "drawn"), [(NOISE, 8 + 240 + 1000 + SHOWN * 300, None), (4, 2500, 2 * 27)])
def test_from_an_endpoint_that_memorised_to_the_pages(tmp_path, capsys, own_home, noise, budget, drawn):
    """With shadow models, which ask it nothing more; test images of another camera, which is less noisy: no claim."""
    people, public = write_split(tmp_path / "people", noise_of_test=noise), write_public(tmp_path / "public", 60)
    given = ["--image-size", SIDE, "--people", 2, "--access", "scores", "--redact", "--out", tmp_path / "out"]
    given += ["--data", people, "--public", public, "--trained-on-data", "--effort", "quick"]
    given += ["--yes", "--queries", budget, "--per-second", 10000, "--reference", "resnet_small", "--epochs", 1]
    with serving(Memory(people)) as server:
        assert main(["audit", server.url, *map(str, given)]) == 0
        assert KeptAnswers(answers_database(tmp_path / "out" / "model")).asked == len(server.seen) <= budget
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    said, page = capsys.readouterr().out, (tmp_path / "out" / "audit.html").read_text()
    lines, members = found["said"]["membership"], found["membership"]
    assert lines[0] in said and (members["members"], members["others"]) == (
        MEMBERS,
        OTHERS,
    )
    assert "to come: membership: " in said and members["drawn"] == drawn
    assert not re.search(rf"\b({'|'.join(PEOPLE)})\b", " ".join(lines))
    assert found["model"]["name"] == "this model" and "127.0.0.1" not in page + json.dumps(found)
    if noise == NOISE:
        by_name = {one["attack"]: one for one in members["recipes"][0]["told"]}
        assert members["holds"] and by_name["margin"]["auc"] > 0.95 and by_name["margin"]["low"] > 0.9
        assert by_name["margin"]["found"] > 0.5 and "better than chance" in lines[0]
        shadowed = members["shadowed"]
        assert "Training images found" in page and (shadowed["count"], shadowed["recipe"]) == (4, "plain training")
        assert len(shadowed["reference"]) == len(shadowed["told"]) > 1 and "AUC within people" in page
    else:
        assert (
            not members["holds"]
            and members["recipes"] == []
            and members["shadowed"] is None
            and lines[0].startswith("No claim about membership")
        )
        assert "Training images found" not in page and abs(members["shift"] - 0.5) > 0.2
