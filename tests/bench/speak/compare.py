#!/usr/bin/env python3
"""The default pipeline beside its peers, in one run: llama.cpp on the same GGUF and the hibari package on the same text.

  compare.py --build build/release --llama BENCH_LLAMA --hibari-python PYTHON [--pairs 7] [--threads 1,2] [--json OUT]

Ours and the peer's runs alternate, so that both see the same machine. A ratio above 1 means we are better; the table
gives its median and range over the pairs. Peers are optional: a row without a peer has only our figure.

  BENCH_LLAMA   program that prints "pp128 A pp512 B tg64@128 C tg8seq total D" for "MODEL.gguf THREADS bench"
  PYTHON        interpreter with hibari-tts 0.2.1
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
QUESTION = "Why is the sky blue?"
SPOKEN = ("The sky looks blue because the air scatters short waves of light more than long ones. In the evening the light "
          "travels a longer way through the air, and what is left for our eyes is mostly red and orange.")
HIBARI = """
import json, sys, time
from hibari import Hibari
tts = Hibari(threads=int(sys.argv[1]))
tts("Warm up.", seed=1)
start = time.perf_counter(); first = None; samples = 0
for part in tts.stream(sys.argv[2], seed=1):
    first = first or time.perf_counter() - start
    samples += len(part)
total = time.perf_counter() - start
print(json.dumps({"first_audio_s": first, "total_s": total, "audio_s": samples / tts.sample_rate}))
"""


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **kwargs)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout


def thinker(args, threads):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        run([f"{args.build}/{args.thinker}", "--threads", str(threads), "--json", out.name])
        line = json.loads(out.read().splitlines()[-1])
    return {"prompt_128": line["prompt128"], "prompt_512": line["prompt512"], "decode_1": line["decode1"], "decode_8": line["decode8"]}


def llama(args, threads):
    out = run([args.llama, args.gguf, str(threads), "bench"])
    found = re.search(r"pp128 ([\d.]+) pp512 ([\d.]+) tg64@128 ([\d.]+) tg8seq total ([\d.]+)", out)
    if not found:
        sys.exit(f"{args.llama} printed no figures: {out[-500:]}")
    return dict(zip(("prompt_128", "prompt_512", "decode_1", "decode_8"), map(float, found.groups())))


def ours(args, deploy, text, extra=()):
    with tempfile.TemporaryDirectory() as folder:
        out = run([f"{args.build}/bin/omnistage", "speak", "--deploy", f"{ROOT}/deploy/{deploy}", "--json", "--quiet",
                   "--out", f"{folder}/a.wav", *extra, text])
    return json.loads(out.splitlines()[-1])


def voice(args, _threads):
    got = ours(args, "tts.yaml", SPOKEN)
    return {"first_audio": 1 / got["first_audio_s"], "voice_speed": got["audio_s"] / got["total_s"]}


def hibari(args, threads):
    got = json.loads(run([args.hibari_python, "-c", HIBARI, str(threads), SPOKEN]))
    return {"first_audio": 1 / got["first_audio_s"], "voice_speed": got["audio_s"] / got["total_s"]}


def whole(args, _threads):
    got = ours(args, "speak.yaml", QUESTION, ["--max-tokens", "64", "--temperature", "0"])
    return {"whole_first_token": 1 / got["first_token_s"], "whole_first_audio": 1 / got["first_audio_s"],
            "whole_tokens": got["tokens_per_s"], "whole_speed": got["audio_s"] / got["total_s"]}


UNITS = {"first_audio": "s to first audio", "voice_speed": "x real time, text to speech", "whole_first_token": "s to first token",
         "whole_first_audio": "s to first audio, question to speech", "whole_tokens": "tokens/s while speaking",
         "whole_speed": "x real time, question to speech", "prompt_128": "tokens/s prompt of 128",
         "prompt_512": "tokens/s prompt of 512", "decode_1": "tokens/s, one sequence", "decode_8": "tokens/s, eight sequences"}


def measure(name, our, peer, threads, args, rows):
    mine, theirs = [], []
    for pair in range(args.pairs):
        print(f"{name}, {threads} threads: pair {pair + 1} of {args.pairs}", file=sys.stderr, flush=True)
        sides = [(our, mine), (peer, theirs)] if pair % 2 == 0 else [(peer, theirs), (our, mine)]
        for side, into in sides:
            if side:
                into.append(side(args, threads))
    for key in mine[0]:
        a = [m[key] for m in mine]
        row = {"what": UNITS[key], "threads": threads, "ours": statistics.median(a), "peer_name": name if peer else None}
        if peer:
            b = [t[key] for t in theirs]
            ratios = [x / y for x, y in zip(a, b)]
            row.update(peer=statistics.median(b), ratio=statistics.median(ratios), low=min(ratios), high=max(ratios))
        if row["what"].startswith("s to"):  # kept as 1/s so that larger is better; shown as seconds
            row["ours"] = 1 / row["ours"]
            if peer:
                row["peer"] = 1 / row["peer"]
        rows.append(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{ROOT}/build/release")
    parser.add_argument("--thinker", default="bin/bench_thinker", help="path of bench_thinker below --build")
    parser.add_argument("--llama")
    parser.add_argument("--hibari-python")
    parser.add_argument("--gguf")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--json")
    args = parser.parse_args()
    cache = os.environ.get("OMNISTAGE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "omnistage")
    args.gguf = args.gguf or f"{cache}/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
    rows = []
    for threads in [int(t) for t in args.threads.split(",") if t]:
        measure("llama.cpp", thinker, llama if args.llama else None, threads, args, rows)
    measure("hibari", voice, hibari if args.hibari_python else None, 1, args, rows)
    measure("-", whole, None, 0, args, rows)
    print(f"{'what':40} {'threads':>7} {'ours':>10} {'peer':>10}  {'peer name':10} ratio (range)")
    for r in rows:
        line = f"{r['what']:40} {r['threads'] or '-':>7} {r['ours']:10.3f}"
        if r.get("peer"):
            line += f" {r['peer']:10.3f}  {r['peer_name']:10} {r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f})"
        print(line)
    if args.json:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"commit": commit, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "pairs": args.pairs, "rows": rows}, f, indent=1)


main()
