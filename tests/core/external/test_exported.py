"""Graphs of torch.export by hand, without a process: which texts pass, what is left out, which tensors are kept."""

import json

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.exported import CONSTANTS, GRAPH, SAMPLES, WEIGHTS, check_exported

PLAIN = {"archive_format": b"pt2", "archive_version": b"0", ".data/version": b"3", "byteorder": b"little"}


class Held(dict):
    """An archive's members."""

    def read(self, name):
        return self[name]


def entry(file, **more):
    return {"path_name": file, "is_param": True, "use_pickle": False, "tensor_meta": {"dtype": 7}, **more}


def graph(**more):
    node = {
        "target": "torch.ops.aten.add.Tensor",
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
        "metadata": {"stack_trace": 'File "/home/x.py", line 3'},
    }
    calls = [{"fqn": "", "signature": {"in_spec": spec("builtins.tuple")}}, {"fqn": "a b; import os"}, 3]
    return {
        "graph_module": {"graph": {"nodes": [node]}, "module_call_graph": calls},
        "guards_code": ["import os"],
        "schema_version": {"major": 8},
        **more,
    }


def spec(*kinds, version=1, context="null"):
    """Containers in one another, a leaf innermost."""
    held = {"type": None, "context": None, "children_spec": []}
    for kind in reversed(kinds):
        held = {"type": kind, "context": context, "children_spec": [held]}
    return json.dumps([version, held])


def members(described=None, weights=None, constants=None, **more):
    weights = {"a": entry("weight_0"), "b": entry("weight_12")} if weights is None else weights
    constants = {"c": entry("tensor_0")} if constants is None else constants
    held = {
        **PLAIN,
        GRAPH: json.dumps(described or graph()).encode(),
        WEIGHTS: json.dumps({"config": weights}).encode(),
        CONSTANTS: json.dumps({"config": constants}).encode(),
        "data/weights/weight_0": b"1234",
        "data/weights/weight_12": b"5678",
        "data/weights/weight_7": b"unused",
        "data/constants/tensor_0": b"90",
        "data/weights/tensor_0": b"elsewhere",
        "extra/file": b"",
        SAMPLES: b"pickle",
    }
    return Held({**held, **more})


def check(held):
    return check_exported(held, "p")


def test_what_is_kept_and_what_is_left_out():
    kept = check(members())
    assert {name for name, content in kept.items() if content is None} == {
        "data/weights/weight_0",
        "data/weights/weight_12",
        "data/constants/tensor_0",
    }
    whole = {name: content for name, content in kept.items() if content is not None}
    assert set(whole) == {*PLAIN, GRAPH, WEIGHTS, CONSTANTS, SAMPLES} and whole[SAMPLES] != b"pickle"
    assert all(whole[name] == content for name, content in PLAIN.items())
    assert whole[WEIGHTS] == members()[WEIGHTS] and whole[CONSTANTS] == members()[CONSTANTS]
    found = json.loads(whole[GRAPH])
    assert found["guards_code"] == [] and [call["fqn"] for call in found["graph_module"]["module_call_graph"]] == [""]
    (node,) = found["graph_module"]["graph"]["nodes"]
    assert node == {**graph()["graph_module"]["graph"]["nodes"][0], "metadata": {}}
    assert found["schema_version"] == {"major": 8}


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, CONSTANTS, *PLAIN])
def test_each_member_that_is_needed_is(name):
    held = members()
    del held[name]
    with pytest.raises(InputError, match=r"^p: expected a program of torch.export as torch 2.9 or later") as refused:
        check(held)
    assert str(refused.value).endswith(f"without {name}")


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, CONSTANTS])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "got list"),
        (b"3", "got int"),
        (b"{", "got: "),
        (b"\xff", "expected text"),
        (b"[" * 10**5, "got: "),
    ],
)
def test_each_description_is_an_object_in_json(name, content, said):
    with pytest.raises(InputError, match=f"^p: {name}: expected ") as refused:
        check(members(**{name: content}))
    assert said in str(refused.value)


BAD_ENTRIES = [
    (entry("weight_0", use_pickle=True), "expected raw numbers"),
    (entry("weight_0", use_pickle=None), "expected raw"),
    (entry("custom_obj_0"), "expected raw numbers"),
    (entry("weight_x"), "expected raw"),
    (entry("../weight_0"), "raw"),
    (entry("weight_0\n"), "expected raw numbers"),
    (entry("weight_"), "raw"),
    (entry(3), "raw"),
    ({}, "raw"),
    ([], "raw"),
    (entry("weight_99"), "expected its numbers in weight_99, got no such member"),
]


