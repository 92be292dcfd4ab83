#!/usr/bin/env python3
"""Makes the references of the acoustic model and the vocoder.

    make_goldens.py [OUT_DIR]        (default: this folder)

Needs hibari-tts 0.2.1 (network, text front end, vocoder), onnx and onnxruntime; nothing of this repository.

acoustic.safetensors: ten sentences. The shipped network quantises activations per utterance, which cannot be
streamed; the reference is therefore the same graph with each dynamic int8 product replaced by a float product
with the dequantised weight, run by onnxruntime. Per sentence i:
  i.ids int64 [L] | i.speed f32 [1] | i.f0 f32 [F] | i.rms f32 [5] (of lh, theta, ln, lr, phi)
  i.values f32 [R, C]: row r is frame 7 r, columns (5 * 7 r + 13 c) mod 3005, c = 0 .. C - 1
vocoder.safetensors: 40 real frames (half precision, so that both sides start from the same numbers), 40 rows
of noise, an F0 curve of 800 frames, and the package's waveform of the 40 frames with their own F0 and of 800
frames where frame i has spectrum row 7 i mod 40 and noise row 11 i mod 40 (every 5th sample is kept).
"""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from hibari import dsp
from hibari.tts import Hibari
from onnx import helper, numpy_helper

SENTENCES = [
    ("Hello there.", 1.0),
    ("The quick brown fox jumps over the lazy dog.", 1.0),
    ("Why is the sky blue?", 1.0),
    ("Light from the sun is scattered by the air, and blue light is scattered most.", 1.3),
    ("She sells sea shells by the sea shore.", 0.7),
    ("On the 3rd of March 2024, 1,250 people paid $9.99 each to hear it read at 7:30 pm.", 1.0),
    ("No!", 1.0),
    ("I'm afraid that we can't do that, Dr. Brown; could you try again tomorrow?", 2.0),
    ("Thirty-three thousand feathers on a thrush's throat.", 0.5),
    ("A very long sentence, with many clauses, each of which adds a little more to what was said before, "
     "goes on and on until the listener, who had hoped for a pause, gives up.", 1.0),
]
SPECTRUM = 3005


def float_network(path):
    """The graph with each MatMulInteger (and the casts and scales around it) turned into one MatMul."""
    model = onnx.load(path)
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    users = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    replaced, removed = {}, set()
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        quantise = maker[node.input[0]]
        cast = users[node.output[0]][0]
        rescale = users[cast.output[0]][0]
        stem = node.input[1].removesuffix("_quantized")
        name = stem + "_float"
        if name not in constants:
            scale = numpy_helper.to_array(constants[stem + "_scale"])
            weight = numpy_helper.to_array(constants[node.input[1]]).astype(np.float32) * scale
            constants[name] = numpy_helper.from_array(weight, name)
            graph.initializer.append(constants[name])
        product = helper.make_node("MatMul", [quantise.input[0], name], [rescale.output[0]])
        replaced[node.output[0]] = product
        scale_product = next(i for i in rescale.input if i != cast.output[0])
        for gone in (quantise, cast, rescale, maker[scale_product]):
            removed.add(gone.output[0])
    nodes = []
    for node in graph.node:
        if node.output[0] in replaced:
            nodes.append(replaced[node.output[0]])
        elif node.output[0] not in removed:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def write_safetensors(path, tensors):
    kinds = {"float32": "F32", "float16": "F16", "int64": "I64"}
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        data = array.tobytes()
        header[name] = {"dtype": kinds[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
    print(path, offset, "bytes")


def run(network, ids, speed):
    out = network.run(None, {"ids": np.array([ids], np.int64), "speed": np.array([speed], np.float32)})
    return [o[0] for o in out]


def acoustic(tts, network):
    tensors = {}
    for i, (text, speed) in enumerate(SENTENCES):
        phonemes = tts.phonemize(text)
        assert len(phonemes) == 1, text
        ids = tts.ids(phonemes[0])
        *parts, f0 = run(network, ids, speed)
        spectrum = np.concatenate(parts, 0).T  # [F, 3005]
        frames = np.arange(0, len(f0), 7)
        columns = (5 * frames[:, None] + 13 * np.arange(96)[None, :]) % SPECTRUM
        tensors[f"{i}.ids"] = np.array(ids, np.int64)
        tensors[f"{i}.speed"] = np.array([speed], np.float32)
        tensors[f"{i}.f0"] = f0.astype(np.float32)
        tensors[f"{i}.rms"] = np.array([np.sqrt(np.mean(p.astype(np.float64) ** 2)) for p in parts],
                                       np.float32)
        tensors[f"{i}.values"] = np.take_along_axis(spectrum[frames], columns, 1).astype(np.float32)
    return tensors


class Noise:
    """Stands in for numpy's generator: gives the noise rows that were stored."""

    def __init__(self, rows):  # complex [F, 601]
        self.rows = rows

    def standard_normal(self, shape, dtype):
        z = np.ascontiguousarray(self.rows.T)
        assert shape == (z.shape[0], 2 * z.shape[1]) and dtype == np.float32
        return z.view(np.float32)


def vocoder(tts, network):
    *parts, f0 = run(network, tts.ids(tts.phonemize(SENTENCES[1][0])[0]), 1.0)
    begin = 60  # from inside the sentence: voiced and unvoiced frames
    frames = np.concatenate(parts, 0).T[begin:begin + 40].astype(np.float16)
    f0_short = f0[begin:begin + 40].astype(np.float32)
    f0_long = np.resize(f0.astype(np.float32), 800)
    noise = np.random.default_rng(7).standard_normal((40, 1202)).astype(np.float16)

    def synth(rows, noise_rows, curve):
        spectrum = frames[rows].astype(np.float32).T
        parts = [np.ascontiguousarray(p) for p in np.split(spectrum, 5, 0)]
        z = noise[noise_rows].astype(np.float32).view(np.complex64)
        return dsp.synth(*parts, curve, Noise(z)).astype(np.float32)

    i40, i800 = np.arange(40), np.arange(800)
    return {"frames": frames, "noise": noise, "f0": f0_short, "audio": synth(i40, i40, f0_short),
            "long.f0": f0_long,
            "long.audio": synth(7 * i800 % 40, 11 * i800 % 40, f0_long)[::5].copy()}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    tts = Hibari()
    network = float_network(tts.model_path)
    write_safetensors(os.path.join(out, "acoustic.safetensors"), acoustic(tts, network))
    write_safetensors(os.path.join(out, "vocoder.safetensors"), vocoder(tts, network))


if __name__ == "__main__":
    main()
