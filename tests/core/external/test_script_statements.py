"""The statements of programs: definitions, classes and syntax that torch does not write are refused."""

import pytest

from smoothsweep.core.errors import InputError
from tests.made_scripts import body, checked


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
