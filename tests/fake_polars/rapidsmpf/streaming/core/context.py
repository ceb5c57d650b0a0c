import asyncio
import threading

import rapidsmpf.memory.buffer


class MemoryReserveOrWait:
    """Requests for memory that are not met; a cancelled one waits on, as in the real one."""

    def __init__(self):
        self._are_refused = threading.Event()

    async def reserve_or_wait(self):
        waiting = asyncio.ensure_future(asyncio.to_thread(self._are_refused.wait))
        try:
            await asyncio.shield(waiting)
        finally:
            await waiting

    async def shutdown(self):
        self._are_refused.set()


class Context:
    def __init__(self):
        self._memory = {rapidsmpf.memory.buffer.MemoryType.DEVICE: MemoryReserveOrWait()}

    def memory(self, kind):
        return self._memory[kind]
