"""The server's settings, as the administrator writes them: ``c.GpuDask`` in ``jupyter_server_config.py``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from traitlets import Bool, Dict, Enum, Float, Int, Unicode
from traitlets.config import LoggingConfigurable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


class ServerSettings(LoggingConfigurable):
    """Settings of the clusters of one Jupyter server.

    Each setting is declared here and nowhere else. `Policy` applies those that concern a single cluster. Those with the
    tag `limit` limit what users can do.
    """

    default_spec = Dict(
        help="""Default options of a cluster, such as `{'gpus': 1, 'pool': 0.5}`; `{'profile': 'small'}` makes the
        options of that profile the default, and other keys override them."""
    ).tag(config=True)
    profiles = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help="""Named sets of cluster options that users can choose from, such as
        `{'small': {'title': 'One GPU', 'gpus': 1}}`; or a class of Dask clusters and its keyword arguments, such as
        `{'queue': {'class': 'dask_jobqueue.SLURMCluster', 'options': {'n_workers': 4}, 'engine': 'cuda'}}`, where
        `engine` is `cuda` if the workers have GPUs. Users choose a profile by name; only the administrator can name a
        class.""",
    ).tag(config=True)
    profiles_only = Bool(
        default_value=False,
        help="""Whether users can start only clusters with the options of a profile, or with the default options. They
        can still change the number of workers within that.""",
    ).tag(config=True, limit=True)
    idle_timeout = Float(
        0.0,
        min=0.0,
        help="Seconds after which a cluster without work is closed, unless its kernel is busy; 0 disables this.",
    ).tag(config=True, limit=True)
    max_lifetime = Float(
        0.0,
        min=0.0,
        help="""Seconds after which a running cluster is closed, also if it works; its user is warned 10 minutes before;
        0 disables this.""",
    ).tag(config=True, limit=True)
    restart_policy = Enum(
        ("keep", "renew", "stop"),
        "keep",
        help="""What happens to a cluster when its kernel is restarted: `keep` resets it and keeps its workers,
        `renew` starts a new one, `stop` closes it.""",
    ).tag(config=True)
    share_gpus = Bool(
        default_value=False, help="Whether clusters share their GPUs with other clusters by default."
    ).tag(config=True)
    lease_directory = Unicode(
        "",
        help="""A directory in which the clusters of all users of this machine hold their GPUs, writable for all and
        sticky, on a local file system: `install -d -m 1777 /run/gpudask-leases`. Without it, leases only
        keep each user's own clusters on separate GPUs. Kernels get the directory as the environment variable
        `JUPYTER_GPUDASK_LEASE_DIRECTORY`.""",
    ).tag(config=True, limit=True)
    allow_ucx = Bool(
        default_value=True,
        help="""Whether the protocol UCX is allowed. UCX does not support TLS: every user of this machine can connect
        to such a cluster.""",
    ).tag(config=True, limit=True)
    max_clusters = Int(
        None, allow_none=True, min=0, help="Maximum number of clusters at a time; `None` for no limit."
    ).tag(config=True, limit=True)
    max_workers = Int(
        None, allow_none=True, min=1, help="Maximum number of workers of a cluster; `None` for no limit."
    ).tag(config=True, limit=True)
    max_gpus = Int(
        None,
        allow_none=True,
        min=1,
        help="""Maximum number of GPUs that all clusters of a user hold together, in all servers of that user; `None`
        for no limit.""",
    ).tag(config=True, limit=True)
    hand_over_after = Float(
        0.0,
        min=0.0,
        help="""Seconds without work after which a cluster hands its GPUs over to a start that waits in the queue: its
        user gets a notice, and the cluster is closed if nobody answers it within 60 seconds; 0 disables this.""",
    ).tag(config=True, limit=True)
    hand_over_results = Bool(
        default_value=False,
        help="""Whether a cluster counts as idle for `hand_over_after` even if variables of its notebook hold results on
        the GPUs.""",
    ).tag(config=True)
    price_per_gpu_hour = Float(
        0.0, min=0.0, help="What a GPU costs per hour, for the cost that is shown under each cell; 0 shows none."
    ).tag(config=True)
    currency = Unicode("USD", help="The currency of `price_per_gpu_hour`.").tag(config=True)
    history_seconds = Int(
        900, min=0, help="Seconds of metrics that the server keeps, for browsers that connect later."
    ).tag(config=True)


# The class name is the configuration section, which `--help-all` shows: `c.GpuDask.profiles`, `--GpuDask.profiles=...`.
ServerSettings.__name__ = "GpuDask"


def overridable_limits(files: Collection[str], folders: Sequence[str], command_line: Collection[str]) -> Iterator[str]:
    """The sentences to log.

    - `files`: the configuration files that were loaded. Those that the user can write are not the administrator's.
    - `folders`: the folders of configuration files, the one first that has precedence.
    - `command_line`: the settings that are given on the command line, which has precedence over all files.
    """
    limits = sorted(ServerSettings.class_traits(limit=True))
    for file in files:
        before = folders[: folders.index(parent)] if (parent := str(Path(file).parent)) in folders else ()
        own = next((folder for folder in before if _can_be_written(Path(folder))), None)
        if own is None or _can_be_written(Path(file)):
            continue
        text = Path(file).read_text(errors="replace")
        names = [name for name in limits if name not in command_line and re.search(rf"\b{name}\b", text)]
        if names:
            yield (
                f"The user of this server can override {', '.join(names)} of {file}: files in {own} have precedence. "
                "In JupyterHub, set c.Spawner.disable_user_config = True, or give these limits in c.Spawner.args."
            )


def _can_be_written(path: Path) -> bool:
    """Whether this user can write or create it."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    return os.access(existing, os.W_OK)
