"""Text from outside is one quiet line without a secret; proposed words; what commands ask of their arguments."""

import argparse
import io
import sys
import time
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, quote, quote_plus, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny import write_tiny

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.prose import sections
from smoothsweep.core.text import (
    MAX_LINE,
    escape_controls,
    note,
    printable,
    printable_text,
    quoted,
    shortened,
    suggestion,
)
from smoothsweep.core.uris import ambiguity, hidden, shown_uri, without_secrets
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.page.render import environment, fill
from smoothsweep.orchestrator.running.sweep_run import Display
from smoothsweep.orchestrator.tracking.tracker import route
from smoothsweep.sweeps.expand import axis_value

DIRECTING = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
HOSTILE = "a\x1b[31mb\nc\r\x07\u202ed\u2028e\x9b2J\x00f\ud800"


def is_quiet(text):
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


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


SPECIAL = "@:/?#%&=+;,!$'\"()*[]{}|\\^~` .-_<>äß中"
# letters that our own words and the URIs below do not use, so that a hit is a leak; two at least at each end
PIECES = st.text(alphabet="QZXJ", min_size=2, max_size=5)
PASSWORDS = st.builds(
    lambda first, middle, last: first + middle + last, PIECES, st.text(alphabet=SPECIAL + "QZXJ", max_size=12), PIECES
)
FORMS = (
    "postgresql+psycopg2://mlflow:{}@127.0.0.1:5432/mlflow",
    "mysql://u:{}@db",
    "http://me:{}@host:5000/base/path",
    "https://:{}@[::1]:5000",
    "s3://abc:{}@bucket/prefix",
    "mssql+pyodbc://u:{}@host/db?driver=ODBC",
    "me:{}@host",
    "postgresql:/me:{}@host/db",
)


def leaked(password, text):
    """The pieces of the password that stand in the text; none of its letters occurs in anything else."""
    return [letter for letter in "QZXJ" if letter in text]


@given(password=PASSWORDS, form=st.sampled_from(FORMS), encode=st.sampled_from([str, quote_plus, quote]))
@example(password="QQ@ZZ", form=FORMS[0], encode=str)
@example(password="QQ://Z@Z", form=FORMS[0], encode=str)
@example(password="QQ?password=ZZ", form=FORMS[0], encode=str)
@example(password="QQ&ZZ", form=FORMS[2], encode=str)
def test_no_password_is_shown(password, form, encode):
    uri = form.format(encode(password))
    assert not leaked(password, shown_uri(uri)), shown_uri(uri)
    assert "***" in shown_uri(uri)
    said = f"got {uri}, {password!r} or {password} is wrong for {uri!r} ({quote(password, safe='')}, {quote(password)})"
    assert not leaked(password, without_secrets(said, uri)), without_secrets(said, uri)


@given(password=PASSWORDS)
def test_a_uri_that_readers_would_cut_differently_is_told(password):
    for form in FORMS[:4]:
        assert ambiguity(form.format(quote(password, safe=""))) is None
        told = ambiguity(form.format(password))
        if any(letter in password for letter in "@/?# \\"):
            assert told and not leaked(password, told)


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:5000",
        "https://host/base",
        "sqlite:////home/a:b@c/mlflow.db",
        "s3://bucket/prefix",
        "file:///x",
        "http://[::1]:5000/x",
        "postgresql://host/db",
        "store",
        "/a/b:c",
        "/a/me@b/c",
        "runs#2",
        "what?",
        "http://host/a;b/c",
        f"http://host:5000{route('12')}",
    ],
)
def test_what_has_no_secret_stays(uri):
    assert shown_uri(uri) == hidden(uri) == without_secrets(uri, uri) == uri
    assert ambiguity(uri) is None


@pytest.mark.parametrize("long", ["a" * 300_000, "a://b" * 60_000, "x://?" + "pass" * 80_000, "?pass=" * 50_000])
def test_long_texts_take_no_time(long):
    started = time.monotonic()
    hidden(long)
    shown_uri(long)
    assert time.monotonic() - started < 60, "a search whose time grows with the square takes minutes"


@pytest.mark.parametrize("end", [",", ".", ";", ")", "),"])
def test_punctuation_after_a_port_is_the_sentences(end):
    told = f"no answer from http://127.0.0.1:9{end} got none"
    assert hidden(told) == told
    assert "pass1" not in hidden(f"no answer from http://me:pass1{end} got none")
    assert "9," not in hidden("no answer from postgresql://me:9,@host, got none")


