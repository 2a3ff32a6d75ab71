"""No test asks a machine to be fast: speed is measured by the benchmarks, and what is slow today is not wrong."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HANGS_S = 30  # a bound from here on tells only what hangs from what is slow
CLOCKS = {"monotonic", "perf_counter", "process_time", "time"}
FILES = sorted(p for p in (ROOT / "tests").rglob("test_*.py") if "drills" not in p.parts)


def is_time(node: ast.expr) -> bool:
    """Whether an expression holds a difference of two clock readings, or a name that says seconds."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in CLOCKS:
            return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        if isinstance(part, ast.Name) and part.id in ("seconds", "elapsed", "took"):
            return True
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant) and part.slice.value == "seconds":
            return not isinstance(part.ctx, ast.Store)
    return False


def short_bounds(source: str) -> list[int]:
    """The lines of assertions that a measured time stays under a few seconds."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        for compared in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
            if not isinstance(compared, ast.Compare):
                continue
            sides = [compared.left, *compared.comparators]
            for left, how, right in zip(sides, compared.ops, sides[1:], strict=False):
                bounded = isinstance(right, ast.Constant) and isinstance(right.value, int | float)
                if isinstance(how, ast.Lt | ast.LtE) and bounded and is_time(left) and right.value < HANGS_S:
                    lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("assert time.monotonic() - started < 2", [1]),
        ("assert said and seconds <= 0.5 and more", [1]),
        ("assert cost['seconds'] < 3", [1]),
        ("assert time.monotonic() - started < 60", []),
        ("assert time.monotonic() - started >= 3 / 20", []),
        ("assert count < 2", []),
    ],
)
def test_the_rule_sees_what_it_is_for(source, found):
    assert short_bounds(source) == found


def test_no_test_bounds_a_time_by_a_few_seconds():
    found = {str(path.relative_to(ROOT)): lines for path in FILES if (lines := short_bounds(Path(path).read_text()))}
    assert not found, f"a claim of speed is a benchmark's: {found}"
