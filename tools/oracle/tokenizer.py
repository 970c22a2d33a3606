"""Writes tokenizer/testdata: texts, and what Hugging Face's `tokenizers` makes of them.

    python -P tools/oracle/tokenizer.py [MODELS]        (-P: the gguf meant below is the package, not a neighbour)

MODELS (default .models) holds the two real files. Needs: pip install tokenizers==0.23.3 gguf==0.19.0

texts.json.gz   the texts, all of code points that Unicode 14 assigns, so that versions do not matter
splits.json.gz  for each pre-tokeniser the lengths in bytes of the pieces it cuts each text into
smollm.json.gz  the tokens of each text: "plain" with only the added tokens that are text, "special" with all of them
gemma3.json.gz  likewise

SmolLM2's tokenizer.json is BPE after Digits(individual_digits) and ByteLevel; Gemma's is BPE over all of the text, with
spaces written as U+2581 and byte fallback. Both are rebuilt here from the vocabulary in the GGUF file. Gemma's file has
no merges, so they are made of the scores as transformers does: every way to cut a token in two tokens is a merge, the
token's score its rank.
"""

import gzip
import json
import pathlib
import random
import sys
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers as pre

ROOT = pathlib.Path(__file__).parents[2]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# --- texts ------------------------------------------------------------------------------------------------------------