# Of none of these letters is anything but a secret made, so that one of them in a text is a leak.
SECRETS = st.text(alphabet="QZXJ", min_size=4, max_size=12)
NAMES = st.text(alphabet="abcdefgh_-.%0123456789", min_size=1, max_size=8)
WORDS = st.text(alphabet="abcdefgh0123456789-_.", min_size=1, max_size=8)
TEXTS = st.text(alphabet="QZXJ=&;/:@?#+%~!$,()*.-_ab", max_size=12)


@st.composite
def uris_with_secrets(draw):
    """(scheme://host/path, the URI with a secret in user, query or fragment, or in several): names are any."""
    port = draw(st.sampled_from(["", ":80", ":50123"]))
    path = "".join(f"/{part}" for part in draw(st.lists(WORDS, max_size=3)))
    shown = (draw(st.sampled_from(["http", "https", "s3", "postgresql+psycopg2", "ftp"])), draw(WORDS) + port + path)
    secret, where = draw(SECRETS), draw(st.sets(st.sampled_from(["user", "query", "fragment", "path"]), min_size=1))
    user = (
        draw(st.sampled_from([f"{secret}@", f"{secret}:@", f":{secret}@", f"me:{secret}@"])) if "user" in where else ""
    )
    filler = draw(st.lists(NAMES.map(lambda name: f"{name}=1"), max_size=2))
    value = secret + draw(TEXTS)
    given = draw(st.sampled_from([f"{draw(NAMES)}={value}", value, f"={value}"]))
    query = f"?{'&'.join([*filler, given])}" if "query" in where else ""
    fragment = (
        f"#{draw(st.sampled_from([f'{draw(NAMES)}={secret}', secret, f'/a?b={secret}']))}"
        if "fragment" in where
        else ""
    )
    parameter = f";{draw(WORDS)}={secret}" if "path" in where else ""
    return f"{shown[0]}://{shown[1]}", f"{shown[0]}://{user}{shown[1]}{parameter}{query}{fragment}"


@given(uris_with_secrets())
def test_only_scheme_host_and_path_are_shown_whatever_the_rest_is_called(made):
    place, uri = made
    shown = shown_uri(uri)
    assert not leaked(None, shown) and "***" in shown, shown
    assert shown_uri(shown) == shown == hidden(shown), "again, and nothing changes"
    scheme, _, rest = place.partition("://")
    readable = uri.rfind("@") < min((at for at in map(uri.find, "?#;") if at >= 0), default=len(uri))
    assert not readable or shown.replace("***@", "").startswith(f"{scheme}://{rest}"), "what is no secret can be read"


@given(
    made=uris_with_secrets(), before=WORDS, after=st.sampled_from(["", ": expected", ", or", ").", "' is wrong", '"}'])
)
def test_nor_in_a_sentence_on_the_screen_or_in_an_error(made, before, after):
    _, uri = made
    said = f"{before} '{uri}{after}"
    assert not leaked(None, hidden(said)) and not leaked(None, str(InputError(said)))
    for door in (screen.out, screen.out_text, screen.err):
        written = io.StringIO()
        with redirect_stdout(written), redirect_stderr(written):
            door(said)
        assert written.getvalue() and not leaked(None, written.getvalue())
    panel = io.StringIO()
    Display(panel).say(said)
    assert panel.getvalue() and not leaked(None, panel.getvalue())


