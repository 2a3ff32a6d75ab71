"""Sweep files: what is refused, in one line that names file, key, expected and got."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from smoothsweep.core.attacks.registry import ATTACKS, EARLIER_NAMES, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps
from tests.core.attacks.examples import example
from tests.tiny import write_tiny

GOOD = {
    "name": "t",
    "seeds": [1],
    "data": {"kind": "synthetic", "identities": 4},
    "public": {"kind": "synthetic", "identities": 50},
    "recipe": {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16},
    "prior": {"kind": "eigenfaces", "components": 8},
    "attack": {"pool": {"size": 20}, "candidates": 4, "selected": 2},
}


def write(tmp_path: Path, **changes) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text("# What it shows.\n#\n# Hardware.\n" + yaml.safe_dump({**GOOD, **changes}, sort_keys=False))
    return path


def test_a_good_file_loads_with_its_opening_comment(tmp_path):
    loaded = load_sweep(write(tmp_path))
    assert loaded.sweep.recipe.epochs == 100
    assert loaded.intro == "What it shows.\n\nHardware."


@pytest.mark.parametrize("content", [b"- 1\n- 2\n", b"", b"name: x\nname: y\n", b"name: \t: {", b"name: \xff", None])
def test_what_is_no_sweep_file_is_one_line(tmp_path, content):
    path = tmp_path / "broken.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and "Errno" not in str(caught.value)


def test_a_shipped_sweep_is_found_by_its_name_from_anywhere(tmp_path, monkeypatch, repository):
    monkeypatch.chdir(tmp_path)
    names = list(shipped_sweeps())
    assert "quickstart" in names and names == sorted(path.stem for path in (repository / "sweeps").glob("*.yaml"))
    for name in ("quickstart", "quickstart.yaml"):
        loaded = load_sweep(Path(name), ["seeds=[7]"])
        assert loaded.sweep.seeds == (7,) and loaded.source == str(repository / "sweeps" / "quickstart.yaml")
    write(tmp_path, name="mine").rename(tmp_path / "quickstart")
    assert load_sweep(Path("quickstart")).sweep.name == "mine", "a file of that name comes first"


def test_a_dotted_key_of_the_grid_is_set_as_a_whole(tmp_path):
    path = write(tmp_path, grid={"recipe.lr": [0.1, 0.2], "attack.steps": [3]}, baseline={"recipe.lr": 0.1})
    changed = load_sweep(path, ["grid.recipe.lr=[0.3, 0.4]", "baseline.recipe.lr=0.3", "grid.recipe.epochs=[1]"])
    assert changed.sweep.grid == {"recipe.lr": [0.3, 0.4], "attack.steps": [3], "recipe.epochs": [1]}
    assert changed.sweep.baseline == {"recipe.lr": 0.3}


def test_the_grid_multiplies_and_every_cell_is_checked(tmp_path):
    grid = {"recipe.defense.alpha": [0.1, -0.05], "attack.loss": ["poincare", "cross_entropy"]}
    cells = expand(load_sweep(write(tmp_path, grid=grid, baseline={"recipe.defense.alpha": 0.1})))
    assert [c.axes for c in cells][:2] == [
        {"alpha": 0.1, "attack_loss": "poincare"},
        {"alpha": 0.1, "attack_loss": "cross_entropy"},
    ]
    assert [c.is_baseline for c in cells] == [True, True, False, False]
    assert [c.settings.recipe.defense.final_alpha for c in cells] == [0.1, 0.1, -0.05, -0.05]
    bad = load_sweep(write(tmp_path, grid={"recipe.defense.alpha": [0.1, 2]}))
    with pytest.raises(InputError, match=r"with recipe.defense.alpha=2: recipe.defense.alpha: expected"):
        expand(bad)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("quickstrat", "did you mean 'quickstart'?"),
        ("table1-celeba", "did you mean 'table1_celeba'?"),
        ("zzzzz", ")"),
    ],
)
def test_a_name_that_no_shipped_sweep_has_is_one_line_with_those_there_are(tmp_path, monkeypatch, name, end):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_sweep(Path(name))
    line = str(caught.value)
    assert all(shipped in line for shipped in shipped_sweeps()) and line.endswith(end) and "\n" not in line
    with pytest.raises(InputError) as caught:
        load_sweep(Path("sweeps") / name)
    assert str(caught.value) == f"sweeps/{name}: expected a sweep file, got no such file"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("mine", "mine.yaml"), ("main.yaml", "mine.yaml"), ("sub/other", "other.yaml"), ("sub/othr.yaml", "other.yaml")],
)
def test_a_file_beside_it_is_what_was_meant(tmp_path, monkeypatch, name, meant):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for file in ("mine.yaml", "sub/other.yaml"):
        (tmp_path / file).write_text("name: x\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_sweep(Path(name))
    assert str(caught.value).endswith(f"; did you mean {meant!r}?")


def fingerprints(tmp_path, *overrides):
    sweep = load_sweep(write_tiny(tmp_path), overrides)
    return [stage.fingerprint for trial in trials_of(sweep) for stage in trial.stages]


@pytest.mark.parametrize(("earlier", "name"), EARLIER_NAMES.items())
def test_a_key_by_its_earlier_name_plans_the_same_stages(tmp_path, earlier, name):
    now = fingerprints(tmp_path, f"attack.{name}=24")
    assert fingerprints(tmp_path, f"attack.{earlier}=24") == now != fingerprints(tmp_path)
    assert fingerprints(tmp_path, f"grid.attack.{earlier}=[24]") == now


@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize(("earlier", "name"), EARLIER_NAMES.items())
def test_an_attack_of_the_library_takes_both_names_and_refuses_them_together(kind, earlier, name):
    given = {key: value for key, value in example(kind).EXAMPLE.items() if key not in (name, "kind")}
    assert make_attack(kind, **given, **{earlier: 24}) == make_attack(kind, **given, **{name: 24})
    with pytest.raises(InputError, match=f"attack.{name}: expected it once, got it as {earlier} too"):
        make_attack(kind, **given, **{name: 24, earlier: 24})
