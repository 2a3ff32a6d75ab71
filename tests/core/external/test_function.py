"""Functions of the user's: found where they were named, run as they were brought in, refused in one line."""

import sys

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.function import describe_function, open_function

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


def described(folder, factory):
    path = folder / "function.json"
    path.write_text(describe_function(f"python:{folder.name}:{factory}", folder))
    return path


def test_a_function_and_a_network_answer_as_they_are(folder):
    images = torch.rand(2, 3, 4, 4, requires_grad=True)
    for factory in ("load", "network"):
        answer = open_function(described(folder, factory), {"rows": None}, CPU).answer(images)
        torch.testing.assert_close(answer, images.mean((2, 3)))  # a network in evaluation mode
        assert answer.requires_grad
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("factory", "line"),
    [("broken", "expected a function that makes a model, got: no"), ("number", "got int"), ("nothing", "no attribute")],
)
def test_a_factory_that_makes_no_model_is_one_line(folder, factory, line):
    with pytest.raises(InputError, match=line):
        open_function(described(folder, factory), {}, CPU)


@pytest.mark.parametrize("name", ["python:", "python:a", "python:a:", "python:a b:c", "python:.:c"])
def test_names_of_another_form_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="expected python:MODULE:FACTORY"):
        describe_function(name, tmp_path)


def test_a_module_that_is_nowhere_or_has_changed_is_one_line(folder):
    with pytest.raises(InputError, match="got none named nowhere_at_all"):
        describe_function("python:nowhere_at_all:load", folder)
    path = described(folder, "load")
    (folder / f"{folder.name}.py").write_text(CODE + "\n# other\n")
    with pytest.raises(InputError, match="got one that has changed: import it again"):
        open_function(path, {}, CPU)
