"""Calls of models and targets on the workers of a Dask cluster.

`_driver.py` sends calls and receives completions; the retries and prices of `providers` stay with
it. `_limits.py` is the pace of all drivers, kept by the scheduler. `_calls.py` is JSON text between
the two sides. `_worker.py` is the function that workers import; it makes one attempt. Nothing loads
here: the scheduler imports the package, too.
"""

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_getattr

if TYPE_CHECKING:
    from regauge.cluster._driver import (
        Cluster as Cluster,
        ClusterAttempts as ClusterAttempts,
        ClusterTarget as ClusterTarget,
        parse_address as parse_address,
    )


__getattr__ = lazy_getattr(__name__)
