"""What those who watch are told, each at its own speed; kernels are names here."""

import asyncio
import json

import pytest
from managers import with_manager

from jupyter_gpudask.server.metrics.broadcaster import Watch


class Client:
    """Leaves out the messages of these numbers, as one does whose connection is slow."""

    def __init__(self, *left_out):
        self.left_out = left_out
        self.messages = 0
        self.samples = []

    def send(self, message):
        self.messages += 1
        if self.messages in self.left_out:
            return False
        self.samples += [sample["time"] for sample in json.loads(message)["history"]]
        return True


@pytest.mark.parametrize("left_out", [[1], [2], [2, 3], [2, 4]])
def test_who_was_behind_gets_every_sample_of_the_history_once(monkeypatch, left_out):
    monkeypatch.setattr("jupyter_gpudask.server.metrics.broadcaster._INTERVAL", 0.01)

    async def use(manager):
        watch, quick, slow = Watch(manager, 100), Client(), Client(*left_out)
        watch.join(quick)
        watch.join(slow)
        async with asyncio.timeout(10):
            while len(slow.samples) < 6:
                await asyncio.sleep(0.01)
        await watch.stop()
        assert slow.samples[:6] == quick.samples[:6]

    with_manager(use)
