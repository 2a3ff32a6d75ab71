"""TorchScript texts, and how they are checked beside a file of their own."""

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
