"""Models that the schemes are tested on, and what a scheme gives their parts."""

from dataclasses import replace
from functools import partial

from fanin import families, schemes
from fanin.families.layers import embedding, linear, norm, repeat
from fanin.initializers import Constant
from fanin.rules import initializer_of

WIDTH, INNER, LAYERS, VOCAB = 96, 160, 3, 300
LLAMA = {
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
GPT2 = {
    "model_type": "gpt2",
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_inner": INNER,
    "n_layer": LAYERS,
    "n_head": 4,
}
BERT = {
    "model_type": "bert",
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
}


def encoder_decoder(encoder_layers, decoder_layers):
    """A transformer of two stacks, whose decoder has cross-attention."""

    def block(attentions, at):
        for attention in attentions:
            for name in ("query", "key", "value", "out"):
                yield from linear(f"{at}{attention}.{name}", WIDTH, WIDTH, f"attention.{name}")
            yield from norm(f"{at}{attention}.norm", WIDTH)
        yield from linear(f"{at}mlp.wi", INNER, WIDTH, "mlp.in")
        yield from linear(f"{at}mlp.wo", WIDTH, INNER, "mlp.out")

    encoder, decoder = partial(block, ["self"]), partial(block, ["self", "cross"])
    return replace(
        families.build(GPT2),
        architecture="EncoderDecoder",
        num_layers=max(encoder_layers, decoder_layers),
        tensors=(
            *embedding("shared", VOCAB, WIDTH),
            *repeat("encoder.block", encoder_layers, encoder),
            *repeat("decoder.block", decoder_layers, decoder, branches=3),
            *linear("head", VOCAB, WIDTH, "head"),
        ),
        tied={},
    )


def chosen(scheme, model):
    """Each part with its initializer."""
    model = families.build(model) if isinstance(model, dict) else model
    rules = schemes.rules(scheme, model)
    parts = [part for tensor in model.tensors for part in tensor.parts]
    return [(part, initializer_of(rules, part)) for part in parts]


def initializers(scheme, model):
    """The initializer of each part, by its name without the model's prefix."""
    return {short(part): init for part, init in chosen(scheme, model)}


def stds(scheme, model):
    """Standard deviation of each part, by its name without the model's prefix."""
    return {
        short(part): init.standard_deviation(part.shape, part.layout, part.groups)
        for part, init in chosen(scheme, model)
    }


def constants(scheme, model):
    """Values of the parts that are constant, by role."""
    pairs = chosen(scheme, model)
    return {part.role: init.value for part, init in pairs if isinstance(init, Constant)}


def short(part):
    """The name of a part without the model's prefix."""
    return part.name.removeprefix("transformer.").removeprefix("model.")
