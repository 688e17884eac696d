"""Configs that the families are tested with: tiny ones, changes to them, and published counts."""

from collections.abc import Iterator
from copy import deepcopy

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
BART = {
    "vocab_size": 96,
    "d_model": 48,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_layers": 4,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 20,
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
VIT = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 8,
    "num_channels": 2,
}
VISION = {**VIT, "intermediate_size": 64}
TEXT = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 20,
}
MAMBA = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "state_size": 6,
    "expand": 2,
    "conv_kernel": 6,
}
TINY = {
    "vit": {**VISION, "encoder_stride": 4, "num_labels": 6},
    "deit": {**VISION, "encoder_stride": 4, "num_labels": 6},
    "dinov2": {**VIT, "mlp_ratio": 2, "num_labels": 6},
    "clip": {
        "text_config": {**TEXT, "hidden_size": 64},
        "vision_config": VISION,
        "projection_dim": 10,
    },
    "clip_text_model": {**TEXT, "projection_dim": 10},
    "clip_vision_model": {**VISION, "projection_dim": 10},
    "siglip": {
        "text_config": {**TEXT, "hidden_size": 48, "projection_size": 12},
        "vision_config": VISION,
    },
    "siglip_text_model": {**TEXT, "projection_size": 12},
    "siglip_vision_model": VISION,
    "mamba": {**MAMBA, "time_step_rank": 4},
    "mamba2": {**MAMBA, "num_heads": 4, "head_dim": 16, "n_groups": 2},
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
    **dict.fromkeys(("bart", "mbart"), BART),
    "electra": {**BERT, "embedding_size": 24},
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
    "starcoder2": LLAMA_LIKE,  # whose width its 24 heads do not divide
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
    {"embedding_size": 48},
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

LABELS = [
    {"num_labels": 1},
    {"num_labels": 0},
    {"id2label": {"0": "cat", "7": "dog", "2": "cat"}},
    {"id2label": {}},
    {"id2label": None, "num_labels": 5},
    {"id2label": {"0": "cat"}, "num_labels": 3},
]
SQUARES = [{"image_size": 37, "num_channels": 1}, {"num_attention_heads": 5}]
IMAGES = [
    *SQUARES,
    {"image_size": [64, 24], "patch_size": [16, 8]},
    {"image_size": 40, "patch_size": [5, 20], "qkv_bias": False},
]
TOWERS = [
    {"text_config": None, "vision_config": {"hidden_size": 36}},
    {"text_config": {"hidden_size": 24}, "text_config_dict": {"num_attention_heads": 4}},
    {"text_config_dict": None, "vision_config_dict": {"image_size": 32}},
    {"vision_config": {"num_attention_heads": 5}},
    {"text_config": {"num_hidden_layers": 1, "tie_word_embeddings": True}, "projection_dim": 7},
]
WIDTH_OF_HEADS = {"hidden_size": 160, "num_attention_heads": 24}
"""Heads that do not divide the width."""

OWN_SWITCHES = {
    **{
        name: [WIDTH_OF_HEADS] for name in ("llama", "mistral", "qwen3", "gemma", "phi3", "gpt_oss")
    },
    "vit": [*IMAGES, *LABELS, {"pooler_output_size": 9}],
    "deit": [*IMAGES, *LABELS[:2], {"pooler_output_size": None}],
    "dinov2": [
        *IMAGES,
        *LABELS[:2],
        {"use_swiglu_ffn": True, "qkv_bias": False, "mlp_ratio": 5},
        {"use_mask_token": False, "layerscale_value": 0.1},
    ],
    "clip": [*TOWERS, *LABELS[:4]],
    "clip_vision_model": SQUARES,
    "clip_text_model": [{"num_attention_heads": 5}],
    "siglip": [
        *TOWERS,
        LABELS[0],
        {"text_config": {"hidden_size": 8}},  # which only the text tower minds
        {"vision_config": {"vision_use_head": False}},
    ],
    "siglip_vision_model": [*SQUARES, {"vision_use_head": False}],
    "siglip_text_model": [{"projection_size": None}],
    "mamba": [
        {"use_bias": True, "use_conv_bias": False},
        {"intermediate_size": 50, "d_inner": 40, "d_model": 3, "n_layer": 1},
        {"time_step_rank": "auto", "hidden_size": 40},
        {"expand": 3, "rescale_prenorm_residual": True, "time_step_init_scheme": "constant"},
    ],
    "mamba2": [
        {"use_bias": True, "use_conv_bias": False},
        {"hidden_size": 64, "num_heads": 8, "intermediate_size": 50},
        {"expand": 3, "head_dim": 24, "n_groups": 1},
        {"expand": 3},
    ],
}
"""Changes to the fields of one model type."""

EVERY_MODEL = {"dtype", "torch_dtype", "quantization_config"}

COUNTS = {
    "bert-base-uncased": 109_514_298,
    "bloom-560m": 559_214_592,
    "clip-vit-base-patch32": 151_277_313,
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
    "mamba-130m": 129_135_360,
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
    "vit-base-patch16-224": 86_567_656,
}

TURBO = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_layers": 4,
    "decoder_attention_heads": 20,
    "decoder_ffn_dim": 5120,
    "num_mel_bins": 128,
    "vocab_size": 51866,
}
T5_V1_1 = {"d_ff": 1024, "num_heads": 6, "num_layers": 8, "feed_forward_proj": "gated-gelu"}
XLM_R = {"vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1}
MORE_COUNTS = {
    "bart-large": ("bart", "BartModel", {}, 406_291_456),
    "distilbert-base": ("distilbert", "DistilBertForMaskedLM", {}, 66_985_530),
    "mt5-small": (
        "mt5",
        "MT5ForConditionalGeneration",
        {"tie_word_embeddings": False},
        300_176_768,
    ),
    "t5-v1_1-small": (
        "t5",
        "T5ForConditionalGeneration",
        {**T5_V1_1, "tie_word_embeddings": False},
        76_961_152,
    ),
    "whisper-large-v3-turbo": ("whisper", "WhisperForConditionalGeneration", TURBO, 808_878_080),
    "whisper-tiny": ("whisper", "WhisperForConditionalGeneration", {}, 37_760_640),
    "xlm-roberta-base": ("xlm-roberta", "XLMRobertaModel", XLM_R, 278_043_648),
}
"""Of models without a preset: model type, architecture, what differs from the defaults, count."""


def switches(model_type: str) -> list[dict[str, object]]:
    """Return the changes that concern a model type: a field of its own, or one for every model."""
    fields = FAMILIES[model_type].fields
    own = {name for key, field in fields.items() for name in (key, *field.names)} | EVERY_MODEL
    general = [switch for switch in SWITCHES if own & switch.keys()]
    return general + OWN_SWITCHES.get(model_type, [])


def sizes_changed(model_type: str, change: str) -> Iterator[dict[str, object]]:
    """Yield the tiny config with one field halved, doubled or unset, each in turn."""

    def places(fields: dict[str, object], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for name, value in fields.items():
            yield from places(value, (*path, name)) if isinstance(value, dict) else [(*path, name)]

    for *parents, name in places(TINY[model_type]):
        changed = part = deepcopy(TINY[model_type])
        for parent in parents:
            part = part[parent]
        if model_type in ("phi3", "whisper") and (name, change) == ("pad_token_id", "unset"):
            continue  # 32000 and 50256, beyond this vocabulary
        if change == "unset":
            del part[name]
        else:
            part[name] = part[name] // 2 if change == "half" else part[name] * 2
        yield changed
