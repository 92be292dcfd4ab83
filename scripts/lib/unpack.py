#!/usr/bin/env python3
"""Take single files out of a wheel. Standard library only.

    unpack.py WHEEL OUT_DIR PATTERN=TARGET...

PATTERN is a shell pattern for names inside the wheel. With TARGET ending in "/" a match lands there under the rest of
its name after the pattern's part before the first wildcard; otherwise TARGET is the file's new name. A target
name ending in ".gz" is unpacked. Every pattern must match something. On an error one line goes to stderr and the
status is 28 when the disk is full, else 1.
"""
import errno
import fnmatch
import gzip
import os
import shutil
import stat
import sys
import time
import zipfile


def target_of(name, pattern, target):
    if not target.endswith("/"):
        return target
    fixed = pattern.split("*", 1)[0]
    rest = name[len(fixed):] if "*" in pattern and not pattern.startswith("*") else os.path.basename(name)
    return target + rest


def unpack(wheel, out_dir, rules):
    used = set()
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            if item.is_dir():
                continue
            for pattern, target in rules:
                if not fnmatch.fnmatchcase(item.filename, pattern):
                    continue
                used.add(pattern)
                path = os.path.normpath(os.path.join(out_dir, target_of(item.filename, pattern, target)))
                if not path.startswith(os.path.normpath(out_dir) + os.sep):
                    raise ValueError(f"{item.filename} would land outside of {out_dir}")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with archive.open(item) as source:
                    if path.endswith(".gz"):
                        path, source = path[:-3], gzip.open(source)
                    with open(path, "wb") as out:
                        shutil.copyfileobj(source, out, 1 << 20)
                # The wheel's own times: unpacking the same version again must not make builds start over.
                made = time.mktime(item.date_time + (0, 0, -1))
                os.utime(path, (made, made))
                if (item.external_attr >> 16) & stat.S_IXUSR:
                    os.chmod(path, 0o755)
                break
    for pattern, _ in rules:
        if pattern not in used:
            raise ValueError(f"there is no {pattern} in {os.path.basename(wheel)}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    rules = [tuple(rule.split("=", 1)) for rule in sys.argv[3:]]
    try:
        unpack(sys.argv[1], sys.argv[2], rules)
    except OSError as error:
        print(f"unpack.py: {error}", file=sys.stderr)
        sys.exit(28 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1)
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        print(f"unpack.py: {error}", file=sys.stderr)
        sys.exit(1)


main()
