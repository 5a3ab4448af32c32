"""Write a tiny random llama as GGUF: `python tiny_gguf.py FILE`, with a Python that has `gguf` and numpy.

64 wide, 2 layers, a vocabulary of bytes: what it says means nothing, and how it is served is all that it is for.
"""

from __future__ import annotations

import sys

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, MLP, CONTEXT = 64, 2, 4, 128, 256
SPECIAL = ("<unk>", "<s>", "</s>")
TOKENS = (*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *(chr(code) for code in range(32, 127)))
CHAT = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}"


def main(path: str) -> None:
    writer, draws = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(TOKENS))
    _tokenizer(writer)

    def add(name: str, *shape: int) -> None:
        values = np.ones(shape) if "norm" in name else draws.normal(0, 0.2, shape)
        writer.add_tensor(name, values.astype(np.float32))

    add("token_embd.weight", len(TOKENS), WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", len(TOKENS), WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}.weight", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}.weight", MLP, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, MLP)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tokenizer(writer: gguf.GGUFWriter) -> None:
    kinds = {"<unk>": gguf.TokenType.UNKNOWN, "<s>": gguf.TokenType.CONTROL, "</s>": gguf.TokenType.CONTROL}
    byte, normal = gguf.TokenType.BYTE, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(TOKENS))
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types([kinds.get(token, byte if token.startswith("<0x") else normal) for token in TOKENS])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHAT)


main(sys.argv[1])
