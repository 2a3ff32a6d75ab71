"""What the processes of a run listen on, and what they answer to somebody who has no token: found by asking them."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import pkgutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import grpc
import psutil

PATIENCE_S = 5.0
OBJECT_MANAGER = ("/ray.rpc.ObjectManagerService/Push", "/ray.rpc.ObjectManagerService/Pull")  # no Python module of Ray


@dataclass(frozen=True, kw_only=True)
class Port:
    """process: its title. refused: calls that it answered by asking for the token; answered: those that it did."""

    pid: int
    process: str
    address: str
    port: int
    refused: int
    answered: tuple[str, ...]

    @property
    def is_loopback(self) -> bool:
        """Whether no other machine can reach it."""
        address = ip_address(self.address)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback

    @property
    def is_guarded(self) -> bool:
        return self.refused > 0 and not self.answered


def ports_of(pid: int) -> list[Port]:
    """Every TCP port on which this process or one of its descendants listens, asked without a token.

    Raises psutil.Error where there is no such process, or it is another user's.
    """
    root = psutil.Process(pid)
    methods = ray_methods()
    return [
        _asked(process, address.ip, address.port, methods)
        for process in (root, *root.children(recursive=True))
        for address in _listens_on(process)
    ]


def ray_methods() -> tuple[str, ...]:
    """The name of every remote call that Ray's processes may answer."""
    import ray.core.generated as generated

    found = []
    for module in pkgutil.iter_modules(generated.__path__):
        if module.name.endswith("_pb2"):
            services = importlib.import_module(f"{generated.__name__}.{module.name}").DESCRIPTOR.services_by_name
            found += [f"/{service.full_name}/{m.name}" for service in services.values() for m in service.methods]
    return (*found, *OBJECT_MANAGER)


def _listens_on(process: psutil.Process) -> Iterator[psutil._common.addr]:
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from (c.laddr for c in process.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN)


def _asked(process: psutil.Process, address: str, port: int, methods: tuple[str, ...]) -> Port:
    host = f"[{address}]" if ":" in address else address
    refused, answered = _ask_web(f"{host}:{port}")
    if not refused and not answered:
        refused, answered = _ask_grpc(f"{host}:{port}", methods)
    title = process.name()
    return Port(
        pid=process.pid, process=title, address=address, port=port, refused=refused, answered=tuple(answered)
    )


def _ask_grpc(target: str, methods: tuple[str, ...]) -> tuple[int, list[str]]:
    """Call everything with an empty request. A call that is unknown there is no answer. (0, []) if it is no gRPC."""
    refused, answered = 0, []
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        except grpc.FutureTimeoutError:
            return 0, []
        for method in methods:
            try:
                channel.unary_unary(method)(b"", timeout=PATIENCE_S)
                answered.append(method)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    refused += 1
                elif error.code() is not grpc.StatusCode.UNIMPLEMENTED:  # it waits or stumbles, so it was let in
                    answered.append(method)
    return refused, answered


def _ask_web(target: str) -> tuple[int, list[str]]:
    """GET / and Prometheus' page. What speaks no HTTP/1 gives (0, [])."""
    refused, answered = 0, []
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("/", "/metrics"):
        try:
            opener.open(f"http://{target}{path}", timeout=PATIENCE_S).close()
            answered.append(path)
        except urllib.error.HTTPError as error:
            refused += error.code in (401, 403)
            answered += [path] if error.code not in (401, 403, 404) else []
        except (OSError, http.client.HTTPException):  # silent, or another protocol
            return 0, []
    return refused, answered
