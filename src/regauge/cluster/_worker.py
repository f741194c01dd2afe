"""The function that workers of a cluster import: one attempt at a call, both as JSON text."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regauge.cluster._worker_calls import WorkerCalls


async def make_call(text: str) -> str:
    """Make one attempt at a call; the call and its result are JSON text.

    The API key comes from the environment of the worker. A worker with another version or commit
    than the driver returns the reason instead.
    """
    from distributed import get_worker

    from regauge.errors import RegaugeError

    worker: Any = get_worker()
    call = json.loads(text)
    # Dask's dictionary for objects that belong to a worker.
    calls = worker.extensions.get("regauge")
    if calls is None:
        opening = asyncio.to_thread(_open_calls, call.get("root"), worker.state.nthreads)
        calls = worker.extensions["regauge"] = asyncio.ensure_future(opening)
    try:
        result = await (await asyncio.shield(calls)).make(call)
    except RegaugeError as error:
        result = {"refused": str(error)}
    return json.dumps(result, ensure_ascii=False, default=dict)


def _open_calls(root: str | None, width: int) -> WorkerCalls:
    """Load what calls need, which takes seconds, and open the project."""
    from regauge.cluster._worker_calls import WorkerCalls

    return WorkerCalls(root, width)
