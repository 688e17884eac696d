"""A scheme as text: its canonical form, its options, and what is refused."""

import math

import pytest

from fanin import families, schemes
from fanin.plan import make_plan
from scheme_models import BERT, GPT2, INNER, LLAMA, WIDTH, constants, initializers, stds


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *((name, name) for name in schemes.SCHEMES),
        (" gpt2 ( ) ", "gpt2"),
        ("gpt2(residual=branches)", "gpt2"),
        ("gpt2(residual = 'layers')", "gpt2(residual=layers)"),
        ("megatron(std=2e-2)", "megatron"),
        ("megatron(std=1)", "megatron(std=1.0)"),
        ("small(std=1e-4)", "small(std=0.0001)"),
        ("mup(base_width=256)", "mup"),
        ("mup(std=0.01, base_width=128)", "mup(base_width=128, std=0.01)"),
        ("he(zero_head=false)", "he"),
        ("he(zero_head=True, qk_scale=1)", "he(qk_scale=1.0, zero_head=True)"),
        ("bert(embedding_std=1/sqrt(d))", "bert(embedding_std=1/sqrt(d))"),
        ("bert(embedding_std='1 / sqrt(d)')", "bert(embedding_std=1/sqrt(d))"),
        ("zero_residual(base=auto)", "zero_residual"),
        ("zero_residual(base=mup(base_width=32))", "zero_residual(base=mup(base_width=32))"),
        ("zero_residual(base='he(zero_head=1==1)')", None),
    ],
)
def test_canonical_text(text, canonical):
    if canonical is None:
        with pytest.raises(ValueError, match="zero_head must be True or False"):
            schemes.read(text)
        return
    assert str(schemes.read(text)) == canonical
    assert schemes.read(canonical) == schemes.read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gtp2", r"unknown scheme 'gtp2'; did you mean 'gpt2'\?"),
        ("gpt2(", r"a scheme is a name or a call such as gpt2\(qk_scale=0.5\), got 'gpt2\('"),
        ("gpt2; he", "a scheme is a name or a call"),
        ("a.b(c=1)", "a scheme is a name or a call"),
        ("gpt2(0.5)", r"options are given by name, such as residual=0.5; allowed: residual, qk"),
        (
            "gpt2(qk_scal=0.5)",
            r"unknown option of gpt2 'qk_scal'; did you mean 'qk_scale'\? allowed: residual,"
            " qk_scale, embedding_std, head_std, zero_head, lstm_forget_bias, output_bias_prior",
        ),
        ("he(base_width=2)", "unknown option of he 'base_width';.* allowed: qk_scale"),
        ("gpt2(residual=layer)", r"unknown residual 'layer'; did you mean 'layers'\?"),
        ("gpt2(qk_scale=1, qk_scale=2)", "qk_scale is given twice"),
        ("gpt2(qk_scale=0)", "qk_scale must be above 0, got 0"),
        ("gpt2(qk_scale=half)", "qk_scale must be a real number, got 'half'"),
        ("gpt2(qk_scale=-1)", "qk_scale must be finite and at least 0, got -1"),
        ("gpt2(qk_scale=inf)", "qk_scale must be finite"),
        ("gpt2(qk_scale=__import__('os'))", "qk_scale must be a real number, got"),
        ("gpt2(embedding_std=sqrt(d))", r"embedding_std must be a number or 1/sqrt\(d\), got 'sq"),
        ("gpt2(head_std=nan)", "head_std must be finite"),
        ("gpt2(zero_head=1)", "zero_head must be True or False, got 1"),
        ("gpt2(zero_head=True, head_std=1)", "zero_head and head_std contradict each other"),
        ("gpt2(output_bias_prior=1)", "output_bias_prior must be between 0 and 1, got 1"),
        ("gpt2(output_bias_prior=0)", "output_bias_prior must be between 0 and 1, got 0"),
        ("gpt2(lstm_forget_bias=inf)", "lstm_forget_bias must be finite, got inf"),
        ("megatron(std=0)", "std must be above 0"),
        ("mup(base_width=0)", "base_width must be from 1"),
        ("mup(base_width=1.5)", "base_width must be an integer, got 1.5"),
        ("zero_residual(base=hee)", r"unknown scheme 'hee'; did you mean 'he'\?"),
        ("zero_residual(base=1)", "base must be a scheme, got 1"),
        ("he(**d)", r"\*\* is not allowed"),
        ("he(" + "a" * 2000, "a scheme is a name or a call"),
        ("he(qk_scale=a" + ".a" * 480 + ")", "a scheme is a name or a call"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ValueError, match=message) as error:
        make_plan(families.build(GPT2), scheme=text)
    assert len(str(error.value)) < 1200


