"""Sweep files that nobody would write by accident: one line each, never a traceback, never a machine brought down."""

import copy
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import MAX_LINE
from smoothsweep.orchestrator.planning.plan import make_plan, refuse_impossible
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep, read_yaml
from tests.tiny import searchable, tiny_sweep

SEARCH = {
    "strategy": "grid",
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "space": {"recipe.defense.alpha": {"choices": [-0.1, 0.1]}},
}
QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def one_line_or_trials(path, overrides=()):
    """What any sweep file may come to: trials that could start, or InputError with one line."""
    try:
        store = Store(root=path.parent / "store")
        trials = trials_of(load_sweep(path, list(overrides)))
        refuse_impossible(make_plan(trials[:3], store))
    except InputError as error:
        assert str(error).isprintable() and len(str(error)) <= 12 * MAX_LINE
        return None
    return trials


def lines(count, line):
    return "".join(line.format(n=n) for n in range(count))


def searching(**space):
    return yaml.safe_dump(searchable("s", {**SEARCH, "space": space}))


RANGE = {"low": 0.0, "high": 1.0, "step": 1e-12}
TINY = yaml.safe_dump({key: value for key, value in tiny_sweep().items() if key not in ("grid", "baseline")})


def bombs():
    """Name -> text; made where it is needed, for it takes a second and a hundred megabytes."""
    return {
        "laughs": "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 15)),
        "merges": "m0: &m0 {k: 1}\n"
        + "".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 40)}], k{n}: 1}}\n" for n in range(1, 300)),
        "brackets": "a: " + "[" * 300_000,
        "braces": "{a: " * 50_000,
        "dashes": "- " * 100_000,
        "indents": lines(2_000, "{n:02d}:\n"),
        "keys": lines(400_000, "k{n}: v\n"),
        "anchors": "".join(f"&a{n} [" for n in range(50_000)),
        "one key": "a" * 3_000_000 + ": 1",
        "digits": "seeds: [" + "9" * 3_000_000 + "]",
        "large": "x: '" + "y" * 50_000_000 + "'",
        "a grid": TINY
        + "grid: {recipe.epochs: ["
        + lines(999, "{n}, ")
        + "1000], attack.steps: ["
        + lines(999, "{n},")
        + "1000], attack.candidates: [1, 2]}",
        "many keys": TINY + "grid: {" + lines(20_000, "k{n}: [1], ") + "k: [1]}",
        "seeds": TINY.replace("seeds:\n- 1\n", "seeds: [" + lines(100_001, "{n}, ") + "-1]\n"),
        "cells": TINY + "cells:\n" + lines(60_000, "- {{attack.steps: {n}}}\n"),
        "steps": searching(**{"recipe.lr": {**RANGE, "low": 1e-3}}),
        "whole numbers": searching(**{"recipe.epochs": {"low": 1, "high": 1e18, "integer": True}}),
        "a space": searching(**{f"recipe.k{n}": {"choices": list(range(100))} for n in range(30)}),
        "choices": searching(**{"recipe.epochs": {"choices": list(range(1, 50_000))}}),
        "dotted": TINY + "grid: {" + ".".join("a" * 3_000) + ": [1]}",
    }


MEASURED = """
import json, resource, sys, time
from pathlib import Path
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.expand import expand
from smoothsweep.core.errors import InputError
for path in sys.argv[1:]:
    before, begun, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), None
    try:
        expand(load_sweep(Path(path)))
    except InputError as error:
        said = str(error)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([said, time.process_time() - begun, (after - before) / 1024]))
"""


# What unfolds any of them takes minutes or the memory; how fast a machine refuses is no matter of a test.
NOT_UNFOLDED_S = 30


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (240, 240))


