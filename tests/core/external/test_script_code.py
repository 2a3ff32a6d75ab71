"""The language of programs, statement by statement: what passes, and what is refused wherever it stands."""

import ast

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.script_code import checked_code

OWN = """
class Part(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : Final[bool] = True
  __annotations__["0"] = __torch__.own.Part
  def forward(self: __torch__.own.Part, x: Tensor) -> Tensor:
    return torch.add(x, self.weight)
  def helper(self: __torch__.own.Part) -> Tensor:
    return self.weight

def free(x: Tensor) -> Tensor:
  return torch.relu(x)
"""


def checked(text):
    """The text of a second file beside one that defines a class and a function, as it is written anew."""
    files = {"code/__torch__/own.py": OWN.encode(), "code/__torch__/main.py": text.encode()}
    return checked_code(files, "x")["code/__torch__/main.py"].decode()


def body(*lines, arguments="self: __torch__.own.Part, x: Tensor, n: int"):
    return f"def f({arguments}) -> Tensor:\n" + "".join(f"  {line}\n" for line in lines)


PASSES = [
    "return x",
    "return torch.add(x, n)",
    "return ops.aten.add(x, n)",
    "return (x).add(n)",
    "return -x",
    "a = torch.add(x, n)",
    "a, b = torch.max(x, n)",
    "[a, b] = torch.max(x, n)",
    "a = b = n",
    "n += 1",
    "n: int = 3",
    "n: int",
    "self.weight = x",
    "self.weight += x",
    "x[0] = n",
    "x[torch.add(x, n)] = n",
    "pass",
    "x",
    "if torch.eq(n, 3):\n    a = n\n  else:\n    a = x",
    "while torch.lt(n, 3):\n    n = torch.add(n, 1)\n    break",
    "for i in range(n):\n    a = i\n    continue",
    "for a, b in [(1, 2)]:\n    pass",
    "return x if n else n",
    "return self.weight",
    "return self.helper()",
    'return getattr(self, "0")',
    'return (getattr(self, "0")).forward(x)',
    "return __torch__.own.free(x)",
    "g = __torch__.own.free\n  return g(x)",
    "return CONSTANTS.c0",
    "return torch.add(CONSTANTS.c12, n)",
    "return ops.prim.NumToTensor(n)",
    "return annotate(List[int], [])",
    "return unchecked_cast(Tensor, x)",
    "return uninitialized(Optional[Tensor])",
    "return isinstance(x, Tensor)",
    "return int(x)",
    "return max(n, 3)",
    "return range(0, n, 2)",
    'print("text")',
    "return x.dtype",
    "return x.T",
    "return x[0]",
    "return x[0, n]",
    "return [x, n]",
    'return {"a": n}',
    "return (n, )",
    "return torch.add(x, n, alpha=1)",
    "return n < 3 and not n",
    "return inf",
    "return annotate(None, None)",
    "return annotate(Dict[str, Tuple[int, Optional[__torch__.own.Part]]], {})",
    "return None",
    'return "a" + "b"',
]


@pytest.mark.parametrize("line", PASSES)
def test_what_computes_passes_and_is_written_as_it_was_read(line):
    text = body(line)
    assert ast.dump(ast.parse(checked(text))) == ast.dump(ast.parse(text))


