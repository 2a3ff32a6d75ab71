"""What a cluster offers. A Ray of a run alone: where its files lie, loopback alone, deaf without the token."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc
import psutil
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster import connection, run_folder
from smoothsweep.orchestrator.cluster.run_folder import folders, new_folder
from smoothsweep.tasks.context import PROMISED_GPUS, PROMISED_PER_NODE
from tests.ray_ports import ports_of, ray_methods


@pytest.fixture
def joined(monkeypatch):
    """A cluster whose only machine is a head without a GPU."""
    monkeypatch.setattr(connection.ray, "init", lambda **_: None)
    monkeypatch.setattr(connection, "_ask_whether_alive", lambda _: None)
    monkeypatch.setattr(connection.ray, "cluster_resources", lambda: {"CPU": 8.0, connection.SLOT: 32.0})
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0}}, {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}]
    monkeypatch.setattr(connection.ray, "nodes", lambda: nodes)
    monkeypatch.delenv(PROMISED_GPUS, raising=False)
    monkeypatch.delenv(PROMISED_PER_NODE, raising=False)


def test_a_cluster_that_scales_from_zero_promises_its_gpus(joined, monkeypatch):
    now = connection.connect("auto", None)
    assert (now.gpus, now.node_gpus, now.node_cpus) == (0, 0, 8), "a dead machine does not count"
    monkeypatch.setenv(PROMISED_GPUS, "32")
    grown = connection.connect("auto", None)
    assert (grown.gpus, grown.node_gpus, grown.node_cpus) == (32, None, None)
    monkeypatch.setenv(PROMISED_PER_NODE, "8")
    assert connection.connect("auto", None).node_gpus == 8


@pytest.mark.parametrize("promised", ["many", "-1", "nan", "inf"])
def test_a_promise_that_is_no_number_is_one_line(joined, monkeypatch, promised):
    monkeypatch.setenv(PROMISED_GPUS, promised)
    with pytest.raises(InputError, match="expected a number of GPUs, got"):
        connection.connect("auto", None)


@pytest.fixture
def silent():
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


PLACES = ["127.0.0.1:{silent}", "127.0.0.1:1", "nowhere.invalid:6379", "ray://127.0.0.1:1", "localhost", "a:b"]


@pytest.mark.parametrize("where", PLACES)
def test_an_address_where_no_ray_listens_is_one_line_within_twenty_seconds(where, silent, smoothsweep, tmp_path):
    address, began = where.format(silent=silent), time.monotonic()
    done = smoothsweep("run", write_tiny(tmp_path), "--store", tmp_path / "store", "--address", address)
    assert done.returncode == 2 and time.monotonic() - began < 20
    [line] = [line for line in done.stderr.splitlines() if "--address" in line]
    assert address in line and "gcs_client" not in done.stderr


@pytest.fixture
def place(monkeypatch):
    """A folder with a short name, in which a base may be made; nothing else is a base here."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name:
        monkeypatch.setattr(run_folder, "SHORT_BASE", Path(name) / "none")
        yield Path(name)


def base(place, mode=0o700, name="b"):
    found = place / name
    found.mkdir(parents=True, exist_ok=True)
    found.chmod(mode)
    return found


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
def test_it_is_of_mode_700_whatever_the_umask_and_goes_at_the_end(place, monkeypatch, mask):
    monkeypatch.setenv("RAY_TMPDIR", str(base(place)))
    before = os.umask(mask)
    try:
        with new_folder() as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.parent == place / "b"
            assert (os.getpid(), folder) in list(folders())
            (folder / "ray" / "session_1" / "logs").mkdir(parents=True)
    finally:
        os.umask(before)
    assert list((place / "b").iterdir()) == []


@given(extra=st.integers(0, 120))
def test_a_name_too_long_for_a_socket_is_refused_and_no_other(extra):
    """By Ray's own rule, on the longest name that its session can have here."""
    from ray._private.utils import validate_socket_filepath

    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name, pytest.MonkeyPatch.context() as patched:
        made = Path(name) / ("x" * extra or ".")
        made.mkdir(exist_ok=True)
        patched.setenv("RAY_TMPDIR", str(made))
        stamp = "2026-11-23_10-19-48_608098"
        socket = f"ray/session_{stamp}_{os.getpid()}/sockets/plasma_store"
        try:
            with new_folder() as folder:
                validate_socket_filepath(str(folder / socket))
        except InputError as error:
            assert "bytes too long for the names of Ray's sockets" in str(error) and list(made.iterdir()) == []
            with pytest.raises(OSError, match="path length cannot exceed"):
                validate_socket_filepath(f"{os.path.realpath(made)}/ssray-{os.getpid()}-{'x' * 8}/{socket}")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
