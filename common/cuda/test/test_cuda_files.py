#!/usr/bin/env python3
"""Runs the .cu files of its directory with emucuda and compares what it reports with what they expect.

A file is right as it is: exit status 0, no hazard. With -D WRONG each line with the comment
`expect KIND` must be reported as that kind, and no other line may be. The message has the words of `expect KIND: WORDS`.

usage: test_cuda_files.py EMUCUDA [NAME...]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent


def emucuda(program, file, *options):
    """Returns the exit status, the output and the report as JSON, or None without a report."""
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.json"
        done = subprocess.run([program, str(file), "--json", str(report), *options], encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
                              env={**os.environ, "EMUCUDA_LOOP_MS": "500"})
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return done.returncode, done.stdout, found


def places(report):
    return {(hazard["kind"], int(hazard["where"].rpartition(":")[2])) for hazard in report["hazards"]}


def expected_of(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    return {(kind, number) for number, line in enumerate(lines, 1)
            for kind in re.findall(r"// expect (\w+)", line)}


def options_of(file):
    options = re.findall(r"^// options: (.*)$", file.read_text(encoding="utf-8"), re.M)
    return " ".join(options).replace("{here}", str(HERE)).split()


def check_right(program, file):
    status, output, report = emucuda(program, file, *options_of(file))
    if status != 0 or report is None or report["hazards"]:
        return f"exit status {status}, expected 0 without hazards\n{output}"
    return None


def check_wrong(program, file):
    expected = expected_of(file)
    status, output, report = emucuda(program, file, "-D", "WRONG", *options_of(file))
    if report is None:
        return f"exit status {status}, no report\n{output}"
    if places(report) != expected:
        return (f"missing {sorted(expected - places(report))}, not expected {sorted(places(report) - expected)}\n"
                + output)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        for words in re.findall(r"// expect \w+: (.*)", line):
            if not any(hazard["where"].endswith(f":{number}") and words in hazard["message"]
                       for hazard in report["hazards"]):
                return f"line {number}: no message has {words!r}\n{output}"
    if report["program"]["exit"] == 0 and (status != 1 or "status is 0, emucuda's is 1\n" not in output):
        return f"exit status {status}, expected 1 for a hazard\n{output}"
    return None


def check_seeds(program, file):
    """The same hazards under another schedule."""
    _, output, report = emucuda(program, file, "-D", "WRONG", "--schedule-seed", "5", *options_of(file))
    if report is None or places(report) != expected_of(file):
        return f"other hazards with --schedule-seed 5\n{output}"
    return None


def check_addresses(program, file):
    """Two runs give the same report, although it has addresses."""
    reports = [emucuda(program, file, "-D", "WRONG")[2] for _ in range(2)]
    return None if reports[0] == reports[1] else f"{reports[0]}\n{reports[1]}"


def check_place(program, file):
    """A file that shares only the first directories with the working directory is named by its whole path."""
    with tempfile.TemporaryDirectory() as directory:
        there, here = pathlib.Path(directory, "there"), pathlib.Path(directory, "here")
        there.mkdir(), here.mkdir()
        copy = there / file.name
        copy.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        for name in (str(copy), f"../there/{file.name}"):
            done = subprocess.run([program, name, "-D", "WRONG"], cwd=here, encoding="utf-8", timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            found = re.search(rf"(?m)^    {re.escape(name)}:(\d+)   (.*)", done.stdout)
            if not found or found[2].strip() != file.read_text(encoding="utf-8").splitlines()[int(found[1]) - 1].strip():
                return f"{name}: the line of the hazard is not printed\n{done.stdout}"
            if not re.search(r" (\w)\[1000\], outside every registered buffer; \1 has 1000 elements\n", done.stdout):
                return f"{name}: the size of the buffer is not printed\n{done.stdout}"
    return None


def check_unsupported(program, file):
    """Exit status 2, the place and the name of what is missing."""
    lines = file.read_text(encoding="utf-8").splitlines()
    status, output, report = emucuda(program, file)
    for number, line in enumerate(lines, 1):
        for name in re.findall(r"// unsupported (\S+)", line):
            if not re.search(rf"{file.name}:{number}: error: .*{re.escape(name)}", output):
                return f"line {number}: {name} is not named\n{output}"
    return None if status == 2 and report is None else f"exit status {status}, expected 2\n{output}"


def check_stops(program, file):
    """However a program ends, its exit status is the shell's and one sentence says why."""
    for word, expected, sentence in re.findall(r"(?m)^#ifdef (\w+)  // (\d+) (.*)$", file.read_text(encoding="utf-8")):
        status, output, report = emucuda(program, file, "-D", word)
        if status != int(expected) or report is None or sentence not in output:
            return f"-D {word}: exit status {status}, expected {expected} and the words {sentence!r}\n{output}"
    return None


