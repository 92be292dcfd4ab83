#!/usr/bin/env python3
"""Convert the ONNX networks of the hibari-tts package into safetensors files. Standard library only.

    convert_hibari.py ASSET_DIR OUT_DIR

reads  ASSET_DIR/hibari.onnx and ASSET_DIR/oov.onnx
writes OUT_DIR/hibari.safetensors and OUT_DIR/oov.safetensors

hibari.safetensors: every tensor named m.* or pn.* as float32. A quantised linear layer `X` becomes
`X.weight.q` (int8, [in, out]) and `X.weight.scale` (float32 scalar): weight = q * scale.
oov.safetensors: float32 only; the weight matrices of linear layers keep the [in, out] order of the graph.

Output depends on the input bytes alone. Files are written to a temporary name and renamed, so that a
reader never sees half a file.
"""
import json
import os
import struct
import sys

FLOAT, INT8 = 1, 3  # TensorProto.DataType
ITEM_SIZE = {FLOAT: 4, INT8: 1}
SAFETENSORS_DTYPE = {FLOAT: "F32", INT8: "I8"}


class ConvertError(Exception):
    pass


# ---- protobuf wire format --------------------------------------------------------------------------


def read_varint(buf, pos):
    value = shift = 0
    while True:
        if pos >= len(buf) or shift > 63:
            raise ConvertError("truncated or oversized varint")
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


def fields(buf):
    """Yields (field number, wire type, value); value is an int or a memoryview."""
    pos = 0
    while pos < len(buf):
        key, pos = read_varint(buf, pos)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, pos = read_varint(buf, pos)
        elif wire in (1, 2, 5):
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size, pos = read_varint(buf, pos)
            if pos + size > len(buf):
                raise ConvertError(f"field {number} runs past the end of its message")
            value = buf[pos:pos + size]
            pos += size
        else:
            raise ConvertError(f"unknown protobuf wire type {wire}")
        yield number, wire, value


def varints(wire, value):
    """A repeated integer field, packed or not."""
    if wire == 0:
        return [value]
    out, pos = [], 0
    while pos < len(value):
        item, pos = read_varint(value, pos)
        out.append(item)
    return out


# ---- the three ONNX messages needed here -----------------------------------------------------------


def text(value):
    return bytes(value).decode("utf-8")


def parse_tensor(buf):
    """TensorProto -> (name, data type, dims, little-endian bytes)."""
    name, kind, dims, raw = "", 0, [], None
    floats, ints = bytearray(), []
    for number, wire, value in fields(buf):
        if number == 1:
            dims += varints(wire, value)
        elif number == 2:
            kind = value
        elif number == 4:  # float_data: fixed 32-bit little-endian, packed or single
            floats += value
        elif number == 5:  # int32_data carries the small integer types
            ints += varints(wire, value)
        elif number == 8:
            name = text(value)
        elif number == 9:
            raw = bytes(value)
        elif number == 14 and value != 0:
            raise ConvertError("tensor data in an external file is not supported")
    if kind not in ITEM_SIZE:
        return name, kind, dims, None
    if raw is None:
        raw = bytes(floats) if kind == FLOAT else bytes(v & 0xFF for v in ints)
    count = 1
    for dim in dims:
        count *= dim
    if count * ITEM_SIZE[kind] != len(raw):
        raise ConvertError(f"tensor {name}: shape {dims} does not match {len(raw)} bytes of data")
    return name, kind, dims, raw


def parse_node(buf):
    """NodeProto -> (op type, inputs, outputs)."""
    op, inputs, outputs = "", [], []
    for number, _, value in fields(buf):
        if number == 1:
            inputs.append(text(value))
        elif number == 2:
            outputs.append(text(value))
        elif number == 4:
            op = text(value)
    return op, inputs, outputs


def load_graph(path):
    """-> ({initializer name: (data type, dims, bytes)}, [(op, inputs, outputs)])."""
    with open(path, "rb") as f:
        model = memoryview(f.read())
    graphs = [v for number, wire, v in fields(model) if number == 7 and wire == 2]
    if len(graphs) != 1:
        raise ConvertError(f"expected one graph, found {len(graphs)}")
    tensors, nodes = {}, []
    for number, wire, value in fields(graphs[0]):
        if number == 5 and wire == 2:
            name, kind, dims, data = parse_tensor(value)
            tensors[name] = (kind, dims, data)
        elif number == 1 and wire == 2:
            nodes.append(parse_node(value))
    return tensors, nodes


# ---- hibari ----------------------------------------------------------------------------------------


