// Word differences of two texts: the shortest edit script of Myers, with a limit.

const DIFF_CHARS = 60000;
const DIFF_STEPS = 1200;

const tokens = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];

/** Two lists of [kind, text]: "del" only in the first, "ins" only in the second; null if too long. */
function wordDiff(before, after) {
  if (before.length > DIFF_CHARS || after.length > DIFF_CHARS) return null;
  const a = tokens(before);
  const b = tokens(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let ends = 0;
  while (ends < a.length - start && ends < b.length - start && a[a.length - 1 - ends] === b[b.length - 1 - ends]) ends += 1;
  const script = shortest(a.slice(start, a.length - ends), b.slice(start, b.length - ends));
  const left = [["same", a.slice(0, start).join("")]];
  const right = [["same", b.slice(0, start).join("")]];
  for (const [kind, word] of script) {
    if (kind !== "ins") add(left, kind, word);
    if (kind !== "del") add(right, kind, word);
  }
  const tail = a.slice(a.length - ends).join("");
  add(left, "same", tail);
  add(right, "same", tail);
  return [left, right];
}

function add(pieces, kind, text) {
  const last = pieces[pieces.length - 1];
  if (last[0] === kind) last[1] += text;
  else if (text) pieces.push([kind, text]);
}

function shortest(a, b) {
  const fallback = [...a.map((word) => ["del", word]), ...b.map((word) => ["ins", word])];
  if (!a.length || !b.length) return fallback;
  const limit = Math.min(a.length + b.length, DIFF_STEPS);
  const reach = new Int32Array(2 * limit + 3);
  const trace = [];
  for (let d = 0; d <= limit; d += 1) {
    trace.push(reach.slice(limit + 1 - d - 1, limit + 1 + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const index = limit + 1 + k;
      let x = k === -d || (k !== d && reach[index - 1] < reach[index + 1]) ? reach[index + 1] : reach[index - 1] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { x += 1; y += 1; }
      reach[index] = x;
      if (x >= a.length && y >= b.length) return walk(a, b, trace, d);
    }
  }
  return fallback;
}

function walk(a, b, trace, steps) {
  const script = [];
  let x = a.length;
  let y = b.length;
  for (let d = steps; d > 0; d -= 1) {
    const reach = trace[d];
    const k = x - y;
    const index = k + d + 1;
    const from = k === -d || (k !== d && reach[index - 1] < reach[index + 1]) ? k + 1 : k - 1;
    const fromX = reach[from + d + 1];
    const fromY = fromX - from;
    while (x > fromX && y > fromY) { x -= 1; y -= 1; script.push(["same", a[x]]); }
    if (x > fromX) { x -= 1; script.push(["del", a[x]]); } else { y -= 1; script.push(["ins", b[y]]); }
  }
  while (x > 0 && y > 0) { x -= 1; y -= 1; script.push(["same", a[x]]); }
  return script.reverse();
}
