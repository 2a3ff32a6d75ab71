"""The text of a script as torch is given it: written anew from what was read, and nothing else of the file."""

import zipfile

import pytest
import torch
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.script_code import MOST_TEXT, checked_code
from smoothsweep.core.external.torchscript import WHAT, check_torchscript, open_torchscript
from smoothsweep.core.readers.archives import members_of
from tests.made_escapes import rewritten
from tests.made_programs import torchscript


def test_what_torch_is_given_is_written_from_what_was_read(carrier):
    """No remark, no escape and no line end of the file's own is left for a second parser to see otherwise."""
    _, code = carrier
    [file] = [name for name in code if b"class Carrier" in code[name]]
    marked = code[file] + b"# remark\ndef helper(x: Tensor) -> Tensor:\n  # type: (Tensor) -> Tensor\n  return x\n"
    [got] = [text for name, text in checked_code({**code, file: marked}, "x").items() if name == file]
    assert b"#" not in got and b"def helper" in got


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + ")" * 5000,
        "x = " + "-" * 100_000 + "1",
        "x = " + "[" * 300 + "]" * 300,
        "\0",
        "\x80",
        "def f(:",
        "x = 1" + "+1" * 50_000,
        "class A(B(C)): pass",
        "x = b'a'",
        "9" * 5000,
        "global torch",
        "x = ...",
    ],
)
def test_what_is_no_code_or_too_much_is_one_line(text):
    with pytest.raises(InputError) as caught:
        checked_code({"code/__torch__.py": text.encode("latin-1")}, "evil.pt")
    assert len(str(caught.value)) < 2000
    with pytest.raises(InputError, match="expected code of at most"):
        checked_code({"code/__torch__.py": b"#" * (MOST_TEXT + 1)}, "evil.pt")


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
    code = (
        f"class A(Module):\n  def {name}(self: __torch__.A, x: Tensor) -> Tensor:\n    return x\n"
        f"  def forward(self: __torch__.A, x: Tensor) -> Tensor:\n    return (self).{name}(x, )\n"
    )
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
