"""The language of programs: classes, values of enums, and texts."""

import ast

import pytest

from smoothsweep.core.errors import InputError
from tests.made_scripts import body, checked


def test_classes_of_every_kind_pass():
    text = """
import __torch__.own
class A(Module):
  __parameters__ = []
  __annotations__["a"] = List[int]
  b : Optional[Tensor]
  c = {"k": [1, (2, -3.5)], "n": inf}
  def f(self: __torch__.main.A) -> List[int]:
    return self.a
class N(NamedTuple):
  x : Tensor
  y : int = 3
class E(Enum):
  RED = 1
  pass
def g(a: __torch__.main.A, e: __torch__.main.E, *, k: int=3, t: Tuple[int, str]=(1, "x")) -> Tensor:
  h = __torch__.main.E.RED
  a.b = __torch__.own.free(a.b)
  return torch.add(a.b, len(a.f()))
"""
    assert ast.dump(ast.parse(checked(text))) == ast.dump(ast.parse(text))


def test_a_value_of_an_enum_is_one_of_a_class_of_the_archive():
    text = "class E(Enum):\n  RED = 1\n" + body("return __torch__.main.E.{}")
    checked(text.format("RED"))
    with pytest.raises(InputError, match="got"):
        checked(text.format("BLUE"))
    with pytest.raises(InputError, match="got"):
        checked(text.format("__parameters__"))


@pytest.mark.parametrize(
    "text", ["plain", "", 'a"b', "a'b", "back\\slash", "\x00\x1f\x7f\xff", "tab\tline\n", "~ !", "\\n"]
)
def test_texts_keep_their_characters_and_are_written_in_octal(text):
    escaped = "".join(f"\\{ord(one):03o}" for one in text)
    written = checked(body(f'print("{escaped}")', f'print("other {escaped}")'))
    calls = [node.args[0].value for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Call)]
    assert calls == [text, f"other {text}"]
    assert all(" " <= one <= "~" or one == "\n" for one in written) and "'" not in written.replace(text, "")
