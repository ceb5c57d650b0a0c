"""Runs actors as RapidsMPF 26.10 does: in a thread with an event loop, for which the caller waits in a lock."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor


async def _run_and_publish(actors, ready):
    ready.set_result((asyncio.get_running_loop(), asyncio.current_task()))
    async with asyncio.TaskGroup() as group:
        for actor in actors:
            group.create_task(actor)


def _run(actors, ready):
    with asyncio.Runner() as runner:
        runner.run(_run_and_publish(actors, ready))


def run_actor_network(actors):
    ready = Future()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rapidsmpf-actor") as executor:
        running = executor.submit(_run, actors, ready)
        loop, task = ready.result()
        try:
            running.result()
        except BaseException:
            if not running.done():
                loop.call_soon_threadsafe(task.cancel)
            raise
