"""target.json and prior.json, wherever they come from: a checked card or one line, before any network is built."""

import copy
import json
import math
import resource

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from tiny import write_tiny

from smoothsweep.core.cards import MOST_BYTES, read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import Normalisation
from smoothsweep.core.priors.kinds import read_prior_card
from smoothsweep.core.priors.registry import load_prior, read_prior
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.imported import ImportedClassifier, TargetCard
from smoothsweep.sweeps.load import load_sweep

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


@quick
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:019eE.-NaInfity \\ud', max_size=60).map(str.encode))
def test_any_bytes_are_one_line(tmp_path, content):
    (tmp_path / "target.json").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_card(tmp_path / "target.json", "a card")
        ImportedClassifier(imported=str(tmp_path)).checked  # noqa: B018 - an object, but no card
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


def test_of_an_outside_program_only_what_it_says_is_part_of_the_identity():
    outside = {"answers": "logits", "access": "scores", "rows": None}
    card = TargetCard(**{**TARGET, "architecture": "onnx", "outside": outside})
    assert card.reading["outside"] == {"answers": "logits", "access": "scores"}


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


def test_a_sweep_with_a_wrong_prior_card_starts_nothing(tmp_path):
    (tmp_path / "prior").mkdir()
    save_file({"a": torch.zeros(1)}, tmp_path / "prior" / "weights.safetensors")
    wrong = copy.deepcopy(PRIORS["stylegan2"])
    wrong["config"]["resolution"] = 2**40
    (tmp_path / "prior" / "prior.json").write_text(json.dumps(wrong))
    prior = {"kind": "folder", "path": str(tmp_path / "prior")}
    path = write_tiny(tmp_path, prior=prior, public=None, judges={}, grid={}, baseline={})
    with pytest.raises(InputError, match=r"prior\.json: .*resolution: expected a whole number of at most 4096"):
        _ = [trial.stages for trial in trials_of(load_sweep(path))]


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("num_classes", [], [1, 100_001]),
        ("image_size", [16, 2048], [15, 2049]),
        ("version", [1, 2, 3, 4], [0, 5]),
        ("mean", [[-1e6, 0, 1e6]], [[1.1e6] * 3]),
        ("class_names", [None], [["a", "b"], ["a"] * 3]),
        ("stated_acc", [0, 1, None], [-0.1, 1.1]),
        ("defense", [None, {"kind": "mid", "alpha": 1}], [{}, {"kind": ""}, {"kind": "mid", "alpha": 1.1}]),
    ],
)
def test_every_number_of_a_card_may_reach_its_bounds_and_no_further(key, taken, refused):
    for value in taken:
        TargetCard.model_validate({**TARGET, key: value})
    for value in refused:
        with pytest.raises(ValueError, match=key):
            TargetCard.model_validate({**TARGET, key: value})
