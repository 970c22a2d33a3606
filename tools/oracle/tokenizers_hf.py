"""Writes tokenizer/testdata/hf: tokenizers of every kind, and what Hugging Face's `tokenizers` makes of 10,000 texts.

    python -P tools/oracle/tokenizers_hf.py [MODELS]     (-P: the gguf meant below is the package, not a neighbour)

MODELS (default .models) holds the two real files; ../shared/data/vocab the real vocabularies. Needs: pip install
tokenizers==0.23.3 gguf==0.19.0 sentencepiece==0.2.3 protobuf. Takes about three minutes.

parts.json.gz  tables of characters and fragments; text number i is made of them by the generator in text(), which the Go
               test has too, so that no text is stored
NAME.json.gz   {"files": the tokenizer's JSON files (none where a GGUF file has the vocabulary), "hash": base64 of a u16 for
               each text, "full": for every 100th text its tokens as text, its tokens as a prompt, and what those decode to}

sentencepiece.json.gz  {"config": what GGUF has of a unigram vocabulary, "hash": likewise, over the tokens of what sentencepiece itself normalises}

A hash is over the tokens of a text read as nothing but text, then over its tokens as a prompt: special tokens recognised,
start and end tokens added.

Characters on whose nature Unicode's versions differ are left out: Hugging Face's tables are of Unicode 8 to 16, Go's of 15.
"""

import base64
import gzip
import io
import json
import pathlib
import sys
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pre, processors, trainers

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(pathlib.Path(__file__).parent))
import tokenizer as shared

VOCAB = ROOT / "../shared/data/vocab"
OUT = ROOT / "tokenizer/testdata/hf"
TEXTS = 10_000
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# --- texts ------------------------------------------------------------------------------------------------------------


def unstable():
    """Characters that Hugging Face's tables and Unicode 14's see differently."""
    chars = [chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF and unicodedata.category(chr(c)) != "Cn"]
    cat = unicodedata.category
    bert = lambda **on: normalizers.BertNormalizer(**{"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False} | on)
    cut = lambda p, c: len(p.pre_tokenize_str("a" + c + "a")) == 3
    tests = [
        (lambda c, n=pre.BertPreTokenizer(): len(n.pre_tokenize_str("a" + c + "a")) == 3, lambda c: cat(c)[0] == "P"),
        (lambda c, n=normalizers.StripAccents(): n.normalize_str(c) == "", lambda c: cat(c)[0] == "M"),
        (lambda c, n=bert(strip_accents=True): n.normalize_str(c) == "", lambda c: cat(c) == "Mn"),
        (lambda c, n=bert(clean_text=True): n.normalize_str(c) == "", lambda c: cat(c) in ("Cc", "Cf", "Co") or c == "\ufffd"),
        (lambda c, n=normalizers.NFKC(): n.normalize_str(c), lambda c: unicodedata.normalize("NFKC", c)),
        (lambda c, n=normalizers.NFD(): n.normalize_str(c), lambda c: unicodedata.normalize("NFD", c)),
        (lambda c, n=normalizers.Lowercase(): n.normalize_str(c), lambda c: c.lower()),
    ]
    return {c for c in chars if any(theirs(c) != ours(c) for theirs, ours in tests)}


ALPHABETS = [(0x20, 0x7F), (0x00, 0x20), (0x7F, 0x180), (0x180, 0x250), (0x250, 0x370), (0x370, 0x600), (0x600, 0x900), (0x900, 0xE00), (0xE00, 0x1200), (0x1200, 0x2000), (0x2000, 0x2100), (0x2100, 0x2C00), (0x3000, 0x3400), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xE000, 0xFB00), (0xFB00, 0x10000), (0x10000, 0x10500), (0x1D400, 0x1D800), (0x1F000, 0x1FA00), (0x20000, 0x30000)]
EMOJI = "😀 😶‍🌫️ 👍 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇫🇷 ❤️ ☺ 1️⃣ ✅ 🚀 \u200d \ufe0f 🏽 🦙 👩‍💻 \U000e0067 #️⃣".split(" ")
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "a", "1", "."]
NUMBERS = list("0123456789") + ["00", "123", "1234567", "3.14", "1,000", "-1", "1e-9", "0xff", "½", "²", "٣", "४", "Ⅷ", "①", " ", "%", "$", "€", "th", "²³"]
CODE = ["def f(x):", "\n    return ", "if (a != b) {", "}\n", "\t\t", "for i := range n ", "x += 1;", "// note", "#include <stdio.h>\n", "->", "::", "==", "&&", "'s'", '"', "\\n", "`", "[]", "()", "<T>", "self.", "snake_case", "camelCase", "HTTPServer", "_", "=>", "lambda ", "\r\n", "SELECT * FROM t", "{\"k\": 1}", "/usr/bin", "C:\\x", "...", "!!!", "a.b", "--", "|"]
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "<mask>", "<td>", "<tool>", "Added", "ADDED", "added", "word", "Éclair", "éclair", "Eclair", "Eclair", "<|im_end", "im_end|>", "<", ">", " ", " ", "a", "\u2581", "_", "##", "<0x0A>"]
WORDS = "the The of and to in is that for it as with on be at by this have from or one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know DON'T I'll we've it's 'tis O'Neil Führer naïve café Straße ΣΑΣ İstanbul здравствуй мир нещо 你好 世界 日本語 テキスト 한국어 ภาษาไทย العربية हिन्दी Ελληνικά".split()


