"""Configs of models with a few thousand parameters, and their plans."""

from fanin import families
from fanin.plan import Plan, make_plan

CONFIGS = {
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 24,
        "vocab_size": 40,
    },
    "llama": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 40,
        "torch_dtype": "bfloat16",
    },
    "bert": {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 24,
        "vocab_size": 40,
        "pad_token_id": 0,
    },
}


def tiny_plan(name: str = "gpt2", fields: dict[str, object] | None = None, **options) -> Plan:
    """Plan of a tiny model; `fields` change its config, `options` are those of `make_plan`."""
    return make_plan(families.build(CONFIGS[name] | (fields or {})), **options)