def hibari_linears():
    """(stem of the quantised initializers in the graph, name of the layer's weight here)."""
    for suffix, net in (("", "m"), ("_1", "pn")):
        for i in range(2):
            for layer in ("pw1", "pw2"):
                yield f"/convs.{i}/{layer}{suffix}/Transpose", f"{net}.text.convs.{i}.{layer}"
    # The exporter numbered the shared attention layer once per repetition; the first use names it.
    for net, in_proj, tail in (("m", "/Transpose_2", ""), ("pn", "/Transpose_25", "_4")):
        yield in_proj, f"{net}.text.attn.self_attn.in_proj"
        yield f"/out_proj{tail}/Transpose", f"{net}.text.attn.self_attn.out_proj"
        yield f"/linear1{tail}/Transpose", f"{net}.text.attn.linear1"
        yield f"/linear2{tail}/Transpose", f"{net}.text.attn.linear2"
    for stack, net, depth in (("pro", "pn", 6), ("dec", "m", 8)):
        for i in range(depth):
            for layer in ("pw1", "pw2"):
                yield f"/{stack}.{i}/{layer}/Transpose", f"{net}.{stack}.{i}.{layer}"
    yield "/head/Transpose", "m.head"


def take(tensors, name, kind):
    if name not in tensors:
        raise ConvertError(f"tensor {name} is missing: not a hibari-tts 0.2 network")
    if tensors[name][0] != kind or tensors[name][2] is None:
        raise ConvertError(f"tensor {name} has data type {tensors[name][0]}, expected {kind}")
    return tensors[name]


def convert_hibari(tensors, _nodes):
    out = {}
    for name in tensors:
        if name.startswith(("m.", "pn.")):
            out[name.replace("in_proj_bias", "in_proj.bias")] = take(tensors, name, FLOAT)
    for stem, layer in hibari_linears():
        _, dims, scale = take(tensors, stem + "_output_0_scale", FLOAT)
        if len(scale) != 4:
            raise ConvertError(f"{stem}_output_0_scale has shape {dims}, expected one value")
        _, _, zero = take(tensors, stem + "_output_0_zero_point", INT8)
        if any(zero):
            raise ConvertError(f"{stem}_output_0_zero_point is not zero")
        out[layer + ".weight.q"] = take(tensors, stem + "_output_0_quantized", INT8)
        out[layer + ".weight.scale"] = (FLOAT, [], scale)
    return out


# ---- out-of-vocabulary network ---------------------------------------------------------------------


def convert_oov(tensors, nodes):
    """The exporter lost the names of the weight matrices. Each is the right side of a MatMul whose
    result is added to a bias that kept its name; that name gives the weight's."""
    bias_of = {}
    for op, inputs, _ in nodes:
        if op == "Add":
            for a, b in (inputs, inputs[::-1]):
                if a in tensors and a.endswith("bias"):
                    bias_of[b] = a
    out = {}
    for name in tensors:
        if name.startswith("m."):
            out[name[2:].replace("in_proj_bias", "in_proj.bias")] = take(tensors, name, FLOAT)
    for op, inputs, outputs in nodes:
        if op != "MatMul" or inputs[1] not in tensors:
            continue
        bias = bias_of.get(outputs[0])
        if bias is None:
            raise ConvertError(f"no bias follows the product with {inputs[1]}")
        name = bias[2:].replace("in_proj_bias", "in_proj.bias")[:-len("bias")] + "weight"
        if name in out:
            raise ConvertError(f"two matrices for {name}")
        out[name] = take(tensors, inputs[1], FLOAT)
    return out


# ---- output ----------------------------------------------------------------------------------------


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors):
        kind, dims, data = tensors[name]
        header[name] = {"dtype": SAFETENSORS_DTYPE[kind], "shape": dims,
                        "data_offsets": [offset, offset + len(data)]}
        blobs.append(data)
        offset += len(data)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as f:
            f.write(struct.pack("<Q", len(head)))
            f.write(head)
            for blob in blobs:
                f.write(blob)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return len(tensors), offset


def main(argv):
    if len(argv) != 3:
        print("usage: convert_hibari.py ASSET_DIR OUT_DIR", file=sys.stderr)
        return 2
    asset_dir, out_dir = argv[1:]
    os.makedirs(out_dir, exist_ok=True)
    for stem, convert in (("hibari", convert_hibari), ("oov", convert_oov)):
        source = os.path.join(asset_dir, stem + ".onnx")
        target = os.path.join(out_dir, stem + ".safetensors")
        try:
            count, size = write_safetensors(target, convert(*load_graph(source)))
        except (ConvertError, OSError, UnicodeDecodeError) as error:
            print(f"convert_hibari.py: {source}: {error}", file=sys.stderr)
            return 1
        print(f"{target}: {count} tensors, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