def tables():
    bad = unstable()
    out = []
    for lo, hi in ALPHABETS:
        chars = [chr(c) for c in range(lo, hi) if not 0xD800 <= c <= 0xDFFF and unicodedata.category(chr(c)) != "Cn" and chr(c) not in bad]
        step = max(1, len(chars) // 250)
        out.append(chars[::step])
    return out + [EMOJI, SPACES, NUMBERS, CODE, SPECIAL, WORDS, [w + " " for w in WORDS]]


def text(tables, i):
    """Text number i: up to 24 picks from one table, or each from any; some repeated, some followed by a space."""
    x = (i * 2654435761 + 12345) & 0xFFFFFFFF or 1

    def draw(n):
        nonlocal x
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        return x % n

    mode = draw(len(tables) + 5)
    out = []
    for _ in range(1 + draw(24)):
        t = tables[mode] if mode < len(tables) else tables[draw(len(tables))]
        out.append(t[draw(len(t))] * (1 + draw(20) if draw(8) == 0 else 1))
        if draw(4) == 0:
            out.append(" ")
    return "".join(out)


def fnv(words):
    h = 2166136261
    for w in words:
        for b in (w & 0xFF, w >> 8 & 0xFF, w >> 16 & 0xFF, w >> 24 & 0xFF):
            h = (h ^ b) * 16777619 & 0xFFFFFFFF
    return (h ^ h >> 16) & 0xFFFF


# --- tokenizers -------------------------------------------------------------------------------------------------------


def corpus():
    files = sorted((ROOT / "../shared/spec").glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
    lines = [line for f in files for line in f.read_text().splitlines(keepends=True)][:6000]
    return lines + [" ".join(WORDS)] * 30 + ["".join(EMOJI)] * 5 + CODE * 3


def trained(model, trainer, **parts):
    tok = Tokenizer(model)
    for name, part in parts.items():
        if name != "late":
            setattr(tok, name, part)
    tok.train_from_iterator(corpus(), trainer)
    for name, part in parts.get("late", {}).items():
        setattr(tok, name, part(tok))
    return tok


ADDED = [AddedToken("<td>", normalized=False), AddedToken("<tool>", lstrip=True, rstrip=True, normalized=False), AddedToken("word", single_word=True, normalized=False),
         AddedToken("Added", normalized=True), AddedToken("Éclair", normalized=True, single_word=True)]


def bytelevel(cut, normalizer=None, ignore=False, start=None, prefix=False, post=None, size=1500):
    t = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>", "<s>"], initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False)
    tok = trained(models.BPE(ignore_merges=ignore), t, normalizer=normalizer or normalizers.Sequence([]), pre_tokenizer=cut, decoder=decoders.ByteLevel())
    if normalizer is None:
        tok.normalizer = None
    tok.add_tokens(ADDED[:-1] + [AddedToken("Eclair", normalized=True, single_word=True)])  # É would be decoded as a byte
    tok.post_processor = post(tok) if post else processors.ByteLevel(trim_offsets=False)
    if start:
        tok.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single=f"{start} $A", pair=f"{start} $A {start} $B", special_tokens=[(start, tok.token_to_id(start))])])
    return tok