def sarif_problem(log, report):
    """SARIF 2.1.0 has each hazard with its kind, its text, and the file and line of both sides."""
    def place(location):
        physical = location["physicalLocation"]
        return f'{physical["artifactLocation"]["uri"]}:{physical["region"]["startLine"]}'
    if log["version"] != "2.1.0" or log["runs"][0]["tool"]["driver"]["name"] != "emucuda":
        return "another version or tool"
    found = [(result["ruleId"], result["level"], result["message"]["text"],
              [place(location) for location in result["locations"]],
              [place(location) for location in result.get("relatedLocations", [])])
             for result in log["runs"][0]["results"]]
    wanted = [(hazard["kind"], "error", hazard["message"], [hazard["where"]],
               [hazard["other"]] if hazard["other"] else []) for hazard in report["hazards"]]
    return None if found == wanted else f"{found}, expected {wanted}"


def check_files(program, file):
    """Several files: a hazard has the place in its file, and an error the name of the file that has it."""
    header = HERE / "units.cuh"
    status, output, report = emucuda(program, file, str(HERE / "units_other.cu"), "-D", "WRONG")
    wanted = [(kind, str(header), str(line), "kernel") for kind, line in expected_of(header)]
    found = [(hazard["kind"], os.path.abspath(hazard["where"].rpartition(":")[0]),
              hazard["where"].rpartition(":")[2], hazard["kernel"]) for hazard in report["hazards"]] if report else None
    if status != 1 or found != wanted:
        return f"exit status {status}, {found}, expected {wanted}\n{output}"
    call = report["hazards"][0]["where_calls"][0]
    line = header.read_text(encoding="utf-8").splitlines()[int(call.rpartition(":")[2]) - 1]
    if "= helper()" not in line or f"called at {call}   {line.strip()}\n" not in output:
        return f"the call of the function that was inlined is not named: {call}\n{output}"
    other = HERE / "unsupported.cu"
    status, output, report = emucuda(program, file, str(other))
    if status != 2 or report is not None or f"error: {other} does not compile\n" not in output or \
            f"{file} does not compile" in output:
        return f"exit status {status} with a file that does not compile\n{output}"
    return None


def check_tools(program, file):
    """--tool selects hazards, and --sarif has them with their places."""
    kinds = {"memcheck": "out_of_bounds", "racecheck": "write_write", "initcheck": "uninitialized_read",
             "synccheck": "barrier_divergence"}
    with tempfile.TemporaryDirectory() as directory:
        compiled = pathlib.Path(directory) / "program"
        done = subprocess.run([program, str(file), "-D", "WRONG", "-o", str(compiled)], timeout=120)
        if done.returncode != 0:
            return "-o does not leave a program"
        every, found = emucuda(program, compiled)[2], set()
        for tool, kind in kinds.items():
            sarif = pathlib.Path(directory) / "report.sarif"
            _, output, report = emucuda(program, compiled, "--tool", tool, "--sarif", str(sarif))
            own = places(report)
            if kind not in {name for name, _ in own} or found & own:
                return f"--tool {tool}: {sorted(own)}\n{output}"
            found |= own
            log = json.loads(sarif.read_text(encoding="utf-8"))
            problem = sarif_problem(log, report)
            if problem:
                return f"--tool {tool} --sarif: {problem}"
        return None if found == places(every) else f"no tool has {sorted(places(every) - found)}"


