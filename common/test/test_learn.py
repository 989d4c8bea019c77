#!/usr/bin/env python3
"""Tests ./learn as a module, with programs, compilers and package managers that are scripts."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import unittest
from argparse import Namespace
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def load_learn():
    """Loads the script as a new module, so that a test can change its variables."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("learn", str(ROOT / "learn"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("learn", loader))
    loader.exec_module(module)
    return module


class Case(unittest.TestCase):
    """Gives each test an empty directory as root, with a bin/ for its scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="learn_")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.learn = load_learn()
        self.learn.ROOT = self.root

    def script(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def said(self, function, *arguments):
        """Returns what a call prints, including the output of its processes, and its exit
        status."""
        stop = None
        with tempfile.TemporaryFile("w+") as file, contextlib.redirect_stdout(io.StringIO()) as own:
            before = os.dup(1)
            os.dup2(file.fileno(), 1)
            try:
                function(*arguments)
            except self.learn.Stop as problem:
                stop = problem
            finally:
                os.dup2(before, 1)
                os.close(before)
            file.seek(0)
            return own.getvalue() + file.read(), stop


class Chapters(Case):
    """The options of a chapter's program come from its --help."""

    def setUp(self):
        super().setUp()
        helps = {"01_plain": "  -h,--help  this", "07_kernel": "  --device TEXT  where\n"
                 "  --bench  time it", "18_other": "  -b,--bench  time it, on a --device"}
        self.learn.CHAPTERS = [self.root / "chapters" / name for name in helps]
        for name, text in helps.items():
            self.script(f"build/bin/ch{name}", f'if [ "$1" = --help ]; then echo "{text}"; '
                        f'else echo {name} called with "[$*]"; fi\n')
        self.script("build/bin/cuda_in_one_picture", 'echo "cuda called with [$*]"\n')
        self.script("chapters/07_kernel/attention.hpp", "")
        self.built = "".join(f"build {path.name}: phony\n" for path in (self.root / "build/bin").iterdir())
        (self.root / "build" / "build.ninja").write_text(self.built)
        self.learn.configure = self.learn.build = lambda *_, **__: self.root / "build"

    def test_cuda_stands_before_the_first_kernel_or_alone(self):
        output, stop = self.said(self.learn.command_run, Namespace(chapters=[], device="auto"))
        self.assertIsNone(stop)
        called = [line.split()[0] for line in output.splitlines() if "called with" in line]
        self.assertEqual(called, ["01_plain", "cuda", "07_kernel", "18_other"])
        output, stop = self.said(self.learn.command_run, Namespace(chapters=["cuda"], device="auto"))
        self.assertIsNone(stop)
        self.assertIn("cuda called with []", output)
        self.assertNotIn("07_kernel", output)
        output, _ = self.said(self.learn.command_run, Namespace(chapters=["7"], device="auto"))
        self.assertNotIn("cuda called", output)

    def test_run(self):
        output, stop = self.said(self.learn.command_run, Namespace(chapters=[], device="auto"))
        self.assertIsNone(stop)
        self.assertIn("01_plain called with []", output)
        self.assertIn("07_kernel called with [--device auto --profile]", output)
        self.assertIn("18_other called with []", output)

    def test_what_cmake_left_out(self):
        (self.root / "build" / "build.ninja").write_text(self.built.replace("build ch07", "build no_ch07"))
        output, stop = self.said(self.learn.command_run, Namespace(chapters=[], device="auto"))
        self.assertIsNone(stop)
        self.assertIn("ch07_kernel is left out of this build; `cmake build` says why", output)
        self.assertNotIn("07_kernel called", output)
        self.assertIn("18_other called", output)
        _, stop = self.said(self.learn.command_run, Namespace(chapters=["7"], device="auto"))
        self.assertEqual((str(stop), stop.code), ("nothing is left to run", 2))

        def configured_again(*_):
            (self.root / "build" / "build.ninja").write_text(self.built)
        self.learn.run_ninja = configured_again
        output, _ = self.said(self.learn.command_run, Namespace(chapters=["7"], device="auto"))
        self.assertIn("07_kernel called", output)

    def test_bench(self):
        with mock.patch.object(self.learn, "gpu", lambda: None):
            output, stop = self.said(self.learn.command_bench, Namespace(what=None))
            self.assertIsNone(stop)
            self.assertNotIn("01_plain called", output)
            self.assertIn("07_kernel called with [--bench]", output)
            self.assertIn("18_other called with [--bench]", output)
            _, stop = self.said(self.learn.command_bench, Namespace(what="1"))
            self.assertEqual((str(stop), stop.code), ("chapter 1 has no benchmark", 2))


