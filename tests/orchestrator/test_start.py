"""Ctrl-C at any moment of the start: exit 130, one line, no traceback."""

import subprocess
import sys

import pytest

EARLY = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{number})
        return None

from smoothsweep.orchestrator import __main__ as start
sys.meta_path.insert(0, Interrupting())
sys.argv = ["smoothsweep", "status", "quickstart", "--store", "nowhere"]
sys.exit(start.main())
"""
MODULES = (
    "smoothsweep.orchestrator.cli",
    "smoothsweep.orchestrator.cluster.interrupts",
    "smoothsweep.orchestrator.commands.audit.request",
    "smoothsweep.orchestrator.store.opening",
)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("module", MODULES)
def test_an_interrupt_while_this_is_imported(module, number, repository):
    code = EARLY.format(module=module, number=number)
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site; site.main()\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=repository,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "smoothsweep: interrupted; the same command goes on from here\n"


def test_the_installed_command_and_the_module_start_here(repository):
    assert 'smoothsweep = "smoothsweep.orchestrator.__main__:main"' in (repository / "pyproject.toml").read_text()
    code = "import sys, smoothsweep.orchestrator.__main__; print(*sorted(name for name in sys.modules if '.' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    ours = [name for name in done.stdout.split() if name.startswith("smoothsweep.")]
    assert ours == ["smoothsweep.orchestrator", "smoothsweep.orchestrator.__main__"]
