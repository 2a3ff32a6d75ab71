"""The process that programs run in holds by itself: here it is given Python that means harm, past every reader."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation import process
from smoothsweep.core.isolation.process import IsolatedProgram
from smoothsweep.core.isolation.sandbox import Limits, can_isolate
from tests.core.isolation.hostile import ATTEMPTS, READS, P

CPU, GIB = torch.device("cpu"), 2**30
HERE = Path(__file__).resolve()
pytestmark = pytest.mark.skipif(not can_isolate(), reason="this kernel has no seccomp filters")
ABOUT_THE_START = pytest.mark.usefixtures("new_programs")
"""The others are given a fork of a process with torch loaded, which is as confined, as the first test says."""


@pytest.fixture
def opened(tmp_path):
    """Open a hostile program: `opened("fork")`."""
    made, file = [], tmp_path / "evil.pt"
    file.write_bytes(b"x")

    def open_one(do, *, seconds=60.0, memory=4 * GIB, **settings):
        with file.open("rb") as program:
            one = IsolatedProgram(
                program,
                loader="tests.core.isolation.hostile:load",
                settings={"do": do, **settings},
                device=CPU,
                what="a program",
                where="evil.pt",
                limits=Limits(seconds=seconds, memory=memory),
            )
        made.append(one)
        return one

    yield open_one
    for one in made:
        one.process._end()


def images(count=2, side=8, seed=0):
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("start", ["new_programs", None])
def test_nothing_but_computing_works_inside(opened, start, request):
    """Every attempt fails, and the process goes on computing."""
    if start:
        request.getfixturevalue(start)
    before, program = HERE.parent.joinpath("hostile.py").read_bytes(), opened("attempts")
    for _ in range(2):
        numbers = dict(zip(ATTEMPTS, program(images()).tolist(), strict=True))
        assert len(numbers) > 45 and not [name for name, number in numbers.items() if number == 0]
    assert HERE.parent.joinpath("hostile.py").read_bytes() == before and not Path(P).exists()
    assert not list(Path(tempfile.gettempdir()).glob(".smoothsweep-*-must-not-appear"))


@ABOUT_THE_START
def test_what_computing_reads_is_read_inside(opened):
    numbers = dict(zip(READS, opened("reads")(images()).tolist(), strict=True))
    assert len(numbers) == 12 and {path: numbers[path] for path in READS if Path(path).exists() and numbers[path]} == {}


def test_the_same_attempts_work_outside(tmp_path):
    """Those that harm nobody, so that a mistake in an attempt is no proof."""
    harmless = ["passwords", "home", "memfd", "internet", "internet_6", "unix", "pair", "device"]
    harmless += ["in_a_thread", "mkdir"]
    code = (
        "import sys; from tests.core.isolation import hostile\n"
        "for name in sys.argv[2:]:\n"
        "    hostile.P = sys.argv[1] + name\n"
        "    print(hostile._error_of(hostile.ATTEMPTS[name]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "made-"), *harmless],
        capture_output=True,
        text=True,
        cwd=HERE.parents[3],
    ).stdout.split()
    assert {one.name for one in tmp_path.iterdir()} == {"made-in_a_thread", "made-mkdir"}
    assert [int(one) for one in done] == [0] * len(harmless)


@ABOUT_THE_START
def test_no_secret_of_the_environment_gets_inside(opened, monkeypatch):
    monkeypatch.setenv("SMOOTHSWEEP_ASKED_TOKEN", "secret")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    names = opened("nothing").facts["environment"]
    assert "OMP_NUM_THREADS" in names and not {"SMOOTHSWEEP_ASKED_TOKEN", "MLFLOW_TRACKING_PASSWORD"} & set(names)


@pytest.mark.parametrize("do", ["memory", "shared"])
def test_more_memory_than_allowed_is_one_line(opened, do):
    program = opened(do, memory=GIB // 2, bytes=GIB)
    with pytest.raises(InputError, match=r".*evil\.pt: expected answers to images \[2, 3, 8, 8\], got: .*emory"):
        program(images())
    fits = opened(do, memory=2 * GIB, bytes=GIB // 2)
    assert fits(images()).numel() == 1


@pytest.mark.parametrize("do", ["forever", "sleep"])
def test_more_time_than_allowed_is_one_line_and_ends_the_process(opened, do):
    program = opened(do, seconds=20.0)
    program.process._limits = Limits(seconds=1.0, memory=GIB)
    started, pid = time.monotonic(), program.process._process.pid
    with pytest.raises(
        InputError, match=r".*evil\.pt: expected a program to answer within 1 s, got one that takes longer"
    ):
        program(images())
    assert time.monotonic() - started < 60 and not psutil.pid_exists(pid)
    with pytest.raises(InputError, match="takes longer"):
        program(images())


@pytest.mark.parametrize(
    ("do", "settings", "line"),
    [
        ("die", {}, "got one whose process ended"),
        ("die", {"signal": True}, "whose process was ended by SIGSEGV"),
        ("abort", {}, "whose process was ended by SIGABRT"),
        ("last_words", {}, "got one whose process ended, after 'y{200}'$"),
    ],
)
def test_a_process_that_ends_is_one_line(opened, do, settings, line):
    program = opened(do, **settings)
    for _ in range(2):
        with pytest.raises(InputError, match=f".*evil.pt: .*{line}") as caught:
            program(images())
        assert "\n" not in str(caught.value)


def test_an_answer_larger_than_asked_for_ends_the_process(opened):
    one, asked = (
        opened("nothing"),
        {"do": "answer", "id": 1, "gradient": False, "grad_mode": False, "shown": ["nchw", "float32"]},
    )
    with pytest.raises(InputError, match=r"expected an answer, got a tensor of size \[1\]"):
        one._ask(asked, images(), most_bytes=3, shape=[2])
    with pytest.raises(InputError, match="expected an answer, got a tensor"):
        one(images())


def test_an_answer_that_was_interrupted_is_not_taken_for_the_next_one(opened, monkeypatch):
    program = opened("nothing")

    def interrupted(deadline):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(program.process, "_wait_until_it_speaks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(images())
    with pytest.raises(InputError, match="an interruption before the last one had come"):
        program(images())


def test_what_is_no_message_ends_the_process(opened):
    program = opened("junk")
    with pytest.raises(InputError, match=r".*evil\.pt: expected an answer, got a header of 4294967295 bytes"):
        program(images())
    assert not psutil.pid_exists(program.process._process.pid)


@pytest.mark.parametrize("times", [1, 100_000])
def test_what_a_program_prints_reaches_no_screen(opened, capfd, times):
    program = opened("print", times=times)
    for _ in range(3):
        assert program(images()).numel() == 1
    said = capfd.readouterr()
    assert said.out == "" and "\x1b" not in said.err
    assert said.err.endswith("evil.pt: the program prints text, which is not shown\n")
    assert len(program.process._output) <= process.KEPT_OUTPUT


@ABOUT_THE_START
def test_a_process_outlives_the_thread_that_opened_it(opened):
    found = []
    thread = threading.Thread(target=lambda: found.append(opened("nothing")))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert torch.equal(found[0](images()), images().sum().reshape(1))


def test_no_process_is_left_when_the_parent_is_killed():
    code = (
        "import sys, torch; from pathlib import Path\n"
        "from smoothsweep.core.isolation.process import IsolatedProgram\n"
        "one = IsolatedProgram(open(sys.argv[1], 'rb'), where='x', what='a program',\n"
        "                      loader='tests.core.isolation.hostile:load',\n"
        "                      settings={'do': 'forever'}, device=torch.device('cpu'))\n"
        "print(one.process._process.pid, flush=True)\n"
        "one(torch.zeros(1, 3, 2, 2))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, __file__], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[3]
    )
    pid = int(parent.stdout.readline())
    time.sleep(0.5)  # it computes for ever now
    assert psutil.pid_exists(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)