class Tests(Case):
    def test_the_quick_set_and_all(self):
        self.script("bin/ctest", f'echo "$*" > "{self.root}/log"\n')
        self.learn.build = lambda *_, **__: self.root
        self.learn.track = lambda: mock.Mock(exercises=[])
        for everything, excludes in ((False, True), (True, False)):
            with mock.patch.dict(os.environ, {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}):
                _, stop = self.said(self.learn.command_test, Namespace(
                    chapters=[], preset="release", definitions=[], again=True, all=everything))
            self.assertIsNone(stop)
            self.assertEqual("-LE ^large$" in (self.root / "log").read_text(), excludes)

    @unittest.skipUnless("FA_BINARY_DIR" in os.environ, "CTest says where the build is")
    def test_threads_are_bounded(self):
        """The product of CTest's jobs and the threads of each must not exceed the number that CTest
        expects."""
        binary = os.environ["FA_BINARY_DIR"]
        listing = json.loads(subprocess.run(
            ["ctest", "--test-dir", binary, "--show-only=json-v1"], capture_output=True, text=True,
            check=True).stdout)
        checked = 0
        for test in listing["tests"]:
            properties = {one["name"]: one["value"] for one in test["properties"]}
            if test["name"] in ("learn", "exercise_learn", "exercise_track",
                                "exercise_prove", "kernel_symbols") or test["name"].endswith(
                                    ("_tool", "_python")):
                continue  # no emulator, or one core for each that it builds with
            with self.subTest(test["name"]):
                self.assertIn(f"FA_THREADS={int(properties.get('PROCESSORS', 1))}",
                              properties["ENVIRONMENT"])
            checked += 1
        self.assertGreater(checked, 20)


class Map(unittest.TestCase):
    def test_parts(self):
        """Every chapter is in one part, and the map shows existing and planned chapters."""
        parts = json.loads((ROOT / "chapters" / "parts.json").read_text(encoding="utf-8"))
        listed = [name for part in parts for name in part["chapters"]]
        numbers = [int(name[:2]) for name in listed]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[:20], list(range(1, 21)))
        there = {path.name for path in (ROOT / "chapters").glob("[0-9]*/")}
        self.assertEqual(there - set(listed), set())
        shown = subprocess.run([str(ROOT / "learn"), "map"], capture_output=True, text=True, check=True,
                               env={**os.environ, "LEARN_HOME": "/nowhere"}).stdout
        for part, text in zip(parts, re.split("|".join(f"\n{part['part']} .* exercises\n" for part in parts),
                                              shown)[1:], strict=True):
            for name in part["chapters"]:
                self.assertIn(f"  {name} " if name in there else name.replace("_", " "), text)
                for page in (ROOT / "chapters" / name).glob("[2-9]-*.md"):
                    self.assertIn(f"\n    {page.name}", text.partition(f"  {name} ")[2])
        self.assertLess(shown.index("02_tiled_cpu "), shown.index("\n  cuda "))
        self.assertLess(shown.index("\n  cuda "), shown.index("03_basic_kernel "))
        self.assertRegex(shown, "\nDebugging .* exercises\n")


class Machine(Case):
    """A machine on which all commands are scripts that record their arguments."""

    def setUp(self):
        super().setUp()
        self.bin, self.log = self.root / "bin", self.root / "log"
        self.log.touch()
        self.lacks()
        self.command("g++", f'case "$*" in *"-x c++"*) text=$(cat);; esac\nfor what in $(cat "{self.root}/lacks"); do\n'
                     '  case "$* $text" in *"$what"*) exit 1;; esac\ndone\necho "g++ 12.2.0"\n')
        self.command("cmake", "echo cmake version 3.25.1\n")
        self.command("ninja", "echo 1.11\n")
        self.command("mpicxx", "echo g++ 12.2.0\n")
        self.command("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n")
        self.command("apt-cache", f'cat "{self.root}/candidate"\n')
        self.command("apt-get", "exit 100\n")
        self.command("sudo", '"$@"\n')
        for name in ("cat", "env", "rm", "touch", "mkdir"):
            (self.bin / name).symlink_to(f"/bin/{name}")
        environment = {"PATH": str(self.bin), "HOME": str(self.root)}
        for patch in (mock.patch.dict(os.environ, environment, clear=True),
                      mock.patch.object(os, "geteuid", lambda: 1000),
                      mock.patch.object(self.learn, "python_with", lambda _: "/usr/bin/python3"),
                      mock.patch.object(self.learn, "nvcc", lambda: None)):
            patch.start()
            self.addCleanup(patch.stop)

    def command(self, name, text):
        self.script(f"bin/{name}", f'echo "{name} $*" >> "{self.log}"\n{text}')

    def lacks(self, *what):
        """Makes headers and libraries unavailable to the compiler."""
        (self.root / "lacks").write_text(" ".join(what))

    def offers(self, version):
        (self.root / "candidate").write_text(f"cmake:\n  Candidate: {version}\n")

    def called(self, name):
        return [line for line in self.log.read_text().splitlines() if line.startswith(name + " ")]

    def ensure(self):
        return self.said(lambda: self.learn.ensure_requirements(optional=self.learn.OPTIONAL))


