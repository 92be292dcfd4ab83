#!/usr/bin/env python3
"""Tokenizer goldens of SmolLM2: text -> ids, from the Hugging Face tokenizers library.

Hard cases by hand plus 400 seeded mixes. Run in an environment with tokenizers 0.22.2 and gguf 0.19.0:
  python make_goldens.py MODEL.gguf smollm2.json
"""
import json, os, random, sys, unicodedata

import tokenizers
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

FUZZ_CASES = 400


def bytes_to_unicode():
    bs = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256)); cs = bs[:]; n = 0
    for b in range(256):
        if b not in bs: bs.append(b); cs.append(256 + n); n += 1
    return dict(zip(bs, map(chr, cs)))
B2U = bytes_to_unicode(); U2B = {v: k for k, v in B2U.items()}

def hard_cases():
    C = []
    a = lambda name, text: C.append((name, text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")))
    a("empty", ""); a("one space", " "); a("plain", "Hello world"); a("lead space", " Hello"); a("trail space", "Hello "); a("two spaces", "Hello  world"); a("many spaces", "a          b"); a("only spaces", " " * 17)
    a("tab word", "\thello"); a("tabs", "\t\t\thello\t"); a("nl", "\n"); a("nl run", "a\n\n\nb"); a("crlf", "a\r\nb\r\n\r\nc"); a("space nl", "a  \n  b"); a("nl spaces", "\n    def f():\n        return 1\n"); a("vt ff", "a\x0bb\x0cc"); a("nbsp", "a\u00a0b"); a("ideographic space", "你\u3000好"); a("zwsp", "a\u200bb"); a("line sep", "a\u2028b\u2029c"); a("nel", "a\u0085b")
    a("contr lower", "I'm you're he's we've they'll I'd don't"); a("contr upper", "I'M YOU'RE HE'S WE'VE THEY'LL I'D DON'T"); a("contr mixed", "It'S o'clock 'tis rock'n'roll"); a("curly quote", "don’t it’s"); a("quote s alone", "'s 't 're"); a("long s", "'ſ it'ſ"); a("kelvin", "'K \u212a")
    a("digits", "1234567890"); a("digit mix", "abc123def4.5e-6"); a("space digits", "on 12 34  56"); a("arabic digits", "٠١٢٣"); a("fullwidth digits", "１２３"); a("roman numerals", "ⅠⅡⅢ ⅷ"); a("superscripts", "x²³ ½ ¾"); a("cjk numbers", "一二三〇"); a("date", "2026-11-30T20:19:00Z"); a("ip", "127.0.0.1:8080")
    a("punct run", "!!!???...---"); a("punct word", "(hello) [world] {x}"); a("punct nl", "hello!!!\n\nworld"); a("punct crlf", "a;\r\n\r\nb"); a("path", "/usr/local/cuda/lib64/libcudart.so.13"); a("code", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }"); a("underscore", "snake_case __init__ _x"); a("email", "a.b+c@d-e.org"); a("url", "https://example.org/a?b=c&d=%20#e"); a("math", "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋"); a("currency", "$1,234.56 €7 £8 ¥9"); a("html", "<b>hi</b>&nbsp;"); a("json", '{"a":[1,2,{"b":null}]}')
    a("cjk", "你好，世界！今天天气不错。"); a("cjk mix", "我有3个苹果and 2 oranges。"); a("japanese", "こんにちは、カタカナ。ﾊﾝｶｸ"); a("korean", "안녕하세요 세계"); a("hangul jamo", "\u1112\u1161\u11ab\u1100\u1173\u11af"); a("thai", "สวัสดีชาวโลก"); a("hindi", "नमस्ते दुनिया"); a("arabic", "مرحبا بالعالم"); a("arabic marks", "بِسْمِ"); a("hebrew", "שָׁלוֹם"); a("greek", "Γειά σου Κόσμε"); a("cyrillic", "Привет, мир"); a("georgian", "გამარჯობა"); a("rare cjk", "\U00020000\U0002a6d6"); a("ideographic desc", "⿰木木"); a("compat cjk", "\uf900\ufa10"); a("math alnum", "𝐇𝐞𝐥𝐥𝐨 𝟏𝟐𝟑")
    a("emoji", "😀"); a("emoji text", "hi😀there"); a("emoji run", "😀😃😄😁"); a("emoji zwj", "👨‍👩‍👧‍👦"); a("emoji skin", "👍🏽👋🏿"); a("flag", "🇯🇵🇨🇦"); a("keycap", "1️⃣#️⃣"); a("heart vs16", "❤️ ❤"); a("tag flag", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f")
    a("nfd e", "cafe\u0301"); a("nfc e", "café"); a("stacked marks", "a\u0300\u0301\u0302\u0323"); a("zalgo", "Z\u0351\u036b\u0343a\u0328l\u0358"); a("mark first", "\u0301abc"); a("angstrom", "\u212b \u00c5 A\u030a"); a("ohm", "\u2126 Ω"); a("ligature", "ﬁne ﬂow"); a("nfd hangul", unicodedata.normalize("NFD", "한글")); a("bom", "\ufeffhello"); a("rtl mark", "a\u200fb\u202eabc"); a("soft hyphen", "co\u00adop"); a("controls", "\x00\x01\x7f"); a("private use", "\ue000\uf8ff"); a("noncharacter", "\ufdd0\U0010ffff"); a("replacement", "\ufffd"); a("title case", "ǅ ǈ"); a("turkish", "İıIi"); a("eszett", "Straße STRASSE ẞ")
    a("long word", "a" * 300); a("long punct", "=" * 100); a("long newline", "\n" * 50); a("long digits", "7" * 40); a("mixed long", "Donaudampfschifffahrtsgesellschaftskapitän" * 3); a("camel", "HTTPServerRequestHandlerV2"); a("sentence", "The quick brown fox jumps over the lazy dog."); a("paragraph", "Speech is made in frames of eighty milliseconds.\nEach frame holds sixteen codes; the first is chosen by the talker, the rest by a small predictor.\n\n- one\n- two\n")
    a("sp im", "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>assistant\n"); a("sp chat", "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"); a("sp adjacent", "<|im_start|><|im_end|><|endoftext|>"); a("sp spaces", " <|im_start|> x <|im_end|> "); a("sp broken", "<|im_start|"); a("sp broken2", "<|im_start |> <im_end|> |im_end|>"); a("sp inside word", "foo<|endoftext|>bar"); a("sp tts", "<tts_pad><tts_text_bos>hi<tts_text_eod>"); a("sp digits", "1<|im_end|>2")
    a("bad lone cont", b"a\x80b"); a("bad trunc 2", b"a\xc3"); a("bad trunc 3", b"x\xe4\xbd"); a("bad trunc 4", b"x\xf0\x9f\x98"); a("bad overlong", b"\xc0\xaf\xe0\x80\xaf"); a("bad surrogate", b"\xed\xa0\x80\xed\xb0\x80"); a("bad 5 byte", b"\xf8\x88\x80\x80\x80"); a("bad max", b"\xf4\x90\x80\x80"); a("bad ff", b"\xff\xfe\xfd"); a("bad mid word", b"hel\xfflo"); a("bad before cjk", b"\xe4\xe4\xbd\xa0"); a("latin1", "café".encode("latin-1"))
    return C

def fuzz(n):
    r = random.Random(20261130)
    pools = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " \t\n\r", ".,;:!?'\"()[]{}<>|/\\@#$%^&*-_=+~`", "éüñçßøåÆŁž", "你好世界中文的是不了在人有我他这", "こんにちはカタカナ", "안녕하세요", "αβγδεЖЯщ", "😀👍🏽❤️🇯🇵👨‍👩‍👧", "\u0300\u0301\u0308\u0323", "\u00a0\u2003\u3000\u200b\u2028", "²³½ⅣⅤ٣９", "नमस्ते", "مرحبا"]
    words = ["'s", "'LL", "n't", "the", "ing", " of", "\n\n", "  ", "def ", "return", "http://", "<|im_end|>", "1.5", "€", "tion", " Hello", "wav", "\r\n", "'re", "'ſ"]
    for i in range(n):
        s = ""
        for _ in range(r.randint(1, 14)):
            s += r.choice(words) if r.random() < 0.3 else "".join(r.choice(r.choice(pools)) for _ in range(r.randint(1, 5)))
        yield f"fuzz{i}", s.encode()


def main(gguf, out):
    fields = GGUFReader(gguf).fields
    pieces = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    special = [p for p, kind in zip(pieces, fields["tokenizer.ggml.token_type"].contents()) if kind == 3]
    tok = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges, fuse_unk=False, ignore_merges=False))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])

    def piece_bytes(i):
        return pieces[i].encode() if pieces[i] in special else bytes(U2B[c] for c in pieces[i])

    cases = []
    for name, raw in hard_cases() + list(fuzz(FUZZ_CASES)):
        text = raw.decode("utf-8", "replace")
        ids = tok.encode(text, add_special_tokens=False).ids
        case = {"name": name, "bytes_hex": raw.hex(), "ids": ids}
        if not name.startswith("fuzz"):
            case["pieces_hex"] = [piece_bytes(i).hex() for i in ids]
        cases.append(case)
    info = {"source": "tokenizer.ggml.* of " + os.path.basename(gguf), "reference": "tokenizers " + tokenizers.__version__,
            "special_tokens": {p: pieces.index(p) for p in special}, "vocab": len(pieces),
            "note": "bytes_hex = input; invalid UTF-8 counts as one U+FFFD per maximal bad part; special pieces are "
                    "matched first; pieces_hex = bytes of each id"}
    with open(out, "w", encoding="utf-8") as f:
        f.write('{"info": ' + json.dumps(info) + ',\n"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    print(f"{len(cases)} cases, {os.path.getsize(out)} bytes")


main(*sys.argv[1:3])