SAMPLES = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\t\n", " \n", "\n ", " \n ", "\n \n", "\t\t\t", "\u00a0", " \u00a0 ",
    "a", " a", "a ", " a ", "  a", "a  b", "a   b", "a\tb", "a \tb", "a\n\nb", "a \n \n b", "a\r\nb", "a    \n    b", "\n\n  a", "a  \n", "x\u3000y",
    "\u2028a\u2029", "a\u0085b", "\u200b", "a\u200bb", "\ufeffa", "\u00ad", "a\u2060b", "\u2581", "a\u2581b", " \u2581 ", "\u2581\u2581",
    "Hello world", " Hello World!", "Hello, world!", "this is 🦙.cpp", "w048 7tuijk dsdfhu", "нещо на Български", "ied 4 ½ months", "Führer", "\n =", "' era",
    "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", "!!!!!!", "3", "33", "333", "3333", "33333", "333333", "3333333", "33333333", "3.3", "3..3", "3...3",
    "កាន់តែពិសេសអាចខលចេញ", "កាន់តែពិសេសអាច😁", "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅", "------======= ''''''```````\"\"\"\"......!!!!!!??????",
    "I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL", "it's IT'S it'S 'ſ 'S's 'st 'ret 'r 'l 'v ' '", "don't can't we'd they'll 'tis o'clock ''s",
    "DON'T I'LL WE'VE YOU'RE", "’s it’s", "12345", "1,234,567.89", "0x7fffffff", "٣٤٥٦", "४५६७", "Ⅷ ⅷ ② ½ ⅓ ²³", "1st 2nd 3rd", "1e-9", "-273.15°C", "10%", "$1.00 €2 £3 ¥4", "2024-01-31T23:59:60Z",
    "你好,世界!", "日本語のテキスト、カタカナとひらがな。", "한국어 텍스트입니다.", "中文English混排123", "龥龦ࠀ一가퟿", "ภาษาไทยไม่มีการเว้นวรรค", "العربية مُشَكَّلَة", "עִבְרִית", "हिन्दी में लिखा", "বাংলা লেখা", "தமிழ்",
    "Ελληνικά ΆΈ", "Հայերեն", "ქართული ႠႡ", "Tiếng Việt có dấu", "Åström naïve façade coöperate", "e\u0301 a\u0308\u0323 n\u0303", "\u0301abc", "\u0301", "a\u0301\u0301\u0301b", "Z̷̢̛a̶l̵g̴o̶", "ﬁ ﬂ ﬃ", "ǅ ǈ ᾈ", "ʰʷ ªº", "ⅣABC", "𝒜𝓁𝑔 𝔘𝔫𝔦", "𐐀𐐨 𞤀𞤢 𑢠𑣀",
    "👍", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☺", "1️⃣", "a👍b 👍 c", "😀😃😄😁", "\U000e0067\U000e0062",
    "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "<|endoftext|><|endoftext|>", "a<|im_end|>b", " <|im_end|> ", "<|im_end|", "|im_end|>", "<repo_name>x<file_sep>y", "<filename>a.py", "<bos>x<eos>", "<start_of_turn>user\nHi<end_of_turn>\n", "<s>x</s>", "<unk>", "<pad>",
    "<unused5><unused50>", "<table><tr><td>a</td></tr></table>", "<h1>Title</h1> <div>", "<0x0A>", "<0xZZ>", "[PAD]", "[multimodal]", "<|im_<|im_start|>start|>", "<<bos>>", "<start_of_image>",
    "def f(x):\n    return x**2  # square\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }", "\tif err != nil {\n\t\treturn err\n\t}\n", "SELECT * FROM t WHERE a='b' AND c>=1;", "https://example.org/a/b?c=d&e=%20#f", "user.name+tag@example.co.uk", "C:\\Windows\\System32", "/usr/local/bin/", "a->b::c<d,e>(f)&&!g||~h^i",
    "{\"key\": [1, 2.5, null, true], \"ü\": \"\\u00fc\"}", "camelCaseWord PascalCaseWord snake_case_word SCREAMING_CASE kebab-case", "HTTPServer XMLHttpRequest iPhone McDonald", "ABCdefGHI日本ABCかな", "a/b//c", "...\n...\n", "!\n!\r\n!", "#!/bin/sh\n", "```go\nx := 1\n```", "| a | b |\n|---|---|\n", "- [ ] item\n- [x] item\n", "\\frac{a}{b} \\alpha^2", "~/.bashrc", "@user #tag", "a_b", "__init__", "--flag=value", ">>> x", "\u2014dash\u2013dash\u2026", "“quoted” ‘single’ «guillemets» „low“",
    "\x00", "a\x00b", "\x01\x02\x03", "!\x04!", "\x04\x06\x13\x14\x16\x1d", "\x1b[31mred\x1b[0m", "\x7f", "\x0b\x0c", "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f", "a\x1cb", "\x80\x9f", "\ufffd", "\ufffe", "\U0001f600\U00020000\U00030000", "\U000f0000", "\U00100000", "\ue000", "\U0010ffff",
]
PARTS = ["a", "B", "z", "é", "É", "ß", "ǅ", "ʰ", "日", "か", "한", "я", "Я", "ع", "ि", "\u0301", "1", "2", "٣", "½", " ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "'", "'s", "'LL", "'ve", "’", ".", ",", "!", "-", "/", "_", "<", ">", "$", "+", "|", "¿", "。", "、", "€", "😀", "\u200d", "\ufe0f", "\u200b", "\x00", "\x1c", "the", "ing", " of", "Word", "CODE", "<|im_end|>", "<bos>", "</s>", "\u2581"]
ALPHABETS = [(0x20, 0x7F), (0x00, 0x20), (0xA0, 0x250), (0x250, 0x600), (0x600, 0xE80), (0xE80, 0x2000), (0x2000, 0x2C00), (0x3000, 0x3200), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xF900, 0x10000), (0x10000, 0x10500), (0x1D400, 0x1D800), (0x1F300, 0x1FA00), (0x20000, 0x20100)]


def assigned(c):
    return unicodedata.category(c) not in ("Cn", "Cs")


def texts():
    rng = random.Random(20)
    out = list(SAMPLES)
    for lo, hi in ALPHABETS:
        letters = [chr(c) for c in range(lo, hi) if assigned(chr(c))]
        for _ in range(8):
            out.append("".join(rng.choice(letters) for _ in range(rng.randint(1, 20))))
        for _ in range(6):  # words, as text has them
            out.append(" ".join("".join(rng.choice(letters) for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(2, 5))))
    for _ in range(220):
        out.append("".join(rng.choice(PARTS) for _ in range(rng.randint(2, 14))))
    for n in (4, 7, 15, 16, 17, 31, 32, 33, 40, 64, 65):
        for c in (" ", "\n", "\t", "a", "=", "-", "1", "é"):
            out.append(c * n)
            out.append("x" + c * n + "y")
    return list(dict.fromkeys(out))


