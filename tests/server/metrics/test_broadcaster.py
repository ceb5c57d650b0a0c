"""The messages of the stream to subscribers that read at different speeds."""

import asyncio
import json

import pytest
from managers import with_manager

from jupyter_gpudask.server.monitor import Monitor
from jupyter_gpudask.server.stream import Broadcaster


class Subscriber:
    """Drops the messages with these numbers, as a slow connection does."""

    def __init__(self, *dropped):
        self.dropped = dropped
        self.messages = 0
        self.samples = []

    def send(self, message):
        self.messages += 1
        if self.messages in self.dropped:
            return False
        self.samples += [sample["time"] for sample in json.loads(message)["history"]]
        return True


@pytest.mark.parametrize("dropped", [[1], [2], [2, 3], [2, 4]])
def test_a_slow_subscriber_gets_each_sample_of_the_history_exactly_once(dropped):
    async def use(manager):
        broadcaster = Broadcaster(manager, Monitor(manager), history=100, interval=0.01)
        fast, slow = Subscriber(), Subscriber(*dropped)
        broadcaster.subscribe(fast)
        broadcaster.subscribe(slow)
        async with asyncio.timeout(30):
            while len(slow.samples) < 6:
                await asyncio.sleep(0.01)
        await broadcaster.stop()
        assert slow.samples[:6] == fast.samples[:6]

    with_manager(use)
