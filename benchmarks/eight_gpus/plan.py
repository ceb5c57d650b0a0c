"""The steps of the benchmark, in order of importance: which cluster, which computations, about how many seconds."""

from __future__ import annotations

from dataclasses import dataclass

# Device memory that a shuffle needs, as a multiple of its tables; of it clusters fill 80 % before they spill.
SHUFFLE_FACTOR, FILLED = 3, 0.8
NOTEBOOKS = 4
# A computation is run once to warm up, and then up to three times, as long as the runs take no more than these seconds.
REPEAT = 3
ENOUGH = {"cell": 20.0, "verbatim": 20.0}
ENOUGH_OF_OTHERS = 8.0
# The cell has warmed up what its other form needs; the large join is run once, after the small one.
WITHOUT_WARM_UP = ("verbatim", "large join")
ONCE = ("large join",)
# A step is killed after this many times the seconds that it should take, and not before these seconds.
PATIENCE, LEAST_LIMIT = 2.5, 60


def repeats(work: str, runs: list[float]) -> bool:
    """Whether a computation that took these seconds is run again."""
    if work in ONCE or len(runs) >= REPEAT:
        return False
    return sum(runs) + runs[-1] < ENOUGH.get(work, ENOUGH_OF_OTHERS)


@dataclass(frozen=True)
class Step:
    """A process that starts a cluster and computes on it; or, with the cluster `notebooks`, a Jupyter server.

    Attributes
    ----------
    name
        What ``--only`` selects.
    cluster
        ``by hand``, ``notebooks``, or one of `clusters.OPTIONS`.
    gpus
        The number of GPUs.
    works
        The names of the computations.
    left_out
        Why a computation is left out, by its name.
    seconds
        About how long it takes, from measurements on H200s.
    """

    name: str
    cluster: str
    gpus: int
    works: tuple[str, ...]
    left_out: dict[str, str]
    seconds: float

    @property
    def limit(self) -> float:
        """Seconds after which it is killed."""
        return max(LEAST_LIMIT, PATIENCE * self.seconds)


def make_plan(gpus: int, memory: int, large_join_bytes: int) -> list[Step]:
    """The steps for a machine with `gpus` GPUs of `memory` bytes each.

    Every number of GPUs is run over Unix sockets, and those above one with UCX and plain TCP too, all GPUs with TLS as
    well: of all GPUs first, because what comes last may find no time.
    """
    counts = sorted({gpus, *(count for count in (1, 2, 4, 8) if count < gpus)}, reverse=True)
    large = "large join"

    def step(cluster: str, count: int, *works: str) -> Step:
        needed, held = SHUFFLE_FACTOR * large_join_bytes, int(FILLED * memory * count)
        left_out = {}
        if large in works and needed > held:
            left_out[large] = (
                f"the shuffle of {large_join_bytes / 1e9:g} GB needs about {needed / 1e9:g} GB of device memory, and "
                f"{count} GPU{'s' if count > 1 else ''} hold {held / 1e9:.0f} GB before they spill"
            )
        works = tuple(work for work in works if work not in left_out)
        seconds = 14 + 0.5 * count + sum(_seconds(work, cluster, count) for work in works)
        return Step(f"{cluster} {count}", cluster, count, works, left_out, round(seconds))

    scaled = ("SVD", "group-by", "join")
    plan = [step("by hand", gpus, "cell", "verbatim"), step("unix", gpus, "cell", "verbatim", *scaled, large)]
    plan += [step("unix", count, "cell", *scaled) for count in reversed(counts[1:])]
    if gpus > 1:
        plan += [step(cluster, gpus, "cell", *scaled, large) for cluster in ("ucx", "tcp", "tls")]
    plan.append(Step(f"notebooks {gpus}", "notebooks", gpus, (), {}, 50))
    for count in counts[1:]:
        if count > 1:
            plan += [step(cluster, count, *scaled) for cluster in ("ucx", "tcp")]
    if gpus > 1:
        plan.append(step("ucx without pool", gpus, "join"))
    return plan


def _seconds(work: str, cluster: str, gpus: int) -> float:
    """With warm-up and repeats; a GB that is sent takes a second of the sender and one of the receiver."""
    sent = 0 if cluster.startswith("ucx") else 40 / gpus * (1 - 1 / gpus)
    cell = 28 / gpus + 2 if cluster == "by hand" else 4 / gpus + 0.6
    once = {
        "cell": cell,
        "verbatim": cell,
        "SVD": 10 / gpus + 1,
        "group-by": 8 / gpus + 0.5,
        "join": 6 / gpus + sent,
        "large join": 30 / gpus + 5 * sent,
    }[work]
    runs = [once]
    while repeats(work, runs):
        runs.append(once)
    warm_up = 0 if work in WITHOUT_WARM_UP else once if work == "cell" else once / 10 + 2
    return warm_up + sum(runs)
