"""The expressions of programs: what passes, and what is refused in whichever place it stands."""

import ast

import pytest

from smoothsweep.core.errors import InputError
from tests.made_scripts import body, checked

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