@pytest.mark.parametrize("above", [False, True])
def test_a_base_in_which_others_may_rename_is_refused(place, monkeypatch, mode, above):
    made = base(place, mode)
    monkeypatch.setenv("RAY_TMPDIR", str(base(made, name="c") if above else made))
    refusal = rf"^RAY_TMPDIR: .* got {re.escape(str(made))}, where others may rename .* \(mode {mode:o}\)$"
    with pytest.raises(InputError, match=refusal), new_folder():
        pass
    assert not list(made.rglob("ssray-*"))
    made.chmod(mode | stat.S_ISVTX)
    with new_folder() as folder:
        assert folder.is_dir()


def test_what_is_no_folder_of_ours_is_refused(place, monkeypatch):
    (place / "f").touch()
    for name, refusal in (("f", "which is no folder"), ("n", "No such file or directory")):
        monkeypatch.setenv("RAY_TMPDIR", str(place / name))
        with pytest.raises(InputError, match=refusal), new_folder():
            pass
    if os.getuid() == 0:
        os.chown(base(place), 12345, -1)
        (place / "l").symlink_to(place / "b")
        for name in ("b", "l"):  # the link is ours, what it leads to is not
            monkeypatch.setenv("RAY_TMPDIR", str(place / name))
            with pytest.raises(InputError, match=r"/b, which belongs to another user \(12345\)$"), new_folder():
                pass


def test_a_usual_temporary_folder_that_will_not_do_makes_way_for_the_short_one(place, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(base(place, 0o777)))
    with pytest.raises(InputError, match=r"^TMPDIR: expected a folder"), new_folder():
        pass
    monkeypatch.setattr(run_folder, "SHORT_BASE", base(place, name="s"))
    with new_folder() as folder:
        assert folder.parent == place / "s" and (os.getpid(), folder) in list(folders())


def test_links_and_what_others_made_are_no_folders_of_ours(place, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(base(place)))
    (place / "kept").mkdir()
    (place / "b" / "ssray-1-link").symlink_to(place / "kept")
    (place / "b" / "ssray-1-file").touch()
    if os.getuid() == 0:
        (place / "b" / "ssray-1-theirs").mkdir()
        os.chown(place / "b" / "ssray-1-theirs", 12345, -1)
    assert [folder for _, folder in folders() if folder.is_relative_to(place)] == []


OPEN = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "a-word-that-everybody-knows"}


@pytest.fixture(scope="module")
def running_ray():
    """A local Ray with two workers, started where the user's settings would leave it open; the path of its token."""
    before = {name: os.environ.get(name) for name in OPEN}
    os.environ |= OPEN
    mask = os.umask(0)  # the most open one
    connection.start_ray(num_cpus=2, object_store_memory=100 * 2**20)
    os.umask(mask)

    @ray.remote
    def work():
        return os.getpid()

    assert ray.get(work.remote()) != os.getpid()
    monitor = Path(ray._private.worker._global_node.get_session_dir_path()) / "logs" / "monitor.log"
    for _ in range(300):  # the process that would listen last, but for the dashboard's, which the drill waits for
        if monitor.is_file() and "metrics server on port" in monitor.read_text():
            break
        time.sleep(0.1)
    else:
        raise TimeoutError("Ray's monitor says nothing of its port")
    yield Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    folder = Path(os.environ["RAY_TMPDIR"])
    connection.stop_ray()
    assert not folder.exists(), "Ray's sessions, logs and sockets go with the run"
    assert {name: os.environ[name] for name in OPEN} == OPEN, "the user's settings are as they were"
    assert "RAY_TMPDIR" not in os.environ
    connection._set(before)
    connection._read_anew()


def processes():
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def test_every_port_is_on_the_loopback_interface_and_every_call_asks_for_the_token(running_ray):
    ports = ports_of(os.getpid())
    assert {"gcs_server", "raylet"} <= {port.process for port in ports} and len(ports) >= 7
    assert [port for port in ports if not (port.is_loopback and port.is_guarded)] == []
    assert sum(port.refused for port in ports) > 150, "each call that each process knows"


def test_who_has_the_token_is_answered(running_ray):
    connection._ask_whether_alive(ray.get_runtime_context().gcs_address)  # asks for a token: it is a Ray
    with grpc.insecure_channel(ray.get_runtime_context().gcs_address) as channel:
        call = channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")
        assert "/ray.rpc.NodeInfoGcsService/CheckAlive" in ray_methods()
        assert call(b"", timeout=10, metadata=(("authorization", f"Bearer {running_ray.read_text()}"),))
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=10, metadata=(("authorization", f"Bearer {OPEN['RAY_AUTH_TOKEN']}"),))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_token_is_on_no_command_line_in_no_environment_and_in_no_log(running_ray):
    token = running_ray.read_text().encode()
    assert len(token) == 64
    for process in processes():
        for what in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{process.pid}/{what}").read_bytes(), process
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    read = [path.read_bytes() for path in session.rglob("*") if path.is_file()]
    assert len(read) > 5 and not any(token in content for content in read)


