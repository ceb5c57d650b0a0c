"""What the steps say together: our cell beside the one by hand, the efficiency on more GPUs, and the transports."""

from __future__ import annotations

from typing import Any

TRANSPORTS = ("unix", "tls", "tcp", "ucx", "ucx without pool")
RATIOS = (("tls", "unix"), ("tcp", "unix"), ("unix", "ucx"), ("ucx without pool", "ucx"))


def summarize(steps: dict[str, Any], gpus: int) -> dict[str, Any]:
    """Ratios of the seconds that were measured; those of steps that are missing or have failed are left out.

    Parameters
    ----------
    steps
        The results of the steps, by name.
    gpus
        The largest number of GPUs.

    Returns
    -------
    dict
        ``beside_by_hand``: how many times as fast as by hand, on all GPUs, are the start and the cells.
        ``efficiency``: t1 / (n · tn) of each computation, transport and number of GPUs n; t1 is that on one GPU over
        Unix sockets, where nothing is sent between workers.
        ``transports``: the seconds with one transport over those with another, of each computation and number of
        GPUs.
    """
    hand, ours = f"by hand {gpus}", f"unix {gpus}"
    beside: dict[str, float] = {}
    starts = [steps.get(name, {}).get("start") for name in (hand, ours)]
    if all(starts):
        beside["start"] = round(starts[0] / starts[1], 2)
    for work in ("cell", "verbatim"):
        seconds = [_seconds(steps, name, work) for name in (hand, ours)]
        if seconds[0] and seconds[1]:
            beside[work] = round(seconds[0] / seconds[1], 2)
    works = {work for step in steps.values() for work in step.get("works", ())}
    efficiency: dict[str, Any] = {}
    transports: dict[str, Any] = {}
    for work in sorted(works):
        one = _seconds(steps, "unix 1", work)
        for count in (2, 4, 8):
            found = {each: _seconds(steps, f"{each} {count}", work) for each in TRANSPORTS}
            for transport, seconds in found.items():
                if one and seconds:
                    place = efficiency.setdefault(work, {}).setdefault(transport, {})
                    place[str(count)] = round(one / (count * seconds), 2)
            for slow, fast in RATIOS:
                if found[slow] and found[fast]:
                    place = transports.setdefault(work, {}).setdefault(str(count), {})
                    place[f"{slow} over {fast}"] = round(found[slow] / found[fast], 2)
    return {"beside_by_hand": beside, "efficiency": efficiency, "transports": transports}


def _seconds(steps: dict[str, Any], step: str, work: str) -> float | None:
    found: float | None = steps.get(step, {}).get("works", {}).get(work, {}).get("seconds")
    return found
