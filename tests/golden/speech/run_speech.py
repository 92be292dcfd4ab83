#!/usr/bin/env python3
"""Speaks sentences.txt through the real pipeline (deploy/tts.yaml) and counts what a recogniser gets wrong.

  run_speech.py BUILD_FOLDER [recognise.py options]

One pipeline is started in a run directory and asked sentence by sentence, as any client would. Needs the voice model and,
for pocketsphinx, the recogniser that `scripts/setup --tests` puts into the cache folder.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("OMNISTAGE_CACHE") or os.path.join(base, "omnistage")


def wait_until_up(run_dir, pipeline):
    """The socket is there; `ask` itself waits for the stages."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if pipeline.poll() is not None:
            sys.exit(f"omnistage up ended early with {pipeline.returncode}")
        if os.path.exists(os.path.join(run_dir, "omnistage.sock")):
            return
        time.sleep(0.1)
    sys.exit("the pipeline did not come up in 120 s")


def speak_all(omnistage, wav_dir, run_dir):
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        sentences = f.read().splitlines()
    for i, sentence in enumerate(sentences):
        subprocess.run([omnistage, "ask", "--attach", run_dir, "--quiet", "--seed", "1", "--out", f"{wav_dir}/{i:02d}.wav",
                        sentence], check=True, stdout=subprocess.DEVNULL, timeout=120)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    omnistage = os.path.join(sys.argv[1], "bin", "omnistage")
    folder = tempfile.mkdtemp(prefix="omnistage-speech-")
    run_dir = os.path.join(folder, "run")
    os.mkdir(run_dir, 0o700)
    pipeline = subprocess.Popen([omnistage, "up", os.path.join(ROOT, "deploy", "tts.yaml"), "--run-dir", run_dir])
    try:
        wait_until_up(run_dir, pipeline)
        speak_all(omnistage, folder, run_dir)
    finally:
        pipeline.terminate()
        pipeline.wait(timeout=60)
    environment = dict(os.environ)
    recogniser = os.environ.get("OMNISTAGE_RECOGNISER") or os.path.join(cache_dir(), "python-recogniser")
    environment["PYTHONPATH"] = recogniser + os.pathsep + environment.get("PYTHONPATH", "")
    options = sys.argv[2:] or ["--baseline", os.path.join(HERE, "baseline.json")]
    done = subprocess.run([sys.executable, os.path.join(HERE, "recognise.py"), folder, *options], env=environment)
    shutil.rmtree(folder)
    sys.exit(done.returncode)


main()
