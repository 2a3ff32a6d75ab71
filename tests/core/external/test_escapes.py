"""TorchScript that reaches for what is not listed: every spelling, of every such operator, in every place."""

import itertools
import warnings
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.archives import members_of
from smoothsweep.core.external.operators import ATEN, PRIM
from smoothsweep.core.external.script_code import MOST_TEXT, checked_code
from smoothsweep.core.external.torchscript import WHAT, check_torchscript, open_torchscript
from tests.made_programs import torchscript

HARMLESS = "relu"


class Inner(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3))


class Carrier(nn.Module):
    """A program with every place that code can stand in: forward, __setstate__, a submodule, a free function."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.held = torch.zeros(3)

    @torch.jit.export
    def __getstate__(self) -> tuple[Inner, torch.Tensor, bool]:
        return self.inner, self.held, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[Inner, torch.Tensor, bool]) -> None:
        self.inner, self.held, self.training = state[0], state[1], state[2]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.inner(images) + self.held


def registered():
    """Every operator that this torch has, of every library, as it would be written."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    return sorted(tuple(name.split("::")[:2]) for name in names)


UNLISTED = [
    ("aten", name) for space, name in registered() if space == "aten" and name not in ATEN and name.isidentifier()
]
ELSEWHERE = [(space, name) for space, name in registered()
             if (space, name) not in {*UNLISTED, *(("aten", one) for one in ATEN), *(("prim", one) for one in PRIM)}
             and name.isidentifier() and space.isidentifier() and space != "aten"]  # fmt: skip


def octal(text):
    return "".join(f"\\{ord(one):03o}" for one in text)


def hexed(text):
    return "".join(f"\\x{ord(one):02x}" for one in text)


SPELLINGS = {
    "plain": "t = torch.{op}(x, 'P')",
    "ops": "t = ops.{space}.{op}(x, 'P')",
    "method": "t = (x).{op}('P')",
    "method_of_text": "t = ('P').{op}(True, 3)",
    "keyword": "t = torch.{op}(self=x, path='P')",
    "spaced": "t = torch . {op} (x, 'P')",
    "continued": "t = torch.\\\n    {op}(x, 'P')",
    "getattr": "t = getattr(torch, '{op}')(x, 'P')",
    "getattr_ops": "t = getattr(ops.{space}, '{op}')(x, 'P')",
    "getattr_twice": "t = getattr(getattr(ops, '{space}'), '{op}')(x, 'P')",
    "getattr_method": "t = getattr(x, '{op}')('P')",
    "getattr_default": "t = getattr(torch, '{op}', None)(x, 'P')",
    "octal": "t = getattr(torch, '{octal}')(x, 'P')",
    "hexadecimal": "t = getattr(torch, '{hexed}')(x, 'P')",
    "adjacent": "t = getattr(torch, '{first}' '{rest}')(x, 'P')",
    "adjacent_octal": "t = getattr(torch, '{first}' \"{rest_octal}\")(x, 'P')",
    "added": "t = getattr(torch, '{first}' + '{rest}')(x, 'P')",
    "formatted": "t = getattr(torch, f'{op}')(x, 'P')",
    "formatted_parts": "n = '{rest}'\n    t = getattr(torch, f'{first}{{n}}')(x, 'P')",
    "variable": "n = '{op}'\n    t = getattr(torch, n)(x, 'P')",
    "triple": "t = getattr(torch, '''{op}''')(x, 'P')",
    "raw": "t = getattr(torch, r'{op}')(x, 'P')",
    "alias_torch": "m = torch\n    t = m.{op}(x, 'P')",
    "alias_ops": "m = ops.{space}\n    t = m.{op}(x, 'P')",
    "alias_function": "f = torch.{op}\n    t = f(x, 'P')",
    "alias_method": "f = (x).{op}\n    t = f('P')",
    "alias_getattr": "g = getattr\n    t = g(torch, '{op}')(x, 'P')",
    "annotated_alias": "m : Tensor = torch\n    t = m.{op}(x, 'P')",
    "tuple_alias": "(m, n) = (torch, x)\n    t = m.{op}(n, 'P')",
    "in_list": "t = [torch][0].{op}(x, 'P')",
    "in_tuple": "t = (torch, x)[0].{op}(x, 'P')",
    "conditional": "t = (torch if True else torch).{op}(x, 'P')",
    "conditional_function": "t = (torch.{op} if True else torch.relu)(x, 'P')",
    "boolean": "t = (torch.{op} or torch.relu)(x, 'P')",
    "lambda": "t = (lambda y: torch.{op}(y, 'P'))(x)",
    "comprehension": "t = [torch.{op}(y, 'P') for y in [x]]",
    "walrus": "t = (f := torch.{op})(x, 'P')",
    "starred": "t = torch.{op}(*[x, 'P'])",
    "as_argument": "t = torch.relu(torch.{op}(x, 'P'))",
    "as_keyword": "t = torch.relu(input=torch.{op}(x, 'P'))",
    "in_index": "t = [x][torch.{op}(x, 'P')]",
    "in_condition": "if torch.{op}(x, 'P'):\n      pass\n    else:\n      pass",
    "in_else": "if True:\n      pass\n    else:\n      t = torch.{op}(x, 'P')",
    "in_loop": "for i in range(1):\n      t = torch.{op}(x, 'P')",
    "loop_over": "for i in torch.{op}(x, 'P'):\n      pass",
    "in_while": "while torch.{op}(x, 'P'):\n      pass",
    "augmented": "x += torch.{op}(x, 'P')",
    "assertion": "assert torch.{op}(x, 'P')",
    "deleted": "del torch.{op}(x, 'P')[0]",
    "raised": "raise torch.{op}(x, 'P')",
    "with": "with torch.{op}(x, 'P'):\n      pass",
    "tried": "try:\n      t = torch.{op}(x, 'P')\n    except:\n      pass",
    "annotation": "t : torch.{op}(x, 'P') = x",
    "cast": "t = unchecked_cast(torch.{op}(x, 'P'), x)",
    "nested_function": "def f(y: Tensor) -> Tensor:\n      return torch.{op}(y, 'P')\n    t = f(x)",
    "imported": "import torch\n    t = torch.{op}(x, 'P')",
    "imported_from": "from torch import {op}\n    t = {op}(x, 'P')",
    "bare": "t = {op}(x, 'P')",
    "forked": "t = fork(torch.{op}, x, 'P')",
    "evaluated": "t = eval('torch.{op}(x, 1)')",
    "dunder": "t = torch.__dict__['{op}'](x, 'P')",
    "deep": "t = torch.ops.{space}.{op}(x, 'P')",
    "wide_letters": "t = torch.{wide}(x, 'P')",
    "after_return_mark": "# a remark \r    t = torch.{op}(x, 'P')",
    "semicolon": "pass; t = torch.{op}(x, 'P')",
    "form_feed": "\x0ct = torch.{op}(x, 'P')",
    "from_torch_library": "t = __torch__.torch.classes.{op}(x, 'P')",
    "class_constant": "t = CONSTANTS.{op}(x, 'P')",
}  # fmt: skip
PLACES = ("forward", "__setstate__", "submodule", "function", "default", "class_body", "base", "decorator")


