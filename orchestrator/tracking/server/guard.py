"""Let through only requests that show the token of this run: MLflow's own server has no login.

An ASGI application around another. The token arrives once in the address (`/?token=...`), then as a cookie. Programs
send it as `Authorization: Bearer`, as MLflow's client does with MLFLOW_TRACKING_TOKEN. Pattern: Jupyter Server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

PARAMETER = "token"
HOSTS = ("127.0.0.1", "localhost")  # with any port: the page may be reached through a tunnel
OWN_SITE = ("none", "same-origin")  # of Sec-Fetch-Site: typed by the user, or asked by our own page
REFUSAL = "403: this page answers only with the token in the address that `smoothsweep ui` printed: open that address\n"
SEEN = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"  # MLflow 3.17's own note, in the browser
SCRIPT = (
    f'try {{ localStorage.setItem("{SEEN}", "true") }} catch {{}} '
    f'const to = new URL(location); to.searchParams.delete("{PARAMETER}"); location.replace(to.pathname + to.search '
    "+ to.hash)"
)
BOUNCE = f"<!doctype html><meta charset=utf-8><title>smoothsweep ui</title><script>{SCRIPT}</script>"
POLICY = (
    f"default-src 'none'; script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)
CLOSED_TO_CACHES = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """The application `app`, for requests with `token` alone. port: names the cookie, since cookies know no port."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token, self._cookie = app, token, f"smoothsweep_ui_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":  # MLflow's pages use no other
            return await send({"type": "websocket.close", "code": 1008})
        headers = _Headers(scope)
        tokens = [value for name, value in _query(scope) if name == PARAMETER]
        if not _is_ours(headers.one("host")):
            return await _answer(send, 403, REFUSAL)
        if tokens and scope["method"] in ("GET", "HEAD"):
            if not self._is_token(tokens[0]):
                return await _answer(send, 403, REFUSAL)
            return await self._enter(scope, headers, send)
        if self._is_bearer(headers) or (self._has_cookie(headers) and _asked_by_our_page(headers)):
            return await self._app(scope, receive, send)
        return await _answer(send, 403, REFUSAL)

    async def _enter(self, scope: Scope, headers: _Headers, send: Send) -> None:
        """Set the cookie and lead to the address without the token. Browsers keep the fragment.

        Where another page led here (a link, the file that `smoothsweep ui` opens) the browser would withhold a strict
        cookie from the redirected request, so a page of this server asks for the address instead. It also notes that
        MLflow's assistant has been shown, which else covers a quarter of the first page; its button stays.
        """
        cookie = {"set-cookie": f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict", **CLOSED_TO_CACHES}
        if headers.one("sec-fetch-site") in ("", *OWN_SITE) and headers.one("sec-fetch-dest") != "document":
            rest = urlencode([(name, value) for name, value in _query(scope) if name != PARAMETER])
            path = "/" + quote(scope["path"].lstrip("/"))  # `//host` would lead to another server
            await _answer(send, 303, "", {**cookie, "location": f"{path}?{rest}" if rest else path})
        else:
            policy = {"content-type": "text/html; charset=utf-8", "content-security-policy": POLICY}
            await _answer(send, 200, BOUNCE, {**cookie, **policy})

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="surrogateescape"), self._token.encode())

    def _is_bearer(self, headers: _Headers) -> bool:
        scheme, _, token = headers.one("authorization").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(token.strip())

    def _has_cookie(self, headers: _Headers) -> bool:
        pairs = [pair.strip().partition("=") for line in headers.all("cookie") for pair in line.split(";")]
        return any(name == self._cookie and self._is_token(value) for name, _, value in pairs)


class _Headers:
    def __init__(self, scope: Scope) -> None:
        self._pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]

    def all(self, name: str) -> list[str]:
        return [value for known, value in self._pairs if known == name]

    def one(self, name: str) -> str:
        """The value of a header; empty where it is missing, and a value that matches nothing where it is repeated."""
        values = self.all(name)
        return values[0] if len(values) == 1 else "repeated, so refused" if values else ""


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _is_ours(host: str) -> bool:
    """Whether the address that the client used names this machine; another name may have been rebound to it."""
    name, _, port = host.partition(":")
    return name.lower() in HOSTS and (port.isdecimal() or port == "") and (bool(port) or ":" not in host)


def _asked_by_our_page(headers: _Headers) -> bool:
    """Whether the user or a page of this server asks: to browsers, pages of other ports are of the same site."""
    origin, site = headers.one("origin"), headers.one("sec-fetch-site")
    return site in ("", *OWN_SITE) and (not origin or origin == f"http://{headers.one('host')}")


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = text.encode()
    fields = {"content-type": "text/plain; charset=utf-8", **CLOSED_TO_CACHES, **(headers or {})}
    fields["content-length"] = str(len(body))
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def with_token(address: str, token: str) -> str:
    """The address with the token in its query, before its fragment."""
    parts = urlsplit(address)
    query = "&".join(part for part in (parts.query, f"{PARAMETER}={quote(token, safe='')}") if part)
    return parts._replace(query=query, path=parts.path or "/").geturl()
