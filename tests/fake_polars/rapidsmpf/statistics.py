class Statistics:
    """Counts while it is enabled, as the real one."""

    def __init__(self):
        self._enabled, self._stats = False, {}

    def enable(self):
        self._enabled = True

    def disable(self):
        self._enabled = False

    def clear(self):
        self._stats = {}

    def add_stat(self, name, value):
        if self._enabled:
            before = self._stats.setdefault(name, {"count": 0, "value": 0, "max": 0})
            self._stats[name] = {"count": before["count"] + 1, "value": before["value"] + value, "max": value}

    def to_dict(self):
        return self._stats if self._enabled else {}
