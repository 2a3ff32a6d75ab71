"""The page of a study in a real browser: it loads nothing, works by keys and on a phone, hands the answers out."""

import json
import time

import pytest
from chromium import browsing, find_chromium
from study_answers import made_sweep

from smoothsweep.orchestrator.cli import main

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium on this machine: apt-get install chromium, or make browser"
)
AT = "[...document.querySelectorAll('.question')].findIndex(q => !q.hidden)"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sweep, store = made_sweep(folder)
    command = ["study", "build", str(sweep), "--store", str(store), "--out", str(folder)]
    assert main([*command, "--people", "2", "--seed", "3"]) == 0
    return folder


@pytest.fixture
def tab(study, tmp_path):
    """A browser that has never seen the page; it saves into tmp_path."""
    with browsing(find_chromium(), tmp_path / "profile") as tab:
        tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "saved"))
        tab.resize(1000)
        tab.open((study / "study.html").as_uri())
        yield tab
        assert tab.complaints() == []


def saved(folder, count=1):
    for _ in range(200):
        found = sorted((folder / "saved").glob("*.json"))
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing was saved")


def key_press(tab, character):
    for kind in ("keyDown", "keyUp"):
        tab.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=character,
            text=character if kind == "keyDown" else "",
            windowsVirtualKeyCode=ord(character),
        )


def enter(tab):
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    tab.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)


def test_by_keys_alone_from_the_first_screen_to_a_file_that_can_be_read(study, tab, tmp_path, capsys):
    tab.run("document.querySelector('#name').focus()")
    tab.call("Input.insertText", text="Zoë 1")
    enter(tab)
    questions = tab.run("document.querySelectorAll('.question').length")
    wanted = [(number % 4) for number in range(questions)]
    for number, digit in enumerate(wanted):
        assert tab.run(AT) == number
        enter(tab)
        assert tab.run(AT) == number, "no question is passed over by accident"
        key_press(tab, str(digit))
        enter(tab)
    assert not tab.run("document.querySelector('#end').hidden")
    tab.click("#end .save")
    (file,) = saved(tmp_path)
    assert file.name.startswith("answers-Zo-1-")
    content = json.loads(file.read_text())
    assert content["annotator"]["name"] == "Zoë 1"
    assert content["answers"] == [None if digit == 0 else digit - 1 for digit in wanted]
    assert main(["study", "read", str(file), "--study", str(study / "study.json")]) == 0
    assert "Zoë 1" in capsys.readouterr().out
    assert {url.split("#")[0] for url in tab.requests() if not url.startswith(("data:", "blob:"))} == {
        (study / "study.html").as_uri()
    }


def test_on_a_phone_everything_fits_and_a_closed_page_goes_on(study, tab, tmp_path):
    tab.resize(360, 700)
    tab.click("#start .go")
    assert tab.run("document.documentElement.scrollWidth") <= 360
    sizes = tab.run(
        "[...document.querySelectorAll('.question:not([hidden]) .options label')]"
        ".map(l => l.getBoundingClientRect()).map(b => [b.width, b.height, b.right])"
    )
    assert all(wide >= 44 and high >= 44 and right <= 360 for wide, high, right in sizes), "large enough for a thumb"
    assert tab.run("document.querySelector('#next').disabled")
    tab.click(".question:not([hidden]) .options label:nth-child(2)")
    tab.click("#next")
    tab.click(".question:not([hidden]) .none")
    tab.click("#next")
    tab.click("#back")
    assert tab.run(AT) == 1
    tab.open((study / "study.html").as_uri())
    assert tab.run(AT) == 2, "it goes on where it was left"
    tab.click("#steps .save")
    (file,) = saved(tmp_path)
    answers = json.loads(file.read_text())["answers"]
    assert answers[:2] == [1, None] and set(answers[2:]) == {None}
