"""TorchScript that reaches for what is not listed: every spelling, of every such operator, in every place."""

import itertools
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.operators import ATEN, PRIM
from smoothsweep.core.external.script_code import checked_code
from smoothsweep.core.external.torchscript import open_torchscript
from tests.made_escapes import PLACES, SPELLINGS, planted, rewritten, written

HARMLESS = "relu"


def registered():
    """Every operator that this torch has, of every library, as it would be written."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    return sorted(tuple(name.split("::")[:2]) for name in names)


UNLISTED = [
    ("aten", name) for space, name in registered() if space == "aten" and name not in ATEN and name.isidentifier()
]
KNOWN = {*UNLISTED, *(("aten", one) for one in ATEN), *(("prim", one) for one in PRIM)}
ELSEWHERE = [
    (space, name)
    for space, name in registered()
    if (space, name) not in KNOWN and name.isidentifier() and space.isidentifier() and space != "aten"
]


def test_there_is_much_to_refuse():
    assert len(UNLISTED) > 300 and len(ELSEWHERE) > 200
    assert {"save", "from_file", "manual_seed", "set_grad_enabled", "_print", "set_data"} <= {
        name for _, name in UNLISTED
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_in_every_place_is_refused(carrier, spelling, place):
    _, code = carrier
    for op in ("save", "from_file"):
        with pytest.raises(InputError) as caught:
            checked_code(planted(code, place, written(spelling, "aten", op)), "evil.pt")
        assert str(caught.value).startswith("evil.pt: ") and "\n" not in str(caught.value)


@given(spelling=st.sampled_from([*SPELLINGS]), place=st.sampled_from(PLACES), op=st.sampled_from(UNLISTED + ELSEWHERE))
def test_every_operator_that_is_not_listed_is_refused(carrier, spelling, place, op):
    space, name = op
    if name in ATEN | PRIM:  # of another library under a name that torch's own has
        spelling = "ops"
    with pytest.raises(InputError):
        checked_code(planted(carrier[1], place, written(spelling, space, name)), "evil.pt")


def test_no_operator_beside_the_listed_ones_passes_in_its_plainest_spelling():
    def read(call):
        helper = f"def helper(x: Tensor) -> Tensor:\n  t = {call}(x)\n  return x\n"
        return checked_code({"code/__torch__/model.py": helper.encode()}, "evil.pt")

    assert read("torch.relu") and read("ops.aten.relu"), "what is listed passes: the rest is refused for its name alone"
    for space, name in UNLISTED + ELSEWHERE:
        for call in (f"ops.{space}.{name}", *([f"torch.{name}"] if name not in ATEN else [])):
            with pytest.raises(InputError, match=r"expected a program that computes|expected code"):
                read(call)


@pytest.mark.parametrize("place", ["forward", "submodule", "function"])
@pytest.mark.parametrize("spelling", ["plain", "ops", "method", "spaced", "as_argument", "in_else", "in_loop"])
def test_the_same_with_a_listed_operator_passes(carrier, spelling, place):
    """So that nothing above is refused for another reason than what it reaches for."""
    _, code = carrier
    text = written(spelling, "aten", HARMLESS).replace(", 'P'", "").replace("'P'", "")
    assert checked_code(planted(code, place, text), "good.pt").keys() == code.keys()


def test_torch_runs_what_is_refused_here(carrier, tmp_path, monkeypatch):
    """The escapes of the issue are real ones: torch itself writes the file, while loading."""
    path, code = carrier
    monkeypatch.chdir(tmp_path)
    for number, spelling in enumerate(("plain", "octal", "adjacent", "getattr_ops", "alias_torch")):
        text = written(spelling, "aten", "save").replace("t = ", "").replace("'P'", f"'made{number}'")
        evil = rewritten(path, tmp_path / f"{spelling}.pt", planted(code, "__setstate__", text))
        with pytest.raises(InputError):
            open_torchscript(evil, {}, torch.device("cpu"))
        assert not (tmp_path / f"made{number}").exists()
        with warnings.catch_warnings(action="ignore"):
            torch.jit.load(evil)
        assert (tmp_path / f"made{number}").exists(), spelling


def test_every_listed_operator_takes_and_gives_values_alone():
    """By the schemas that torch has: no storage, stream, future or object of a library's own goes in or comes out."""
    plain = {
        "Tensor",
        "int",
        "float",
        "bool",
        "str",
        "complex",
        "number",
        "Device",
        "t",
        "t1",
        "t2",
        "tVal",
        "Any",
        "key",
        "AnyEnumType",
        "Generator",
        "NoneType",
        "Scalar",
        "Layout",
        "ScalarType",
        "MemoryFormat",
        "Stream",
    }
    words = set()
    for name in ATEN:
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
            kinds = [str(one.type) for one in itertools.chain(schema.arguments, schema.returns)]
            words |= {
                word for kind in kinds for word in kind.replace("[", " ").replace("]", " ").replace(",", " ").split()
            }
    assert words - plain - {"List", "Optional", "Dict", "Tuple", "Tuple()", "..."} <= {"()", "Number", "None"}
    named = {
        argument.name
        for name in ATEN
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        for argument in schema.arguments
        if "str" in str(argument.type)
    }
    assert not {"filename", "file", "path", "url", "address"} & named
