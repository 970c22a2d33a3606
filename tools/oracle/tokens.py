"""The tokens of a text under the vocabulary of a GGUF file, by Hugging Face tokenizers or by sentencepiece itself."""

from bridge import metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type


def tokenize(path, text):
    """Token ids of `text`, with the start token in front if the file asks for one. Control tokens are not recognised."""
    meta = metadata(path)
    kind, pre = meta["tokenizer.ggml.model"], meta.get("tokenizer.ggml.pre")
    if kind == "gpt2" and pre == "smollm":
        ids = byte_level(meta, text)
    elif kind == "llama":
        ids = sentencepiece(meta, text)
    else:
        raise ValueError(f"oracle: {path}: tokenizer {kind} with pre-tokenizer {pre}; this script knows gpt2/smollm and llama")
    start = start_token(meta)
    return ids if start is None else [start] + ids


def start_token(meta):
    """The id of the token that every sequence begins with, None if the model wants none."""
    added_by_default = meta["tokenizer.ggml.model"] == "llama"
    return meta["tokenizer.ggml.bos_token_id"] if meta.get("tokenizer.ggml.add_bos_token", added_by_default) else None


def byte_level(meta, text):
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocab = {piece: i for i, piece in enumerate(meta["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    return tokenizer.encode(text, add_special_tokens=False).ids


def sentencepiece(meta, text):
    from sentencepiece import SentencePieceProcessor
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    kinds = {NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, UNUSED: 5, BYTE: 6}  # to ModelProto.SentencePiece.Type
    for piece, score, kind in zip(*(meta[f"tokenizer.ggml.{k}"] for k in ("tokens", "scores", "token_type"))):
        if kind == USER_DEFINED:
            piece = piece.replace(" ", "\u2581")  # GGUF keeps these as they read, sentencepiece as it spells a space
        proto.pieces.add(piece=piece, score=score, type=kinds[kind])
    proto.trainer_spec.model_type = 2  # BPE
    proto.trainer_spec.byte_fallback = True
    for name in ("unk", "bos", "eos", "pad"):
        key = {"unk": "unknown", "pad": "padding"}.get(name, name)
        i = meta.get(f"tokenizer.ggml.{key}_token_id", -1)
        setattr(proto.trainer_spec, f"{name}_id", i)
        if i >= 0:
            setattr(proto.trainer_spec, f"{name}_piece", meta["tokenizer.ggml.tokens"][i])
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = meta.get("tokenizer.ggml.add_space_prefix", True)
    proto.normalizer_spec.remove_extra_whitespaces = False
    return SentencePieceProcessor(model_proto=proto.SerializeToString()).encode(text)