def written(spelling, space, op):
    wide = "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" and one != "_" else one for one in op)
    return SPELLINGS[spelling].format(op=op, space=space, octal=octal(op), hexed=hexed(op), first=op[:2], rest=op[2:],
                                      rest_octal=octal(op[2:]), wide=wide)  # fmt: skip


@pytest.fixture(scope="module")
def carrier(tmp_path_factory):
    """Its file, and its code by the names of members."""
    path = torchscript(Carrier(), tmp_path_factory.mktemp("carrier") / "carrier.pt")
    with members_of(path, WHAT) as members:
        return path, {name: members.read(name) for name in members if name.startswith("code/") and name.endswith(".py")}


def planted(code, place, text):
    """The code with a statement, or an expression, in a place."""
    [name] = [name for name in code if b"class Carrier" in code[name]]
    lines = code[name].decode().replace("images", "x").split("\n")
    expression = text.partition("t = ")[2].split("\n")[0] or text
    if place in ("forward", "__setstate__", "submodule"):
        start = next(i for i, line in enumerate(lines) if line.startswith("class Inner")) if place == "submodule" else 0
        wanted = "def __setstate__" if place == "__setstate__" else "def forward"
        at = next(i for i, line in enumerate(lines) if i >= start and wanted in line)
        end = next(i for i, line in enumerate(lines) if i >= at and line.endswith(":"))
        named = ["    x = self.held"] if place == "__setstate__" else []
        lines[end + 1 : end + 1] = [*named, *f"    {text}".split("\n")]
    elif place == "function":
        lines += ["def helper(x: Tensor) -> Tensor:", *f"    {text}".split("\n"), "    return x"]
    elif place == "default":
        lines += [f"def helper(x: Tensor={expression}) -> Tensor:", "  return x"]
    elif place == "class_body":
        lines += ["class Other(Module):", f"  a : int = {expression}"]
    elif place == "base":
        lines += [f"class Other({expression}):", "  pass"]
    else:
        lines += [f"@{expression}", "def helper(x: Tensor) -> Tensor:", "  return x"]
    return {**code, name: "\n".join(lines).encode()}


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


def test_no_operator_beside_the_listed_ones_passes_in_its_plainest_spelling(carrier):
    _, code = carrier
    [file] = [name for name in code if b"class Carrier" in code[name]]
    for space, name in UNLISTED + ELSEWHERE:
        for text in (f"  t = ops.{space}.{name}(x)", f"  t = torch.{name}(x)" * (name not in ATEN)):
            helper = f"\ndef helper(x: Tensor) -> Tensor:\n{text}\n  return x\n" if text else "\nbad("
            with pytest.raises(InputError):
                checked_code({file: code[file] + helper.encode()}, "evil.pt")