class Requirements(Machine):
    def test_complete(self):
        self.assertEqual(self.ensure(), ("", None))
        self.assertEqual(self.called("apt-get"), [])

    def test_missing_is_installed(self):
        self.lacks("doctest")
        self.command("apt-get", f'case "$*" in install*) : > "{self.root}/lacks";; esac; echo it works\n')
        output, stop = self.ensure()
        self.assertIsNone(stop)
        self.assertIn("Missing: <doctest/doctest.h>\n", output)
        self.assertIn("it works", output)  # what it installs streams by
        self.assertEqual(self.called("sudo")[1], "sudo env DEBIAN_FRONTEND=noninteractive apt-get "
                         "install -y doctest-dev -q --no-install-recommends")

    def test_missing_stops(self):
        self.lacks("doctest", "hwy")
        _, stop = self.ensure()
        self.assertIn("run this yourself, then try again: sudo apt-get install -y doctest-dev "
                      "libhwy-dev", str(stop))

    def test_optional_does_not_stop(self):
        self.lacks("hwy", "benchmark/")
        output, stop = self.ensure()
        self.assertIsNone(stop)
        self.assertIn("Continuing without <hwy/highway.h>, <benchmark/benchmark.h>: could not", output)
        (self.bin / "apt-get").unlink()
        self.command("dnf", "")
        output, stop = self.ensure()
        self.assertIsNone(stop)
        self.assertIn("sudo dnf install highway-devel google-benchmark-devel", output)
        self.assertEqual(self.called("dnf"), [])

    def test_the_site_goes_on_without_programs(self):
        with mock.patch.object(self.learn, "ROOT", ROOT):
            site = self.learn.site_module()
        ensure = lambda: self.said(lambda: self.learn.ensure_requirements((), site.optional()))
        self.assertEqual(ensure(), ("", None))  # packages that this system does not know
        self.assertEqual(self.called("apt-get"), [])
        self.offers("1:19")
        output, stop = ensure()
        self.assertIsNone(stop)
        self.assertRegex(output, r"Continuing without clang\+\+-19, wasm-ld-19, .*: could not install; "
                         ".* clang-19 lld-19 llvm-19 binaryen")
        (self.bin / "sudo").unlink()  # no user may install
        output, stop = ensure()
        self.assertIsNone(stop)
        self.assertRegex(output, "Continuing without clang.*: run this as root, then try again: apt-get "
                         "install -y clang-19 ")

    def test_too_old_cmake_is_found_before_sudo(self):
        self.command("cmake", "echo cmake version 3.18.4\n")
        self.offers("3.18.4-2")
        _, stop = self.ensure()
        self.assertIn("cmake 3.22 or later is needed, this system's packages have 3.18.4-2: install "
                      "a newer one (python3 -m pip install --user cmake, or", str(stop))
        self.assertEqual(self.called("sudo"), [])
        self.offers("3.25.1-1")  # its packages have a newer one, which is installed
        self.assertIn("then try again: sudo apt-get install -y cmake", str(self.ensure()[1]))

    def test_compiler(self):
        self.lacks("stop_token")
        _, stop = self.ensure()
        self.assertIn("g++ cannot compile C++20: install g++ 11 or clang 14", str(stop))
        self.lacks()
        os.environ["CXX"] = "no-such-compiler -O2"
        _, stop = self.ensure()
        self.assertIn("CXX=no-such-compiler -O2: this does not run; expected", str(stop))
        self.assertIn("CXX=no-such-compiler -O2", str(self.said(self.learn.doctor, None)[1]))
        self.assertEqual(self.called("sudo"), [])

    def test_compiler_with_launcher_and_arguments(self):
        for cxx, launcher, words in [("g++", [], ["g++"]), ("g++ -m64", [], ["g++", "-m64"]),
                                     ("ccache g++ -m64", ["ccache"], ["g++", "-m64"])]:
            with self.subTest(cxx):
                os.environ["CXX"] = cxx
                self.assertEqual(self.learn.compiler(), (launcher, words))
                self.assertEqual(self.ensure(), ("", None))
                self.assertIn(f"compiler: {cxx}: g++ 12.2.0", self.said(self.learn.doctor, None)[0])

    def test_a_terminal_is_asked(self):
        self.lacks("doctest")
        self.command("apt-get", f'case "$*" in install*) : > "{self.root}/lacks";; esac; echo it works\n')
        call = "learn.ensure_requirements()"
        output = self.on_terminal(call, answer="n\n")
        self.assertIn("Run sudo apt-get install -y doctest-dev? [Y/n]", output)
        self.assertIn("nothing was installed; run this, then try again: sudo apt-get", output)
        self.assertEqual(self.called("sudo"), [])
        output = self.on_terminal(call, answer="\n")
        self.assertIn("it works", output)
        self.assertNotIn("nothing was installed", output)
        self.assertEqual(len(self.called("sudo")), 2)

    def on_terminal(self, call, answer=""):
        """Returns what a call of learn shows on a terminal."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"there are no terminals here: {error}")
        script = ("import os, sys; from test_learn import load_learn; learn = load_learn(); "
                  "os.geteuid = lambda: 1000; learn.ROOT = learn.Path(sys.argv[1])\n"
                  f"try:\n  {call}\nexcept learn.Stop as stop:\n  print(stop)\n")
        process = subprocess.Popen([sys.executable, "-B", "-c", script, str(self.root)],
                                   stdin=follower, stdout=follower, stderr=follower,
                                   cwd=Path(__file__).parent, env={**os.environ, "TERM": "xterm"})
        os.close(follower)
        os.write(leader, answer.encode())
        shown = b""
        with contextlib.suppress(OSError):
            while select.select([leader], [], [], 60)[0]:
                shown += os.read(leader, 4096)
        os.close(leader)
        self.assertEqual(process.wait(timeout=60), 0, shown.decode())
        return shown.decode()

    def test_busy_line(self):
        for program, step, shown in [
                ("ninja", "[3/40] Building CXX object common/CMakeFiles/fa.dir/a.cpp.o",
                 "Busy 3/40  common/a.cpp.o"),
                ("ninja", "[4/40] Linking b", "Busy 4/40  Linking b"),
                ("ctest", " 12/96 Test #4: ch01_cli ......   Passed    0.52 sec", "Busy 12/96"),
                ("ctest", "      Start  5: ch02_cli", "Busy   ch02_cli"),
                ("cmake", "-- Looking for pthread", "Busy   Looking for pthread")]:
            with self.subTest(step):
                self.command(program, f"echo '{step}'; echo 'a warning'; exit 3\n")
                output = self.on_terminal(f"print(learn.run_busy(['{program}'], 'Busy'))")
                self.assertIn(f"\r\033[K{shown}\r\033[K", output)
                self.assertIn("(3, [", output)
                self.assertIn("'a warning\\n']", output)
        self.command("ctest", "echo 1/2 Test '#1': a ...***Failed 1.0 sec; echo; echo why; exit 8\n")
        output = self.on_terminal("learn.run_busy(['ctest'], 'Busy', at_once=True)")
        self.assertIn("***Failed 1.0 sec\r\n\r\033[K\r\n\r\033[Kwhy\r\n", output)


class Configuring(Machine):
    def test_a_failure_deletes_what_cmake_made_and_nothing_else(self):
        (self.root / "build").mkdir()
        (self.root / "build" / "notes.txt").write_text("mine")
        self.command("cmake", 'case "$*" in *version*) echo 3.25.1;; *) mkdir -p build/CMakeFiles; '
                     'touch build/CMakeCache.txt; echo CMake Error: no; exit 1;; esac\n')
        output, stop = self.said(self.learn.configure, "release")
        self.assertIn("CMake Error: no", output)
        self.assertEqual((stop.code, str(stop)),
                         (1, "cmake could not configure the project; its messages are above"))
        self.assertEqual([path.name for path in (self.root / "build").iterdir()], ["notes.txt"])
        # A cache that was there before stays.
        (self.root / "build" / "CMakeCache.txt").write_text("mine, too")
        self.said(self.learn.configure, "release")
        self.assertEqual((self.root / "build" / "CMakeCache.txt").read_text(), "mine, too")

    def test_what_is_left_out_is_said(self):
        """Compares the messages with the CMake files' current ones."""
        notices = []
        for file in [*(ROOT / "common/cmake").glob("*.cmake"), *ROOT.glob("chapters/02*/*.cmake"),
                     *ROOT.glob("chapters/*/CMakeLists.txt")]:
            notices += re.findall(r'message\(STATUS "(.*)"\)', file.read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(notices), 5)
        (self.root / "notices").write_text("-- Detecting CXX\n" + "".join(
            f"-- {notice}\n" for notice in notices))
        self.command("cmake", f'case "$*" in *version*) echo 3.25.1;; '
                     f'*) cat "{self.root}/notices";; esac\n')
        output, stop = self.said(self.learn.configure, "release")
        self.assertIsNone(stop)
        self.assertEqual(output.splitlines(), ["Configuring build"] + notices)

    def test_what_cmake_is_told(self):
        os.environ["CXX"] = "ccache g++ -m64"
        self.command("cmake", f'echo "CXX=$CXX" >> "{self.log}"; echo 3.25.1\n')
        self.said(self.learn.configure, "release", ["FA_WERROR=ON"])
        self.assertIn("cmake --preset release -DFA_PYTHON=/usr/bin/python3 "
                      "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DFA_WERROR=ON\nCXX=g++ -m64\n",
                      self.log.read_text())

    def test_another_system(self):
        for system in ("darwin", "freebsd14"):
            with mock.patch.object(sys, "platform", system):
                _, stop = self.said(self.learn.configure, "release")
            self.assertIn(f"built on Linux, this is {system}; any system has containers (docs/limits.md: "
                          "On another system)", str(stop))
        self.assertEqual(self.log.read_text(), "")
        self.assertIn("\n## On another system\n", (ROOT / "docs" / "limits.md").read_text(encoding="utf-8"))
        with mock.patch.object(sys, "platform", "win32"), self.assertRaises(SystemExit) as ended:
            load_learn()
        self.assertIn("error: ./learn runs on Linux: Windows has WSL", str(ended.exception))

    def test_nvcc_without_a_gpu(self):
        """The emulator's programs are enough to run something. build and test also need the GPU's
        programs."""
        with mock.patch.object(self.learn, "nvcc", lambda: "/usr/bin/nvcc"), \
                mock.patch.object(self.learn, "gpu", lambda: None):
            self.said(self.learn.configure, "release")
            self.assertIn(" -DFA_CUDA=OFF -DFA_EMULATOR_ONLY:BOOL=ON\n", self.log.read_text())
            self.log.write_text("")
            (self.root / "build" / "build.ninja").touch()
            (self.root / "build" / "CMakeCache.txt").write_text("//\nFA_EMULATOR_ONLY:BOOL=ON\n")
            self.assertEqual(self.said(self.learn.configure, "release"), ("", None))
            self.assertEqual(self.log.read_text(), "")
            self.said(lambda: self.learn.configure("release", everything=True))
            self.assertIn(" -DFA_CUDA=ON -DFA_EMULATOR_ONLY:BOOL=OFF\n", self.log.read_text())

    def test_a_build_of_another_place(self):
        """Files that name the other place are removed, and the other files of its folder stay."""
        build = self.root / "build"
        (build / "CMakeFiles").mkdir(parents=True)
        names = ("CMakeCache.txt", "build.ninja", ".ninja_deps", ".ninja_log", "notes.txt")
        for source, directory, kept in ((self.root, build, True), ("/elsewhere", build, False),
                                        (self.root, "/elsewhere/build", False)):
            for name in names:
                (build / name).write_text(f"\nCMAKE_HOME_DIRECTORY:INTERNAL={source}\n"
                                          f"CMAKE_CACHEFILE_DIR:INTERNAL={directory}\n")
            output, _ = self.said(self.learn.forget_other_place, build, self.root)
            self.assertEqual(output == "", kept)
            self.assertEqual({path.name for path in build.iterdir()} - {"CMakeFiles"},
                             set(names) if kept else {"notes.txt"})

    def test_configured_already(self):
        (self.root / "build").mkdir()
        (self.root / "build" / "build.ninja").touch()
        self.assertEqual(self.said(self.learn.configure, "release"), ("", None))
        self.assertEqual(self.log.read_text(), "")


if __name__ == "__main__":
    unittest.main()
