"""Tokenizers of tiny models, of the kinds that real models have: `write` saves one into a model's folder.

Byte-level BPE (GPT-2's, under the pre-tokeniser that GGUF calls by the kind's name) has 263 tokens: 256 bytes, 4 merges,
three control tokens. SentencePiece ("llama" begins texts with a space, "gemma" does not) has control tokens, 256
bytes, the letters of PROMPTS and some merges; it is written as tokenizer.model and as tokenizer.json.
"""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PROMPTS = (
    "Hi \u00e9",
    "Then the thin rain ended.",
    "In the morning the others went in to see what the night had left: 3 shells, a rope \u2014 and no boat, \u00e0 peine.",
)
TEMPLATE = "{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

MERGES = ["Ġ t", "h e", "i n", "Ġt he"]
SPECIAL = ["<|start|>", "<|end|>", "<|pad|>"]  # the last three ids
QWEN = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]  # theirs: transformers would add its own last one


def words(digits):
    """GPT-4's first pattern, which children changed in how many digits stand together."""
    return r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


UP, LOW, HEAD = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"


def split(pattern):
    from tokenizers import Regex

    return pre_tokenizers.Split(Regex(pattern), "isolated")


# The parts before byte-level BPE, by GGUF's name of the whole (tokenizer.ggml.pre).
STEPS = {
    "gpt-2": lambda: [],
    "smollm": lambda: [pre_tokenizers.Digits(individual_digits=True)],
    "qwen2": lambda: [split(words(""))],
    "qwen35": lambda: [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")],
    "llama-bpe": lambda: [split(words("{1,3}"))],
    "gpt-4o": lambda: [split(
        f"{HEAD}{UP}*{LOW}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|{HEAD}{UP}+{LOW}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|" r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")],
}


def byte_level(tokens, merges, steps, special, bos=None, ignore_merges=False):
    """A byte-level BPE tokenizer with the given parts before it."""
    t = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges], ignore_merges=ignore_merges))
    own = not any(isinstance(s, pre_tokenizers.Split) for s in steps)
    t.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=own)])
    t.decoder = decoders.ByteLevel()
    if bos:
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in special])
    return t


def special(kind):
    """The start, end and padding tokens of a byte-level vocabulary."""
    return QWEN if kind.startswith("qwen") else SPECIAL


def byte_vocabulary(kind):
    """The 256 bytes, the merges, three control tokens."""
    return sorted(pre_tokenizers.ByteLevel.alphabet()) + [m.replace(" ", "") for m in MERGES] + special(kind)


def piece_vocabulary(kind):
    """Tokens, scores and types of a SentencePiece vocabulary."""
    control = {"llama": ["<unk>", "<s>", "</s>"], "gemma": ["<pad>", "<eos>", "<bos>", "<unk>"]}[kind]
    letters = sorted(set("".join(PROMPTS).replace(" ", "\u2581")))
    merged = ["\u2581t", "he", "in", "\u2581the"]
    tokens = control + [f"<0x{b:02X}>" for b in range(256)] + merged + letters
    types = [UNKNOWN if t == "<unk>" else CONTROL for t in control] + [BYTE] * 256 + [NORMAL] * (len(merged) + len(letters))
    scores = [0.0] * (len(control) + 256) + [-1.0 - i for i in range(len(merged))] + [-8.0 - i for i in range(len(letters))]
    return tokens, scores, types


def sentencepiece_model(tokens, scores, types, prefix=False):
    """The bytes of a tokenizer.model."""
    from sentencepiece import sentencepiece_model_pb2 as pb

    m = pb.ModelProto()
    m.trainer_spec.model_type = pb.TrainerSpec.BPE
    m.trainer_spec.byte_fallback = True
    m.trainer_spec.vocab_size = len(tokens)
    for kind, texts in (("unk", ["<unk>"]), ("bos", ["<bos>", "<s>"]), ("eos", ["<eos>", "</s>"]), ("pad", ["<pad>"])):
        text = next((t for t in texts if t in tokens), texts[0])
        setattr(m.trainer_spec, f"{kind}_id", tokens.index(text) if text in tokens else -1)
        setattr(m.trainer_spec, f"{kind}_piece", text)
    m.normalizer_spec.add_dummy_prefix = prefix
    m.normalizer_spec.remove_extra_whitespaces = False
    for text, score, kind in zip(tokens, scores, types):
        m.pieces.add(piece=text, score=score, type=kind)
    return m.SerializeToString()


def pieces(tokens, scores, types, prefix=False):
    """tokenizer.json of a SentencePiece vocabulary, its merges made of scores as transformers does."""
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for piece, i in vocab.items():
        if types[i] == NORMAL:
            cuts = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
            cuts.sort(key=lambda p: (vocab[p[0]], vocab[p[1]]))
            merges += [(scores[i], p) for p in cuts]
    merges.sort(key=lambda m: -m[0])  # stable
    t = Tokenizer(models.BPE(vocab, [p for _, p in merges], byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    if prefix:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    for text, kind in zip(tokens, types):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED):
            token = AddedToken(text, normalized=False, special=kind != USER_DEFINED)
            (t.add_tokens if kind == USER_DEFINED else t.add_special_tokens)([token])
    return t


def make(kind, start):
    """The tokenizer of a kind, and the files beside tokenizer.json, by name."""
    if kind in STEPS:
        own = special(kind)
        return byte_level(byte_vocabulary(kind), MERGES, STEPS[kind](), own, own[0] if start else None, kind == "llama-bpe"), {}
    tokens, scores, types = piece_vocabulary(kind)
    t = pieces(tokens, scores, types, kind == "llama")
    bos = "<s>" if kind == "llama" else "<bos>"
    if start:
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokens.index(bos))])
    return t, {"tokenizer.model": sentencepiece_model(tokens, scores, types, kind == "llama")}


def write(kind, start, folder):
    """Saves the tokenizer as transformers does."""
    t, files = make(kind, start)
    names = {"llama": ("<s>", "</s>", None), "gemma": ("<bos>", "<eos>", "<pad>")}.get(kind) or special(kind)
    named = {f"{n}_token": text for n, text in zip(("bos", "eos", "pad"), names) if text}
    fast = PreTrainedTokenizerFast(tokenizer_object=t, **named, chat_template=TEMPLATE)
    fast.save_pretrained(folder)
    for name, data in files.items():
        (Path(folder) / name).write_bytes(data)
    return t
