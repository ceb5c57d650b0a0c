"""The description of a scheduler, without addresses at which nothing answers a browser."""

from __future__ import annotations

import re

from distributed.objects import SchedulerInfo

_DASHBOARD = re.compile(r'<strong>Dashboard:\s*</strong>\s*<a href="[^"]*" target="_blank">[^<]*</a>')


class InfoWithoutDashboards(SchedulerInfo):
    """As Dask's; the HTML has no dashboards: the scheduler's refuses browsers, and workers have none."""

    def _repr_html_(self) -> str:
        return _DASHBOARD.sub("", super()._repr_html_())