def test_a_scheme_is_text():
    with pytest.raises(TypeError, match="a scheme must be a string, got 3"):
        schemes.read(3)


@pytest.mark.parametrize(
    ("text", "config", "message"),
    [
        ("he(lstm_forget_bias=1)", GPT2, "lstm_forget_bias: GPT2LMHeadModel has no biases of forg"),
        ("he(head_std=1)", GPT2, r"no output head of its own \(lm_head.weight is tied to transfo"),
        ("he(zero_head=True)", GPT2, "zero_head: GPT2LMHeadModel has no output head of its own"),
        (
            "he(zero_head=True)",
            {"model_type": "t5"},
            r"own \(lm_head.weight is tied to shared.weight; untie it first\)$",
        ),
        ("he(output_bias_prior=0.1)", {"model_type": "t5"}, "has no bias of an output head$"),
        ("he(output_bias_prior=0.1)", LLAMA, "LlamaForCausalLM has no bias of an output head"),
    ],
)
def test_an_option_that_concerns_nothing(text, config, message):
    with pytest.raises(ValueError, match=message):
        make_plan(families.build(config), scheme=text)


def test_queries_and_keys_smaller_than_values():
    plain, scaled = stds("he", GPT2), stds("he(qk_scale=0.25)", GPT2)
    for name, std in plain.items():
        factor = 0.25 if name.endswith(("weight#query", "weight#key")) else 1
        assert scaled[name] == pytest.approx(factor * std), name
    llama = stds("auto(qk_scale=0.25)", LLAMA)
    assert llama["layers.1.self_attn.k_proj.weight"] == 0.005
    assert llama["layers.1.self_attn.v_proj.weight"] == 0.02


@pytest.mark.parametrize("scheme", sorted(set(schemes.SCHEMES) - {"fixup"}))
def test_qk_scale_is_a_factor_in_every_scheme(scheme):
    name = "layers.2.self_attn.q_proj.weight"
    plain, scaled = stds(scheme, LLAMA)[name], stds(f"{scheme}(qk_scale=0.5)", LLAMA)[name]
    assert scaled == pytest.approx(plain / 2)


def test_embedding_std():
    padded = GPT2 | {"pad_token_id": None}
    for text, std in (("0.5", 0.5), ("1/sqrt(d)", 1 / math.sqrt(WIDTH))):
        measured = stds(f"gpt2(embedding_std={text})", padded)
        assert measured["wte.weight"] == measured["wpe.weight"] == pytest.approx(std)
        assert measured["h.0.mlp.c_fc.weight"] == 0.02
    assert constants("bert(embedding_std=1)", BERT)["embedding.padding"] == 0.0


def test_heads():
    assert stds("llama(head_std=0.5)", LLAMA)["lm_head.weight"] == 0.5
    assert stds("llama(zero_head=True)", LLAMA)["lm_head.weight"] == 0.0
    pretraining = BERT | {"architectures": ["BertForPreTraining"]}
    measured = stds("bert(zero_head=True)", pretraining)
    assert measured["cls.seq_relationship.weight"] == 0.0
    assert measured["cls.predictions.transform.dense.weight"] == 0.02


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 1e-9])
def test_output_bias_prior(p):
    chosen = initializers(f"bert(output_bias_prior={p})", BERT)
    value = chosen["cls.predictions.bias"].value
    assert 1 / (1 + math.exp(-value)) == pytest.approx(p)
    assert value == pytest.approx(math.log(p) - math.log1p(-p), rel=1e-14, abs=1e-15)
    others = [init for name, init in chosen.items() if name.endswith("dense.bias")]
    assert {init.value for init in others} == {0.0}


def test_the_plan_shows_the_canonical_text():
    plan = make_plan(families.build(GPT2), scheme="gpt2( qk_scale = 1/2 )".replace("1/2", ".5"))
    assert plan.scheme == "gpt2(qk_scale=0.5)"
    assert "scheme gpt2(qk_scale=0.5), seed 0" in plan.table()


def test_inner_sizes():
    assert INNER != WIDTH  # else the tests of fans would tell nothing
