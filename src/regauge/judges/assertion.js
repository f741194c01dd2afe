// Runs one assertion as promptfoo does: an expression, the body of a function, or a module.
// It is an expression: a function of the request, whose result `_promptfoo.py` reads.
(request) => {
  const {stringify} = JSON;
  const limit = 2000;
  let missing = '';

  // ---- what node has and this engine has not: to use it leaves the case unmeasured -------------
  const refuse = (name) => {
    missing ||= name;
    throw new Error(`${name} is not available`);
  };
  const absent = (name) => new Proxy(function () {}, {
    apply: () => refuse(name),
    construct: () => refuse(name),
    get: (_, key) => {
      if (typeof key === 'symbol') return refuse(name);
      return absent(key === 'default' ? name : `${name}.${key}`);
    },
    set: () => refuse(name),
  });
  const names = `AbortController Blob Buffer Event EventTarget FormData Headers MessageChannel
    Request Response TextDecoder TextEncoder URL URLSearchParams WebSocket XMLHttpRequest atob btoa
    crypto fetch navigator performance setInterval structuredClone`;
  for (const name of names.split(/\s+/)) globalThis[name] = absent(name);
  globalThis.global = globalThis;
  globalThis.queueMicrotask = (run) => { Promise.resolve().then(run); };

  // ---- what would differ from run to run ------------------------------------------------------
  let seed = 1;
  Math.random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const clock = 'the current time';
  const RealDate = Date;
  globalThis.Date = new Proxy(RealDate, {
    apply: () => refuse(clock),
    construct: (target, args, made) =>
      args.length ? Reflect.construct(target, args, made) : refuse(clock),
    get: (target, key) => key === 'now' ? () => refuse(clock) : Reflect.get(target, key),
  });
  RealDate.prototype.constructor = globalThis.Date;

  // ---- modules --------------------------------------------------------------------------------
  const loaded = new Map();
  const plain = (left, right) => stringify(left) === stringify(right);
  const holds = (value, message) => {
    if (!value) throw message instanceof Error ? message : new Error(message || 'assertion failed');
  };
  const assert = Object.assign((value, message) => holds(value, message), {
    ok: holds,
    equal: (left, right, message) => holds(left == right, message),
    notEqual: (left, right, message) => holds(left != right, message),
    strictEqual: (left, right, message) => holds(Object.is(left, right), message),
    notStrictEqual: (left, right, message) => holds(!Object.is(left, right), message),
    deepEqual: (left, right, message) => holds(plain(left, right), message),
    deepStrictEqual: (left, right, message) => holds(plain(left, right), message),
    match: (text, pattern, message) => holds(pattern.test(text), message),
    doesNotMatch: (text, pattern, message) => holds(!pattern.test(text), message),
    fail: (message) => holds(false, message),
  });
  assert.strict = assert;

  const resolve = (from, name) => {
    const parts = from.split('/').slice(0, -1);
    for (const part of name.split('/')) {
      if (part === '..' && parts.length && parts.at(-1) !== '..') parts.pop();
      else if (part !== '.' && part !== '') parts.push(part);
    }
    const path = parts.join('/');
    const ends = ['', '.js', '.cjs', '.mjs', '.json', '/index.js'];
    return ends.map((end) => path + end).find((each) => each in request.modules);
  };
  const requireFrom = (from) => (name) => {
    const bare = String(name).replace(/^node:/, '');
    if (bare === 'assert' || bare === 'assert/strict') return assert;
    const path = /^\.\.?\//.test(bare) ? resolve(from, bare) : undefined;
    return path === undefined ? absent(`require('${name}')`) : load(path);
  };
  const load = (path) => {
    if (loaded.has(path)) return loaded.get(path).exports;
    const module = {exports: {}};
    loaded.set(path, module);
    if (path.endsWith('.json')) {
      module.exports = JSON.parse(request.modules[path]);
      return module.exports;
    }
    const head = '(function (module, exports, require, process, __dirname, __filename) {';
    const run = (0, eval)(`${head}${request.modules[path]}\n})\n//# sourceURL=${path}`);
    const dir = path.split('/').slice(0, -1).join('/') || '.';
    run.call(module.exports, module, module.exports, requireFrom(path), process, dir, path);
    return module.exports;
  };
  globalThis.require = requireFrom('');
  const process = new Proxy({}, {
    get: (_, key) => {
      if (key === 'mainModule') return {require: globalThis.require};
      if (key === 'env') return new Proxy({}, {get: () => refuse('process.env')});
      return refuse(`process.${String(key)}`);
    },
  });
  globalThis.process = process;

  // ---- the assertion ----------------------------------------------------------------------------
  const made = (body) => new Function('output', 'context', 'process', body);
  const inline = (code) => {
    if (code.includes('\n')) return made(code);
    const line = code.trim().replace(/;+\s*$/, '');
    const declares = /^(const|let|var)\s/.test(line);
    if (!declares) return made(`return ${line}`);
    if (/;\s*return\b[^;]*$/.test(line)) return made(line);
    // Behind declarations, the last statement is the result: the parser finds where it begins.
    for (let at = line.lastIndexOf(';'); at > 0; at = line.lastIndexOf(';', at - 1)) {
      const last = line.slice(at + 1).trim();
      if (!last) continue;
      try {
        made(line.slice(0, at + 1));
        return made(`${line.slice(0, at + 1)} return ${last}`);
      } catch { /* this semicolon is inside something */ }
    }
    return made(line);
  };
  const exported = () => {
    const module = load(request.file);
    const path = request.name ? request.name.split('.') : [];
    const found = [module?.default, module].map((base) => path.reduce((o, key) => o?.[key], base));
    return found.find((value) => typeof value === 'function') ?? null;
  };
  const text = (value) => String(value).slice(0, limit).toWellFormed();
  const place = (error) => {
    const found = /([^\s()]+\.[cm]?js:\d+)/.exec(String(error?.stack ?? ''));
    return found ? text(found[1]) : '';
  };
  const threw = (error) => {
    const name = error instanceof Error ? error.name : 'an exception';
    const message = error instanceof Error ? error.message : stringify(error) ?? String(error);
    if (missing) return {kind: 'missing', name: text(missing)};
    // An undefined name, a stack that is too deep and `import()` do not depend on the output.
    const own = error instanceof ReferenceError ||
      /call stack|allocation failed|Invalid (string|array) length|^Not supported$/.test(message);
    const kind = own ? 'broken' : 'threw';
    return {kind, name: text(name), message: text(message), at: place(error)};
  };
  const component = (part) => ({
    pass: part?.pass === true,
    score: typeof part?.score === 'number' && isFinite(part.score) ? part.score : null,
    reason: typeof part?.reason === 'string' ? text(part.reason) : '',
  });
  const read = (result) => {
    if (missing) return {kind: 'missing', name: text(missing)};
    if (result === undefined || result === null) return {kind: 'value', value: null};
    if (typeof result === 'boolean') return {kind: 'value', value: result};
    if (typeof result === 'string') return {kind: 'value', value: text(result)};
    if (typeof result === 'number') return {kind: 'number', value: String(result)};
    if (typeof result === 'object' && 'pass' in result && !result.pass && result.pass !== false) {
      return {kind: 'unsound', value: `pass: ${text(result.pass)}`};
    }
    const sound = typeof result === 'object' && typeof result.pass === 'boolean' &&
      typeof result.score === 'number' && typeof result.reason === 'string';
    if (!sound) return {kind: 'other', value: text(stringify(result) ?? String(result))};
    const parts = Array.isArray(result.componentResults) ? result.componentResults : [];
    return {
      kind: 'graded',
      pass: result.pass,
      score: String(result.score),
      reason: text(result.reason),
      componentResults: parts.slice(0, 50).map(component),
    };
  };

  let assertion;
  try {
    assertion = request.file ? exported() : inline(request.code.trimEnd());
  } catch (error) {
    const syntax = error instanceof SyntaxError;
    return syntax ? {kind: 'syntax', message: text(error.message), at: place(error)} : threw(error);
  }
  if (!assertion) return {kind: 'no-function', name: request.name || 'default'};
  const {context} = request;
  const hide = (target, name, keys) => {
    for (const key of keys) {
      if (key in target) continue;
      Object.defineProperty(target, key, {get: () => refuse(`${name}.${key}`)});
    }
  };
  for (const [part, keys] of Object.entries(request.absent)) {
    if (part && part in context) hide(context[part], `context.${part}`, keys);
  }
  hide(context, 'context', request.absent['']);
  try {
    return Promise.resolve(assertion(request.output, context, process)).then(read).catch(threw);
  } catch (error) {
    return threw(error);
  }
}
