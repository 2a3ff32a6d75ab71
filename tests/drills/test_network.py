"""A run seen from another machine: two network namespaces and a cable; in one the run, in the other a stranger."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from drills.emulated import wait_until
from drills.sweep_runs import write_sweep

from smoothsweep.orchestrator.cluster.run_folder import TOKEN, folders
from tests.tiny import tiny_sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.getuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]
HERE, THERE = "198.51.100.1", "198.51.100.2"  # for documentation, so that nobody else has them
SCAN = """
import json, socket, sys
addresses, found = sys.argv[1:], []
for family, *where in ((socket.AF_INET, addresses[0]), (socket.AF_INET6, addresses[1], 0, int(addresses[2]))):
    for port in range(1, 65536):
        with socket.socket(family) as one:
            one.settimeout(2)
            if one.connect_ex((where[0], port, *where[1:])) == 0:
                found.append([where[0], port])
print(json.dumps(found))
"""
JOIN = """
import sys, ray
try:
    ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False)
    print("joined")
except ConnectionError:
    print("refused")
"""


@pytest.fixture
def namespaces():
    """The names of two network namespaces with a cable between them, and nothing else."""
    tag = uuid.uuid4().hex[:6]
    ours, theirs = f"ours-{tag}", f"theirs-{tag}"
    try:
        for name in (ours, theirs):
            if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
                pytest.skip("this machine makes no network namespaces")
            ip(name, "link", "set", "lo", "up")
        cable = ["type", "veth", "peer", "name", f"t{tag}", "netns", theirs]
        subprocess.run(["ip", "link", "add", f"o{tag}", "netns", ours, *cable], check=True)
        for name, end, address in ((ours, f"o{tag}", HERE), (theirs, f"t{tag}", THERE)):
            ip(name, "addr", "add", f"{address}/30", "dev", end)
            ip(name, "link", "set", end, "up")
        yield ours, theirs
    finally:
        for name in (ours, theirs):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def ip(namespace, *words):
    return subprocess.run(["ip", "-n", namespace, *words], check=True, capture_output=True, text=True).stdout


def inside(namespace, *words, **options):
    """Run Python in the namespace; what it printed."""
    command = ["ip", "netns", "exec", namespace, sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, **options)
    return done.stdout


@contextlib.contextmanager
def control(namespace):
    """A port of the namespace that does answer, so that a scan that finds nothing says something."""
    code = "import socket, time\none = socket.create_server(('', 0))\nprint(one.getsockname()[1], flush=True)\n"
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", f"{code}time.sleep(900)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def run_in(namespace, folder, environment):
    """A sweep that trains for as long as it is looked at."""
    sweep, store = write_sweep(folder, recipe={**tiny_sweep()["recipe"], "epochs": 100_000}), folder / "store"
    command = ["ip", "netns", "exec", namespace, sys.executable, "-m", "smoothsweep", "run", str(sweep), "--yes"]
    command += ["--store", str(store)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: any(store.glob("target/*.work/checkpoint.pt")) or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield psutil.Process(process.pid)
        assert process.poll() is None, "it was there all the while"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        process.wait(120)


PORTS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.ray_ports import ports_of
ports = ports_of(int(sys.argv[1]))
print(len(ports), sum(port.is_loopback and port.is_guarded for port in ports), sum(port.refused for port in ports))
"""


def gcs_address(namespace, driver):
    (gcs,) = [child for child in driver.children(recursive=True) if child.name() == "gcs_server"]
    code = "import sys, psutil\nfor c in psutil.Process(int(sys.argv[1])).net_connections('tcp'):\n    "
    code += "print(c.laddr.port if c.status == 'LISTEN' else '', end=' ')"
    (port,) = inside(namespace, "-c", code, str(gcs.pid)).split()
    return f"127.0.0.1:{port}"


def test_nobody_outside_reaches_a_run_and_nobody_inside_without_its_token(namespaces, tmp_path):
    ours, theirs = namespaces
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    with run_in(ours, tmp_path, environment) as driver:
        time.sleep(20)  # Ray's slowest processes listen, or have given it up
        told = inside(ours, "-c", PORTS, str(driver.pid)).split()
        assert int(told[0]) >= 7 and told[0] == told[1] and int(told[2]) > 150
        with control(ours) as answering:
            link = json.loads(ip(ours, "-j", "-6", "addr", "show", "scope", "link"))
            (local,) = [info["local"] for one in link for info in one.get("addr_info", [])]
            cable = re.search(r"(\d+): t", ip(theirs, "link"))[1]
            found = json.loads(inside(theirs, "-c", SCAN, HERE, local, cable))
        assert found == [[HERE, answering]], "of 131,070 ports, over IPv4 and IPv6"
        for settings in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a guess" * 5}):
            stranger = {**environment, **settings, "HOME": str(tmp_path)}
            assert inside(ours, "-c", JOIN, gcs_address(ours, driver), env=stranger).strip() == "refused"
        (token,) = [folder / TOKEN for pid, folder in folders() if pid == driver.pid]
        holder = {**environment, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        assert inside(ours, "-c", JOIN, gcs_address(ours, driver), env=holder).strip() == "joined"
