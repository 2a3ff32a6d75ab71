"""Under which protocol a number is made is said at every call: nobody falls back to one in silence."""

import ast
from pathlib import Path

import pytest
import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.metrics.accuracy import expected_calibration_error
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.target import CALIBRATION_BINS, measure_utility

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for room in ("core", "tasks") for path in (REPOSITORY / room).rglob("*.py"))


def defaults(tree: ast.AST) -> list[int]:
    """Lines where a parameter, a field or a look-up named `protocol` has a value to fall back to."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            plain = [*node.args.posonlyargs, *node.args.args]
            given = dict(zip(reversed(plain), reversed(node.args.defaults), strict=False))
            given |= dict(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
            lines += [argument.lineno for argument, value in given.items() if argument.arg == "protocol" and value]
        if isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign) and field.value]
            lines += [field.lineno for field in fields if getattr(field.target, "id", None) == "protocol"]
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in ("get", "setdefault", "pop"):
            key = node.args[0] if node.args else None
            lines += [node.lineno] if isinstance(key, ast.Constant) and key.value == "protocol" else []
    return lines


def test_no_function_has_a_default_protocol():
    found = {str(path.relative_to(REPOSITORY)): defaults(ast.parse(path.read_text())) for path in SOURCES}
    assert len(found) > 100 and {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_a_targets_calibration_follows_its_protocol(tmp_path, protocol):
    """A fifth is wrong, with a confidence of exactly 1, as negative smoothing makes it; the others have 0.95."""
    labels, wrong = torch.arange(40) % 2, torch.arange(40) % 5 == 0
    images = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
    images[(labels == 1) ^ wrong, 0] = 255
    images[~wrong, 1] = 255

    class Target(torch.nn.Module):
        def forward(self, x):
            sure = torch.where(x[:, 1].mean((1, 2)) > 0, 1.472, 30.0)
            sign = torch.where(x[:, 0].mean((1, 2)) > 0, 1.0, -1.0)
            return torch.stack([-sign * sure, sign * sure], dim=1)

    test = ImageSet(images=images, labels=labels, names=("a", "b"))
    found = measure_utility(
        Target(), test, {"image_size": 8, "protocol": protocol}, tmp_path, TaskContext(work=tmp_path)
    )
    logits = load_tensors(tmp_path / "test_logits.safetensors")["logits"]
    both = {
        name: expected_calibration_error(logits, labels, protocol=name, bins=CALIBRATION_BINS)
        for name in ("paper", "clean")
    }
    assert found["ece"] == both[protocol] and abs(both["paper"] - both["clean"]) > 0.2
    assert found["test_acc"] == 0.8
