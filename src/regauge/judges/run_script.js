// Timers run in their order without waiting, so that no verdict depends on the speed of a machine.
(() => {
  const stringify = JSON.stringify;
  const state = {response: undefined};
  const timers = [];
  let next = 0;
  const add = (run, delay, rest) => {
    timers.push({at: Number(delay) > 0 ? Number(delay) : 0, id: ++next, run, rest});
    return next;
  };
  const drop = (id) => {
    const place = timers.findIndex((timer) => timer.id === id);
    if (place >= 0) timers.splice(place, 1);
  };
  globalThis.setTimeout = (run, delay, ...rest) => add(run, delay, rest);
  globalThis.setImmediate = (run, ...rest) => add(run, 0, rest);
  globalThis.clearTimeout = drop;
  globalThis.clearImmediate = drop;
  state.step = () => {
    if (state.response !== undefined || !timers.length) return false;
    timers.sort((a, b) => a.at - b.at || a.id - b.id);
    const {at, run, rest} = timers.shift();
    for (const timer of timers) timer.at -= at;
    try { run(...rest); } catch { /* as in a browser, the rest goes on */ }
    return true;
  };
  Promise.resolve(SCRIPT_CALL).then((response) => { state.response = stringify(response); });
  return state;
})()
