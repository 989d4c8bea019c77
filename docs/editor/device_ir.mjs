// Turns the device code that clang makes from a CUDA file, LLVM IR for nvptx as text, into IR for wasm32 whose
// instructions call the emulator. It is common/cuda/retarget.cpp for the page, where LLVM's libraries are missing.
//
// prepared() runs before clang optimizes the code, and retargeted() after.

const WINDOW = 0xe0000000, FIRST = 1024  // as in common/cuda/window.hpp
const LAYOUT = 'e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20'
const NAME = String.raw`(?:[-\w.$]+|"[^"]*")`

// Intrinsics that have another name in clang 21 than in clang 19.
const RENAMED = { barrier_cta_sync_aligned_all: 'barrier_n', barrier_cta_sync_aligned_count: 'barrier',
  barrier_cta_sync_all: 'barrier_sync', barrier_cta_sync_count: 'barrier_sync_cnt' }

// ---- text of IR ----

// The end of the bracket or string that begins at `at`.
function end_of(text, at) {
  if (text[at] === '"') return text.indexOf('"', at + 1) + 1
  for (let i = at, depth = 0; i < text.length; ++i) {
    if (text[i] === '"') i = text.indexOf('"', i + 1)
    else if ('([{<'.includes(text[i])) ++depth
    else if (')]}>'.includes(text[i]) && --depth === 0) return i + 1
  }
  return text.length
}

/// Splits at the commas that are in no bracket or string.
export function split(text) {
  const parts = []
  let begin = 0
  for (let i = 0; i < text.length; ++i) {
    if ('([{<"'.includes(text[i])) i = end_of(text, i) - 1
    else if (text[i] === ',') {
      parts.push(text.slice(begin, i).trim())
      begin = i + 1
    }
  }
  if (text.slice(begin).trim()) parts.push(text.slice(begin).trim())
  return parts
}

const WORD = new RegExp(`^(?:%${NAME}|\\w+)`)

// Returns [type, the text after it].
function type_of(text) {
  const end = '[{<'.includes(text[0]) ? end_of(text, 0) : WORD.exec(text)?.[0].length ?? 0
  return [text.slice(0, end), text.slice(end).trim()]
}

const ATTRIBUTE = new RegExp([
  'byval|sret|captures|range|dereferenceable|dereferenceable_or_null|initializes|nofpclass|align',
  'noundef|nonnull|signext|zeroext|noext|inreg|noalias|nofree|nocapture|readonly|writeonly|readnone|returned|immarg'
    + '|writable|dead_on_unwind'].map((words, i) => `^(?:${words})${i ? '(?=\\s)' : '(?:\\(| \\d+(?=\\s))'}`).join('|'))

// Removes the attributes before a value. Returns [the rest, those that change how it is passed].
function without_attributes(text) {
  let passed = ''
  for (let match; (match = ATTRIBUTE.exec(text));) {
    const end = match[0].endsWith('(') ? end_of(text, match[0].length - 1) : match[0].length
    if (/^(byval|sret|align)\b/.test(text)) passed += ` ${text.slice(0, end)}`
    text = text.slice(end).trim()
  }
  return [text, passed.includes('(') ? passed : '']
}

const BYTES = { ptr: 4, float: 4, double: 8, half: 2, bfloat: 2 }
const power_of_2 = (n) => 2 ** Math.ceil(Math.log2(n))
const up = (n, to) => Math.ceil(n / to) * to

/// Returns { bytes, align } of a type, as in memory.
export function size_of(type, structs = {}) {
  const plain = BYTES[type] ?? (/^i\d+$/.test(type) ? power_of_2(Math.ceil(type.slice(1) / 8)) : 0)
  if (plain) return { bytes: plain, align: plain }
  if (type[0] === '%') return size_of(structs[type] ?? '{}', structs)
  const packed = type.startsWith('<{'), inside = type.slice(packed ? 2 : 1, packed ? -2 : -1).trim()
  const many = !packed && '[<'.includes(type[0]) && /^(\d+) x (.*)$/.exec(inside)
  if (many) {
    const one = size_of(many[2], structs), bytes = many[1] * one.bytes, all = power_of_2(bytes)
    return type[0] === '[' ? { bytes, align: one.align } : { bytes: all, align: all }
  }
  let bytes = 0, align = 1
  for (const part of split(inside)) {
    const one = size_of(part, structs)
    bytes = (packed ? bytes : up(bytes, one.align)) + one.bytes
    if (!packed) align = Math.max(align, one.align)
  }
  return { bytes: up(bytes, align), align }
}