@pytest.mark.parametrize("place", ["forward", "submodule", "function"])
@pytest.mark.parametrize("spelling", ["plain", "ops", "method", "spaced", "as_argument", "in_else", "in_loop"])
def test_the_same_with_a_listed_operator_passes(carrier, spelling, place):
    """So that nothing above is refused for another reason than what it reaches for."""
    _, code = carrier
    text = written(spelling, "aten", HARMLESS).replace(", 'P'", "").replace("'P'", "")
    assert checked_code(planted(code, place, text), "good.pt").keys() == code.keys()


def rewritten(path, out, code):
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            name = entry.filename.partition("/")[2]
            target.writestr(entry.filename, code.get(name, source.read(entry)))
    return out


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


def test_what_torch_is_given_is_written_from_what_was_read(carrier):
    """No remark, no escape and no line end of the file's own is left for a second parser to see otherwise."""
    _, code = carrier
    [file] = [name for name in code if b"class Carrier" in code[name]]
    marked = code[file] + b"# remark\ndef helper(x: Tensor) -> Tensor:\n  # type: (Tensor) -> Tensor\n  return x\n"
    [got] = [text for name, text in checked_code({**code, file: marked}, "x").items() if name == file]
    assert b"#" not in got and b"def helper" in got


@pytest.mark.parametrize("text", [
    "(" * 5000 + ")" * 5000, "x = " + "-" * 100_000 + "1", "x = " + "[" * 300 + "]" * 300, "\0", "\x80", "def f(:",
    "x = 1" + "+1" * 50_000, "class A(B(C)): pass", "x = b'a'", "9" * 5000, "global torch", "x = ...",
])  # fmt: skip
def test_what_is_no_code_or_too_much_is_one_line(text):
    with pytest.raises(InputError) as caught:
        checked_code({"code/__torch__.py": text.encode("latin-1")}, "evil.pt")
    assert len(str(caught.value)) < 2000
    with pytest.raises(InputError, match="expected code of at most"):
        checked_code({"code/__torch__.py": b"#" * (MOST_TEXT + 1)}, "evil.pt")


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
    named = {argument.name for name in ATEN for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
             for argument in schema.arguments if "str" in str(argument.type)}  # fmt: skip
    assert not {"filename", "file", "path", "url", "address"} & named


class Speaking(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.dim() == 3:
            raise ValueError("\x1b[31m \\ \"quoted\" 'too'\n\u00fc")
        print("\x1b[2J\x07 \\n", images.dim())
        return images.mean((2, 3))


def test_texts_are_written_as_torch_reads_them(tmp_path, capfd):
    """Escapes, quotes and letters of other alphabets come through, to an error that shows them as escapes."""
    program = open_torchscript(torchscript(Speaking(), tmp_path / "speaking.pt"), {}, torch.device("cpu")).answer
    assert program(torch.ones(2, 3, 4, 4)).shape == (2, 3)
    with pytest.raises(InputError) as caught:
        program(torch.ones(3, 4, 4))
    assert str(caught.value).isprintable() and "\u00fc" in str(caught.value)
    said = capfd.readouterr()
    assert said.out == "" and "\x1b" not in said.err and "speaking.pt: the program prints text" in said.err


@pytest.mark.parametrize("own", [True, False])
def test_a_method_of_an_operators_name_is_one_only_where_the_operator_is_listed(own):
    name = "helper" if own else "save"
    code = f"class A(Module):\n  def {name}(self: __torch__.A, x: Tensor) -> Tensor:\n    return x\n" \
           f"  def forward(self: __torch__.A, x: Tensor) -> Tensor:\n    return (self).{name}(x, )\n"  # fmt: skip
    if own:
        assert checked_code({"code/__torch__.py": code.encode()}, "x")
    else:
        with pytest.raises(InputError, match="the method save, which is not listed"):
            checked_code({"code/__torch__.py": code.encode()}, "x")


def test_members_that_no_program_names_are_not_read(carrier, tmp_path):
    path, code = carrier
    out = rewritten(path, tmp_path / "junk.pt", code)
    with zipfile.ZipFile(out, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        for name in ("data/999", "constants/999", "extra/payload", "data/../../x", "code/evil.so", "data/0.so"):
            archive.writestr(f"{root}/{name}", b"junk")
    with members_of(out, WHAT) as members:
        read, real = [], members.read
        members.read = lambda name: read.append(name) or real(name)
        kept = check_torchscript(members, "x")
    with members_of(path, WHAT) as members:
        assert kept == check_torchscript(members, "x")
    assert not {name for name in [*read, *kept] if "999" in name or "extra" in name or ".so" in name or ".." in name}
