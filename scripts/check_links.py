#!/usr/bin/env python3
"""What the built files link and export.

    check_links.py BUILD_DIR

- libomnistage.so links the C and C++ run time only and exports oms_* only;
- nothing but the model plug-ins links libtorch, and nothing links CUDA;
- the omnistage command and the bindings reach the system through libomnistage.so alone.
"""
import glob
import os
import re
import subprocess
import sys

RUN_TIME = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libpthread.so.0",
            "librt.so.1", "libdl.so.2"}
HEAVY = re.compile(r"lib(torch|c10|cuda|cudart|cublas|cudnn|nvrtc|nccl)")


def needed(path):
    out = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", out)


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in out.splitlines()]
    return [s[-1].split("@")[0] for s in symbols if len(s) >= 3 and s[1] in "TDBRWVi"]


def check_library(build, problems):
    library = os.path.join(build, "lib", "libomnistage.so")
    if not os.path.exists(library):
        problems.append(f"{library} was not built")
        return
    for name in needed(library):
        if name not in RUN_TIME:
            problems.append(f"libomnistage.so links {name}; allowed: {', '.join(sorted(RUN_TIME))}")
    names = exported(library)
    if not any(name.startswith("oms_") for name in names):
        problems.append("libomnistage.so exports no oms_ function")
    for name in names:
        if not name.startswith("oms_"):
            problems.append(f"libomnistage.so exports {name}; only oms_* is public")


def check_programs(build, problems):
    programs = [p for p in glob.glob(os.path.join(build, "bin", "*")) if os.access(p, os.X_OK) and os.path.isfile(p)]
    for path in programs:
        for name in needed(path):
            if HEAVY.match(name):
                problems.append(f"{os.path.basename(path)} links {name}; only model plug-ins may")
    command = os.path.join(build, "bin", "omnistage")
    if os.path.exists(command):
        for name in needed(command):
            if name not in RUN_TIME and not name.startswith("libomnistage.so"):
                problems.append(f"the omnistage command links {name}; it may use the C ABI only")
        if not any(n.startswith("libomnistage.so") for n in needed(command)):
            problems.append("the omnistage command does not link libomnistage.so")
    for path in glob.glob(os.path.join(build, "lib", "omnistage", "*.so")):
        for name in needed(path):
            if re.match(r"lib(cuda|cudart|torch_cuda|c10_cuda)", name):
                problems.append(f"{os.path.basename(path)} links {name}; CUDA belongs into a plug-in of its own")
    return len(programs)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = []
    check_library(sys.argv[1], problems)
    count = check_programs(sys.argv[1], problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"links: libomnistage.so and {count} programs as documented")
    return 1 if problems else 0


sys.exit(main())
