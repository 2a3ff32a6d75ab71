"""`smoothsweep study`: what the page shows and hides, what is refused, and the way back from the answers."""

import json
import re
import shutil

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.study import published_preferences
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from tests.study_answers import ALPHAS, PEOPLE, REAL_RED, answers_file, choosing, colours, made_sweep, red_of

BUILD = ("--seed", "7")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_sweep(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def built(made, tmp_path_factory):
    """The folder of a study of all three recipes, and its key."""
    sweep, store = made
    out = tmp_path_factory.mktemp("built")
    assert main(["study", "build", str(sweep), "--store", str(store), "--out", str(out), *BUILD]) == 0
    return out, json.loads((out / "study.json").read_text())


def pictures_of(page):
    """By question: (examples, options), each as colours."""
    found = []
    for section in page.split('<section class="question"')[1:]:
        before, after = section.split("<fieldset>")
        found.append([[colours(uri) for uri in re.findall(r'src="([^"]+)"', part)] for part in (before, after)])
    return found


def near(colour, expected):
    return all(abs(a - b) <= 6 for a, b in zip(colour, expected, strict=True) if b is not None)


def test_every_picture_is_where_the_key_says(built):
    folder, key = built
    assert key["recipes"] == ["smoothing\u00a0\u22120.2", "plain training", "smoothing\u00a00.1"]
    assert len(key["questions"]) == PEOPLE + 8
    shown = pictures_of((folder / "study.html").read_text())
    for question, (examples, options) in zip(key["questions"], shown, strict=True):
        green = question["person"] * 16 + 8
        assert all(
            near(one, (REAL_RED, green, 50 * (row % 4)))
            for one, row in zip(examples, question["examples"], strict=True)
        )
        for colour, option in zip(options, question["options"], strict=True):
            if option is None:
                assert near(colour, (REAL_RED, green, 50 * (question["real"] % 4)))
            else:
                assert near(colour, (red_of(ALPHAS[option]), green, 0)), "the best of this recipe's reconstructions"


def test_the_page_tells_nothing_that_the_key_hides(built):
    folder, key = built
    page = (folder / "study.html").read_text()
    words = re.sub(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+", "", page)
    for secret in ("alpha", "smooth", "recipe", "tiny", "Person", "0.2", "fingerprint", "attention", key["pictures"]):
        assert secret not in words, secret
    assert key["digest"] in words
    sections = [re.sub(r"\d+", "", one) for one in words.split('<section class="question"')[1:-1]]
    assert len(set(sections)) == 1 and len(sections) > PEOPLE, "an attention check looks like any other question"


def test_positions_are_drawn_and_follow_the_seed(made, built, tmp_path):
    sweep, store = made
    folder, key = built
    placed = [
        [question["options"].index(recipe) for question in key["questions"] if recipe in question["options"]]
        for recipe in range(3)
    ]
    assert all(set(places) == {0, 1, 2} for places in placed)
    command = ["study", "build", str(sweep), "--store", str(store), "--out"]
    assert main([*command, str(tmp_path / "again"), *BUILD]) == 0
    for name in ("study.html", "study.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    drawn = []
    for name in ("a", "b"):
        assert main([*command, str(tmp_path / name), "--people", "3"]) == 0
        drawn.append(json.loads((tmp_path / name / "study.json").read_text())["seed"])
    assert drawn[0] != drawn[1], "without --seed nobody can guess the order"


def refused(capsys, *arguments):
    """The one line of an exit code 2."""
    assert main([str(argument) for argument in arguments]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and told.err.startswith("smoothsweep: ")
    return told.err


@pytest.mark.parametrize(
    "options, expected",
    [
        (("--people", 13), "--people: expected at most the 12 people reconstructed, got 13"),
        (("--people", 0), "--people: expected a whole number of at least 1, got '0'"),
        (("--seed", -1), f"--seed: expected a whole number from 0 to {2**63 - 1}, got -1"),
        (
            ("--recipe", "plain training", "--recipe", "alpha 7"),
            "--recipe: expected one of 'smoothing -0.2', 'plain training', 'smoothing 0.1', got 'alpha 7'",
        ),
        (("--recipe", "plain training") * 2, "--recipe: expected each once, got 'plain training' twice"),
        (("--recipe", "plain training"), "expected 2 to 6 recipes to choose between (--recipe), got 1"),
        (
            ("--set", "grid={recipe.defense.alpha: [0.0]}"),
            "expected 2 to 6 recipes to choose between (--recipe), got 1",
        ),
        (("--attack", "gmi"), "--attack: expected none, since there is one, got 'gmi'"),
        (("--set", "recipe.lr=0.5"), "got none: smoothsweep run makes them"),
    ],
)
def test_what_cannot_be_asked_is_refused(made, tmp_path, capsys, options, expected):
    sweep, store = made
    line = refused(capsys, "study", "build", sweep, "--store", store, "--out", tmp_path / "out", *options)
    assert expected in line and not (tmp_path / "out").exists()


@pytest.fixture
def study(built, tmp_path):
    """A copy to which answers may be put."""
    shutil.copy(built[0] / "study.json", tmp_path)
    return tmp_path, built[1]


def test_from_the_answers_to_the_shares(study, capsys):
    """Ann always chooses the first recipe, Ben half the time the second: the people are the first's or level."""
    folder, key = study
    ann = answers_file(folder / "answers-ann.json", key, choosing(key, 0))
    ben = answers_file(folder / "answers-ben.json", key, choosing(key, lambda number: number % 2), who="Ben", number=2)
    assert main(["study", "read", str(ann), str(ben), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = [number for number, question in enumerate(key["questions"]) if question["real"] is None]
    odd = sum(number % 2 for number in asked)
    assert found["undecided"] == odd
    assert [share["count"] for share in found["preferred"]] == [PEOPLE - odd, 0, 0]
    assert found["preferred"][0]["value"] == 1 and found["preferred"][0]["low"] > 0.5
    assert [share["count"] for share in found["answers"]] == [2 * PEOPLE - odd, odd, 0]
    assert [one["attentive"] for one in found["annotators"]] == [True, True]
    assert main(["study", "read", str(ann), str(ben)]) == 0
    told = capsys.readouterr().out
    assert f"{PEOPLE - odd} people decided, {odd} level and left out" in told and "Fleiss' kappa" in told
    assert "smoothing -0.2" in told and "8 of 8 passed" in told


def test_who_takes_the_photograph_for_least_like_the_person_is_named_and_left_out(study, capsys):
    folder, key = study
    careless = [
        question["options"].index(None) if question["real"] is not None else choice
        for question, choice in zip(key["questions"], choosing(key, 2), strict=True)
    ]
    ann = answers_file(folder / "a.json", key, choosing(key, 0))
    bob = answers_file(folder / "b.json", key, careless, who="Bob\x1b[2J", number=2)
    assert main(["study", "read", str(ann), str(bob)]) == 0
    told = capsys.readouterr().out
    assert "left out, because their attention checks look like guessing: Bob\\x1b[2J (8 of 8 failed)" in told
    assert "0 of 8 passed: guessing?" in told
    assert main(["study", "read", str(ann), str(bob), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [share["count"] for share in found["preferred"]] == [PEOPLE, 0, 0], "only Ann counts"


def other(content, **changes):
    return json.dumps({**content, **changes})


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda good: json.dumps(good)[:-9], "expected the answers of one annotator, got: "),
        (lambda good: "[1, 2]", "expected the answers of one annotator, got no object"),
        (lambda good: "[" * 100_000, "expected the answers of one annotator, got: nested too deeply"),
        (lambda good: other(good, study="0" * 64), "expected answers to the study"),
        (lambda good: other(good, answers=good["answers"][:-1]), "answers: expected 20, got 19"),
        (lambda good: other(good, answers=[3, *good["answers"][1:]]), "answers.0: expected a position below 3 or null"),
        (lambda good: other(good, answers=[-1, *good["answers"][1:]]), "answers.0"),
        (lambda good: other(good, answers=[0.5, *good["answers"][1:]]), "answers.0"),
        (lambda good: other(good, answers=[None] * 20), "expected at least one question answered, got none"),
        (
            lambda good: other(good, recipe=1),
            "recipe: expected one of the keys annotator, answers, format, study, got the unknown key 'recipe'",
        ),
        (lambda good: json.dumps({key: value for key, value in good.items() if key != "annotator"}), "annotator"),
    ],
)
def test_damaged_answers_are_one_line(study, capsys, damage, said):
    folder, key = study
    good = json.loads(answers_file(folder / "good.json", key, choosing(key, 0)).read_text())
    (folder / "bad.json").write_text(damage(good))
    line = refused(capsys, "study", "read", folder / "bad.json")
    assert said in line and "bad.json" in line


@pytest.mark.parametrize(
    "given, said",
    [
        (["no.json"], "no.json: expected the answers of one annotator, got nothing there"),
        (["one.json", "no.json"], "no.json: expected the answers of one annotator, got nothing there"),
        (["one.json", "two.json"], "expected every annotator once, got Ann here and in"),
        (["one.json", "./one.json"], "expected every annotator once, got Ann here and in"),
        (["one.json", "--study", "changed.json"], "expected the key as it was written"),
        (["one.json", "--study", "no.json"], "no.json: expected the key of a study, got"),
        (["elsewhere/one.json"], "or --study FILE; got neither"),
    ],
)
def test_files_that_do_not_belong_together_are_one_line(study, capsys, monkeypatch, given, said):
    folder, key = study
    monkeypatch.chdir(folder)
    (folder / "elsewhere").mkdir()
    for name, recipe in (("one.json", 0), ("two.json", 1), ("elsewhere/one.json", 0)):
        answers_file(folder / name, key, choosing(key, recipe))
    turned = [{**one, "options": one["options"][::-1]} for one in key["questions"]]
    (folder / "changed.json").write_text(json.dumps({**key, "questions": turned}))
    assert said in refused(capsys, "study", "read", *given)


@pytest.mark.parametrize(
    "dataset, theirs",
    [
        ("facescrub", (0.4776, 0.1716, 0.3507)),
        ("celeba", (0.7153, 0.1022, 0.1825)),
    ],
)
def test_the_papers_shares_stand_beside_the_same_three_recipes_alone(repository, dataset, theirs):
    """A share depends on what else there was to choose."""
    loaded = load_sweep(repository / "sweeps" / f"table1_{dataset}.yaml")
    plain, positive, *three = [Trial(cell=cell, seed=1) for cell in expand(loaded)]
    assert published_preferences(loaded, three) == theirs
    assert published_preferences(loaded, three[::-1]) == theirs[::-1]
    assert published_preferences(loaded, [plain, *three]) == (None,) * 4
    assert published_preferences(loaded, [positive, *three[1:]]) == (None,) * 3
