"""MLflow's database in a store: whole or absent, healed where it is unreadable, and never thrown away."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from mlflow.store.db import utils
from mlflow_look import look

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.tracking import local_uri, server
from smoothsweep.orchestrator.tracking.server import connect

OURS = "import sys; from smoothsweep.orchestrator.tracking.server import connect; connect(sys.argv[1], ours=True)"


def record(loaded, store, trials):
    recorder = open_recorder(loaded, store, None, models="none")
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close([], failed=0)
    return recorder.unwritten


@pytest.fixture
def made_at_once(monkeypatch, empty_database):
    """A new database is a copy of one that MLflow has made; what there is already is upgraded as ever."""
    real = server._initialised
    monkeypatch.setattr(
        server,
        "_initialised",
        lambda path: real(path) if path.exists() else shutil.copy(empty_database, path),
    )


def schema(path):
    """What there is, and the columns of every table; the order within MLflow's checks differs from time to time."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT type, name FROM sqlite_master").fetchall()
        columns = {
            name: database.execute(f'PRAGMA table_xinfo("{name}")').fetchall()
            for kind, name in found
            if kind == "table"
        }
        return sorted(found), columns


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def nothing_of_it(path):
    path.write_bytes(b"")


def another_file(path):
    path.write_bytes(b"not a database, " * 100)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:5000])


def a_page_overwritten(path):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(range(256)) * 16 + content[8192:])


def no_revision(path):
    change(path, "DELETE FROM alembic_version")


def the_first_tables_alone(path):
    path.unlink()
    engine = utils.create_sqlalchemy_engine(f"sqlite:///{path}")
    utils.InitialBase.metadata.create_all(engine)
    engine.dispose()
    change(path, "CREATE TABLE trace_info (request_id VARCHAR)")  # of a later step, which was not noted any more


def a_step_done_and_not_noted(path):
    change(path, "UPDATE alembic_version SET version_num = '451aebb31d03'")


DAMAGES = [
    nothing_of_it,
    another_file,
    cut_short,
    a_page_overwritten,
    no_revision,
    the_first_tables_alone,
    a_step_done_and_not_noted,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unreadable_database_is_set_aside_and_made_again(damage, tmp_path, empty_database, capfd, request):
    if damage is not nothing_of_it:  # where it is MLflow that makes it
        request.getfixturevalue("made_at_once")
    path = tmp_path / "mlflow.db"
    shutil.copy(empty_database, path)
    damage(path)
    damaged = path.read_bytes()
    for _ in range(2):
        assert connect(f"sqlite:///{path}", ours=True).search_experiments()
        assert schema(path) == schema(empty_database)
    aside = list(tmp_path.glob("mlflow.db.*"))
    said = capfd.readouterr().err
    if damaged:
        (kept,) = aside
        assert kept.read_bytes() == damaged, "what somebody may want to look into is kept"
        assert said.count("\n") == 1 and str(path) in said and kept.name in said
    else:
        assert not aside and not said


@pytest.mark.parametrize("damage", [nothing_of_it, a_page_overwritten])
def test_a_sweep_is_recorded_anew_over_an_unreadable_database(damage, made_at_once, load, store, finished):
    loaded = load(seeds=[1])
    trials = finished(loaded)
    damage(store.root / "mlflow.db")
    assert not record(loaded, store, trials)
    _, kinds = look(local_uri(store), "tiny")
    assert len(kinds["trial"]) == len(trials) and all(run.info.status == "FINISHED" for run in kinds["trial"])


def test_a_process_killed_when_the_database_appears_leaves_a_whole_one(tmp_path, empty_database):
    path = tmp_path / "mlflow.db"
    process = subprocess.Popen([sys.executable, "-c", OURS, f"sqlite:///{path}"])
    late = time.monotonic() + 120
    while not path.exists() and time.monotonic() < late:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert schema(path) == schema(empty_database)
    assert connect(f"sqlite:///{path}").search_experiments()


@pytest.mark.parametrize("revision", ["451aebb31d03", "c48cb773bb87", "f5a4f2784254"])
def test_the_tables_of_an_earlier_mlflow_are_upgraded_in_a_copy(revision, tmp_path, empty_database, monkeypatch):
    from alembic import command

    path = tmp_path / "mlflow.db"
    engine = utils.create_sqlalchemy_engine(f"sqlite:///{path}")
    utils.InitialBase.metadata.create_all(engine)
    with engine.begin() as connection:
        config = utils._get_alembic_config(f"sqlite:///{path}")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    change(path, "INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'kept', 'active')")
    client = connect(f"sqlite:///{path}", ours=True)
    assert client.get_experiment_by_name("kept").experiment_id == "7"
    assert not list(tmp_path.glob("mlflow.db.*"))
    with contextlib.closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT version_num FROM alembic_version").fetchall()
    assert found == [(utils._get_latest_schema_revision(),)]


@pytest.mark.parametrize("ours", [True, False])
def test_the_tables_of_a_later_mlflow_are_left_alone(ours, store):
    path = store.root / "mlflow.db"
    change(path, "UPDATE alembic_version SET version_num = 'ffffffffffff'")
    before = path.read_bytes()
    with pytest.raises(InputError, match="expected an MLflow tracking store"):
        connect(local_uri(store), ours=ours)
    assert path.read_bytes() == before and [other.name for other in store.root.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("damage", [another_file, cut_short])
def test_the_database_of_another_is_never_touched(damage, tmp_path, empty_database):
    path = tmp_path / "theirs.db"
    shutil.copy(empty_database, path)
    damage(path)
    before = path.read_bytes()
    with contextlib.suppress(InputError):
        connect(f"sqlite:///{path}")
    assert [other.name for other in tmp_path.iterdir()] == ["theirs.db"]
    assert path.read_bytes() == before


def test_what_sqlite_left_beside_a_lost_database_is_not_taken_for_the_new_ones(made_at_once, store, empty_database):
    """A journal of another file would be played back into the new one."""
    path = store.root / "mlflow.db"
    path.unlink()
    path.with_name("mlflow.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(2040))
    connect(local_uri(store), ours=True)
    assert schema(path) == schema(empty_database)
    assert len(list(store.root.glob("mlflow.db.damaged-*-journal"))) == 1
