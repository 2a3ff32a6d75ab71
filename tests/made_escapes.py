"""TorchScript that reaches for an operator: every spelling of it, and every place that code can stand in."""

import zipfile

import torch
from torch import nn


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
}
PLACES = ("forward", "__setstate__", "submodule", "function", "default", "class_body", "base", "decorator")


def written(spelling, space, op):
    wide = "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" and one != "_" else one for one in op)
    return SPELLINGS[spelling].format(
        op=op,
        space=space,
        octal=octal(op),
        hexed=hexed(op),
        first=op[:2],
        rest=op[2:],
        rest_octal=octal(op[2:]),
        wide=wide,
    )


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


def rewritten(path, out, code):
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            name = entry.filename.partition("/")[2]
            target.writestr(entry.filename, code.get(name, source.read(entry)))
    return out
