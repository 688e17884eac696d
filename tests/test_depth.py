"""Predicted signals and first losses against forward passes of transformers' models."""

import math

import pytest
import torch
import transformers

from fanin import families
from fanin.diagnose import predict_depth, predict_first_loss
from fanin.plan import make_plan
from fanin.torch import initialize_

WIDTH, LAYERS, VOCAB, TOKENS = 256, 6, 2000, 128
DECODER = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 704,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 256,
}
NEOX = {key: DECODER[key] for key in DECODER if key not in ("num_key_value_heads", "head_dim")}
GPT2 = {"vocab_size": VOCAB, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 8, "n_positions": 256}
GRANITE = {
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "attention_multiplier": 0.03,
    "logits_scaling": 0.25,
}
ENDS = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}
CONFIGS = {
    "gpt2": GPT2,
    "llama": DECODER,
    "gemma2": DECODER,
    "granite": DECODER | GRANITE,
    "olmo2": DECODER,
    "mixtral": DECODER | {"num_local_experts": 6, "num_experts_per_tok": 2},
    "olmoe": DECODER | {"num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": False},
    "qwen2_moe": DECODER
    | {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 512,
    },
    "bert": NEOX,
    "falcon": NEOX,
    "bloom": {"vocab_size": VOCAB, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": 8},
    "opt": NEOX | {"ffn_dim": 1024, "word_embed_proj_dim": 64},
}
MEASURED = [
    ("gpt2", "auto", 0.04),
    ("gpt2", "he", 0.08),
    ("gpt2", "zero_residual", 0.02),
    ("llama", "auto", 0.25),  # narrow: attention, which depends on the position, is half of it
    ("llama", "he", 0.05),
    ("llama", "wang", 0.15),
    ("gemma2", "auto", 0.05),
    ("granite", "xavier", 0.1),
    ("olmo2", "he", 0.05),
    ("mixtral", "he", 0.05),
    ("olmoe", "xavier", 0.12),
    ("qwen2_moe", "lecun", 0.12),
    ("bert", "torch_default", 0.01),
    ("falcon", "lecun", 0.12),
    ("bloom", "he", 0.08),
    ("opt", "xavier", 0.12),
]


def config_of(model_type):
    return ENDS | CONFIGS[model_type] | {"model_type": model_type}


@pytest.fixture(scope="module")
def measure():
    """Forward passes, each done once: RMS behind embeddings and blocks, and the first loss."""
    done = {}

    def measure(model_type, scheme):
        if (model_type, scheme) not in done:
            done[model_type, scheme] = _forward(families.build(config_of(model_type)), scheme)
        return done[model_type, scheme]

    return measure


def _forward(model, scheme):
    config = transformers.AutoConfig.for_model(**model.raw)
    with torch.device("meta"):
        module = getattr(transformers, model.architecture)(config)
    module = module.to_empty(device="cpu").eval()
    module.tie_weights()
    initialize_(module, scheme, seed=1)
    stack = next(
        each
        for each in module.modules()
        if isinstance(each, torch.nn.ModuleList) and len(each) == LAYERS
    )
    sizes = []

    def record(hidden):
        sizes.append(math.sqrt(hidden.double().square().mean()))

    stack[0].register_forward_pre_hook(
        lambda _, args, kwargs: record(args[0] if args else kwargs["hidden_states"]),
        with_kwargs=True,
    )
    for block in stack:
        block.register_forward_hook(
            lambda *call: record(call[-1][0] if isinstance(call[-1], tuple) else call[-1])
        )
    generator = torch.Generator().manual_seed(0)
    tokens, targets = torch.randint(1, VOCAB, (2, 2, TOKENS), generator=generator)
    with torch.no_grad():
        logits = module(tokens).logits.double()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return sizes, loss.item()


@pytest.mark.parametrize(("model_type", "scheme", "tolerance"), MEASURED)
def test_the_stream_behind_each_block(measure, model_type, scheme, tolerance):
    plan = make_plan(families.build(config_of(model_type)), scheme=scheme)
    depth = predict_depth(plan, TOKENS)
    sizes, _ = measure(model_type, scheme)
    assert len(sizes) == len(depth.stream) == LAYERS + 1
    for measured, predicted in zip(sizes, depth.stream, strict=True):
        assert predicted == pytest.approx(measured, rel=tolerance)
    assert depth.growth == depth.stream[-1] / depth.stream[0]
    assert depth.factor ** (LAYERS - 1) == pytest.approx(depth.stream[-1] / depth.stream[1])


LOSSES = [pair[:2] for pair in MEASURED] + [("gpt2", "fixup"), ("gemma2", "torch_default")]


@pytest.mark.parametrize(("model_type", "scheme"), LOSSES)
def test_the_first_loss(measure, model_type, scheme):
    plan = make_plan(families.build(config_of(model_type)), scheme=scheme)
    first = predict_first_loss(plan)
    assert first.uniform == math.log(VOCAB)
    # Tokens share most of their hidden state in a deep model: one sample of the largest logits.
    noise = 0.1 + 0.25 * first.logit_std
    assert first.loss == pytest.approx(measure(model_type, scheme)[1], rel=0.02, abs=noise)


def test_branches_that_start_as_nothing():
    depth = predict_depth(make_plan(families.load("gpt2"), scheme="zero_residual"))
    assert depth.attention == depth.mlp == (0.0,) * 12
    assert depth.growth == depth.factor == 1.0
    assert depth.stream[-1] == pytest.approx(0.02 * math.sqrt(2))


def test_post_norm_keeps_the_size():
    depth = predict_depth(make_plan(families.load("bert-base-uncased"), scheme="he"))
    assert depth.stream == pytest.approx((1.0,) * 13)
    assert depth.mlp[0] > 1.0


def test_what_is_not_predicted():
    model = families.build(config_of("gpt2"))
    changed = make_plan(model, overrides=[("*ln_1.weight", "constant(2)")])
    assert predict_depth(changed) is None
    strange = families.build(config_of("gpt2") | {"activation_function": "gelu_nova"})
    assert predict_depth(make_plan(strange)) is None
    bare = families.build(config_of("gpt2") | {"architectures": ["GPT2Model"]})
    assert predict_first_loss(make_plan(bare)) is None


BARE = {
    "model_type": "gpt2",
    "architectures": ["GPT2Model"],
    "n_embd": 8,
    "n_layer": 1,
    "n_head": 2,
}


def test_a_sequence_is_no_longer_than_the_positions():
    plan = make_plan(families.build(config_of("gpt2")))
    assert predict_depth(plan).tokens == 256
    assert predict_depth(make_plan(families.load("llama-3.1-8b"))).tokens == 1024
    assert predict_depth(plan, 7).tokens == 7


def test_table_and_json():
    depth = predict_depth(make_plan(families.build(config_of("gpt2"))))
    lines = depth.table().splitlines()
    assert lines[0].split() == ["block", "stream", "factor", "attention", "mlp", "correlation"]
    assert len(lines) == 2 + 1 + LAYERS
    assert lines[2].split() == ["embeddings", f"{depth.stream[0]:.4g}", "0.000"]
    assert lines[4].split()[:3] == [
        "1",
        f"{depth.stream[2]:.4g}",
        f"{depth.stream[2] / depth.stream[1]:.4g}",
    ]
    content = depth.to_json()
    assert content["stream"] == depth.stream
    assert (content["growth"], content["factor"]) == (depth.growth, depth.factor)
