"""Who passes the guard of MLflow's server: generated requests, against rules written down a second time."""

import asyncio
import hashlib
import os
import re
import socket
from base64 import b64encode
from importlib import import_module
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.environment_variables import MLFLOW_DISABLE_TELEMETRY, MLFLOW_SERVER_ENABLE_JOB_EXECUTION

from smoothsweep.orchestrator.tracking.server.guard import BOUNCE, POLICY, Guard, with_token
from smoothsweep.orchestrator.tracking.server.serving import SETTINGS, UNWANTED, new_token, serve

TOKEN, PORT = "tOkEn-_0123456789", 5000
NAME = f"smoothsweep_ui_{PORT}"


def ask(path="/", query="", method="GET", headers=(), kind="http"):
    """What the guard sends, and whether it let the request through."""
    passed, sent = [], []

    async def app(scope, receive, send):
        passed.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"MLflow"})

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode("latin-1"),
        "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers],
    }
    asyncio.run(Guard(app, TOKEN, PORT)(scope, None, send))
    told = {name.decode(): value.decode() for name, value in sent[0].get("headers", [])}
    return sent[0].get("status"), told, sent[-1].get("body"), bool(passed)


LATIN = st.text(st.characters(max_codepoint=255), max_size=24)
TOKENS = st.one_of(
    st.just(TOKEN), st.just(TOKEN[:-1]), st.just(TOKEN + "x"), st.just(TOKEN.lower()), st.just(""), LATIN
)
HOSTS = st.sampled_from(
    [
        "127.0.0.1:5000",
        "localhost:5000",
        "LOCALHOST:6000",
        "127.0.0.1",
        "evil.example",
        "evil.example:5000",
        "",
        "127.0.0.1.evil.example:5000",
        "127.0.0.1@evil.example",
        "[::1]:5000",
        "localhost:",
        "localhost:x",
        "0.0.0.0:5000",
    ]
)
GOOD_HOSTS = {"127.0.0.1:5000", "localhost:5000", "LOCALHOST:6000", "127.0.0.1"}
SITES = st.sampled_from([None, "none", "same-origin", "same-site", "cross-site", "x"])


@given(
    host=HOSTS,
    hosts=st.integers(0, 2),
    cookie=st.none() | TOKENS,
    name=st.sampled_from([NAME, NAME + "1", "a"]),
    bearer=st.none() | TOKENS,
    scheme=st.sampled_from(["Bearer", "bearer", "Basic", ""]),
    site=SITES,
    origin=st.sampled_from([None, "same", "null", "http://127.0.0.1:1", "https://evil.example"]),
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]),
    path=LATIN,
)
def test_only_the_token_lets_a_request_through(host, hosts, cookie, name, bearer, scheme, site, origin, method, path):
    origin = f"http://{host}" if origin == "same" else origin
    headers = [("host", host)] * hosts
    headers += [("cookie", f"other=1; {name}={cookie}")] if cookie is not None else []
    headers += [("authorization", f"{scheme} {bearer}")] if bearer is not None else []
    headers += [(key, value) for key, value in (("sec-fetch-site", site), ("origin", origin)) if value is not None]
    status, told, _, passed = ask("/" + path, method=method, headers=headers)
    by_cookie = (
        cookie == TOKEN
        and name == NAME
        and site in (None, "none", "same-origin")
        and origin in (None, f"http://{host}")
    )
    by_bearer = bearer == TOKEN and scheme in ("Bearer", "bearer")
    assert passed == (hosts == 1 and host in GOOD_HOSTS and (by_cookie or by_bearer))
    assert status == (200 if passed else 403) and "set-cookie" not in told


@given(
    path=LATIN,
    before=st.lists(st.tuples(LATIN.filter(lambda name: name != "token"), LATIN), max_size=3),
    site=st.sampled_from([None, "none", "same-origin"]),
)
def test_the_redirect_stays_here_and_drops_the_token_alone(path, before, site):
    query = urlencode([*before, ("token", TOKEN)])
    headers = [("host", "127.0.0.1:5000"), *([("sec-fetch-site", site)] if site else [])]
    status, told, _, passed = ask("/" + path, query, headers=headers)
    assert status == 303 and not passed and told["cache-control"] == "no-store"
    assert told["set-cookie"] == f"{NAME}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    led = urlsplit(urljoin("http://127.0.0.1:5000/", told["location"]))
    assert led.netloc == "127.0.0.1:5000" and re.fullmatch(r"/(?!/)[!-~]*", told["location"])
    assert "\\" not in told["location"] and parse_qsl(led.query, keep_blank_values=True) == before


