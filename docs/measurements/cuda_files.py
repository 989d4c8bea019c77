#!/usr/bin/env python3
"""Runs the public CUDA files of cuda_files.csv on the emulator and writes what happened into the table.

SOURCES has a directory for each repository, by its name ("llm.c"), at the commit that the table names. The kernels stay
as they are. A main gets smaller sizes (EDITS, on a copy); a file without a main of its own gets one (MAINS), which
compares with a plain loop.

usage: cuda_files.py EMUCUDA SOURCES [--only REGEX] [--seconds N]
"""
import argparse
import csv
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

TABLE = pathlib.Path(__file__).resolve().parent / "cuda_files.csv"
COUNTERS = ("shared_load_wavefronts", "shared_load_wavefronts_ideal", "global_load_sectors", "global_load_sectors_ideal")
LLM = [(r"\bB = \d+;", "B = 2;"), (r"\bT = 1024;", "T = 64;"), (r"\bV = 50257;", "V = 1030;"),
       (r"block_sizes\[\] = \{[^}]*\}", "block_sizes[] = {32, 64}")]
HEADS = [(r"int C = 768;", "int C = 128;"), (r"int NH = 12;", "int NH = 2;")]
EDITS = {  # file: changes of its main's sizes
    r"dev/cuda/(attention|trimat)": LLM + HEADS,
    r"dev/cuda/global_norm": LLM[3:] + [(r"int C = 768;", "int C = 128;"), (r"int L = 12;", "int L = 1;")],
    r"dev/cuda/adamw": [(r"1048576", "65536")],
    r"dev/cuda/": LLM,
    r"^sgemm.cu": [(r"SIZE = \{[^}]*\}", "SIZE = {128, 256}")],
}
OPTIONS = {
    r"^sgemm.cu": ["{repository}/src/runner.cu", "-I{repository}/src"],
    r"^src/(mma|wmma|simt)": ["-I{repository}/src/common"],
    r"flash-attn/mma": ["-I{repository}/kernels/flash-attn/utils"],
    r"^Samples/": ["-I{repository}/Common"],
    r"mergeSort.cu": ["{directory}/bitonic.cu", "{directory}/main.cpp", "{directory}/mergeSort_host.cpp",
                      "{directory}/mergeSort_validate.cpp"],
    r"simpleAtomicIntrinsics.cu": ["{directory}/simpleAtomicIntrinsics_cpu.cpp"],
    r"reduction_kernel.cu": ["{directory}/reduction.cpp"],
    r"scan/scan.cu": ["{directory}/main.cpp", "{directory}/scan_gold.cpp"],
    r"histogram256.cu": ["{directory}/histogram64.cu", "{directory}/main.cpp", "{directory}/histogram_gold.cpp"],
    r"bitonicSort.cu": ["{directory}/oddEvenMergeSort.cu", "{directory}/main.cpp",
                        "{directory}/sortingNetworks_validate.cpp"],
}
ARGUMENTS = {
    r"dev/cuda/|^sgemm.cu": ["{kernel}"],
    r"matrixMul": ["-wA=128", "-hA=64", "-wB=64", "-hB=128"],
    r"globalToShmem": ["kernel={kernel}", "wA=256", "hA=256", "wB=256", "hB=256"],
    r"reduction_kernel": ["--n=65536", "--iterations=1"],
    r"transpose": ["-dimX=128", "-dimY=128"],
}
TORCH = r"""
#ifndef TORCH_SHIM
#define TORCH_SHIM
#include <cassert>
#include <cmath>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda_fp16.h>
#define PYBIND11_MODULE(name, m) template <class M> void bind_##name(M& m)
namespace torch {
enum Type { kFloat32, kHalf, kInt32 };
enum Place { kCUDA };
struct Device { Device(Place) {} };
struct Options { Type type; Type dtype() const { return type; } };
inline std::ostream& operator<<(std::ostream& s, Options) { return s; }
struct Tensor {
  std::vector<int64_t> shape; Type type = kFloat32; void* p = nullptr;
  int64_t size(int i) const { return shape[i]; }
  int64_t numel() const { int64_t n = 1; for (int64_t s : shape) n *= s; return n; }
  void* data_ptr() const { return p; }
  template <class T> T* data_ptr() const { return (T*)p; }
  Options options() const { return {type}; }
  Tensor to(Device) const { return *this; }
};
inline Tensor full(std::vector<int64_t> shape, float value) {
  Tensor t{shape}; cudaMalloc(&t.p, t.numel() * 4);
  for (int64_t i = 0; i < t.numel(); ++i) ((float*)t.p)[i] = value;
  return t;
}
inline Tensor zeros(std::vector<int64_t> shape) { return full(shape, 0); }
inline Tensor zeros_like(const Tensor& t) { return full(t.shape, 0); }
}
#endif
"""
COMPARE = r"""
#include <cmath>
#include <cstdio>
#include <vector>
static float any_number() { static unsigned x = 1; x = x * 1664525u + 1013904223u; return (x >> 8) / 16777216.0f - 0.5f; }
template <class T> T* numbers(size_t n) {
  T* p; cudaMalloc((void**)&p, n * sizeof(T));
  for (size_t i = 0; i < n; ++i) p[i] = T(any_number());
  return p;
}
static int compare(const std::vector<double>& want, const std::vector<double>& got, double bound) {
  cudaError_t error = cudaDeviceSynchronize();
  double worst = 0; int wrong = error != cudaSuccess;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::fabs(want[i] - got[i]);
    if (!(d <= bound)) ++wrong;
    if (d > worst) worst = d;
  }
  std::printf("%d wrong, largest error %g, %s\n", wrong, worst, cudaGetErrorString(error));
  return wrong != 0;
}
template <class T>
int compare_attention(const T* q, const T* k, const T* v, const T* o, int heads, int n, int d, double bound) {
  std::vector<double> want, got;
  for (int h = 0; h < heads; ++h) for (int i = 0; i < n; ++i) {
    std::vector<double> s(n), row(d); double most = -INFINITY, sum = 0; const size_t base = (size_t)h * n * d;
    for (int j = 0; j < n; ++j) { double x = 0;
      for (int e = 0; e < d; ++e) x += (double)(float)q[base + i * d + e] * (double)(float)k[base + j * d + e];
      s[j] = x / std::sqrt((double)d); most = std::fmax(most, s[j]); }
    for (int j = 0; j < n; ++j) { const double p = std::exp(s[j] - most); sum += p;
      for (int e = 0; e < d; ++e) row[e] += p * (double)(float)v[base + j * d + e]; }
    for (int e = 0; e < d; ++e) { want.push_back(row[e] / sum); got.push_back((float)o[base + i * d + e]); }
  }
  return compare(want, got, bound);
}
"""
MAINS = {  # file: (what comes before the file, the main)
    r"^flash.cu": ("", r"""
int main() {
  const int h = 2, n = 64, d = 64; torch::Tensor t[3];
  for (auto& x : t) { x.shape = {1, h, n, d}; x.p = numbers<float>(h * n * d); }
  auto o = forward(t[0], t[1], t[2]);
  return compare_attention((float*)t[0].p, (float*)t[1].p, (float*)t[2].p, (float*)o.p, h, n, d, 1e-5);
}"""),
    r"flash-attn/mma": ("", r"""
int main() {
  const int h = 2, n = 256, d = 64; torch::Tensor t[4];
  for (auto& x : t) { x.shape = {1, h, n, d}; x.type = torch::kHalf; x.p = numbers<half>(h * n * d); }
  FUNCTION(t[0], t[1], t[2], t[3], 2);
  return compare_attention((half*)t[0].p, (half*)t[1].p, (half*)t[2].p, (half*)t[3].p, h, n, d, 2e-3);
}"""),
    r"^src/(mma|wmma|simt)": ("", r"""
int main() {
  const int m = 256, n = 256, k = 128;
  half *a = numbers<half>(m * k), *b = numbers<half>(n * k), *c = numbers<half>(m * n);
  FUNCTION(a, b, c, m, n, k);
  std::vector<double> want, got;
  for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) { double s = 0;
    for (int x = 0; x < k; ++x) s += (double)(float)a[i * k + x] * (double)(float)b[j * k + x];
    want.push_back(s); got.push_back((float)c[i * n + j]); }
  return compare(want, got, 2e-2);
}"""),
}