NO_REGEX = pre.ByteLevel(add_prefix_space=False, use_regex=False)


def split_bytes(name):
    return pre.Sequence(shared.PRE[name] + [NO_REGEX])


FALLBACK = [f"<0x{b:02X}>" for b in range(256)]
SPM_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def spm_bpe(normalizer, cut, fallback=True, decoder=SPM_DECODER, fuse=True, specials=("<unk>", "<s>", "</s>")):
    t = trainers.BpeTrainer(vocab_size=1700, special_tokens=list(specials) + (FALLBACK if fallback else []), limit_alphabet=180, show_progress=False)
    word = pre.Split(" ", "merged_with_next") if cut is None else cut
    tok = trained(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback), t, normalizer=normalizer, pre_tokenizer=word, decoder=decoder)
    data = json.loads(tok.to_str())
    if cut is None:
        data["pre_tokenizer"] = None
    data["added_tokens"] = [a for a in data["added_tokens"] if a["content"] in specials]  # bytes are not special
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_tokens(ADDED)
    return tok


# A small map, of which some texts begin others: what is replaced, what by.
RULES = [("\t", " "), ("\n", " "), ("\r\n", " "), ("\u00a0", " "), ("\u3000", " "), ("\u200d", ""), ("ﬁ", "fi"), ("½", "1/2"), ("😀", ":)"), ("A", "a"), ("A\u0301", "á"), ("e\u0301", "é"),
         ("é", "e"), ("が", "か\u3099"), ("한", "han"), ("1\ufe0f", "one"), ("❤", "<3"), ("❤\ufe0f", "love"), ("...", "…"), ("ﬃ", "ffi"), ("ß", "ss")]
RULES += [(chr(c), chr(c - 0xFEE0)) for c in range(0xFF01, 0xFF5F)]


def sentencepiece_model(rules):
    """A unigram model, of SentencePiece's own normaliser of a name, or of RULES."""
    import tempfile

    import sentencepiece as spm
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    out = io.BytesIO()
    tsv = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    points = lambda text: " ".join(f"{ord(c):X}" for c in text)
    tsv.writelines(f"{points(a)}\t{points(b)}\n" for a, b in RULES)
    tsv.flush()
    normalizer = {"normalization_rule_tsv": tsv.name} if rules is None else {"normalization_rule_name": rules}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(line.strip() for line in corpus() if line.strip()), model_writer=out, vocab_size=1500, model_type="unigram",
                                   **normalizer, character_coverage=0.999, hard_vocab_limit=False, minloglevel=2, num_threads=1)
    proto = ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def unigram(proto, normalizer, cut, fallback=False, decoder=None):
    vocab = [(p.piece, p.score) for p in proto.pieces]
    if fallback:
        vocab += [(b, 0.0) for b in FALLBACK]
    tok = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=fallback))
    if normalizer is not None:
        tok.normalizer = normalizer
    tok.pre_tokenizer = cut
    tok.decoder = decoder or decoders.Metaspace()
    tok.add_special_tokens(["<unk>", "<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    tok.add_tokens(ADDED)
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tok.token_to_id("</s>"))])
    return tok


def wordpiece(lower, accents=None, post=None):
    t = trainers.WordPieceTrainer(vocab_size=1800, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=250, show_progress=False)
    tok = trained(models.WordPiece(unk_token="[UNK]"), t, normalizer=normalizers.BertNormalizer(lowercase=lower, strip_accents=accents), pre_tokenizer=pre.BertPreTokenizer(), decoder=decoders.WordPiece())
    tok.add_tokens(ADDED)
    pair = [("[SEP]", tok.token_to_id("[SEP]")), ("[CLS]", tok.token_to_id("[CLS]"))]
    tok.post_processor = post or processors.BertProcessing(*pair)
    return tok


def plain_bpe():
    """Characters, unknown ones each by itself, and the general components."""
    t = trainers.BpeTrainer(vocab_size=1200, special_tokens=["<unk>"], limit_alphabet=150, show_progress=False)
    cut = pre.Sequence([pre.Whitespace(), pre.Punctuation("contiguous"), pre.Digits(False), pre.Split("e", "merged_with_previous"), pre.Split(Regex("[aA]+(?=[b-z])"), "merged_with_next")])
    tok = trained(models.BPE(unk_token="<unk>"), t, normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(r"\s{2,}"), " "), normalizers.StripAccents()]), pre_tokenizer=cut)
    tok.add_tokens(ADDED)
    return tok