# --- pre-tokenisers ---------------------------------------------------------------------------------------------------

def isolated(*patterns):
    return [pre.Split(Regex(p), "isolated") for p in patterns]


def cl100k(digits, letter=r"\p{L}", letters=r"\p{L}", contraction=r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"):
    return isolated(contraction + r"[^\r\n\p{L}\p{N}]?" + letters + r"+|" + digits + r"| ?[^\s" + letter + r"\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def o200k(digits, suffix, punct=r"[\r\n/]*"):
    up, low = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    head = r"[^\r\n\p{L}\p{N}]?"
    return isolated(f"{head}{up}*{low}+{suffix}|{head}{up}+{low}*{suffix}|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+{punct}|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = "".join("-".join(chr(int(x, 16)) for x in r.split("-")) for r in (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C "
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B "
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 "
    "1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 "
    "2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B "
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 "
    "FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF "
    "1E900-1E943"
).split())
CHINESE = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
GPT2 = pre.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre.Digits(individual_digits=True)

PRE = {
    "gpt-2": [GPT2],
    "smollm": [DIGITS, GPT2],
    "llama-bpe": cl100k(r"\p{N}{1,3}"),
    "qwen2": cl100k(r"\p{N}"),
    "qwen35": cl100k(r"\p{N}", r"\p{L}\p{M}", r"[\p{L}\p{M}]"),
    "deepseek-llm": isolated(r"[\r\n]", rf"\s?[{CASED}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", CHINESE) + [DIGITS],
    "deepseek-coder": isolated(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CHINESE) + [DIGITS],
    "deepseek-v3": isolated(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""),
    "gpt-4o": o200k(r"\p{N}{1,3}", SUFFIX),
    "tekken": o200k(r"\p{N}", ""),
}


def splits(steps, text):
    pieces = pre.Sequence(steps).pre_tokenize_str(text) if text else []
    spans = [span for _, span in pieces]
    assert "".join(text[a:b] for a, b in spans) == text, (text, spans)
    return [len(text[a:b].encode()) for a, b in spans]


# --- vocabularies -----------------------------------------------------------------------------------------------------

def vocabulary(path):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else None
    return get("tokens"), get("token_type"), get("scores"), get("merges")


def added(tok, tokens, types, special):
    """Adds the tokens that are text, with special those that are not, too; with None neither."""
    if special is None:
        return tok
    for text, kind in zip(tokens, types):
        if kind == USER_DEFINED or special and kind in (CONTROL, UNKNOWN):
            tok.add_tokens([AddedToken(text, normalized=False, special=False)])
    return tok


def smollm(path, special):
    tokens, types, _, merges = vocabulary(path)
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre.Sequence([DIGITS, GPT2])
    return added(tok, tokens, types, special)


def gemma3(path, special):
    tokens, types, scores, _ = vocabulary(path)
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for piece, i in vocab.items():
        if types[i] != NORMAL:
            continue
        cuts = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        cuts.sort(key=lambda p: (vocab[p[0]], vocab[p[1]]))
        merges += [(scores[i], p) for p in cuts]
    merges.sort(key=lambda m: -m[0])  # stable
    tok = Tokenizer(models.BPE(vocab, [p for _, p in merges], byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    return added(tok, tokens, types, special)


def write(name, value):
    path = ROOT / "tokenizer" / "testdata" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".models")
    ts = texts()
    print(len(ts), "texts")
    write("texts.json.gz", ts)
    write("splits.json.gz", {name: [splits(steps, t) for t in ts] for name, steps in PRE.items()})
    for name, build, file in (("smollm", smollm, "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma3", gemma3, "gemma-3-270m-q4_k_m.gguf")):
        plain, special = build(folder / file, False), build(folder / file, True)
        encode = lambda tok: [tok.encode(t, add_special_tokens=False).ids for t in ts]
        write(name + ".json.gz", {"plain": encode(plain), "special": encode(special)})


if __name__ == "__main__":
    main()