@pytest.mark.parametrize("place", ["weights", "constants"])
@pytest.mark.parametrize(("bad", "said"), BAD_ENTRIES)
def test_one_tensor_that_is_none_is_found_among_others(place, bad, said):
    fine = {"weights": entry("weight_12"), "constants": entry("tensor_0")}[place]
    for entries in ({"fine": fine, "bad": bad}, {"bad": bad, "fine": fine}):
        with pytest.raises(InputError, match=f"^p: data/{place}/model_{place}_config.json: ") as refused:
            check(members(**{place: entries}))
        assert said in str(refused.value)
    with pytest.raises(InputError, match="expected a name, got import os"):
        check(members(**{place: {"fine": fine, "bad": {**fine, "note": "import os"}}}))
    with pytest.raises(InputError, match="expected tensors by name, got none"):
        check(members(**{f"data/{place}/model_{place}_config.json": b'{"config": []}'}))


def with_text(key, text):
    """A graph that holds this text under this key, second in a list within a dictionary."""
    return graph(more=[{"name": "fine"}, {"deep": [{key: text}]}])


TEXTS = {
    "target": (
        [
            "torch.ops.aten.add.Tensor",
            "torch.ops.aten.relu_.default",
            "torch.sym_max",
            "_operator.getitem",
            "_operator.truediv",
            "torch.sym_not",
        ],
        [
            "torch.ops.aten.save.default",
            "torch.ops.aten.add",
            "torch.ops.prims.add.default",
            "torch.ops.aten.add.Tensor ",
            "os.system",
            "torch.sym_sum",
            "_operator.call",
            "_operator.setitem",
            "torch.ops.aten.add.Tensor.x",
            "",
            "xtorch.ops.aten.add.Tensor",
            "torchxopsxatenxaddxTensor",
            "_operatorxadd",
        ],
    ),
    "expr_str": (
        [
            "Symbol('s77')",
            "Symbol('s0', positive=True, integer=True)",
            "Add(Symbol('s1'), Integer(3))",
            "2 * 3 - (4 + 5)",
            "Max(1, Mod(7, 2))",
            "FloorDiv(Symbol('u0'), 2)",
            "123456789012",
            "6 % 5 / 2",
        ],
        [
            "",
            "x",
            "Symbol('S1')",
            "Symbol(s1)",
            "Pow(2, 3)",
            "2 ** 3",
            "Add",
            "1234567890123",
            "Symbol('s1', x=1)",
            "__import__('os')",
            "Symbol('s')",
            "Symbol('s1', Positive=1)",
            "2;3",
            "a.b",
        ],
    ),
    "in_spec": (
        [
            spec(),
            spec("builtins.tuple"),
            spec("builtins.dict", "builtins.list"),
            spec("builtins.tuple", context="[]"),
            spec("builtins.list", context=None),
        ],
        [
            spec("os.system"),
            spec("builtins.tuple", "collections.OrderedDict"),
            spec("builtins.tuple", version=2),
            spec("builtins.tuple", context="x"),
            spec(version=0),
            "[]",
            "[1]",
            "3",
            "[1, []]",
            "[1, {}]",
            "{",
            "[1, 2, 3]",
            json.dumps([1, {"type": None, "context": None}]),
            json.dumps([1, {"children_spec": []}]),
            "[" * 10**5,
        ],
    ),
    "name": (
        ["", "x", "a.b_c-d:e+f", "9"],
        ["a b", "x;", "a(b)", "a\n", "'a'", "a=b", "a/b", "a,b"],
    ),
}
TEXTS["as_operator"], TEXTS["out_spec"], TEXTS["anything"] = TEXTS["target"], TEXTS["in_spec"], TEXTS["name"]


@pytest.mark.parametrize("key", TEXTS)
def test_each_kind_of_text_has_its_own_words(key):
    said = {
        "target": "that are listed as arithmetic",
        "as_operator": "that are listed as arithmetic",
        "expr_str": "a size as a plain formula",
    }.get(key, "expected")
    fine, bad = TEXTS[key]
    for text in fine:
        check(members(with_text(key, text)))
    for text in bad:
        with pytest.raises(InputError, match=f"^p: {GRAPH}: expected ") as refused:
            check(members(with_text(key, text)))
        assert said in str(refused.value), text


def test_the_names_of_things_are_texts_too():
    with pytest.raises(InputError, match="expected a name, got import os"):
        check(members(graph(more=[{"fine": 3}, {"import os": 3}])))
    with pytest.raises(InputError, match="expected a name, got import os"):
        check(members(graph(more=[["fine", ["import os"]]])))
    check(members(graph(more=[3, None, True, 2.5, {"metadata": 3}, {"metadata": {"any": "import os"}}])))
