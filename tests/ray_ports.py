"""What the processes of a run listen on, and what they answer to a caller who has no token: found by asking them."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import pkgutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

import grpc
import psutil

PATIENCE_S = 5.0
OBJECT_MANAGER = ("/ray.rpc.ObjectManagerService/Push", "/ray.rpc.ObjectManagerService/Pull")  # no Python module of Ray


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a process listens. process: its name."""

    pid: int
    process: str
    address: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Port(_Place):
    """What was asked of a port, and answered.

    Attributes:
        refused: How many calls were answered by asking for the token.
        answered: Methods or paths whose calls were let in.
    """

    refused: int
    answered: tuple[str, ...]

    @property
    def is_loopback(self) -> bool:
        """Whether no other machine can reach it."""
        address = ip_address(self.address)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback

    @property
    def is_any(self) -> bool:
        """Whether it is reached by every address of this machine."""
        return ip_address(self.address).is_unspecified

    @property
    def is_guarded(self) -> bool:
        return self.refused > 0 and not self.answered


def ports_of(pid: int) -> list[Port]:
    """Every TCP port on which this process or one of its descendants listens, asked without a token.

    Raises psutil.Error where there is no such process, or it is another user's.
    """
    root = psutil.Process(pid)
    methods = ray_methods()
    processes = (root, *root.children(recursive=True))
    return [_asked(place, methods) for process in processes for place in _listens_on(process)]


def ray_methods() -> tuple[str, ...]:
    """The name of every remote call that Ray's processes may answer."""
    import ray.core.generated as generated

    methods = []
    for module in pkgutil.iter_modules(generated.__path__):
        if module.name.endswith("_pb2"):
            services = importlib.import_module(f"{generated.__name__}.{module.name}").DESCRIPTOR.services_by_name
            methods += [f"/{service.full_name}/{m.name}" for service in services.values() for m in service.methods]
    return (*methods, *OBJECT_MANAGER)


def _listens_on(process: psutil.Process) -> list[_Place]:
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
        addresses = [c.laddr for c in process.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
        name = process.name()
        return [_Place(pid=process.pid, process=name, address=address.ip, port=address.port) for address in addresses]
    return []


def _asked(place: _Place, methods: tuple[str, ...]) -> Port:
    target = f"[{place.address}]:{place.port}" if ":" in place.address else f"{place.address}:{place.port}"
    refused, answered = _ask_web(target)
    if not refused and not answered:
        refused, answered = _ask_grpc(target, methods)
    return Port(**vars(place), refused=refused, answered=tuple(answered))


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
                answer: Any = error  # also a grpc.Call, whose code it has
                if answer.code() is grpc.StatusCode.UNAUTHENTICATED:
                    refused += 1
                elif answer.code() is not grpc.StatusCode.UNIMPLEMENTED:  # it waits or stumbles, so it was let in
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
