#!/usr/bin/env python3
"""Writes phonemes.json: the readings that the Python package hibari-tts gives to sentences.txt.

    pip install hibari-tts==0.2.1
    make_goldens.py            (next to sentences.txt)

The sentences are ours; the phonemes are what the package computes from them.
"""
import importlib.metadata
import json
import os

from hibari import Hibari

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        sentences = [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]
    if len(set(sentences)) != len(sentences):
        raise SystemExit("sentences.txt repeats a sentence")
    tts = Hibari()
    items = [{"text": text, "phonemes": tts.phonemize(text)} for text in sentences]
    golden = {"package": "hibari-tts " + importlib.metadata.version("hibari-tts"), "sentences": items}
    with open(os.path.join(HERE, "phonemes.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, ensure_ascii=False, indent=1)
        f.write("\n")
    print(len(items), "sentences")


if __name__ == "__main__":
    main()