@given(shown=TOKENS.filter(lambda shown: shown != TOKEN), method=st.sampled_from(["GET", "HEAD", "POST"]))
def test_a_wrong_token_in_the_address_is_refused_even_with_the_cookie(shown, method):
    good = [("host", "localhost:5000"), ("cookie", f"{NAME}={TOKEN}")]
    assert ask("/", urlencode({"token": shown}), method, good)[0] == (200 if method == "POST" else 403)
    assert ask("/", urlencode({"token": shown}), method, good[:1])[0] == 403


@pytest.mark.parametrize(
    "fetched", [{"site": "cross-site"}, {"site": "same-site"}, {"site": "none", "dest": "document"}]
)
def test_from_another_site_and_in_a_browser_a_page_of_ours_asks_again(fetched):
    headers = [("host", "localhost:5000"), *((f"sec-fetch-{name}", value) for name, value in fetched.items())]
    status, told, body, passed = ask("/", f"token={TOKEN}", headers=headers)
    assert status == 200 and not passed and body.decode() == BOUNCE and TOKEN not in BOUNCE
    assert "SameSite=Strict" in told["set-cookie"] and told["content-security-policy"] == POLICY
    script = re.search("<script>(.*)</script>", BOUNCE)[1]
    assert 'localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true")' in script
    assert b64encode(hashlib.sha256(script.encode()).digest()).decode() in POLICY, "the browser runs no other"


def test_the_token_in_the_address_of_a_post_does_not_count():
    assert ask("/", f"token={TOKEN}", "POST", [("host", "localhost:5000")])[0] == 403


def test_a_websocket_is_closed_and_never_passed():
    sent = ask(kind="websocket", headers=[("host", "localhost:5000"), ("cookie", f"{NAME}={TOKEN}")])
    assert sent[0] is None and not sent[3]


@given(
    fragment=st.sampled_from(["", "#/experiments/1/runs?compareRunsMode=TABLE", "#/?a=b"]),
    query=st.sampled_from(["", "?a=1"]),
    path=st.sampled_from(["", "/", "/x"]),
)
def test_the_token_stands_before_the_fragment(fragment, query, path):
    led = urlsplit(with_token(f"http://127.0.0.1:5000{path}{query}{fragment}", TOKEN))
    assert led.fragment == fragment.removeprefix("#") and led.path == (path or "/")
    assert parse_qsl(led.query) == [*parse_qsl(query.removeprefix("?")), ("token", TOKEN)]


def test_each_token_is_new_and_long():
    made = {new_token() for _ in range(100)}
    assert len(made) == 100 and all(re.fullmatch(r"[\w-]{43}", token) for token in made)


@pytest.mark.parametrize(
    ("host", "token", "complaint"),
    [
        ("0.0.0.0", "x" * 43, "loopback"),
        ("127.0.0.1", "", "token"),
        ("127.0.0.1", "short", "token"),
    ],
)
def test_the_server_refuses_another_interface_and_a_missing_token(host, token, complaint):
    reading, writing = os.pipe()
    os.write(writing, token.encode())
    os.close(writing)
    with socket.create_server((host, 0)) as listening, pytest.raises(ValueError, match=complaint):
        serve(listening.detach(), reading, "sqlite://")


def test_the_settings_of_the_server_are_called_as_this_mlflow_calls_them():
    # Loading the server takes seconds: only where this test runs.
    constants = import_module("mlflow.server.constants")
    STATIC_PREFIX_ENV_VAR = import_module("mlflow.server.handlers").STATIC_PREFIX_ENV_VAR
    known = {value for name, value in vars(constants).items() if name.endswith("ENV_VAR")}
    known |= {MLFLOW_SERVER_ENABLE_JOB_EXECUTION.name, MLFLOW_DISABLE_TELEMETRY.name, STATIC_PREFIX_ENV_VAR}
    assert {*SETTINGS, *UNWANTED} <= known
