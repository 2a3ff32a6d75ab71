"""Functions of the user's: found where they were named, run as they were brought in, refused in one line."""

import sys
from contextlib import chdir

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import answering
from smoothsweep.core.external.named import Function

CPU = torch.device("cpu")
CODE = """
import torch

def load():
    return lambda images: images.mean((2, 3))

def network():
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Dropout(0.5))

def broken():
    raise OSError("no\\nweights")

def number():
    return 3
"""


@pytest.fixture
def folder(tmp_path):
    """Where a module of its own name lies: modules are remembered by theirs."""
    (tmp_path / f"{tmp_path.name}.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop(tmp_path.name, None)


def describe(name, folder):
    """As a command that is run in that folder."""
    with chdir(folder):
        return Function().describe(name, folder)


def described(folder, factory):
    path = folder / "function.json"
    path.write_text(describe(f"python:{folder.name}:{factory}", folder))
    return path


def test_a_function_and_a_network_answer_as_they_are(folder):
    images = torch.rand(2, 3, 4, 4, requires_grad=True)
    for factory in ("load", "network"):
        answer = Function.open(described(folder, factory), {"rows": None}, CPU).answer(images)
        torch.testing.assert_close(answer, images.mean((2, 3)))  # a network in evaluation mode
        assert answer.requires_grad
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("factory", "line"),
    [("broken", "expected a function that makes a model, got: no"), ("number", "got int"), ("nothing", "no attribute")],
)
def test_a_factory_that_makes_no_model_is_one_line(folder, factory, line):
    with pytest.raises(InputError, match=line):
        Function.open(described(folder, factory), {}, CPU)


@pytest.mark.parametrize("name", ["python:", "python:a", "python:a:", "python:a b:c", "python:.:c"])
def test_names_of_another_form_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="expected python:MODULE:FACTORY"):
        describe(name, tmp_path)


def test_a_module_that_is_nowhere_or_has_changed_is_one_line(folder):
    with pytest.raises(InputError, match="got none named nowhere_at_all"):
        describe("python:nowhere_at_all:load", folder)
    path = described(folder, "load")
    (folder / f"{folder.name}.py").write_text(CODE + "\n# other\n")
    with pytest.raises(InputError, match="got one that has changed: import it again"):
        Function.open(path, {}, CPU)


def test_a_module_in_a_package_or_installed_is_found_and_the_folder_comes_first(tmp_path, monkeypatch):
    """Of two modules of one name the one in the folder is taken, and the search path is left as it was."""
    name, here, there = f"pack{tmp_path.name.replace('-', '_')}", tmp_path / "here", tmp_path / "there"
    for folder, factor in ((here, 2.0), (there, 3.0)):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
        code = f"def load():\n    return lambda images: {factor} * images.mean((2, 3))\n"
        (folder / name / "inner.py").write_text(code)
    monkeypatch.syspath_prepend(str(there))
    before, images = list(sys.path), torch.rand(2, 3, 4, 4)
    path = tmp_path / "function.json"
    path.write_text(describe(f"python:{name}.inner:load", here))
    opened = Function.open(path, {"rows": 7}, CPU)
    torch.testing.assert_close(opened.answer(images), 2.0 * images.mean((2, 3)))
    assert opened.rows == 7 and opened.side is None and opened.differentiable and not opened.own_input
    assert sys.path == before
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
        del sys.modules[loaded]


def test_a_fault_while_it_is_looked_for_or_asked_is_one_line(tmp_path):
    name = f"bad{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise ValueError('first\\nsecond')")
    before = list(sys.path)
    with pytest.raises(InputError, match=f"^python:{name}.inner:load: expected a module in .*, got: first second$"):
        describe(f"python:{name}.inner:load", tmp_path)
    assert sys.path == before

    def fails(images):
        raise ValueError("what  was\nwrong" + " x" * 200 + ". More.")

    wanted = r"^me: expected answers to images \[2, 3, 4, 4\], got: what was wrong x"
    with pytest.raises(InputError, match=wanted) as said:
        answering(fails, "me")(torch.zeros(2, 3, 4, 4))
    assert len(str(said.value).partition("got: ")[2]) == 300 and "\n" not in str(said.value)
    for other in (InputError("its own"), torch.OutOfMemoryError("full")):
        with pytest.raises(type(other), match=str(other)):
            answering(lambda images, other=other: (_ for _ in ()).throw(other), "me")(torch.zeros(1, 3, 4, 4))
