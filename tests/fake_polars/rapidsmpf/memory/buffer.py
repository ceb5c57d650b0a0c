import enum


class MemoryType(enum.Enum):
    DEVICE = 0