def test_the_token_is_for_its_owner_alone(running_ray):
    assert stat.S_IMODE(running_ray.stat().st_mode) == 0o600
    assert stat.S_IMODE(running_ray.parent.stat().st_mode) == 0o700


INTRUDER = """
import json, os, socket, sys
folder, session, found = sys.argv[1], sys.argv[2], {}

def attempt(name, act):
    try:
        act()
        found[name] = "done"
    except OSError as error:
        found[name] = type(error).__name__

def reach(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

os.umask(0)
attempt("list the temporary folder", lambda: os.listdir(os.path.dirname(folder)))
attempt("list", lambda: os.listdir(folder))
for path in [folder, *sys.argv[2:]]:
    attempt(f"enter {path}", lambda: os.listdir(path + "/."))
    attempt(f"look at {path}/x", lambda: os.lstat(path + "/x"))
    attempt(f"put a link into {path}", lambda: os.symlink("/etc/hostname", path + "/debug_state.txt.link"))
    attempt(f"rename {path}", lambda: os.rename(path, path + "-mine"))
    if len(path) <= 107:  # a name of a socket
        attempt(f"connect to {path}", lambda: reach(path))
print(json.dumps(found))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_user_cannot_enter_what_ray_keeps(running_ray):
    """Everything below the folder, sockets and logs among it, is tried by the user `nobody`."""
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    places = [str(path) for path in (session, *session.rglob("*"))]
    assert {"logs", "sockets", "raylet", "plasma_store", "debug_state.txt"} <= {Path(path).name for path in places}
    done = subprocess.run(
        ["python3", "-c", INTRUDER, str(running_ray.parent), *places],
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        extra_groups=[],
        timeout=60,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found.pop("list the temporary folder") == "done", "or the others would say nothing"
    assert len(found) > 4 * len(places) and set(found.values()) == {"PermissionError"}


def test_all_that_ray_has_made_lies_in_the_run_s_folder(running_ray):
    """Also what it makes where nothing tells it otherwise: locks of its libraries, in this process and in workers."""
    folder = running_ray.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.getuid()
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    assert session.parent == folder / "ray" and stat.S_IMODE((session / "logs").stat().st_mode) == 0o777

    @ray.remote
    def default_places():
        from ray._common.utils import get_default_ray_temp_dir, get_default_system_temp_dir

        return {get_default_ray_temp_dir(), get_default_system_temp_dir()}

    assert ray.get(default_places.remote()) == {str(folder), str(folder / "ray")}
    written = {path for process in processes() for path in opened_files(process)}
    shared = [path for path in written if path.startswith("/tmp/") and not path.startswith(f"{folder}/")]
    assert any(path.startswith(f"{folder}/ray/") for path in written) and not [p for p in shared if "ray" in p]


def opened_files(process):
    return [file.path for file in process.open_files() if file.mode != "r"]


@pytest.fixture
def temporary(monkeypatch):
    """An own temporary folder with a short name, so that no other run's is seen."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setattr(run_folder, "SHORT_BASE", Path(name))
        yield Path(name)


def test_what_a_killed_driver_left_is_swept_away_and_nothing_else(temporary, monkeypatch):
    monkeypatch.setattr(connection, "_read_anew", lambda: None)
    code = "import os, signal\n"
    code += "from smoothsweep.orchestrator.cluster import run_folder\nheld = run_folder.new_token()\nheld.__enter__()\n"
    code += "import tempfile\nfrom pathlib import Path\n(made,) = Path(tempfile.gettempdir()).iterdir()\n"
    code += "(made / 'ray' / 'session_1' / 'logs').mkdir(parents=True)\n"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)"], env=environment, timeout=120)
    (left,) = temporary.iterdir()
    assert (left / "ray" / "session_1" / "logs").is_dir()
    kept = [temporary / name for name in (f"ssray-{os.getpid()}-x", "ssray-tomorrow-x", "other")]
    for folder in kept:
        folder.mkdir()
    with run_folder.new_token() as live, connection._guarded():
        assert not left.exists() and live.exists() and all(folder.exists() for folder in kept)
        assert Path(os.environ["RAY_AUTH_TOKEN_PATH"]).exists()
