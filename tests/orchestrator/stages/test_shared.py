"""Configurations that stages share: written out once, and the same fingerprint as if each were written by itself."""

import copy
import hashlib
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.orchestrator.stages.shared import Shared, canonical_json
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.registry import TASKS

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=5)


def written_out(stage):
    """The definition: the SHA-256 of the JSON of everything, keys sorted."""
    inputs = {name: written_out(source) for name, source in stage.inputs.items()}
    whole = {"stage": stage.name, "version": TASKS[stage.name].version, "config": dict(stage.config), "inputs": inputs}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@given(st.lists(CONFIGS, min_size=1, max_size=4), st.data())
def test_fingerprints_are_those_of_everything_written_out(configs, data):
    shared = [Shared(config, is_kept=data.draw(st.booleans())) for config in configs]
    stages = []
    for number in range(5):
        config = data.draw(st.sampled_from([*shared, *configs]))
        inputs = {name: stage for name, stage in zip(("b", "a", 'ä"\\'), stages[::-1], strict=False)}
        stages.append(Stage(name=data.draw(st.sampled_from(sorted(TASKS))), config=config, inputs=inputs))
        assert stages[number].fingerprint == written_out(stages[number])
        assert stages[number].fingerprint == pickle.loads(pickle.dumps(stages[number])).fingerprint


def test_what_is_shared_is_a_dict_and_travels_as_one():
    config = Shared({"b": [1, 2.0], "a": {"c": None}})
    assert config.text == '{"a":{"c":null},"b":[1,2.0]}' and canonical_json(config) is config.text
    for other in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert other == config and type(other) is dict
    assert json.loads(json.dumps({"in": config})) == {"in": {"b": [1, 2.0], "a": {"c": None}}}
    with pytest.raises(ValueError, match="float"):
        canonical_json(Shared({"x": float("nan")}))


def test_only_what_says_so_counts_as_alike():
    kin = object()
    one, other, alone = Shared({"seed": 1}, kin=kin), Shared({"seed": 2}, kin=kin), Shared({"seed": 1})
    assert one.alike == other.alike != alone.alike == alone.alike != Shared({"seed": 1}).alike
