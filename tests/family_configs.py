"""Configs that the families are tested with: tiny ones, changes to them, and published counts."""

from fanin.families import FAMILIES

LLAMA_LIKE = {
    "vocab_size": 96,
    "hidden_size": 128,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
BERT = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 20,
    "type_vocab_size": 4,
    "pad_token_id": 2,
}
ROBERTA = {**BERT, "pad_token_id": 1}
T5 = {
    "vocab_size": 96,
    "d_model": 24,
    "d_kv": 6,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 4,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
}
GPT2 = {"vocab_size": 96, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 20, "n_inner": 64}
WITH_HEAD_DIM = {**LLAMA_LIKE, "head_dim": 6}
MIXTRAL = {**LLAMA_LIKE, "num_local_experts": 4}
QWEN_MOE = {**LLAMA_LIKE, "num_experts": 4, "moe_intermediate_size": 24, "decoder_sparse_step": 2}
DEEPSEEK = {
    "vocab_size": 96,
    "hidden_size": 128,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "kv_lora_rank": 12,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "first_k_dense_replace": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "moe_intermediate_size": 24,
}
TINY = {
    "gpt2": GPT2,
    "bert": BERT,
    "distilbert": {
        "vocab_size": 96,
        "dim": 48,
        "hidden_dim": 64,
        "n_layers": 2,
        "n_heads": 4,
        "max_position_embeddings": 20,
        "pad_token_id": 2,
    },
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), ROBERTA),
    **dict.fromkeys(("t5", "mt5", "umt5"), T5),
    "whisper": {
        "vocab_size": 96,
        "num_mel_bins": 10,
        "d_model": 48,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_layers": 4,
        "decoder_attention_heads": 8,
        "decoder_ffn_dim": 40,
        "max_source_positions": 20,
        "max_target_positions": 12,
        "pad_token_id": 2,
    },
    **dict.fromkeys(("llama", "mistral", "qwen2"), LLAMA_LIKE),
    **dict.fromkeys(("qwen3", "gemma", "gemma2", "gemma3_text"), WITH_HEAD_DIM),
    **dict.fromkeys(("granite", "olmo2", "stablelm"), LLAMA_LIKE),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": {**DEEPSEEK, "num_attention_heads": 6},  # whatever the width
    "gpt_oss": {**MIXTRAL, "head_dim": 6},
    "mixtral": MIXTRAL,
    "olmoe": {**LLAMA_LIKE, "num_experts": 4, "pad_token_id": 2},
    "qwen2_moe": {**QWEN_MOE, "shared_expert_intermediate_size": 20},
    "qwen3_moe": QWEN_MOE,
    "starcoder2": {**LLAMA_LIKE, "hidden_size": 192},  # its 24 heads divide that, too
    "phi3": {**LLAMA_LIKE, "pad_token_id": 2},
    "gptj": GPT2,
    "bloom": {"vocab_size": 96, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "gpt_neox": {
        "vocab_size": 96,
        "hidden_size": 128,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
    },
    "opt": {
        "vocab_size": 96,
        "hidden_size": 48,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 20,
        "pad_token_id": 2,
    },
    "falcon": {
        "vocab_size": 96,
        "hidden_size": 1136,  # 71 heads divide that, too
        "ffn_hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
    },
}

SWITCHES = [
    {"tie_word_embeddings": True},
    {"tie_word_embeddings": False},
    {"attention_bias": True},
    {"mlp_bias": True},
    {"use_bias": False},
    {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True},
    {"num_key_value_heads": 32},
    {"word_embed_proj_dim": 12, "_remove_final_layer_norm": True},
    {"enable_bias": False, "do_layer_norm_before": False},
    {"layer_norm_elementwise_affine": False},
    {"attention_bias": False},
    {"n_embed": 32, "num_hidden_layers": 3},
    {"new_decoder_architecture": True, "bias": True},
    {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
    {"multi_query": False, "parallel_attn": False, "bias": True},
    {"head_dim": 10},
    {"n_inner": None},
    {"n_ctx": 7},
    {"hidden_size": 64},
    {"n_embd": 64, "hidden_size": 32},
    {"pad_token_id": 5},
    {"pad_token_id": -1},
    {"pad_token_id": None},
    {"add_cross_attention": True, "is_decoder": True},
    {"num_experts": 1},
    {"num_experts": 3, "num_local_experts": 2},
    {"mlp_only_layers": [1, 7], "decoder_sparse_step": 1},
    {"mlp_only_layers": None, "qkv_bias": False},
    {"q_lora_rank": None},
    {"first_k_dense_replace": 0, "n_shared_experts": 3},
    {"first_k_dense_replace": 4, "num_nextn_predict_layers": 1},
    {"n_routed_experts": 1, "num_local_experts": 1},
    {"type_vocab_size": 1},
    {"sinusoidal_pos_embds": True},
    {"sinusoidal_pos_embds": True, "dim": 36},
    {"feed_forward_proj": "relu"},
    {"feed_forward_proj": "gated-gelu"},
    {"feed_forward_proj": "gated-silu"},
    {"feed_forward_proj": "relu", "is_gated_act": True, "dense_act_fn": "gelu_new"},
    {"num_decoder_layers": None, "num_hidden_layers": 3},
    {"num_decoder_layers": None, "num_layers": 1},
    {"head_dim": 10, "is_decoder": True},
    {"is_encoder_decoder": False},
    {"decoder_layers": 1, "num_hidden_layers": 3, "scale_embedding": True},
    {"torch_dtype": "bfloat16"},
    {"dtype": "float16"},
    {"dtype": "float64", "torch_dtype": "bfloat16"},
    {"quantization_config": None, "an_unknown_field": {"x": 1}},
]

KEEPS_A_HEAD = ("t5", "mt5", "umt5")
"""Where transformers builds a tied head whatever the config says, but keeps one that it loads."""

EVERY_MODEL = {"dtype", "torch_dtype", "quantization_config"}

COUNTS = {
    "bert-base-uncased": 109_514_298,
    "bloom-560m": 559_214_592,
    "deepseek-v3": 671_026_404_352,
    "falcon-7b": 6_921_720_704,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2b": 2_506_172_416,
    "gemma-3-1b": 999_885_952,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b-v0.1": 46_702_792_704,
    "opt-125m": 125_239_296,
    "phi-3-mini": 3_821_079_552,
    "pythia-1.4b": 1_414_647_808,
    "pythia-70m": 70_426_624,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-8b": 8_190_735_360,
    "roberta-base": 124_697_433,
    "t5-base": 222_903_552,
    "t5-small": 60_506_624,
    "tinyllama-1.1b": 1_100_048_384,
}


def switches(model_type: str) -> list[dict[str, object]]:
    """Return the changes that concern a model type: a field of its own, or one for every model."""
    fields = FAMILIES[model_type].fields
    own = {name for key, field in fields.items() for name in (key, *field.names)} | EVERY_MODEL
    return [switch for switch in SWITCHES if own & switch.keys()]
