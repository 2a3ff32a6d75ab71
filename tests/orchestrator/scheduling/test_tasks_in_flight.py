"""Tasks in flight, without a Ray: what nobody waits for is ended."""

import asyncio
from types import SimpleNamespace

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.scheduling import tasks_in_flight as running
from smoothsweep.orchestrator.scheduling.tasks_in_flight import Running, TasksInFlight


def test_what_nobody_waits_for_is_ended(monkeypatch):
    """When one part of a stage fails, the parts beside it are cancelled here: their Ray tasks must end too."""
    ended = []

    async def end(task, reason):
        ended.append(str(reason))

    async def main():
        tasks, stage = TasksInFlight(), Sleep(config={"classes": 1, "seconds": 60.0})
        part = asyncio.ensure_future(
            tasks.run(Running(stage=stage, devices=1.0), lambda tell: asyncio.get_running_loop().create_future())
        )
        await asyncio.sleep(0)
        assert len(tasks.of(stage)) == 1
        part.cancel()
        await asyncio.wait([part])
        await asyncio.sleep(0)
        assert tasks.of(stage) == []

    monkeypatch.setattr(running, "end", end)
    monkeypatch.setattr(running.ray, "get_runtime_context", lambda: SimpleNamespace(current_actor=None))
    asyncio.run(main())
    assert len(ended) == 1 and "failed" in ended[0]
