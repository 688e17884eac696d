"""Whisper (Radford et al. 2022): convolutions over a spectrogram, an encoder, a decoder.

The layers are BART's, but keys have no bias. The encoder's positions are sines and cosines, which
are computed, stored and not trained. Initialization as in transformers: N(0, init_std^2).
"""

from __future__ import annotations

from collections.abc import Iterator

from fanin.families import bart
from fanin.families.family import Family
from fanin.families.fields import Config, count, fixed, size, token
from fanin.families.layers import conv, embedding, linear, norm
from fanin.model import Tensor

FIELDS = {
    **bart.BART,
    "vocab_size": size(51865),
    "num_mel_bins": size(80),
    "hidden_size": size(384, "d_model", "hidden_size"),
    "encoder_layers": count(4, "encoder_layers", "num_hidden_layers"),
    "decoder_layers": count(4),
    "encoder_attention_heads": size(6, "encoder_attention_heads", "num_attention_heads"),
    "decoder_attention_heads": size(6),
    "encoder_ffn_dim": size(1536),
    "decoder_ffn_dim": size(1536),
    "max_source_positions": size(1500),
    "max_target_positions": size(448),
    "pad_token_id": token(50256),
    "key_bias": fixed(False),
}


def conditional_generation(c: Config) -> Iterator[Tensor]:
    """WhisperForConditionalGeneration."""
    yield from body(c, "model.")
    yield from linear("proj_out", c.vocab_size, c.hidden_size, "head", bias=False)


def causal_lm(c: Config) -> Iterator[Tensor]:
    """WhisperForCausalLM: the decoder by itself."""
    yield from decoder(c, "model.decoder.")
    yield from linear("proj_out", c.vocab_size, c.hidden_size, "head", bias=False)


def body(c: Config, prefix: str = "") -> Iterator[Tensor]:
    """WhisperModel."""
    yield from encoder(c, f"{prefix}encoder.")
    yield from decoder(c, f"{prefix}decoder.")


def encoder(c: Config, at: str) -> Iterator[Tensor]:
    """WhisperEncoder."""
    d = c.hidden_size
    yield from conv(f"{at}conv1", d, c.num_mel_bins, (3,))
    yield from conv(f"{at}conv2", d, d, (3,))
    positions, role = c.max_source_positions, "sinusoids.halves"
    yield from embedding(f"{at}embed_positions", positions, d, role)
    yield from bart.blocks(c, at, decodes=False)
    yield from norm(f"{at}layer_norm", d)


def decoder(c: Config, at: str) -> Iterator[Tensor]:
    """WhisperDecoder."""
    d = c.hidden_size
    yield from embedding(f"{at}embed_tokens", c.vocab_size, d, padding=c.pad_token_id)
    positions, role = c.max_target_positions, "embedding.position"
    yield from embedding(f"{at}embed_positions", positions, d, role)
    yield from bart.blocks(c, at, decodes=True)
    yield from norm(f"{at}layer_norm", d)


def check(c: Config) -> None:
    """Refuse heads that do not divide the width, and widths without sines and cosines."""
    bart.check(c)
    if c.hidden_size % 2 or c.hidden_size < 4:
        c.refuse("hidden_size", "must be even and 4 or more, for the encoder's positions")


FAMILIES = [
    Family(
        name="whisper",
        model_type="whisper",
        fields=FIELDS,
        architectures={
            "WhisperForConditionalGeneration": conditional_generation,
            "WhisperModel": body,
            "WhisperForCausalLM": causal_lm,
        },
        tied={"proj_out.weight": "model.decoder.embed_tokens.weight"},
        auto=bart.auto,
        check=check,
    )
]
