"""Calls of models and targets on the workers of a Dask cluster.

`_driver.py` sends calls and receives completions, with the retries and prices of `providers`.
`_limits.py` is the pace of all drivers, kept by the scheduler. `_calls.py` converts calls and
results to JSON. `_worker.py` is the function that workers import, `_worker_calls.py` makes its
attempts. The package loads its modules late, as the scheduler imports it, too.
"""

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.cluster._driver import (
        Cluster as Cluster,
        ClusterAttempts as ClusterAttempts,
        ClusterTarget as ClusterTarget,
        parse_address as parse_address,
    )


__getattr__, _ = lazy_names(__name__)