BAD = {  # an expression that nobody lists, and what is said of it
    "torch.save(x, n)": "the operation torch.save",
    "torch.hub": "the name torch",
    "evil": "the name evil",
    "evil(x)": "a call of evil",
    "max(n, Tensor)": "the name Tensor",
    "isinstance(Tensor, x)": "the name Tensor",
    "isinstance(x, n)": "the type n",
    "annotate(n, x)": "the type n",
    "annotate(Tensor, List)": "the name List",
    "x.evil": "the attribute evil",
    "x.evil(n)": "the method evil",
    "torch": "the name torch",
    "ops.aten": "the name ops",
    "ops.evil.add(x)": "the operation ops.evil.add",
    "torch.ops.aten.add(x)": "the operation torch.ops.aten.add",
    "ops.aten.save(x)": "the operation ops.aten.save",
    "ops.prim.add(x)": "the operation ops.prim.add",
    "ops.prim.evil(x)": "the operation ops.prim.evil",
    "torch.add.add(x)": "the operation torch.add.add",
    "ops.aten.add.add(x)": "the operation ops.aten.add.add",
    "ops.add(x)": "the operation ops.add",
    "aten.add(x)": "the name aten",
    "CONSTANTS.d0": "CONSTANTS.d0",
    "CONSTANTS.c": "CONSTANTS.c",
    "CONSTANTS.c0.c1": "CONSTANTS.c0.c1",
    "CONSTANTS": "the name CONSTANTS",
    "CONSTANTS.c0()": "the operation CONSTANTS.c0",
    "__torch__.own.free": "the function or class",
    "__torch__.own.Part": "the function or class",
    "__torch__.own.other(x)": "the operation __torch__.own.other",
    "__torch__.other.free(x)": "the operation __torch__.other.free",
    'getattr(x, "evil")': "the attribute evil",
    "getattr(x, n)": "getattr of anything but a name",
    "getattr(x, 3)": "getattr of anything but a name",
    "getattr(x)": "getattr of anything but a name",
    'getattr(x, "T", n)': "getattr of anything but a name",
    'getattr(x, name="T")': "getattr of anything but a name",
    'getattr(evil, "T")': "the name evil",
    "(x if n else x)(n)": "a call of what an expression gives",
    "x[0](n)": "a call of what an expression gives",
    "torch.add(**x)": "arguments from a dictionary",
    "torch.add(x, alpha=evil)": "the name evil",
    "annotate(evil, x)": "the type evil",
    "annotate(x, Tensor)": "the type x",
    "annotate(List[evil], x)": "the type evil",
    "annotate(int, evil)": "the name evil",
    "isinstance(x, evil)": "the type evil",
    "isinstance(evil, int)": "the name evil",
    "unchecked_cast(__torch__.own.Other, x)": "the type __torch__.own.Other",
    "annotate(3, x)": "Constant as a type",
    "annotate(f(x), x)": "Call as a type",
    "annotate(Tuple[int, evil], x)": "the type evil",
    "Tensor": "the name Tensor",
    "annotate(evil[int], x)": "the type evil",
    "print": "the name print",
    "int": "the name int",
    "g(x)": "a call of g",
    "torch.add(torch.add(x, evil), n)": "the name evil",
    "torch.add(n, x.evil)": "the attribute evil",
    "self.free(x)": "the method free",
    "self.weight.evil": "the attribute evil",
    "evil.weight": "the name evil",
}
PLACES = {
    "value": "return {}",
    "first": "a = [{}, n]",
    "last": "a = [n, {}]",
    "key": "a = {{{}: n}}",
    "held": "a = {{n: {}}}",
    "test": "if {}:\n    pass",
    "then": "if n:\n    a = {}",
    "otherwise": "if n:\n    pass\n  else:\n    a = {}",
    "while_test": "while {}:\n    pass",
    "while_body": "while n:\n    a = {}",
    "over": "for i in {}:\n    pass",
    "loop": "for i in range(n):\n    a = {}",
    "added": "n += {}",
    "typed": "a: int = {}",
    "index": "a = x[{}]",
    "pair": "a = x[n, {}]",
    "put": "x[{}] = n",
    "put_of": "x[0][{}] = n",
    "argument": "a = torch.add(x, {})",
    "named": "a = torch.add(x, alpha={})",
    "of_method": "a = ({}).add(n)",
    "field_of": "a = ({}).T",
    "side": "a = n + {}",
    "compared": "a = n < {}",
    "both": "a = n and {}",
    "negated": "a = not {}",
    "chosen": "a = n if n else {}",
    "condition": "a = n if {} else n",
    "statement": "{}",
    "field_set": "({}).weight = n",
    "of_getattr": 'a = getattr({}, "T")',
    "second_line": "a = n\n  return {}",
    "tuple": "a, b = (n, {})",
    "of_part": "({})[0] = n",
}


@pytest.mark.parametrize("value", BAD)
def test_every_expression_that_is_not_listed_is_refused(value):
    with pytest.raises(InputError, match=r"main\.py, line \d: expected a program that computes, got ") as refused:
        checked(body(f"return {value}"))
    assert BAD[value] in str(refused.value)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ["torch.save(x, n)", "evil", "x.evil", "x.evil(n)", "getattr(x, n)"])