def test_bombs_are_refused_before_they_unfold(tmp_path, repository):
    """In a process of limited memory; a highest mark of memory that one has set, the later ones may use too."""
    texts = bombs()
    paths = [tmp_path / f"{name}.yaml" for name in texts]
    for path, content in zip(paths, texts.values(), strict=True):
        path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, paths)],
        capture_output=True,
        text=True,
        cwd=repository,
        preexec_fn=limited,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-500:]
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        said, seconds, mebibytes = json.loads(line)
        assert said is not None and said.startswith(str(path)) and len(said) <= MAX_LINE, path
        assert seconds < NOT_UNFOLDED_S and mebibytes < 500, (path, seconds, mebibytes)


def test_endless_and_strange_files_are_refused(tmp_path):
    for path in ("/dev/zero", str(tmp_path), str(tmp_path / "a\0b"), str(tmp_path / ("x" * 5000))):
        with pytest.raises(InputError):
            load_sweep(Path(path))
    for content in (b"\xff\xfe", b"\x00", "a: \udcff".encode("utf-8", "surrogateescape"), b"\xef\xbb\xbf"):
        (tmp_path / "s.yaml").write_bytes(content)
        with pytest.raises(InputError):
            load_sweep(tmp_path / "s.yaml")


yaml_text = st.text(alphabet="ab:-[]{}&*<>?!|#'\"%@`,. \n\t01e~\\\x1b\u202eé\U0001f600", max_size=60)


@QUICK
@given(
    st.lists(
        st.text(max_size=30)
        | st.builds(
            "{}={}".format,
            st.sampled_from(
                [
                    "recipe.lr",
                    "recipe",
                    "seeds",
                    "grid",
                    "cells",
                    "attack.pool",
                    "classes",
                    "judges",
                    "data.path",
                    "baseline",
                    "search",
                    "prior",
                    "public",
                    "recipe.defense",
                    "recipe.defense.schedule",
                    "resources",
                    "paper",
                    "budget",
                ]
            ),
            yaml_text,
        ),
        max_size=3,
    )
)
def test_any_override_is_taken_or_one_line(tmp_path_factory, overrides):
    path = tmp_path_factory.getbasetemp() / "overridden.yaml"
    path.write_text(TINY)
    one_line_or_trials(path, overrides)


SHIPPED = sorted((Path(__file__).resolve().parents[2] / "sweeps").glob("*.yaml"))
STRANGE = [
    None,
    True,
    0,
    -1,
    2**63 - 1,
    -(2**63) + 1,
    0.0,
    1e300,
    5e-324,
    "",
    "x" * 300,
    "\x1b[2J\n\u202e",
    [],
    {},
    [[]],
    [{}],
    {"": 1},
    {"a": {"b": {}}},
    {"kind": "mid"},
    {"kind": None},
    {"low": 1, "high": 0},
    "~nobody/x",
    "a\0b",
    {"choices": []},
    [None],
    {"imported": "x"},
    {"trial": {}},
    float("inf"),
    float("nan"),
]


def places(node, path=()):
    """Every place in nested settings."""
    yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def changed(tree, path, value, rename):
    tree = copy.deepcopy(tree)
    if not path:
        return value
    node = tree
    for key in path[:-1]:
        node = node[key]
    if rename is not None and isinstance(node, dict):
        node[rename] = node.pop(path[-1])
    else:
        node[path[-1]] = value
    return tree


@settings(QUICK, max_examples=60)
@given(st.data())
def test_a_shipped_sweep_with_anything_in_any_place_is_one_line_or_trials(tmp_path_factory, data):
    given_tree = read_yaml(data.draw(st.sampled_from(SHIPPED)).read_text(), "shipped")
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(given_tree))))
        rename = data.draw(st.none() | st.none() | st.sampled_from(["", "kind", "recipe.lr", "\x1b", "seed"]))
        given_tree = changed(given_tree, path, data.draw(st.sampled_from(STRANGE)), rename)
        if not isinstance(given_tree, dict | list):
            break
    file = tmp_path_factory.getbasetemp() / "changed.yaml"
    file.write_text(yaml.safe_dump(given_tree, allow_unicode=True, sort_keys=False), errors="replace")
    one_line_or_trials(file)
