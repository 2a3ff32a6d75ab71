"""A sweep file: what YAML means here (the 1.2 core schema, everything said once, nothing that grows without bound),
where it is found, what is set in it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import example as tried
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import LARGEST, MAX_BYTES, MAX_DEPTH, as_yaml, load_sweep, read_yaml, shipped_sweeps

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
    [("quickstrat", "did you mean 'quickstart'?"), ("table1-celeba", "did you mean 'table1_celeba'?"), ("zzzzz", ")")],
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", 0.0),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("no", "no"),
        ("y", "y"),
        ("True", True),
        ("true", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("'1'", "1"),
        ('"no"', "no"),
        ("nan", "nan"),
        ("-.inf", -math.inf),
        ("[1, [2]]", [1, [2]]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        (str(LARGEST), LARGEST),
        ("'<<'", "<<"),
    ],
)
def test_scalars_are_what_people_mean(text, value):
    read = read_yaml(text, "here")
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", "here: line 3: expected every key once, got 'a' twice"),
        ("{x: {a: 1, a: 2}}", "got 'a' twice"),
        ("{<<: {a: 1}, <<: {b: 1}}", "got '<<' twice"),
        ("1: x", "expected a key of text, got 1"),
        ("? [a]\n: x", "expected a key of plain text"),
        ("!!python/object:os.system x", "expected a value without a tag"),
        ("!!binary aa", "expected a value without a tag"),
        ("&a [*a]", "expected an anchor before its alias, got 'a'"),
        ("--- 1\n--- 2", "expected one document"),
        (str(LARGEST + 1), "expected a whole number of at most"),
        ("-" + "9" * 5000, "expected a whole number of at most"),
        ("1e999", "expected a finite number"),
        ("a: [1", "expected YAML, got"),
        ("a: 1\nb: @x\n", "here: line 2: expected YAML, got"),
        ("\ud800", "expected UTF-8 text"),
        ("ab\ud800", "at character 3"),
        ("{<<: 1}", "expected << to name a mapping"),
    ],
)
def test_what_is_refused_names_the_place(text, words):
    with pytest.raises(InputError) as caught:
        read_yaml(text, "here")
    assert str(caught.value).startswith("here:") and words in str(caught.value)


def laughs(levels: int) -> str:
    """A few lines that stand for 9 ** levels values."""
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        laughs(12),
        laughs(12).replace("[lol]", "{k: lol}"),
        "[" * 100_000,
        "{a: " * 10_000,
        "- " * 10_000,
        "&a [" * 500,
        "[" + "1," * 300_000 + "]",
        "a: '" + "x" * 100_000 + "'",
        "x" * (MAX_BYTES + 1),
        "m0: &m0 {k: 1}\n"
        + "\n".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}], k{n}: 1}}" for n in range(1, 400)),
    ],
)
def test_bombs_are_refused(text):
    with pytest.raises(InputError, match=r"here: .*expected"):
        read_yaml(text, "here")


def test_an_alias_is_a_copy():
    read = read_yaml("a: &x {b: [1]}\nc: *x", "here")
    read["c"]["b"].append(2)
    assert read["a"] == {"b": [1]}


scalars = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(max_size=20)
scalars |= st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=MAX_DEPTH // 2,
)


@settings(max_examples=60, deadline=None)
@given(trees)
@tried({"\x85": "\u2028\u2029\ufeff"})
def test_what_is_written_is_read_back(tree):
    assert read_yaml(as_yaml(tree), "here") == tree
