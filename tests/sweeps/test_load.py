"""A sweep file: what YAML means here (the 1.2 core schema, everything said once, nothing that grows without bound),"""

from __future__ import annotations

import copy
import json
import math
import resource
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import example as tried
from hypothesis import strategies as st
from safetensors.torch import save_file

from smoothsweep.core.cards import MOST_BYTES, read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import Normalisation
from smoothsweep.core.priors.kinds import read_prior_card
from smoothsweep.core.priors.registry import load_prior, read_prior
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import LARGEST, MAX_DEPTH, as_yaml, load_sweep, read_yaml, shipped_sweeps

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


TARGET = json.loads("""
{"version": 2, "architecture": "resnet18", "num_classes": 3, "image_size": 64, "transform_input": false,
 "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "class_names": ["a", "b", "c"], "data": null,
 "defense": {"kind": "label_smoothing", "alpha": -0.05}, "stated_acc": 0.8, "test_acc": null,
 "source": {"file": "a.pth", "architecture": "resnet18", "num_classes": 3, "protocol": "paper",
  "transform_input": null, "wrapping": "bare", "prefix": "", "tensors": 122, "epoch": null,
  "sha256": "0000000000000000000000000000000000000000000000000000000000000000"}}
""")
STYLEGAN2 = json.loads("""
{"version": 1, "kind": "stylegan2", "config": {"resolution": 8, "z_dim": 6, "w_dim": 5, "mapping_layers": 2,
 "channel_base": 32, "channel_max": 4, "conv_clamp": 256.0, "mbstd_group": 4}}
""")
PRIORS = {
    "stylegan2": STYLEGAN2,
    "eigenfaces": {"version": 1, "kind": "eigenfaces", "config": {"resolution": 8, "components": 4}},
}

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 70000),
    st.floats(),
    st.text(max_size=8),
    st.just("\ud800"),
    st.just(10**400),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
quick = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def places(value, path=()):
    """Every key of a card and of what is nested in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(card, data):
    """The card with a few values replaced, keys left out or added."""
    card = copy.deepcopy(card)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted(places(card), key=str)))
        owner = card
        for key in path[:-1]:
            owner = owner[key]
        what = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if what == "replace":
            owner[path[-1]] = data.draw(odd)
        elif what == "remove":
            del owner[path[-1]]
        elif isinstance(owner, dict):
            owner[data.draw(st.text(max_size=4))] = data.draw(odd)
        if not list(places(card)):
            break
    return card


def one_line(error):
    assert "\n" not in str(error) and len(str(error)) < 2500
    str(error).encode()


@quick
@given(st.data())
def test_any_change_of_a_targets_card_is_read_or_refused_in_one_line(tmp_path, data):
    (tmp_path / "target.json").write_text(json.dumps(changed(TARGET, data)))
    try:
        card = ImportedClassifier(imported=str(tmp_path)).checked
    except InputError as error:
        one_line(error)
        assert str(error).startswith(str(tmp_path / "target.json"))
        return
    assert 2 <= card.num_classes <= 100_000 and 16 <= card.image_size <= 2048
    assert all(map(math.isfinite, (*card.mean, *card.std))) and min(card.std) > 0
    Normalisation(mean=card.mean, std=card.std)  # what the worker makes of it
    json.dumps(card.reading, allow_nan=False)


@quick
@given(st.sampled_from(sorted(PRIORS)), st.data())
def test_any_change_of_a_priors_card_is_read_or_refused_in_one_line(tmp_path, kind, data):
    path = tmp_path / "prior.json"
    path.write_text(json.dumps(changed(PRIORS[kind], data)))
    try:
        card = read_prior_card(path)
    except InputError as error:
        one_line(error)
        return
    json.dumps(card.plain, allow_nan=False)
    with pytest.raises(InputError, match=r"absent\.safetensors") as refused:  # the network of it is never allocated
        read_prior(weights=tmp_path / "absent.safetensors", description=path)
    one_line(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' twice|the key a twice"),
        ('{"a": NaN}', "the number NaN"),
        ('{"a": 1e999}', "the number 1e999"),
        ("[]", "got no object"),
        (" " * (MOST_BYTES + 2), "expected at most 8 MiB"),
        ('{"a": "\\ud800"}', "half a character"),
        ('{"a": ' + "9" * 10_000 + "}", "the number 9999"),
    ],
)
def test_hostile_json_is_refused_at_once(tmp_path, content, words):
    (tmp_path / "target.json").write_text(content)
    with pytest.raises(InputError, match=words) as refused:
        read_card(tmp_path / "target.json", "a card")
    one_line(refused.value)


def test_a_card_of_the_first_version_means_what_it_meant(tmp_path):
    """As the publication's checkpoints have it: [-1, 1], classes in the data's order, an accuracy where measured."""
    old = {
        key: TARGET[key]
        for key in ("architecture", "num_classes", "image_size", "transform_input", "data", "defense", "source")
    }
    (tmp_path / "target.json").write_text(json.dumps(old))
    card = ImportedClassifier(imported=str(tmp_path))
    assert card.checked.reading == {key: old[key] for key in list(old)[:4]}
    assert card.stated_defense == {"kind": "label_smoothing", "alpha": -0.05} and card.checked.version == 1


def test_what_a_card_says_of_reading_an_image_is_part_of_the_identity():
    plain = TargetCard(**{**TARGET, "mean": (0.5,) * 3, "std": (0.5,) * 3, "class_names": None, "stated_acc": None})
    readings = [plain.reading]
    others = {"mean": (0.1,) * 3, "std": (0.1,) * 3, "class_names": ("a", "c", "b"), "stated_acc": 0.5}
    for change in (others | {"test_acc": 0.6, "image_size": 65, "num_classes": 4}).items():
        readings.append(plain.model_copy(update=dict([change])).reading)
    assert len({json.dumps(reading, sort_keys=True) for reading in readings}) == len(readings)


def test_no_network_is_built_that_the_weights_do_not_fill(tmp_path):
    """Of this description it would have 10^10 weights."""
    wide = {"resolution": 4096, "z_dim": 2**14, "w_dim": 2**14, "mapping_layers": 64}
    wide |= {"channel_base": 2**20, "channel_max": 2**14, "conv_clamp": None, "mbstd_group": None}
    (tmp_path / "prior.json").write_text(json.dumps({"kind": "stylegan2", "config": wide}))
    save_file({"mapping.w_avg": torch.zeros(2)}, tmp_path / "weights.safetensors")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="tensors are missing"):
        load_prior(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
