// Compiles a CUDA file in the page, as common/cuda/emucuda.cpp does it on the command line: once for the device, whose
// code then calls the emulator (device_ir.mjs), and once for the host.
import { prepared, retargeted } from './device_ir.mjs'

const HEADERS = '/project/cuda_headers.hpp'
const FOLDERS = ['cuda_clang/cuda_wrappers', 'cuda', 'cuda_clang', 'c++', 'clang', 'c']
const COMMON = ['-disable-free', '-nostdsysteminc', '-nobuiltininc',
  ...FOLDERS.flatMap((name) => ['-internal-isystem', `/include/${name}`]), '-std=c++17', '-relaxed-aliasing',
  '-ffp-contract=fast', '-fno-finite-loops', '-w', '-target-sdk-version=12.3', '-fcuda-allow-variadic-functions',
  '-fcxx-exceptions', '-fexceptions', '-fgnuc-version=4.2.1', '-ferror-limit', '20']
// The device has 32 bits, so that its pointers and structs are those of the page's host.
const NVPTX = ['-cc1', '-triple', 'nvptx-nvidia-cuda'], WASM = ['-cc1', '-triple', 'wasm32-wasi',
  '-target-feature', '+exception-handling', '-target-feature', '+nontrapping-fptoint']
const DEVICE = [...NVPTX, '-aux-triple', 'wasm32-wasi', '-fcuda-is-device', '-target-cpu', 'sm_80',
  '-target-feature', '+ptx83', '-debug-info-kind=line-directives-only', '-O2', '-disable-llvm-passes', ...COMMON]
const HOST = [...WASM, '-aux-triple', 'nvptx-nvidia-cuda', '-O1', '-exception-model=wasm',
  '-mllvm', '-wasm-enable-eh', '-fcuda-include-gpubinary', '/unit', ...COMMON]
const PASSES = { device: DEVICE, host: HOST }
export const PRECOMPILED = Object.keys(PASSES).map((pass) => `${pass}.pch`)  // what prepare() makes

/// Precompiles the headers. `tools` runs programs on files in memory: { run, put, text, has, remove }.
export function prepare(tools) {
  for (const [pass, flags] of Object.entries(PASSES)) {
    if (tools.has(`${pass}.pch`)) continue
    const { code, text } = tools.run('clang++', ...flags, '-emit-pch', '-o', `/${pass}.pch`, '-x', 'cuda', HEADERS)
    if (code !== 0) throw new Error(`the headers do not compile: ${text}`)
  }
}

/// Compiles the CUDA file `text`. Returns { program } or { said: the messages }.
export function compile(tools, { file, text }) {
  prepare(tools)
  for (const name of ['device.ll', 'optimized.ll', 'device.o', 'host.o', 'program.wasm']) tools.remove(name)
  tools.put(file, new TextEncoder().encode(text))
  tools.put('unit', new TextEncoder().encode('0\n'))
  const clang = (...words) => tools.run('clang++', ...words)
  const of_pass = (pass, ...words) =>
    clang(...PASSES[pass], '-include-pch', `/${pass}.pch`, ...words, '-x', 'cuda', `/${file}`)
  const failed = ({ code }) => code !== 0

  const device = of_pass('device', '-emit-llvm', '-o', '/device.ll')
  if (failed(device)) return { said: device.text }
  tools.put('prepared.ll', new TextEncoder().encode(prepared(tools.text('device.ll'))))
  // Vector-combine would replace the load of a vector by loads of its elements, where a GPU makes one access.
  const optimized = clang(...NVPTX, '-O2', '-fno-finite-loops', '-mllvm', '-disable-vector-combine', '-emit-llvm',
    '-o', '/optimized.ll', '-x', 'ir', '/prepared.ll')
  if (failed(optimized)) return { said: optimized.text }
  const { ir, problems } = retargeted(tools.text('optimized.ll'), new Set(tools.text('emucuda_names').split('\n')))
  if (problems) {
    return { said: problems.map(({ file, line, name }) =>
      `/${file}:${line}:1: error: ${name} is not supported in the page. ./learn cuda ${file} can do more\n`).join('') }
  }
  tools.put('retargeted.ll', new TextEncoder().encode(ir))
  const code = clang(...WASM, '-O1', '-disable-llvm-passes', '-emit-obj', '-o', '/device.o',
    '-x', 'ir', '/retargeted.ll')
  if (failed(code)) return { said: code.text }
  const host = of_pass('host', '-emit-obj', '-o', '/host.o')
  if (failed(host)) return { said: host.text }
  return tools.link('/host.o', '/device.o', '-lemucuda')
}