def chosen(table, file, default=None):
    return next((value for pattern, value in table.items() if re.search(pattern, file)), default)


def function_of(file, text):
    """The host function that launches: its name is the file's, without its underscores."""
    words = re.sub(r"[_/]", "", pathlib.Path(file).stem).lower()
    names = re.findall(r"^void (\w+)\((?:half|torch::Tensor)", text, re.M)
    return next((name for name in names if name.replace("_", "").lower() in (words, words + "f16f16f16f16")),
                names[-1] if names else "")


def prepare(row, sources, directory):
    """The command line's files and options, or None if the row needs a library."""
    repository = sources / row["repository"].split("/")[1]
    source = repository / row["file"]
    text = source.read_text(encoding="utf-8")
    copy = directory / "source" / row["file"]
    shutil.copytree(source.parent, copy.parent, dirs_exist_ok=True, ignore=shutil.ignore_patterns("doc", "data"))
    for pattern, replacement in chosen(EDITS, row["file"], []):
        text = re.sub(pattern, replacement, text)
    copy.write_text(text, encoding="utf-8")
    options = [option.format(repository=repository, directory=source.parent)
               for pattern, all_of in OPTIONS.items() if re.search(pattern, row["file"]) for option in all_of]
    files = [str(copy)]
    main = chosen(MAINS, row["file"])
    if main is not None:
        (directory / "torch").mkdir(exist_ok=True)
        for name in ("types.h", "extension.h"):
            (directory / "torch" / name).write_text(TORCH, encoding="utf-8")
        wrapper = directory / "main.cu"
        wrapper.write_text(f'{main[0]}#include "{copy}"\n{COMPARE}'
                           + main[1].replace("FUNCTION", function_of(row["file"], text)), encoding="utf-8")
        files = [str(wrapper)]
        options.append(f"-I{directory}")
    return files + options + [f"-I{source.parent}"]


