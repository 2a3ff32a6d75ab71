"""How `smoothsweep ui` opens its link: once the server answers, by the user's browser, without showing the token."""

import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from smoothsweep.orchestrator.commands.records import opening
from tests.orchestrator.commands.records.ports import answering, free_port


def test_the_link_is_opened_as_soon_as_the_server_answers_and_not_before(monkeypatch):
    opened, port = [], free_port()
    monkeypatch.setattr(opening.webbrowser, "open", lambda address: opened.append((time.monotonic(), address)) or True)
    with socket.create_server(("127.0.0.1", port)):  # listens, as the command's own socket does, and says nothing
        page = opening.leading_page("http://x")
        assert not opening.open_when_served(port, page, patience_s=0.3) and not opened
        assert not page.parent.exists()
    page, started = opening.leading_page("http://x"), time.monotonic()
    helper = threading.Thread(target=opening.open_when_served, args=(port, page, 30.0, 0.5))
    helper.start()
    time.sleep(0.5)
    assert not opened
    with answering(port):
        helper.join(timeout=60)
    assert opened[0][0] - started >= 0.4 and opened[0][1] == page.as_uri()
    assert not page.parent.exists(), "it holds a token"


def test_it_is_opened_by_the_browser_that_the_user_names(tmp_path, monkeypatch):
    """By a real process, from a server that stands in for MLflow's; no command line shows the token."""
    told, browser = tmp_path / "told", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.new\nmv {told}.new {told}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with answering() as port:
        helper = opening.open_beside(port, "http://127.0.0.1/?token=secret#/experiments/1")
        late = time.monotonic() + 60
        while not told.exists() and time.monotonic() < late:
            time.sleep(0.1)
        page = Path(url2pathname(urlsplit(told.read_text().strip()).path))
        assert 'location.replace("http://127.0.0.1/?token=secret#/experiments/1")' in page.read_text()
        assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
        assert "secret" not in Path(f"/proc/{helper.pid}/cmdline").read_text()
        helper.send_signal(signal.SIGINT)
        assert helper.wait(timeout=60) == 0 and not page.parent.exists()


def test_an_address_stays_an_address_in_the_page_that_leads_to_it():
    page = opening.leading_page('http://x/?a="</script><script>alert(1)</script>')
    assert page.read_text().count("</script>") == 1
    shutil.rmtree(page.parent)


def test_without_a_window_no_text_browser_takes_the_terminal(monkeypatch):
    for name in opening.WINDOWED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opening.sys, "platform", "linux")
    monkeypatch.setattr(opening.subprocess, "Popen", lambda *_: pytest.fail("a browser was opened"))
    assert opening.open_beside(1, "http://x") is None