def tokenizers():
    cls = lambda tok: processors.RobertaProcessing(("</s>", 1), ("<s>", 1))
    yield "gpt2", bytelevel(pre.ByteLevel(add_prefix_space=False))
    yield "roberta", bytelevel(pre.ByteLevel(add_prefix_space=True), post=cls)
    yield "llama3", bytelevel(split_bytes("llama-bpe"), ignore=True, start="<s>")
    yield "qwen2", bytelevel(split_bytes("qwen2"), normalizer=normalizers.NFC())
    yield "qwen35", bytelevel(split_bytes("qwen35"), normalizer=normalizers.NFC())
    yield "gpt-oss", bytelevel(split_bytes("gpt-4o"))
    yield "tekken", bytelevel(split_bytes("tekken"), ignore=True)
    yield "deepseek-v3", bytelevel(split_bytes("deepseek-v3"))
    yield "cl100k", bytelevel(pre.Sequence([pre.Split(Regex(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), "removed", True), NO_REGEX]))
    yield "smollm", bytelevel(pre.Sequence([pre.Digits(True), pre.ByteLevel(add_prefix_space=False)]))
    yield "falcon", bytelevel(pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False), pre.Digits(False), pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    yield "llama2", spm_bpe(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    yield "gemma", spm_bpe(normalizers.Replace(" ", "▁"), pre.Split(" ", "merged_with_previous"), decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))
    yield "mistral", spm_bpe(normalizers.Sequence([]), pre.Metaspace("▁", "first", True))
    yield "metaspace", spm_bpe(normalizers.NFKD(), pre.Metaspace("▁", "always", True), fallback=False, decoder=decoders.Metaspace())
    nmt, own = sentencepiece_model("nmt_nfkc"), sentencepiece_model(None)
    charsmap = lambda m: normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap)
    yield "t5", unigram(nmt, charsmap(nmt), pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace("▁", "always")]))
    yield "albert", unigram(own, normalizers.Sequence([normalizers.Replace("``", '"'), charsmap(own), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")]), pre.Metaspace("▁", "always"))
    yield "unigram-bytes", unigram(nmt, None, pre.Metaspace("▁", "first", False), fallback=True, decoder=SPM_DECODER)
    yield "bert-uncased", wordpiece(True)
    yield "bert-cased", wordpiece(False)
    yield "plain", plain_bpe()


def real(models_folder):
    """Tokenizers like those of published models, of the vocabularies in GGUF files."""
    digits = [shared.DIGITS, shared.GPT2]
    for name, cut in (("gpt-2", [shared.GPT2]), ("refact", digits), ("deepseek-llm", shared.PRE["deepseek-llm"] + [NO_REGEX])):
        yield name, byte_level_gguf(VOCAB / f"ggml-vocab-{name}.gguf", cut)
    yield "llama-spm", spm_gguf(VOCAB / "ggml-vocab-llama-spm.gguf", True)
    yield "bert-bge", bert_gguf(VOCAB / "ggml-vocab-bert-bge.gguf")
    yield "smollm2", byte_level_gguf(models_folder / "SmolLM2-135M-Instruct.Q4_1.gguf", digits)
    yield "gemma3", spm_gguf(models_folder / "gemma-3-270m-q4_k_m.gguf", False)


def add(tok, tokens, types):
    for piece, kind in zip(tokens, types):
        if kind in (USER_DEFINED, CONTROL, UNKNOWN):
            tok.add_tokens([AddedToken(piece, normalized=False, special=kind != USER_DEFINED)])
    return tok


def byte_level_gguf(path, cut):
    tokens, types, _, merges = shared.vocabulary(path)
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre.Sequence(cut)
    tok.decoder = decoders.ByteLevel()
    return add(tok, tokens, types)


def spm_gguf(path, prefix):
    tok = shared.gemma3(path, None)
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁")] * prefix + [normalizers.Replace(" ", "▁")])
    tok.decoder = SPM_DECODER
    return add(tok, *shared.vocabulary(path)[:2])


def bert_gguf(path):
    tokens, types, _, _ = shared.vocabulary(path)
    vocab = {}
    for i, (piece, kind) in enumerate(zip(tokens, types)):
        vocab[piece if kind == CONTROL or piece[:1] == "[" and len(piece) > 1 else piece[1:] if piece[:1] == "▁" else "##" + piece] = i
    tok = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tok.normalizer, tok.pre_tokenizer, tok.decoder = normalizers.BertNormalizer(), pre.BertPreTokenizer(), decoders.WordPiece()
    return add(tok, tokens, types)


def files(tok):
    return {"tokenizer.json": json.loads(tok.to_str())}


# --- goldens ----------------------------------------------------------------------------------------------------------


def write(name, value):
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / (name + ".json.gz")
    path.write_bytes(gzip.compress(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{name}: {path.stat().st_size} bytes", flush=True)


def without_specials(tok):
    """The same, but that text never becomes a special token: a unigram model would find their texts among its pieces."""
    data = json.loads(tok.to_str())
    special = {a["content"] for a in data["added_tokens"] if a["special"]}
    if data["model"]["type"] != "Unigram":
        return Tokenizer.from_str(tok.to_str())
    data["model"]["vocab"] = [[chr(0x10FF00 + i) if p in special else p, s] for i, (p, s) in enumerate(data["model"]["vocab"])]
    return Tokenizer.from_str(json.dumps(data))


def golden(name, tok, texts, own):
    blind = without_specials(tok)
    blind.encode_special_tokens = True
    own, more = tok.get_vocab_size(False), blind.get_vocab_size() - tok.get_vocab_size()
    plain = [[i if i < own else i - more for i in e.ids] for e in blind.encode_batch(texts, add_special_tokens=False)]
    prompt = [e.ids for e in tok.encode_batch(texts)]
    hashes = b"".join(fnv(a + [0xFFFFFFFF] + b).to_bytes(2, "little") for a, b in zip(plain, prompt))
    full = [[plain[i], prompt[i], tok.decode(prompt[i])] for i in range(0, TEXTS, 100)]
    write(name, ({"files": files(tok)} if own else {}) | {"hash": base64.b64encode(hashes).decode(), "full": full})


def sentencepiece_golden(texts):
    from sentencepiece import SentencePieceProcessor

    proto = sentencepiece_model(None)
    own = SentencePieceProcessor(model_proto=proto.SerializeToString())
    rules = proto.normalizer_spec
    config = {"Model": "t5", "Tokens": [p.piece for p in proto.pieces], "Scores": [p.score for p in proto.pieces], "Types": [p.type for p in proto.pieces], "UNK": 0, "BOS": 1, "EOS": 2, "EOT": -1, "EOM": -1,
              "AddSpacePrefix": rules.add_dummy_prefix, "RemoveExtraSpaces": rules.remove_extra_whitespaces, "Charsmap": base64.b64encode(rules.precompiled_charsmap).decode()}
    # sentencepiece adds scores as float32, which decides among ways that are equally good; llama.cpp and Hugging Face add float64
    model = Tokenizer(models.Unigram([(p.piece if p.type == 1 else chr(0x10FF00 + i), p.score) for i, p in enumerate(proto.pieces)], unk_id=0))
    encoded = model.encode_batch([own.normalize(t) for t in texts])
    hashes = b"".join(fnv(e.ids + [0xFFFFFFFF]).to_bytes(2, "little") for e in encoded)
    print("as sentencepiece in", sum(e.ids == ids for e, ids in zip(encoded, own.encode(texts))), "of", TEXTS)
    write("sentencepiece", {"config": config, "hash": base64.b64encode(hashes).decode()})


def main():
    only = sys.argv[2:]  # names, to write some of them
    t = tables()
    write("parts", t)
    texts = [text(t, i) for i in range(TEXTS)]
    if not only or "sentencepiece" in only:
        sentencepiece_golden(texts)
    for name, tok in tokenizers() if only != ["sentencepiece"] else []:
        if not only or name in only:
            golden(name, tok, texts, True)
    for name, tok in [] if only == ["sentencepiece"] else real(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".models")):
        if not only or name in only:
            golden(name, tok, texts, False)


main()
