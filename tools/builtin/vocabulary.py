"""The tokenizer: byte-level BPE of 8,192 tokens, Qwen2's pattern before it, Qwen's tokens for the end of a text and for its middle."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SIZE = 8192
END, PREFIX, MIDDLE, SUFFIX = SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"]
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def train(texts):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=SIZE - len(SPECIAL), initial_alphabet=alphabet, show_progress=False, max_token_length=32))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    # A text begins as it began in training: after the end of another.
    t.post_processor = processors.TemplateProcessing(single=f"{END} $A", pair=f"{END} $A {END} $B", special_tokens=[(END, t.token_to_id(END))])
    assert t.get_vocab_size() == SIZE, t.get_vocab_size()
    return t


def settings(longest):
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": END, "pad_token": END, "add_bos_token": True,
        "additional_special_tokens": SPECIAL[1:], "clean_up_tokenization_spaces": False, "model_max_length": longest,
    }
