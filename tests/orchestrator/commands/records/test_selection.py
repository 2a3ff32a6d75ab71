"""What a text selects of a sweep: names as the report prints them, settings, commas inside both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.records.selection import selected
from smoothsweep.orchestrator.planning.trial_notes import DOT, TrialNote
from smoothsweep.orchestrator.tracking.runs.names import run_name
from smoothsweep.sweeps.load import load_sweep
from tests.recorded import recorded

STEP = {"kind": "label_smoothing", "alpha": -0.8, "schedule": {"kind": "step", "at": 0.1}}
PLAIN = {"kind": "label_smoothing", "alpha": 0.0}
STRONG = {"kind": "label_smoothing", "alpha": -0.8}
GRID = {"recipe.defense": [PLAIN, STEP, STRONG], "attack.loss": ["cross_entropy", "logit"]}
BASELINE = {"recipe.defense": PLAIN}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three recipes, one of which has a comma in its name, under two attacks and two seeds."""
    return recorded(tmp_path_factory.mktemp("selection"), seeds=[1, 2], grid=GRID, baseline=BASELINE)


def lines(capsys, store, a, b):
    assert main(["diff", a, b, "--store", str(store.root)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("a", "b", "settings"),
    [
        ("tiny:alpha=0.0", "tiny:at=0.1", {"alpha: 0.0 -> -0.8", "schedule.at: (none) -> 0.1"}),
        (
            "tiny:plain training",
            "tiny:smoothing −0.8, step at 0.1",
            {"alpha: 0.0 -> -0.8", "schedule.at: (none) -> 0.1"},
        ),
        ("tiny:smoothing -0.8, step at 0.1", "smoothing -0.8", {"schedule.at: 0.1 -> (none)"}),
        ("plain training", "tiny:smoothing\u00a0\u22120.8", {"alpha: 0.0 -> -0.8"}),
    ],
)
def test_the_names_of_the_report_and_single_settings_address_a_recipe(made, capsys, a, b, settings):
    _, store = made
    told = lines(capsys, store, a, b)
    assert told[0] == f"A  {a.replace(chr(0xA0), ' ')}: 4 trials"
    assert told[2].startswith("4 pairs of trials")
    named = {line.strip().removeprefix("target defense.") for line in told if line.startswith("  target defense.")}
    assert settings <= named


def test_a_trial_is_found_by_the_name_that_every_output_gives_it(made, capsys):
    """What `status` lists is what the run is called in MLflow, and `lineage` takes it as it stands."""
    trials, store = made
    loaded = load_sweep(store.root.parent / "tiny.yaml")
    assert main(["status", str(store.root.parent / "tiny.yaml"), "--store", str(store.root)]) == 0
    rows = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines() if DOT in line]
    names = {trial: name for trial, _, _, name in rows}
    assert names == {trial.id: run_name(trial, loaded) for trial in trials} and len(names) == 12
    assert f"smoothing -0.8, step at 0.1 {DOT} attack loss cross entropy {DOT} seed 2" in names.values()
    for trial, name in names.items():
        assert main(["lineage", f"tiny:{name}", "--store", str(store.root)]) == 0
        assert capsys.readouterr().out.splitlines()[0] == f"trial {trial} of tiny: {name}"
    asked = f"tiny:plain training {DOT} attack loss logit {DOT} seed 3"
    assert main(["lineage", asked, "--store", str(store.root)]) == 2
    assert "got 'seed 3'" in capsys.readouterr().err


def test_a_name_with_a_comma_goes_on_behind_it(made, capsys):
    trials, store = made
    asked = "tiny:smoothing -0.8, step at 0.1, attack loss logit, seed=2"
    (one,) = [
        trial
        for trial in trials
        if trial.seed == 2 and trial.cell.axes["attack_loss"] == "logit" and "step" in trial.cell.axes["defense"]
    ]
    assert lines(capsys, store, asked, one.id)[-1] == "nothing differs"


def test_one_trial_is_compared_with_the_trial_of_the_same_attack(made, capsys):
    _, store = made
    told = lines(capsys, store, "tiny:plain training,attack_loss=logit,seed=1", "tiny:smoothing -0.8")
    assert "1 pairs of trials" in told[2] and not any(line.strip().startswith("attack loss") for line in told)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("tiny:plain trainin", "got 'plain trainin'; did you mean 'plain training'?"),
        (
            "tiny:smoothing -0.8, step at 0.2",
            "a recipe's name (plain training; smoothing -0.8, step at 0.1; smoothing",
        ),
        ("tiny:alpha=0.0,at=0.1", "expected trials to which all of it applies, got none"),
        ("tiny:alpha=0.0,at=7", "expected trials with these values, got none; at is one of 0.1"),
        (f"tiny:{'a,' * 600}", "expected at most 1000 characters behind the sweep, got 1200"),
    ],
)
def test_what_selects_nothing_is_one_line(made, capsys, asked, line):
    _, store = made
    assert main(["diff", asked, "tiny", "--store", str(store.root)]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


def test_a_recipe_that_two_sweeps_have_needs_the_sweep(tmp_path, capsys):
    _, store = recorded(tmp_path)
    recorded(tmp_path / "b", root=store.root, name="other")
    assert main(["diff", "smoothing -0.2", "tiny", "--store", str(store.root)]) == 2
    said = capsys.readouterr().err
    assert "got 2: other:smoothing -0.2, tiny:smoothing -0.2" in said and said.count("\n") == 1


NAMES = st.lists(st.sampled_from(["a", "b", "a, b", "b, c", "c", "a, b, c"]), min_size=1, max_size=5)


@given(names=NAMES, asked=st.integers(0, 4))
def test_a_recipe_is_always_found_by_its_own_name(names, asked):
    names = list(dict.fromkeys(names))
    trials = [
        TrialNote(trial=f"{i:012x}", label=name, seed=1, phase="sweep", recipe=name, axes={}, stages={})
        for i, name in enumerate(names)
    ]
    wanted = names[asked % len(names)]
    assert [trial.recipe for trial in selected(wanted, trials, wanted)] == [wanted]
    with pytest.raises(InputError):
        selected("?", trials, f"{wanted}, x")
