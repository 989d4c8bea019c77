"""./learn docs builds the site, serves it, or tests it. This is the only part that needs Node.

It uses only the standard library. Pages come from the repository's READMEs, figures from
docs/figures/.
"""

import concurrent.futures
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
SITE = DOCS / ".vitepress" / "dist"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

# As in learn, a command to test for, and the package's name on each system.
NODE = [("node>=18.17", "nodejs", "nodejs", "nodejs"),
        ("npm", "npm", "npm", "npm")]
TEST_NODE = [("node>=20.10", "nodejs", "nodejs", "nodejs")]  # node:test as the tests use it
BROWSER = [("chromium", "chromium", "chromium", "chromium")]  # if there is no other browser
# Debian has a Chromium without windows, which needs less CPU time. The font is one that Chromium installs, too.
SHELL = [("chromium-headless-shell", "chromium-headless-shell"),
         ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation")]

# For docs/wasm, which is optional. As in learn, but only for Debian.
PROGRAMS = [("clang++-19", "clang-19"), ("wasm-ld-19", "lld-19"), ("llvm-ar-19", "llvm-19"),
            ("wasm-opt", "binaryen"), ("libdeflate-gzip", "libdeflate-tools"),
            ("/usr/lib/llvm-19/lib/wasm32-wasi/libc++.a", "libc++-19-dev-wasm32"),
            ("/usr/lib/llvm-19/lib/wasm32-wasi/libc++abi.a", "libc++abi-19-dev-wasm32"),
            ("/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a", "libclang-rt-19-dev-wasm32"),
            ("/usr/lib/wasm32-wasi/crt1-reactor.o", "wasi-libc"),
            ("/usr/include/nlohmann/json.hpp", "nlohmann-json3-dev"),
            ("/usr/include/doctest/doctest.h", "doctest-dev"), ("/usr/include/hwy/highway.h", "libhwy-dev"),
            ("/usr/include/eigen3/Eigen/Core", "libeigen3-dev")]

COMPILER = DOCS / "node_modules" / "@yowasp" / "clang"  # optional, for the pages' editor
EDITOR = DOCS / "public" / "editor"

IN_FIREFOX = "also in Firefox"  # in the names of tests that run in both browsers
LONGEST = ("verdicts", "lessons", "wasm", "playground", "site", "editor", "kernel", "reading")  # files of docs/test

# Messages of npm without a registry. Any other error is a mistake of ours.
NO_REGISTRY = ("ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")


class Missing(Exception):
    """A requirement of the site that is not available, described in one sentence."""


def add_arguments(parser) -> None:
    parser.add_argument("--port", type=int, default=8000, help="serve at this port [8000]")
    parser.add_argument("--build", action="store_true", help="build only")
    parser.add_argument("--test", action="store_true",
                        help="build, and drive every page and figure in headless Chromium, "
                             "and the pages' editors in Firefox")
    parser.add_argument("--skip-if-missing", action="store_true",
                        help="with --test: no failure where Node or Chromium cannot be had")


def run(command, what: str) -> None:
    if subprocess.run(command, cwd=DOCS, stdin=subprocess.DEVNULL).returncode != 0:
        raise RuntimeError(what)


def browser():
    return os.environ.get("FA_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def firefox():
    """Returns Debian's Firefox. (A snap, as Ubuntu has it, cannot read the tests' profile.)"""
    return os.environ.get("FA_FIREFOX") or shutil.which("firefox-esr")


def requirements(for_test: bool):
    needed = [] if browser() else SHELL if has_package("chromium-headless-shell") else BROWSER
    return NODE + (TEST_NODE + needed if for_test else [])


def has_package(name: str) -> bool:
    """True if this is Debian or a relative, and has the package."""
    return bool(shutil.which("apt-cache")) and subprocess.run(["apt-cache", "show", name],
                                                              capture_output=True).returncode == 0


def optional():
    """Installs PROGRAMS if this system has packages for them."""
    return PROGRAMS if has_package("libc++-19-dev-wasm32") else []


def install_packages() -> None:
    """Installs docs/node_modules as in package-lock.json. (`npm ci` cannot be used, because it
    refuses a lock file without download addresses that lists packages for other systems.)"""
    stamp = DOCS / "node_modules" / ".package-lock.json"
    lock = DOCS / "package-lock.json"
    if stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return
    print("Installing the site's packages with npm", flush=True)
    command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
    result = subprocess.run(command, cwd=DOCS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        print(result.stdout, flush=True)
        unreachable = any(code in result.stdout for code in NO_REGISTRY)
        raise (Missing if unreachable else RuntimeError)(
            "npm could not install the site's packages; its messages are above")
    os.utime(stamp)


def built_programs() -> list:
    return sorted((DOCS / "public").glob("*.wasm"))


def build_programs(missing: list) -> None:
    """Builds docs/public/*.wasm if none of PROGRAMS is `missing`. The site also works without these
    files."""
    if missing:
        print(f"Without programs in the pages: {', '.join(missing)} not installed (docs/wasm/README.md)",
              flush=True)
        for module in built_programs():  # files of an older state
            module.unlink()
        shutil.rmtree(EDITOR, ignore_errors=True)
        return
    run([sys.executable, "wasm/build.py"], "the programs could not be built as WebAssembly; the reason is above")
    if not COMPILER.exists():
        print("Without an editor in the pages: npm did not install @yowasp/clang (docs/editor/README.md)", flush=True)
        shutil.rmtree(EDITOR, ignore_errors=True)
        return
    run([sys.executable, "editor/build.py"], "the editor's compiler could not be prepared; the reason is above")


def build(missing: list) -> None:
    build_programs(missing)
    run(["node", "node_modules/vitepress/bin/vitepress.js", "build"],
        "the site could not be built; the reason is above")
    for module in built_programs():
        shutil.copy(module, SITE)
    if EDITOR.exists():
        shutil.copytree(EDITOR, SITE / "editor", dirs_exist_ok=True)


def test(bin_directory: Path) -> None:
    """Compares the figures with the programs, and then tests every page in a browser."""
    run(["node", "figures/make.mjs", "--check", "--bin", str(bin_directory)],
        "a figure is not what the programs say; write it again: node docs/figures/make.mjs")
    environment = {**os.environ, "FA_CHROMIUM": browser(), "FA_BIN": str(bin_directory), "FA_FIREFOX": ""}

    def passes(path, *words, **changes) -> bool:
        begin = time.monotonic()
        result = subprocess.run(["node", "--test", "--test-reporter=spec", *words, path], cwd=DOCS,
                                env={**environment, **changes}, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        failed = result.returncode != 0
        counts = ", ".join(re.findall(r"^\S ((?:pass|fail|skipped) [1-9]\d*)$", result.stdout, re.M))
        name = f"{path.name}{' in Firefox' if changes else ''}"
        print(f"{'NO' if failed else 'ok':3} {name}: {counts}, {time.monotonic() - begin:.0f} s\n"
              + (result.stdout if failed else ""), end="", flush=True)
        return not failed

    # The longest test starts first, so that none runs alone at the end. (`node --test` uses
    # alphabetical order.)
    def order(path):
        name = path.name.split(".")[0]
        return LONGEST.index(name) if name in LONGEST else len(LONGEST), path.name
    tests = sorted((DOCS / "test").glob("*.test.mjs"), key=order)
    both = [path for path in tests if IN_FIREFOX in path.read_text(encoding="utf-8")] if firefox() else []
    if not both:
        print("No test runs in Firefox, because firefox-esr is not installed", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # one browser each
        again = [pool.submit(passes, path, f"--test-name-pattern={IN_FIREFOX}", FA_FIREFOX=firefox())
                 for path in both]
        if not all([*pool.map(passes, tests), *(one.result() for one in again)]):
            raise RuntimeError("a test of the site failed; its output is above")


def serve(port: int) -> None:
    handler = functools.partial(QuietHandler, directory=str(SITE))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise RuntimeError(f"--port {port}: {error.strerror}; another: ./learn docs --port 8001") from None
    print(f"Read it at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends)", flush=True)
    with server:
        server.serve_forever()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without printing a line for each request."""

    def log_message(self, *_):
        pass
