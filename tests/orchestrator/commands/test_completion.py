"""Completion as a shell sees it: a real bash reads the script and is asked what it offers."""

import shutil
import subprocess

import pytest

from smoothsweep.orchestrator.cli import SHELLS, main

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_shtab_smoothsweep smoothsweep "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def script(tmp_path_factory, capsys):
    path = tmp_path_factory.mktemp("completion") / "smoothsweep.bash"
    path.write_text(printed("bash", capsys))
    return path


def offered(script, folder, *words):
    asked = subprocess.run(
        ["bash", "-c", ASK, "ask", str(script), "smoothsweep", *words],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert asked.returncode == 0 and not asked.stderr, asked.stderr
    return set(asked.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("re",), {"report"}),
        (("run", "quick"), {"quickstart"}),
        (("run", "own"), {"own.yaml", "ownfolder"}),
        (("data", "ch"), {"check"}),
        (("audit", "own.pth", "--acc"), {"--access"}),
        (("audit", "own.pth", "--access", ""), {"gradients", "scores", "labels"}),
        (("audit", "own"), {"own.pth", "own.yaml", "ownfolder"}),
    ],
)
def test_bash_is_offered_what_the_door_takes(script, tmp_path, words, expected):
    for name in ("own.yaml", "own.pth"):
        (tmp_path / name).touch()
    (tmp_path / "ownfolder").mkdir()
    assert offered(script, tmp_path, *words) == expected


def test_the_other_shell_has_a_script_too(capsys):
    assert "_smoothsweep_sweeps" in printed("zsh", capsys) and SHELLS == ("bash", "zsh")