// ---- before the optimizer ----

const MEMORY = /^(\s*)(?:tail )?call void @llvm\.memcpy(?:\.inline)?[.\w]*\(/
const LINKAGE = /^define (?:(?:linkonce_odr|weak_odr|weak|linkonce|internal|dso_local|hidden|protected) )*/
const POINTER = /^ptr(?: addrspace\(\d+\))?/

// Without this the optimizer splits the copy of a float4 into four loads, where nvcc makes one.
function joined(line, number) {
  const copy = MEMORY.exec(line)
  if (!copy) return line
  const open = copy[0].length - 1, close = end_of(line, open)
  const [to, from, length, is_volatile] = split(line.slice(open + 1, close - 1)), bytes = Number(length.split(' ')[1])
  const align = (text) => Number(/\balign (\d+)/.exec(text)?.[1] ?? 1)
  if (![2, 4, 8, 16].includes(bytes) || Math.min(align(to), align(from)) < bytes) return line
  const type = bytes === 2 ? 'i16' : bytes === 4 ? '<2 x i16>' : `<${bytes / 4} x i32>`, name = `%emucuda.copy${number}`
  const address = (text) => `${POINTER.exec(text)[0]} ${without_attributes(text.replace(POINTER, '').trim())[0]}`
  const word = is_volatile.endsWith('true') ? ' volatile' : '', place = /, !dbg !\d+/.exec(line.slice(close))?.[0] ?? ''
  const rest = `, align ${bytes}${place}`
  return `${copy[1]}${name} = load${word} ${type}, ${address(from)}${rest}\n`
    + `${copy[1]}store${word} ${type} ${name}, ${address(to)}${rest}`
}

/// Makes functions internal but kernels, and an aligned copy of 2 to 16 bytes one access.
export function prepared(ir) {
  const groups = new Set([...ir.matchAll(/^define .* (#\d+)\b/gm)].map(([, group]) => group))
  return ir.split('\n').map((line, i) => {
    // Otherwise the optimizer would load before a condition is known: optimize() in common/cuda/retarget.cpp.
    if (groups.has(/^attributes (#\d+) = /.exec(line)?.[1])) return line.replace('{', '{ sanitize_thread')
    if (line.startsWith('define ') && !line.includes(' ptx_kernel ')) {
      return line.replace(LINKAGE, 'define internal ').replace(/ comdat(?:\([^)]*\))?/, '')
    }
    // Otherwise the optimizer would remove loads of variables to which it sees no store.
    const hidden = /^@.* = internal (?:addrspace\([14]\) )?(?:externally_initialized )?global /.test(line)
    return hidden ? line.replace(' internal ', ' dso_local ') : joined(line, i)
  }).join('\n')
}

// ---- places ----

// Returns { place(number of a !DILocation), of_function(number of a !DISubprogram) }, each { file, line, calls }. For a
// place in our headers, place() returns the one into which it was inlined. `calls` has a line for each of the reader's
// functions into which it was inlined further.
function places_of(ir) {
  const nodes = {}
  for (const [, number, fields] of ir.matchAll(/^!(\d+) = (?:distinct )?!DI\w+\((.*)\)$/gm)) {
    nodes[number] = Object.fromEntries([...fields.matchAll(/\b(\w+): (?:"([^"]*)"|!?(\d+))/g)]
      .map(([, name, text, value]) => [name, text ?? Number(value)]))
  }
  const name = (scope) => nodes[nodes[scope]?.file ?? nodes[nodes[scope]?.scope]?.file]?.filename ?? ''
  const shown = (file) => file.replace(/^\//, '')
  return {
    place(number) {
      const own = ({ scope }) => !name(scope).startsWith('/include/')
      const words = ({ scope, line }) => `${shown(name(scope))}:${line}\n`
      const all = []
      for (let at = nodes[number]; at; at = nodes[at.inlinedAt]) all.push(at)
      const at = all.find(own) ?? all.at(-1), calls = all.slice(all.indexOf(at) + 1).filter(own).map(words).join('')
      return at && { file: shown(name(at.scope)), line: at.line, calls }
    },
    of_function: (number) => nodes[number] && { file: shown(name(number)), line: nodes[number].line, calls: '' },
  }
}

// ---- the module after the optimizer ----

// Returns { name, type, value, align, kind, shared, constant, external } of each variable. `ir` has no address spaces.
function variables_of(text, ir) {
  const named = (pattern) => new Set([...text.matchAll(new RegExp(`^(@${NAME}) = [^\\n]*?${pattern}`, 'gm'))]
    .map(([, name]) => name))
  const shared = named('addrspace\\(3\\)'), constant = named('(?:addrspace\\(4\\)| constant )')
  return [...ir.matchAll(new RegExp(`^(@${NAME}) = (.*)$`, 'gm'))].flatMap(([, name, rest]) => {
    const found = /^(.*?\b)?(global|constant) (.*)$/.exec(rest)
    if (!found || rest.startsWith('appending')) return []
    const [declaration, ...options] = split(found[3]), [type, value] = type_of(declaration)
    const align = Number(options.find((option) => option.startsWith('align '))?.slice(6) ?? 1)
    return [{ name, type, value, align, kind: found[2], shared: shared.has(name), constant: constant.has(name),
      external: !value }]
  })
}

const BEFORE_TYPE = /^(?:(?:internal|dso_local|hidden|protected|\w+_odr|weak|ptx_kernel|ptx_device|fastcc|ccc) )*/

// Returns { name, kernel, result, parameters: [{ type, value, passed, by_value }], body, where, uses } of each
// function.
function functions_of(ir, of_function) {
  const all_names = new RegExp(`@${NAME}`, 'g')
  return [...ir.matchAll(/^define ([^\n]*)\{\n([^]*?)^\}$/gm)].map(([, header, body]) => {
    const [name] = new RegExp(`@${NAME}(?=\\()`).exec(header), at = header.indexOf(`${name}(`)
    const open = at + name.length, close = end_of(header, open)
    const parameters = split(header.slice(open + 1, close - 1)).map((parameter) => {
      const [type, rest] = type_of(parameter), [value, passed] = without_attributes(rest)
      return { type, value, passed, by_value: /byval\((.*)\)/.exec(passed)?.[1] }
    })
    const [result] = type_of(without_attributes(header.slice(0, at).trim().replace(BEFORE_TYPE, ''))[0])
    const where = of_function(/!dbg !(\d+)/.exec(header.slice(close))?.[1]) ?? { file: '', line: 0, calls: '' }
    return { name, kernel: header.includes('ptx_kernel '), result, parameters, body, where,
      uses: new Set(body.match(all_names)) }
  })
}

// Gives each shared variable an offset at which no kernel has another one, and each kernel its `bytes` of static shared
// memory. `extern __shared__` begins where these end. Returns address(variable's name, function), which is undefined
// for others.
function place_shared(variables, functions, size) {
  const kernels = functions.filter(({ kernel }) => kernel), reached_by = new Map(functions.map((fn) => [fn, new Set()]))
  for (const kernel of kernels) {
    kernel.bytes = 0
    for (const open = [kernel]; open.length;) {
      const fn = open.pop()
      if (reached_by.get(fn).has(kernel)) continue
      reached_by.get(fn).add(kernel)
      open.push(...functions.filter(({ name }) => fn.uses.has(name)))
    }
  }
  const most = (some) => Math.max(0, ...[...some].map(({ bytes }) => bytes))
  const users = ({ name }) => functions.filter(({ uses }) => uses.has(name))
  const kernels_of = (variable) => new Set(users(variable).flatMap((fn) => [...reached_by.get(fn)]))
  const addresses = new Map(), shared = variables.filter((variable) => variable.shared)
  const dynamic = shared.filter(({ type, external }) => external || size(type) === 0)
  for (const variable of shared.filter((one) => !dynamic.includes(one))) {
    const mine = kernels_of(variable), offset = up(most(mine), Math.max(variable.align, 4))
    for (const kernel of mine) kernel.bytes = offset + size(variable.type)
    addresses.set(variable.name, WINDOW + FIRST + offset)
  }
  for (const kernel of kernels) {
    const own = dynamic.filter((variable) => kernels_of(variable).has(kernel))
    if (own.length) kernel.bytes = up(kernel.bytes, Math.max(16, ...own.map(({ align }) => align)))
  }
  // Kernels that share a function with `extern __shared__` have it at the same place.
  for (let changed = true; changed;) {
    changed = false
    for (const fn of dynamic.flatMap(users)) {
      const mine = reached_by.get(fn), bytes = most(mine)
      for (const kernel of mine) {
        changed ||= kernel.bytes < bytes
        kernel.bytes = bytes
      }
    }
  }
  const names = new Set(dynamic.map(({ name }) => name))
  return (name, fn) => names.has(name) ? WINDOW + FIRST + most(reached_by.get(fn)) : addresses.get(name)
}

// ---- the rewriting of a function ----

const SMALL = /^i(1|8|16)$/  // integers that are passed as i32
const INSTRUCTION = new RegExp(`^\\s+(?:(%${NAME}) = )?(?:(?:tail|musttail|notail) )?([a-z_]+)(?: (.*))?$`, 's')
const FLAGS = /^(?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|fastcc|ccc|ptx_device) )*/
const ORDERED = /^(.*?)\s+(?:syncscope\("[^"]*"\) )?(unordered|monotonic|acquire|release|acq_rel|seq_cst)$/
const CONTRACTED = /^(?:\w+ )*?contract (?:\w+ )*?(float|double) (\S+), (\S+)$/
const acquires = (order) => Number(/acquire|acq_rel|seq_cst/.test(order))
const releases = (order) => Number(/release|acq_rel|seq_cst/.test(order))
const align_of = (parts, other) => Number(parts.find((part) => part.startsWith('align '))?.slice(6) ?? other)

// `module` is { place, size, exported, is_defined, address, file_name(place), declare(name, line), refuse(place, name),
// facts }.
class Rewriter {
  #out = []
  #slots = new Map()
  #defined = new Map()  // what a value is: { alloca }, { base, step } or { product, block }
  #counts = new Map()   // how often a value is named
  #temporaries = 0
  #block = 0
  #at  // the place of the instruction

  constructor(module, fn) {
    this.module = module
    this.fn = fn
  }

  /// Returns the function's text for wasm32.
  run() {
    const { fn, module } = this
    const body = fn.body.replace(new RegExp(`@${NAME}`, 'g'), (name) => {
      const address = module.address(name, fn)
      return address === undefined ? name : `inttoptr (i32 ${address | 0} to ptr)`
    })
    for (const name of body.match(new RegExp(`%${NAME}`, 'g')) ?? []) {
      this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    }
    for (const line of body.split('\n')) {
      if (line.startsWith('  ') && !/^\s+#dbg/.test(line)) this.#instruction(line)
      else if (line && line[0] !== ' ') {
        ++this.#block
        this.#out.push(line.replace(/\s*;.*$/, ''))
      }
    }
    const label = fn.body.startsWith(' ') ? [] : [this.#out.shift()]
    const slots = [...this.#slots].map(([key, name]) => `  ${name} = alloca ${key.split('|')[0]}, align 16`)
    const parameters = fn.parameters.map(({ type, value, passed }) => `${type}${passed} ${value}`).join(', ')
    const first = `define internal ${fn.result} ${fn.name}(${parameters}) {`
    return [first, ...label, ...slots, ...this.#out, '}\n'].join('\n')
  }

  #emit(...lines) { this.#out.push(...lines.map((line) => `  ${line}`)) }

  // Emits an instruction. Returns its value, a new one.
  #value(instruction) {
    const name = `%emucuda.${this.#temporaries++}`
    this.#emit(`${name} = ${instruction}`)
    return name
  }

  // Memory for a value on the stack.
  #slot(type, role = '') {
    const key = `${type}|${role}`
    if (!this.#slots.has(key)) this.#slots.set(key, `%emucuda.slot.${this.#slots.size}`)
    return this.#slots.get(key)
  }

  #instruction(line) {
    const { module: { place }, fn } = this
    this.#at = place(/, !dbg !(\d+)/.exec(line)?.[1]) ?? fn.where
    const plain = line.replace(/(?:, ![\w.]+ !\d+)+\s*$/, '').replace(/ #\d+(?=\s|$)/g, '')
    const [, target, opcode, words = ''] = INSTRUCTION.exec(plain) ?? []
    const rewrite = { alloca: this.#alloca, getelementptr: this.#element, bitcast: this.#cast, load: this.#load,
      store: this.#store, atomicrmw: this.#atomic, cmpxchg: this.#exchange, fence: this.#fence, sdiv: this.#divide,
      udiv: this.#divide, srem: this.#divide, urem: this.#divide, fmul: this.#multiply, fadd: this.#add,
      fsub: this.#add, call: this.#function }[opcode]
    // Each returns false if the instruction stays as it is.
    if (!rewrite || rewrite.call(this, words, target, opcode) === false) this.#out.push(plain)
  }

  // Calls the library with the place. The value goes to `target`. A structure is returned through a pointer.
  #call(name, result, args, target) {
    const { exported, file_name, declare, refuse } = this.module
    if (!exported.has(name)) return refuse(this.#at, name.replace(/^emucuda_/, ''))
    const passed = args.map(([type, value]) =>
      SMALL.test(type) ? ['i32', this.#value(`zext ${type} ${value} to i32`)] : [type, value])
    const structure = '{%['.includes(result[0]), small = SMALL.test(result)
    if (structure) passed.push(['ptr', this.#slot(result)])
    passed.push(['i32', this.#at.line], ['ptr', file_name(this.#at)])
    const returned = structure ? 'void' : small ? 'i32' : result
    declare(name, `${returned} @${name}(${passed.map(([type]) => type).join(', ')})`)
    const call = `call ${returned} @${name}(${passed.map((one) => one.join(' ')).join(', ')})`
    if (!target || structure) this.#emit(call)
    if (!target) return
    if (structure) this.#emit(`${target} = load ${result}, ptr ${this.#slot(result)}`)
    else if (!small) this.#emit(`${target} = ${call}`)
    else if (result === 'i1') this.#emit(`${target} = icmp ne i32 ${this.#value(call)}, 0`)
    else this.#emit(`${target} = trunc i32 ${this.#value(call)} to ${result}`)
  }

  // ---- local arrays ----

  #alloca(words, target) {
    const [type, ...options] = split(words), is_one = !options.some((option) => /^i\d+ /.test(option))
    this.#defined.set(target, { alloca: is_one ? this.module.size(type) : NaN })
    return false
  }

  #element(words, target) {
    const [type, base, ...indices] = split(words.replace(/^(?:(?:inbounds|nuw|nusw|inrange\([^)]*\)) )*/, ''))
    const index = indices.length === 1 ? /^i\d+ (-?\d+)$/.exec(indices[0])?.[1] : undefined
    this.#defined.set(target, { base: base.replace(/^ptr /, ''), step: index && index * this.module.size(type) })
    return false
  }

  #cast(words, target) {
    const [, base] = /^ptr (\S+) to ptr$/.exec(words) ?? []
    if (base) this.#defined.set(target, { base, step: 0 })
    return false
  }

  // Returns { name, bytes, offset } of the local array into which a pointer certainly leads. The last two may be
  // unknown.
  #array(value) {
    for (let i = 0, offset = 0; i < 32; ++i) {
      const from = this.#defined.get(value)
      if (!from) return this.fn.parameters.some((one) => one.value === value && one.by_value) ? {} : undefined
      if (from.alloca !== undefined) return { name: value, bytes: from.alloca, offset }
      if (from.base === undefined) return undefined
      offset = from.step === undefined ? undefined : offset + from.step
      value = from.base
    }
  }

  // Returns a pointer that is safe to access.
  #within({ name, bytes: all, offset }, value, type, writes) {
    const bytes = this.module.size(type)
    if (!all || offset >= 0 && offset + bytes <= all) return value
    const safe = `%emucuda.${this.#temporaries++}`
    this.#call('emucuda_within_array', 'ptr', [['ptr', value], ['ptr', name], ['i32', bytes], ['i32', all],
      ['i32', writes], ['ptr', this.#slot(type, 'spare')]], safe)
    return safe
  }

  // ---- memory ----

  #note(...sizes) {
    const { facts } = this.module
    for (const bytes of sizes) facts.narrowest = Math.min(facts.narrowest, bytes & -bytes)
  }

  // Splits the operands of a load or a store. Returns { atomic, order, first, address, align }.
  #access(words) {
    const [, flags, rest] = /^((?:(?:volatile|atomic) )*)(.*)$/s.exec(words)
    const [first, pointer, ...options] = split(rest)
    const value = pointer.replace(/^ptr\s*/, ''), [, address = value, order = ''] = ORDERED.exec(value) ?? []
    return { atomic: flags !== '', order, first, address, align: (type) => align_of(options, this.module.size(type)) }
  }

  #load(words, target) {
    const { atomic, order, first: type, address, align } = this.#access(words), array = this.#array(address)
    let from = array && this.#within(array, address, type, 0)
    if (!array) {
      this.#note(this.module.size(type), align(type))
      this.#call(`emucuda_load${atomic ? '_atomic' : ''}`, 'void', [['ptr', address], ['ptr', from = this.#slot(type)],
        ['i32', this.module.size(type)], ['i32', align(type)], ...atomic ? [['i32', acquires(order)]] : []])
    }
    this.#emit(`${target} = load ${type}, ptr ${from}, align ${array ? align(type) : 16}`)
  }

  #store(words) {
    const { atomic, order, first, address, align } = this.#access(words), [type, value] = type_of(first)
    const array = this.#array(address), to = array ? this.#within(array, address, type, 1) : this.#slot(type)
    this.#emit(`store ${type} ${value}, ptr ${to}, align ${array ? align(type) : 16}`)
    if (array) return
    this.#note(this.module.size(type), align(type))
    this.#call(`emucuda_store${atomic ? '_atomic' : ''}`, 'void', [['ptr', address], ['ptr', to],
      ['i32', this.module.size(type)], ['i32', align(type)], ...atomic ? [['i32', releases(order)]] : []])
  }

  // Returns the slot with the old value.
  #update(operation, address, type, operand, order, compare) {
    const given = this.#slot(type, 'operand'), old = this.#slot(type), bytes = this.module.size(type)
    const compared = compare === undefined ? 'null' : this.#slot(type, 'compare')
    this.#emit(`store ${type} ${operand}, ptr ${given}`)
    if (compare !== undefined) this.#emit(`store ${type} ${compare}, ptr ${compared}`)
    this.#note(bytes)
    this.#call(`emucuda_atomic_${operation}`, 'void', [['ptr', address], ['ptr', given], ['ptr', compared],
      ['ptr', old], ['i32', bytes], ['i32', acquires(order) | 2 * releases(order)]])
    return old
  }

  #atomic(words, target) {
    const [, operation, rest] = /^(?:volatile )?(\w+) (.*)$/s.exec(words), [address, operand] = split(rest)
    const [type, value] = type_of(operand), [, given, order] = ORDERED.exec(value)
    const relaxed = /^u(inc|dec)_wrap$/.test(operation)  // as in CUDA; clang 21 writes seq_cst
    const old = this.#update(operation, address.replace(/^ptr /, ''), type, given, relaxed ? '' : order)
    this.#emit(`${target} = load ${type}, ptr ${old}`)
  }

  #exchange(words, target) {
    const [address, expected, desired] = split(words.replace(/^(?:(?:weak|volatile) )*/, ''))
    const [type, compare] = type_of(expected), [, given, order] = /^(\S+)(.*)$/.exec(type_of(desired)[1])
    const slot = this.#update('cas', address.replace(/^ptr /, ''), type, given, order, compare)
    const old = this.#value(`load ${type}, ptr ${slot}`)
    const equal = this.#value(`icmp eq ${type} ${old}, ${compare}`)
    const both = this.#value(`insertvalue { ${type}, i1 } poison, ${type} ${old}, 0`)
    this.#emit(`${target} = insertvalue { ${type}, i1 } ${both}, i1 ${equal}, 1`)
  }

  #fence() { this.#call('emucuda_fence', 'void', []) }

  // A copy or a memset, unless it is between local arrays. `args` are [type, value, how it is passed, alignment].
  #memory(kind, [to, from, [type, length]]) {
    const set = kind === 'set', known = /^\d+$/.test(length)
    if (this.#array(to[1]) && (set || this.#array(from[1]))) return false
    const count = ['i64', type === 'i32' && !known ? this.#value(`zext i32 ${length} to i64`) : length]
    this.#note(known ? Number(length) : 1, ...set ? [] : [to[3]])
    if (set) this.#call('emucuda_memset', 'void', [to, from, count, ['i32', to[3]]])
    else this.#call('emucuda_memcpy', 'void', [to, from, count, ['i32', to[3]], ['i32', from[3]]])
  }

  // ---- arithmetic ----

  // A GPU divides by zero without a trap. The result is all ones.
  #divide(words, target, opcode) {
    const [type, rest] = type_of(words.replace(/^exact /, '')), [a, b] = split(rest), is_signed = opcode[0] === 's'
    if (b[0] !== '%' || type[0] === '<') return false
    const zero = this.#value(`icmp eq ${type} ${b}, 0`)
    this.#call('emucuda_check_divisor', 'void', [['i1', zero]])
    // The divisor is 0, or the quotient may overflow.
    const special = is_signed ? this.#value(`or i1 ${zero}, ${this.#value(`icmp eq ${type} ${b}, -1`)}`) : zero
    const safe = this.#value(`select i1 ${special}, ${type} 1, ${type} ${b}`)
    let value = this.#value(`${opcode} ${type} ${a}, ${safe}`)
    if (opcode === 'sdiv') {
      const negative = this.#value(`sub ${type} 0, ${a}`)
      value = this.#value(`select i1 ${special}, ${type} ${negative}, ${type} ${value}`)
    }
    this.#emit(`${target} = select i1 ${zero}, ${type} -1, ${type} ${value}`)
  }

  #multiply(words, target) {
    const [, type, ...factors] = CONTRACTED.exec(words) ?? []
    if (type) this.#defined.set(target, { product: { type, factors }, block: this.#block })
    return false
  }

  // a * b + c in one rounding if the product is used once, in its own block. On the command line clang's code for x86
  // does this.
  #add(words, target, opcode) {
    const [, type, ...terms] = CONTRACTED.exec(words) ?? []
    const i = terms.findIndex((name) => {
      const { product, block } = this.#defined.get(name) ?? {}
      return product?.type === type && block === this.#block && this.#counts.get(name) === 2
    })
    if (i < 0) return false
    let [a, b] = this.#defined.get(terms[i]).product.factors, c = terms[1 - i]
    if (opcode === 'fsub' && i === 0) c = this.#value(`fneg ${type} ${c}`)
    if (opcode === 'fsub' && i === 1) a = this.#value(`fneg ${type} ${a}`)
    const fma = `llvm.fma.${type === 'float' ? 'f32' : 'f64'}`
    this.module.declare(fma, `${type} @${fma}(${type}, ${type}, ${type})`)
    this.#emit(`${target} = call ${type} @${fma}(${type} ${a}, ${type} ${b}, ${type} ${c})`)
  }

  // ---- calls ----

  #function(words, target) {
    const { exported, refuse, declare, is_defined } = this.module
    if (/\basm\b/.test(words.replace(/"[^"]*"/g, ''))) return refuse(this.#at, 'inline PTX')
    const [result, after] = type_of(without_attributes(words.replace(FLAGS, ''))[0])
    const [callee] = new RegExp(`^[@%]${NAME}(?=\\()`).exec(after) ?? [], name = callee?.slice(1)
    if (!callee) return refuse(this.#at, 'such a call')
    const args = split(after.slice(callee.length + 1, end_of(after, callee.length) - 1)).map((arg) => {
      const [type, rest] = type_of(arg), [value, passed] = without_attributes(rest)
      return [type, value, passed, Number(/\balign (\d+)/.exec(rest)?.[1] ?? 1)]
    })
    const plain = () => {
      const types = args.map(([type]) => type), passed = args.map(([type, value, how]) => `${type}${how} ${value}`)
      if (!is_defined(callee) && callee[0] === '@') declare(name, `${result} ${callee}(${types.join(', ')})`)
      this.#emit(`${target ? `${target} = ` : ''}call ${result} ${callee}(${passed.join(', ')})`)
    }
    if (callee[0] === '%' || is_defined(callee)) return plain()
    if (/^llvm\.(assume|experimental\.noalias|dbg|lifetime)/.test(name)) return undefined
    if (/^llvm\.(debug|ubsan)?trap/.test(name)) return this.#call('emucuda_trap', 'void', [])
    const [, memory] = /^llvm\.mem(cpy|move|set)/.exec(name) ?? []
    if (memory) return this.#memory(memory, args) === false ? plain() : undefined
    if (name.startsWith('llvm.nvvm.')) {
      const base = name.slice('llvm.nvvm.'.length).replaceAll('.', '_')
      const short = base.replace(/(_(p\d|[if]\d+|v\d+[if]\d+))+$/, '')
      const found = [RENAMED[base] ?? base, short].find((one) => exported.has(`emucuda_${one}`)) ?? base
      return this.#call(`emucuda_${found}`, result, args, target)
    }
    if (name.startsWith('llvm.') || name.startsWith('__nv_') && exported.has(name)) return plain()
    if (name.startsWith('emucuda_')) return this.#call(name, result, args, target)
    if (/^(malloc|free)$/.test(name) || !exported.has(`emucuda_${name}`)) return refuse(this.#at, name)
    return this.#call(`emucuda_${name}`, result, args, target)
  }
}

// ---- registration, as in retarget.cpp ----

// A text with a zero at its end.
function constant(name, words) {
  const bytes = [...new TextEncoder().encode(words), 0]
  return `${name} = private constant [${bytes.length} x i8] [${bytes.map((byte) => `i8 ${byte}`).join(', ')}]`
}

// Returns { texts, code }: functions that call the kernels as cudaLaunchKernel passes their arguments, and one that
// registers kernels and variables when the program starts.
function registration(functions, globals, files, size, narrowest) {
  const bare = (name) => name.slice(1).replace(/^"(.*)"$/, '$1')
  const texts = [...files].map(([words, name]) => constant(name, words))
  const quoted = (words) => {
    const name = `@emucuda.text.${texts.length}`
    texts.push(constant(name, words))
    return `ptr ${name}`
  }
  const kernels = functions.filter(({ kernel }) => kernel)
  const thunks = kernels.map(({ name, parameters }, i) => {
    const loads = parameters.flatMap(({ type, by_value }, j) => [`  %at${j} = getelementptr ptr, ptr %all, i32 ${j}`,
      `  %p${j} = load ptr, ptr %at${j}`, ...by_value ? [] : [`  %v${j} = load ${type}, ptr %p${j}`]])
    const args = parameters.map(({ type, passed, by_value }, j) => `${type}${passed} %${by_value ? 'p' : 'v'}${j}`)
    return [`define internal void @emucuda.thunk.${i}(ptr %all) {`, ...loads, `  call void ${name}(${args.join(', ')})`,
      '  ret void', '}'].join('\n')
  })
  const calls = kernels.map(({ name, bytes, where, parameters }, i) => {
    const names = parameters.map(({ value }) => `${value.slice(1)},`).join('')
    const sizes = parameters.map(({ type, by_value }) => `${size(by_value ?? type)} `).join('')
    const args = ['i32 0', quoted(bare(name)), `ptr @emucuda.thunk.${i}`, `i64 ${bytes}`,
      quoted(`${where.file}:${where.line}`), quoted(names), quoted(sizes), quoted(''), `i32 ${narrowest}`, 'i32 0']
    return `  call void @emucuda_register_kernel(${args.join(', ')})`
  })
  calls.push(...[...files].filter(([words]) => words.includes('\0'))
    .map(([, name]) => `  call void @emucuda_register_inlined(ptr ${name})`))
  calls.push(...globals.map(({ name, type, constant }) => `  call void @emucuda_register_variable(i32 0, `
    + `${quoted(bare(name))}, ptr ${name}, i64 ${size(type)}, i32 ${Number(constant)})`))
  return { texts, code: [...thunks, `define internal void @emucuda.register() {\n${calls.join('\n')}\n  ret void\n}`,
    'declare void @emucuda_register_kernel(i32, ptr, ptr, i64, ptr, ptr, ptr, ptr, i32, i32)',
    'declare void @emucuda_register_variable(i32, ptr, ptr, i64, i32)', 'declare void @emucuda_register_inlined(ptr)'] }
}

/// Returns { ir } for wasm32, or { problems: [{ file, line, name }] }, which a page cannot run. `exported` has the names
/// in the library.
export function retargeted(text, exported) {
  const ir = text.replace(/ addrspace\(\d+\)/g, '').replaceAll('addrspacecast', 'bitcast')
    .replace(/@llvm\.(mem\w+(?:\.inline)?|lifetime\.\w+)(?:\.p\d)+/g, (name) => name.replace(/\.p\d/g, '.p0'))
  const structs = Object.fromEntries([...ir.matchAll(new RegExp(`^(%${NAME}) = type (.*)$`, 'gm'))]
    .map(([, name, type]) => [name, type]))
  const size = (type) => size_of(type, structs).bytes, { place, of_function } = places_of(text)
  const variables = variables_of(text, ir), functions = functions_of(ir, of_function)
  const problems = [], files = new Map(), declared = new Map(), facts = { narrowest: 4 }
  const refuse = ({ file, line }, name) => {
    if (!problems.some((one) => one.name === name && one.line === line)) problems.push({ file, line, name })
  }
  if (/^@llvm\.global\.annotations /m.test(ir) && ir.includes('cluster_dims')) {
    refuse(functions.find(({ kernel }) => kernel).where, '__cluster_dims__')
  }
  const names = new Set(functions.map(({ name }) => name)), address = place_shared(variables, functions, size)
  const module = { place, size, exported, refuse, facts, address, is_defined: (name) => names.has(name),
    declare: (name, line) => declared.set(name, `declare ${line}`),
    file_name({ file, calls }) {
      const words = calls ? `${file}\0${calls}` : file
      if (!files.has(words)) files.set(words, `@emucuda.file.${files.size}`)
      return files.get(words)
    } }
  const code = functions.map((fn) => new Rewriter(module, fn).run())
  if (problems.length) return { problems }

  const globals = variables.filter(({ name, shared, external }) => !shared && !external && !name.startsWith('@llvm.'))
  const registered = registration(functions, globals, files, size, facts.narrowest)
  return { ir: [`target datalayout = "${LAYOUT}"`, 'target triple = "wasm32-unknown-wasi"',
    ...Object.entries(structs).map(([name, type]) => `${name} = type ${type}`),
    ...globals.map(({ name, type, value, align, kind }) =>
      `${name} = internal ${kind} ${type} ${value}, align ${Math.max(16, align)}`),
    '@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] '
      + '[{ i32, ptr, ptr } { i32 0, ptr @emucuda.register, ptr null }]', ...registered.texts,
    ...code, ...registered.code, ...declared.values()].join('\n') + '\n' }
}
