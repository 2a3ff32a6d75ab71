"""Text from outside is shown as one line that does nothing, by one door."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import (
    MAX_LINE,
    counted,
    escape_controls,
    minuses,
    note,
    printable,
    printable_text,
    quoted,
    shortened,
)
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.page.render import environment, fill
from smoothsweep.orchestrator.planning.state import SweepState
from smoothsweep.orchestrator.running.sweep_run import Display
from smoothsweep.sweeps.expand import axis_value

DIRECTING = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
HOSTILE = "a\x1b[31mb\nc\r\x07\u202ed\u2028e\x9b2J\x00f\ud800"


def is_quiet(text):
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


@pytest.mark.parametrize(
    ("text", "typeset"),
    [
        ("alpha -0.8, schedule step", "alpha \u22120.8, schedule step"),
        ("-1 to -.5", "\u22121 to \u2212.5"),
        ("resnet-18, 2026-11-22, 1e-5, 0.1-0.4", "resnet-18, 2026-11-22, 1e-5, 0.1-0.4"),
    ],
)
def test_only_a_minus_in_front_of_a_number_is_one(text, typeset):
    assert minuses(text) == typeset


@given(st.text(alphabet=st.characters(), max_size=200) | st.just(HOSTILE))
def test_nothing_that_moves_the_cursor_is_left(text):
    for line in (printable(text), shortened(text), quoted(text), str(axis_value({"k": text}))):
        assert is_quiet(line) and len(line) <= 12 * MAX_LINE
    assert is_quiet(printable_text(text).replace("\n", "")) and is_quiet(note(text).replace("\n", ""))
    assert printable(printable(text)) == printable(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=100))
def test_what_is_harmless_stays_as_it_is(text):
    assert printable(text) == text and escape_controls(text) == text


def test_exactly_control_characters_and_marks_of_direction_are_escaped_on_a_page():
    every = [chr(code) for code in range(0x110000)]
    moving = {c for c in every if unicodedata.category(c) in ("Cc", "Zl", "Zp")} - {"\n", "\t"}
    moving |= {c for c in every if unicodedata.bidirectional(c) in DIRECTING} | {"\u061c", "\u200e", "\u200f"}
    shown_so = {c: c.encode("unicode_escape").decode() for c in moving}
    assert escape_controls("".join(every)) == "".join(shown_so.get(c, c) for c in every)


def test_long_text_is_cut():
    line = printable("x" * 10**6 + "end")
    assert len(line) < MAX_LINE and line.endswith("end") and " ... " in line
    assert len(quoted(["value"] * 10**5)) < 200
    assert str(InputError("x" * 10**6 + "\n")).endswith("\\n") and len(str(InputError("x" * 10**6))) < MAX_LINE


def test_pages_keep_line_breaks_and_lose_directions():
    page = fill(environment().from_string("<p>{{ words }}</p>"), words="one\ntwo \u202eeno\x1b \u200d <b>")
    assert page == "<p>one\ntwo \\u202eeno\\x1b \u200d &lt;b&gt;</p>"
    assert note("a <b> \x1b\n*c*") == "a &lt;b&gt; \\x1b\n*c*"


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "no\x1b[2Jsuch\nfile.yaml"],
        ["plan", "SWEEP", "--set", "recipe.\x1b[2Jlr\n=1"],
        ["plan", "SWEEP", "--set", 'recipe.architecture="\\e[2J\\n\\u202e"'],
        ["run", "SWEEP", "--set", 'data={kind: labelled, path: "/no\\e[2J\\n"}'],
        ["plan", "SWEEP", "--set", '"a\\e": 1'],
        ["plan", "SWEEP", "--store", "s3://\x1b[2J\n"],
        ["plan", "SWEEP", "--price", "\x1b[2J\n"],
        ["plan", "SWEEP", "--wrong\x1b[2J"],
        ["ui", "--store", "no\x1b[2J\n"],
        ["import", "prior", "no\x1b[2J\n.pkl"],
        ["data", "check", "no\x1b[2J\n", "--as", "facescrub"],
    ],
)
def test_a_mistake_full_of_escapes_is_quiet_on_the_screen(tmp_path, capsys, arguments):
    sweep = str(write_tiny(tmp_path))
    try:
        code = main([sweep if argument == "SWEEP" else argument for argument in arguments])
    except SystemExit as ended:  # argparse
        code = ended.code
    shown = capsys.readouterr()
    assert code == 2 and is_quiet((shown.out + shown.err).replace("\n", ""))
    assert len(shown.err.strip().splitlines()) == 1 or "usage" in shown.err


def test_the_progress_display_shows_what_workers_say_as_text(monkeypatch):
    screen = io.StringIO()
    display = Display(screen)
    state = SweepState(name="s", total_stages=1, done_stages=0, total_trials=1)
    state.running.append(
        {
            "stage": "t[red]\x1b[2J",
            "fingerprint": "f\n" * 9,
            "fraction": 0.1,
            "since": 0.0,
            "text": "[/nothing]\n\x1b[2J",
        }
    )
    display.say(HOSTILE)
    display.update(state)
    assert is_quiet(screen.getvalue().replace("\n", ""))
    from smoothsweep.orchestrator.running.sweep_run import _panel

    terminal = io.StringIO()
    Console(file=terminal, force_terminal=False, width=200).print(_panel(state))
    assert "[/nothing]" in terminal.getvalue() and "\x1b[2J" not in terminal.getvalue()


@pytest.mark.parametrize(("number", "said"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials")])
def test_one_is_counted_without_a_plural(number, said):
    assert counted(number, "trial") == said
    assert counted(2000, "class", "classes") == "2,000 classes"