def run(command, seconds, directory):
    """(exit status or None for a timeout, output, seconds of CPU); the limit is of CPU time, as others use the machine"""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, cwd=directory, encoding="utf-8", errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=20 * seconds, preexec_fn=limit)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as stopped:
        status, output = None, (stopped.stdout or b"").decode(errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, output, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(row, program, compile_seconds, emucuda, directory, seconds):
    report_file = directory / "report.json"
    report_file.unlink(missing_ok=True)
    arguments = [argument.format(kernel=row["kernel"]) for argument in chosen(ARGUMENTS, row["file"], [])]
    command = [emucuda, str(program), "--once", "--profile", "--json", str(report_file), "--", *arguments]
    status, output, used = run(command, seconds, directory)
    print("\n".join(output.splitlines()[-12:]))
    row["seconds"] = f"{compile_seconds + used:.1f}"
    if status is None or status == 128 + signal.SIGKILL:
        row.update(right="no", missing=f"stopped after {seconds} s of CPU time")
        return
    if not report_file.exists():
        row.update(right="no", missing=output.strip().splitlines()[-1] if output.strip() else "no report")
        return
    report = json.loads(report_file.read_text(encoding="utf-8"))
    hazards = report["hazards"]
    own = report["program"]["exit"]
    complains = re.search(r"(?i)(?<!\b0 )\bfail|mismatch", output.split("\nkernel ")[0])
    row["right"] = "yes" if own == 0 and not complains else "no"
    row["hazards"] = len(hazards)
    row["kinds_at_lines"] = " ".join(f'{hazard["kind"]}@{str(hazard["where"]).rpartition("/")[2]}' for hazard in hazards)
    for key in COUNTERS:
        row[key] = sum(kernel["profile"][key] for kernel in report["kernels"])
    row["missing"] = "" if own == 0 else f"its main ends with {own}" if own < 128 else report["program"]["stopped"]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("emucuda", type=pathlib.Path)
    options.add_argument("sources", type=pathlib.Path)
    options.add_argument("--only", default="", help="only files that match")
    options.add_argument("--seconds", type=int, default=60, help="limit of one run, in CPU time")
    own = options.parse_args()
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    def save():
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    mine = [row for row in rows if row["right"] != "needs a library"
            and re.search(own.only, f'{row["repository"]}/{row["file"]}:{row["kernel"]}')]
    for file in dict.fromkeys((row["repository"], row["file"]) for row in mine):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            group = [row for row in mine if (row["repository"], row["file"]) == file]
            program = directory / "program"
            status, output, used = run([str(own.emucuda.resolve()), *prepare(group[0], own.sources, directory), "-o",
                                        str(program)], own.seconds, directory)
            for row in group:
                print(f'== {row["file"]} {row["kernel"]}', flush=True)
                for key in ("hazards", "kinds_at_lines", *COUNTERS):
                    row[key] = ""
                if status != 0:
                    error = next((line for line in output.splitlines() if "error:" in line), "the compiler was stopped")
                    missing = re.sub(r"^.*?error: ", "does not compile: ", error)
                    row.update(right="no", missing=missing, seconds=f"{used:.1f}")
                    print(output[-1500:])
                else:
                    measure(row, program, used, str(own.emucuda.resolve()), directory, own.seconds)
                save()


if __name__ == "__main__":
    main()