def check_usage(program, file):
    """Bad usage: exit status 2 and one line that says what is wrong."""
    for options, sentence in ((["--tool", "x"], "expected memcheck, racecheck"),
                              (["--schedule-seed", "x"], "expected a number"),
                              (["--device", "gpu"], "--device gpu: there is no"),
                              (["missing.cu"], "missing.cu: no such file"), (["--what"], "no such option"),
                              (["--profil"], "--profil: no such option; did you mean --profile?"),
                              ([str(HERE)], "is a directory")):
        if options == ["--device", "gpu"] and pathlib.Path("/dev/nvidiactl").exists():
            continue
        status, output, report = emucuda(program, file, *options)
        if status != 2 or report is not None or not re.fullmatch(rf"error: .*{re.escape(sentence)}.*\n", output):
            return f"{options}: exit status {status}\n{output}"
    with tempfile.TemporaryDirectory() as directory:
        empty = pathlib.Path(directory) / "empty.cu"
        empty.touch()
        status, output, report = emucuda(program, empty)
        if status != 2 or report is not None or output != f"error: main is not defined in {empty}\n":
            return f"an empty file: exit status {status}\n{output}"
    return None


def check_headers(program, file):
    """Precompiled headers that clang refuses are removed, and the file compiles without them."""
    for change in (lambda path: path.write_bytes(b"no headers"), lambda path: path.write_bytes(b"")):
        emucuda(program, file, "--arch", "sm_87")  # makes them
        kept = list((pathlib.Path(program).parents[1] / "lib" / "emucuda" / "headers").glob("*-sm_87-*"))
        if len(kept) != 2:
            return f"expected the headers of two passes: {kept}"
        for path in kept:
            change(path)
        status, output, report = emucuda(program, file, "--arch", "sm_87")
        if status != 0 or report is None or any(path.exists() for path in kept) or "PCH" in output:
            return f"exit status {status} with precompiled headers that are none: {kept}\n{output}"
    return None


def check_profile(program, file):
    """Counters of kernels whose traffic is known."""
    status, output, report = emucuda(program, file, "--profile")
    if status != 0:
        return output
    kernels = {kernel["name"]: kernel["profile"] for kernel in report["kernels"]}
    bad, good = kernels["transpose<32>"], kernels["transpose<33>"]
    wanted = [(bad["shared_load_wavefronts"], 1024), (bad["shared_load_wavefronts_ideal"], 32),
              (good["shared_load_wavefronts"], 32), (good["shared_load_wavefronts_ideal"], 32),
              (good["global_load_sectors"], 128), (good["global_store_sectors"], 128), (good["barriers"], 4),
              (kernels["halves"]["global_load_sectors"], 4), (kernels["halves"]["global_store_sectors"], 4),
              (kernels["pairs"]["global_load_sectors"], 8), (kernels["half_atomics"]["global_load_sectors"], 0),
              (kernels["half_atomics"]["global_atomics"], 3), (kernels["half_atomics"]["global_atomic_sectors"], 10)]
    for stride, sectors, wavefronts in ((0, 32, 1 + 64), (1, 4, 1 + 2), (8, 32, 8 + 16)):
        profile = kernels[f"atomics<{stride}>"]
        wanted += [(profile["global_atomic_sectors"], sectors), (profile["shared_atomic_wavefronts"], wavefronts)]
    if any(found != expected for found, expected in wanted):
        return f"(found, expected): {wanted}\n{output}"
    worst = report["kernels"][0]["lines"][0]
    line = file.read_text(encoding="utf-8").splitlines()[int(worst["where"].rpartition(":")[2]) - 1]
    return None if "most wavefronts" in line else f"the most expensive line is not {worst['where']}"


def main():
    program, names = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    checks = []
    for file in sorted(HERE.glob("*.cu")):
        if names and file.stem not in names:
            continue
        text = file.read_text(encoding="utf-8")
        if not re.search(r"\bmain\(", text):
            continue
        if "// unsupported " in text:
            checks.append((check_unsupported, file))
            continue
        checks.append((check_profile if file.stem == "counters" else check_right, file))
        if file.stem == "units":
            checks.append((check_files, file))
        elif "WRONG" in text:
            checks.append((check_wrong, file))
        if file.stem == "vector_add":
            checks.append((check_place, file))
            checks.append((check_usage, file))
            checks.append((check_headers, file))
        if file.stem in ("hazards", "cluster_copies"):
            checks.append((check_seeds, file))
        if file.stem == "hazards":
            checks.append((check_tools, file))
        if file.stem == "addresses":
            checks.append((check_addresses, file))
        if file.stem == "stops":
            checks.append((check_stops, file))
    if not checks:
        sys.exit("no such test")
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda check: check[0](program, check[1]), checks))
    failed = 0
    for (check, file), problem in zip(checks, results):
        if problem is not None:
            failed += 1
            print(f"{file.name}: {check.__name__}: {problem}")
    print(f"{len(checks) - failed} of {len(checks)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