@given(made=uris_with_secrets())
def test_nor_where_a_library_repeats_a_part_of_it(made):
    _, uri = made
    parts = urlsplit(uri)
    pieces = [parts.query, parts.fragment, *parse_qs(parts.query).get("x", []), parts.netloc.rpartition("@")[0]]
    said = " ".join(["refused:", uri, *(f"{piece} {unquote(piece)!r}" for piece in pieces if len(piece) > 3)])
    assert not leaked(None, without_secrets(said, uri)), without_secrets(said, uri)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://TOKEN@host/a", "http://***@host/a"),
        ("https://host/a?sig=QZ%2F&x=1", "https://host/a?***"),
        ("https://host?code=QZ", "https://host?***"),
        ("https://host/a#access_token=QZ", "https://host/a#***"),
        ("https://host/a;jsessionid=QZ", "https://host/a;***"),
        ("host/a?sig=QZ", "host/a?***"),
        ("http://QZ/x@host", "http://***@host"),
        ("http://host/a?mail=a@QZ", "http://***"),
        ("http://host/#/experiments/12/runs?token=QZ", "http://host/#***"),
        ("http://h/#/experiments/QZ", "http://h/#***"),
    ],
)
def test_each_form_by_hand(uri, shown):
    assert shown_uri(uri) == shown
    assert hidden("'https://host/a?sig=a'b&c' it was") == "'https://host/a?***' it was"
    assert hidden(f"see {uri}: no answer") == f"see {shown if '://' in uri else uri}: no answer"


WORDS_SPELLING = ("recipe", "resources", "reaudit", "data")


@pytest.mark.parametrize(
    ("got", "meant"),
    [
        ("recpie", "recipe"),
        ("Data", "data"),
        ("resource", "resources"),
        ("weather", None),
        ("", None),
        (3, None),
        (None, None),
        ("data", None),
    ],
)
def test_a_close_word_is_proposed_and_a_far_one_is_not(got, meant):
    assert suggestion(got, WORDS_SPELLING) == (f"; did you mean {meant!r}?" if meant else "")


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5))
def test_it_is_one_printable_line_whatever_was_typed(got, known):
    said = suggestion(got, known)
    assert said == "" or (said.startswith("; did you mean ") and said.isprintable())


TEXT = """{# a remark #}
[first]
{% for name in names %}
- {{ name }} goes on,
  and ends{% if loop.last %} here{% endif %}.
  {% if loop.first %}
  A condition of its own lines.
  {% endif %}
{% endfor %}
[second]
[third]
- One.
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    package = tmp_path / "told_of"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    sys.modules.pop("told_of", ModuleType(""))


def test_lines_are_sentences_and_values_stay_as_they_are(told):
    (told / "a.txt").write_text(TEXT)
    names = ["Ann", "- of  two\n- lines\n[third]", "\u00a0x"]
    assert sections("told_of", "a.txt", {"names": names}) == {
        "first": (
            "Ann goes on, and ends. A condition of its own lines.",
            "- of  two\n- lines\n[third] goes on, and ends.",
            "\u00a0x goes on, and ends here.",
        ),
        "second": (),
        "third": ("One.",),
    }


def commands(parser, name=""):
    """Every parser below one, by the words that lead to it."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, f"{name} {word}".strip())


@pytest.mark.parametrize("command", ["run", "report", "export", "study build"])
@pytest.mark.parametrize(("place", "got"), [("there", "got a file"), ("there/below", "there on the way")])
def test_a_file_in_the_place_of_the_folder_is_one_line_before_any_work(command, place, got, tmp_path, capsys):
    sweep, out = write_tiny(tmp_path), tmp_path / place
    (tmp_path / "there").write_text("mine")
    assert main([*command.split(), str(sweep), "--store", str(tmp_path / "store"), "--out", str(out)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"smoothsweep: --out {out}: expected a folder, ") and shown.err.count("\n") == 1
    assert got in shown.err and not shown.out
    assert (tmp_path / "there").read_text() == "mine" and not (tmp_path / "store").exists()


def test_a_place_that_the_system_refuses_is_an_input(tmp_path, capsys):
    """/proc is a folder that looks writable to root, and takes no file."""
    if not Path("/proc/self").exists():
        pytest.skip("no /proc here")
    sweep = write_tiny(tmp_path)
    (tmp_path / "store").mkdir()
    assert main(["report", str(sweep), "--store", str(tmp_path / "store"), "--out", "/proc/out"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("smoothsweep: --out /proc/out: expected a ") and shown.count("\n") == 1


@pytest.mark.parametrize("flag", ["--store", "--store=x", "--set", "--out"])
def test_a_flag_before_the_command_is_told_where_it_belongs(flag, capsys):
    assert main([flag, "x", "status", "tiny.yaml"]) == 2
    name = flag.partition("=")[0]
    expected = (
        f"smoothsweep: {name}: expected a command before its flags (smoothsweep COMMAND ... {name} ...), got none\n"
    )
    assert capsys.readouterr().err == expected