def test_in_whichever_place_it_stands(place, value):
    checked(body(PLACES[place].format("x")))
    with pytest.raises(InputError, match=r"main\.py, line \d: expected a program that computes, got ") as refused:
        checked(body(PLACES[place].format(value)))
    assert BAD[value] in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (body("torch.x = n"), "the name torch"),
        (body("x.evil = n"), "the attribute evil"),
        (body("f(x) = n"), "TorchScript"),
        (body("torch = n"), "another meaning for the name torch"),
        (body("print = n"), "another meaning for the name print"),
        (body("getattr = x"), "another meaning for the name getattr"),
        (body("for ops in x:\n    pass"), "for the name ops"),
        (body("a, torch = x"), "another meaning for the name torch"),
        (body("torch: int = n"), "for the name torch"),
        (body("torch += n"), "for the name torch"),
        (body("return x", arguments="torch: Tensor"), "for the name torch"),
        (body("return x", arguments="x: Tensor, *, CONSTANTS: int"), "for the name CONSTANTS"),
        (body("g = __torch__.own.free", "g = x", "return g(x)"), "another meaning for the name g"),
        (body("g = __torch__.own.free", "for g in x:\n    pass"), "another meaning for the name g"),
        (body("a: evil = n"), "the type evil"),
        (body("return x", arguments="x: evil"), "the type evil"),
        (body("return x", arguments="x: Tensor, *, y: evil"), "the type evil"),
        (body("x = *n"), "syntax Starred"),
        (body("return x", arguments="*x"), "decorators or unusual arguments"),
        (body("return x", arguments="x, **y"), "decorators or unusual arguments"),
        (body("return x", arguments="x, /"), "decorators or unusual arguments"),
        (body("return x", arguments="x: Tensor=evil()"), "Call as a constant"),
        (body("return x", arguments="x: Tensor, *, y: int=evil"), "Name as a constant"),
        ("@evil\n" + body("return x"), "decorators or unusual arguments"),
        ("def f(x) -> evil:\n  return x\n", "the type evil"),
        (body("def g(y):\n    return y", "return x"), "a function in a function"),
        (body("import os"), "Import in a function"),
        (body("class A:\n    pass"), "ClassDef in a function"),
        ("x = 3\n", "Assign outside of functions"),
        ("import os\n", "an import"),
        ("import __torch__.own, os\n", "an import"),
        ("import __torch__.own as os\n", "an import"),
        ("import __torch__x\n", "an import"),
        ("class A(object):\n  pass\n", "unusual bases"),
        ("class A(Module, evil):\n  pass\n", "unusual bases"),
        ("class A(Module, metaclass=evil):\n  pass\n", "unusual bases"),
        ("@evil\nclass A(Module):\n  pass\n", "unusual bases"),
        ("class A(Module):\n  import __torch__\n", "Import in a class"),
        ("class A(Module):\n  a : evil\n", "the type evil"),
        ("class A(Module):\n  a : int = evil\n", "Name as a constant"),
        ("class A(Module):\n  a = evil\n", "Name as a constant"),
        ("class A(Module):\n  a = b = 3\n", "Assign in a class"),
        ("class A(Module):\n  a, b = 3\n", "an unusual assignment in a class"),
        ("class A(Module):\n  a += 3\n", "AugAssign"),
        ('class A(Module):\n  a["b"] = int\n', "a part of something in a class"),
        ("class A(Module):\n  __annotations__[a] = int\n", "a part of something in a class"),
        ('class A(Module):\n  a.__annotations__["b"] = int\n', "a part of something in a class"),
        ('class A(Module):\n  a["b"]["c"] = int\n', "a part of something in a class"),
        ('class A(Module):\n  __annotations__["b"] = evil\n', "the type evil"),
        ("class A(Module):\n  a.b : int\n", "AnnAssign in a class"),
        ("class A(Module):\n  a = [1, evil]\n", "as a constant"),
        ("class A(Module):\n  def f(self):\n    return evil\n", "the name evil"),
        ("class A(Module):\n  evil\n", "Expr in a class"),
        ('class A(Module):\n  a = {"b": [1, (2, -3)], "c": evil()}\n', "Call as a constant"),
    ],
)
def test_every_other_statement_is_refused_wherever_it_stands(text, said):
    fine = body("return x") + "\nclass B(Module):\n  a = 3\n"
    for whole in (text, f"{fine}\n{text}", f"{text}\n{fine}"):
        with pytest.raises(InputError, match=r"^x: code/__torch__/main\.py(, line \d+)?: expected ") as refused:
            checked(whole)
        assert said in str(refused.value)


@pytest.mark.parametrize(
    "kind",
    [
        "lambda: x",
        "[a for a in x]",
        "{a for a in x}",
        "(yield x)",
        "f'{x}'",
        "(a := x)",
        "{x}",
        "[*x]",
        "...",
        "b'x'",
        "'\\u0100'",
        "x if n else (lambda: 1)",
        "x[0:n]",
    ],
)
def test_syntax_that_torch_does_not_write_is_refused(kind):
    with pytest.raises(InputError, match=r"main\.py, line 3: expected a program that computes, got the Python syntax"):
        checked(body("a = x", f"return {kind}"))


@pytest.mark.parametrize(
    "statement",
    [
        "with x:\n    pass",
        "try:\n    pass\n  finally:\n    pass",
        "raise x",
        "assert x",
        "del x",
        "global x",
        "from os import path",
    ],
)
def test_statements_that_torch_does_not_write_are_refused(statement):
    with pytest.raises(InputError, match=r"line 3: expected a program that computes, got the Python syntax"):
        checked(body("a = x", statement))
