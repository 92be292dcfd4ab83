#!/usr/bin/env python3
"""Who includes whom. Fails with file:line for every #include that points upward or sideways.

The rules are those of docs/layout.md; each folder may use itself, what is listed for it, and outside libraries that
no other rule reserves.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = ("include", "shm", "cache", "stage_proc", "capi", "bindings", "tests", "examples", "omnistage")

# Longest matching folder decides. "omnistage/" are the public headers and the generated wire headers.
MAY_USE = {
    "include/": ["omnistage/"],
    "shm/base/": ["shm/base/"],
    "shm/": ["shm/", "omnistage/"],
    "cache/": ["cache/", "shm/base/"],
    "stage_proc/config/": ["stage_proc/config/", "shm/base/"],
    "stage_proc/engine/": ["stage_proc/engine/", "stage_proc/models/", "stage_proc/sampling/", "stage_proc/tokenizer/",
                           "stage_proc/transfer/", "cache/", "shm/base/"],
    "stage_proc/sampling/": ["stage_proc/sampling/", "stage_proc/engine/", "shm/base/"],
    "stage_proc/tokenizer/": ["stage_proc/tokenizer/", "shm/base/"],
    "stage_proc/supervisor/": ["stage_proc/supervisor/", "stage_proc/config/", "stage_proc/engine/request.h", "shm/",
                               "omnistage/"],
    "stage_proc/": ["stage_proc/", "cache/", "shm/", "omnistage/"],
    "capi/": ["capi/", "shm/", "omnistage/"],
    "bindings/": ["bindings/", "omnistage/omnistage.h", "omnistage/omnistage.hpp"],
    "examples/": ["omnistage/omnistage.h", "omnistage/omnistage.hpp"],
    "tests/": [""],
}

# Outside libraries that only some folders may see.
RESERVED = [
    (re.compile(r"(ATen|torch|c10)/"), ["stage_proc/models/", "tests/"]),
    (re.compile(r"cuda|cublas|nvrtc"), ["stage_proc/models/", "shm/pool/", "tests/"]),
    (re.compile(r"spdlog/"), ["stage_proc/"]),
    (re.compile(r"yaml-cpp/"), ["stage_proc/config/"]),
    (re.compile(r"CLI/"), ["stage_proc/", "bindings/cli/"]),
    (re.compile(r"gtest/|gmock/|benchmark/"), ["tests/"]),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def longest(path, table):
    found = [prefix for prefix in table if path.startswith(prefix)]
    return max(found, key=len) if found else None


def check(path, lines):
    layer = longest(path, MAY_USE)
    if layer is None:
        return [f"{path}: belongs to no layer of scripts/check_layers.py"]
    problems = []
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        where = f"{path}:{number}"
        if name.split("/")[0] in OURS and "/" in name:
            if not any(name.startswith(allowed) for allowed in MAY_USE[layer]):
                problems.append(f"{where}: {layer} must not include {name}")
        else:
            for pattern, folders in RESERVED:
                if pattern.match(name) and not any(path.startswith(folder) for folder in folders):
                    problems.append(f"{where}: {name} is only for {', '.join(folders)}")
            if match.group(1) == '"' and "/" not in name and not path.startswith(("tests/", "bindings/", "include/", "examples/")):
                problems.append(f"{where}: write {name} from the root of the repository")
    return problems


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.hpp", "*.cc", "*.c", "*.cu"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    problems = []
    count = 0
    for path in filter(None, listed):
        full = os.path.join(ROOT, path)
        if not os.path.exists(full):
            continue
        count += 1
        with open(full, encoding="utf-8", errors="replace") as source:
            problems += check(path, source)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"layers: {count} files, no include points upward")
    return 1 if problems else 0


sys.exit(main())
