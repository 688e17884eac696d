"""Roles that parameters have by their place: blocks, branches, adapters, heads, gates."""

import math

import pytest
import torch
from torch import nn

import fanin
from fanin.torch import initialize_

WIDTH = 32


def poison(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(math.nan)
    return module


def details(report):
    return {row.name: row.detail for row in report.rows if row.action == "filled"}


# --- transformer blocks


def transformer():
    return nn.Transformer(WIDTH, 4, 3, 2, dim_feedforward=64, batch_first=True)


def test_both_ends_of_a_block_are_scaled_by_the_branches_of_its_stack():
    found = details(initialize_(transformer(), "gpt2"))
    encoder, decoder = (f"normal(std={0.02 / math.sqrt(2 * n)!r})" for n in (3, 3))
    for layer in range(3):
        for name in ("self_attn.out_proj", "linear2"):
            assert found[f"encoder.layers.{layer}.{name}.weight"] == encoder
        assert found[f"encoder.layers.{layer}.linear1.weight"] == "normal(std=0.02)"
    for name in ("self_attn.out_proj", "multihead_attn.out_proj", "linear2"):
        assert found[f"decoder.layers.1.{name}.weight"] == decoder


@pytest.mark.parametrize("scheme", [*fanin.schemes.SCHEMES, "gpt2(residual=layers, qk_scale=.5)"])
def test_every_scheme_fills_a_transformer(scheme):
    module = poison(transformer())
    initialize_(module, scheme)
    assert all(torch.isfinite(parameter).all() for parameter in module.parameters())


def test_the_depth_index_and_the_width_of_a_module():
    found = details(initialize_(transformer(), "olmo"))
    for layer in range(3):
        std = 1 / math.sqrt(2 * 64 * (layer + 1))
        name = f"encoder.layers.{layer}.linear2.weight"
        assert found[name] == f"truncated_normal(std={std!r}, low=-3.0, high=3.0)"
    found = details(initialize_(transformer(), "small_init"))
    assert found["decoder.layers.0.linear1.weight"] == f"normal(std={math.sqrt(2 / 160)!r})"


def test_a_module_without_a_width():
    with pytest.raises(ValueError, match="'small_init' needs the model's width, which Linear does"):
        initialize_(nn.Linear(3, 4), "small_init")


# --- residual blocks of convolutions


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, norm=True):
        super().__init__()
        norms = nn.BatchNorm2d if norm else nn.Identity
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, padding=1), norms(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, padding=1), norms(outputs)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1), norms(outputs))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(y)) + self.downsample(x)).relu()


class Net(nn.Module):
    def __init__(self, norm=True):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(BasicBlock(8, 8, norm), BasicBlock(8, 8, norm))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, norm))
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(self.bn1(self.conv1(x)).relu()))
        return self.fc(x.mean((2, 3)))


def test_zero_residual_of_a_resnet_is_torchvisions():
    """The last scale of each branch is zero, no convolution is, and the scales have gradients."""
    module = poison(Net())
    found = details(initialize_(module, "zero_residual(base=he)"))
    zero = {name for name, detail in found.items() if detail == "zeros" and "bias" not in name}
    assert zero == {f"layer{n}.bn2.weight" for n in ("1.0", "1.1", "2.0")}
    module(torch.randn(4, 3, 12, 12)).square().sum().backward()
    assert module.layer1[0].bn2.weight.grad.abs().max() > 0


def test_zero_residual_without_norms_is_the_last_convolution():
    found = details(initialize_(Net(norm=False), "zero_residual(base=he)"))
    zero = {name for name, detail in found.items() if detail == "zeros" and "bias" not in name}
    assert zero == {f"layer{n}.conv2.weight" for n in ("1.0", "1.1", "2.0")}


def test_fixup_of_a_resnet():
    module = Net(norm=False)
    initialize_(module, "fixup", seed=3)
    blocks, branch = 3, module.layer2[0].conv1.weight  # m = 2: L^(-1/2)
    assert branch.std().item() == pytest.approx(math.sqrt(2 / (9 * 8) / blocks), rel=0.1)
    for zero in (module.fc.weight, module.fc.bias, module.layer1[1].conv2.weight):
        assert not zero.any()
    assert module.layer2[0].downsample[0].weight.std() > 0.2
    assert module.conv1.weight.std().item() == pytest.approx(math.sqrt(2 / 27), rel=0.2)


@pytest.mark.parametrize("scheme", ["fixup", "zero_residual"])
def test_a_module_without_branches(scheme):
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3))
    with pytest.raises(ValueError, match=f"'{scheme}' finds no residual branch in Sequential"):
        initialize_(plain, scheme)
    with pytest.raises(ValueError, match="'deepnorm' finds no numbered blocks in Linear"):
        initialize_(nn.Linear(3, 4), "deepnorm")


# --- LoRA


class Adapted(nn.Module):
    """A layer with adapters as peft names them: a module or a parameter for each adapter."""

    def __init__(self, convolution=False):
        super().__init__()
        if convolution:
            self.base_layer = nn.Conv2d(8, 16, 3)
            self.lora_A = nn.ModuleDict({"default": nn.Conv2d(8, 4, 3, bias=False)})
            self.lora_B = nn.ModuleDict({"default": nn.Conv2d(4, 16, 1, bias=False)})
        else:
            self.base_layer = nn.Linear(WIDTH, 48)
            self.lora_A = nn.ModuleDict({"default": nn.Linear(WIDTH, 8, bias=False)})
            self.lora_B = nn.ModuleDict({"default": nn.Linear(8, 48, bias=False)})
        self.lora_embedding_A = nn.ParameterDict({"default": torch.zeros(4, 50)})
        self.lora_embedding_B = nn.ParameterDict({"default": torch.zeros(64, 4)})


class Loralib(nn.Linear):
    """As the first code had them: parameters of the layer itself."""

    def __init__(self):
        super().__init__(WIDTH, 48)
        self.lora_A = nn.Parameter(torch.empty(8, WIDTH))
        self.lora_B = nn.Parameter(torch.empty(48, 8))


@pytest.mark.parametrize("scheme", ["auto", "he", "bert"])
def test_lora_pairs(scheme):
    module = poison(nn.ModuleDict({"q_proj": Adapted(), "conv": Adapted(True), "old": Loralib()}))
    initialize_(module, scheme, seed=5)
    pairs = {
        "q_proj": ("lora_A.default.weight", "lora_B.default.weight", WIDTH),
        "conv": ("lora_A.default.weight", "lora_B.default.weight", 8 * 9),
        "old": ("lora_A", "lora_B", WIDTH),
    }
    for at, (a, b, fan_in) in pairs.items():
        first = module.get_parameter(f"{at}.{a}")
        # kaiming_uniform_ with a = sqrt(5): sqrt(6 / ((1 + 5) fan_in)).
        bound = 1 / math.sqrt(fan_in)
        assert 0.9 * bound < first.abs().max() <= bound
        assert first.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
        assert not module.get_parameter(f"{at}.{b}").any()
    assert not module["q_proj"].lora_embedding_A["default"].any()
    assert module["q_proj"].lora_embedding_B["default"].std().item() == pytest.approx(1, rel=0.2)
    name = "q_proj.lora_A.default.weight"
    same = fanin.torch_linear((8, WIDTH), seed=5, name=name)
    assert torch.equal(module.get_parameter(name), torch.from_numpy(same))


def test_adapters_alone():
    module = Adapted()
    before = module.base_layer.weight.clone()
    report = initialize_(module, only="*lora_*")
    assert torch.equal(module.base_layer.weight, before)
    assert len(report.named("filled")) == 4


def test_adapters_in_a_model_of_transformers():
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
    )
    model = transformers.LlamaForCausalLM(config)

    class PeftModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            model.model.layers[0].self_attn.q_proj = Adapted()

    report = details(initialize_(PeftModel()))
    at = "model.model.layers.0.self_attn.q_proj."
    assert report[f"{at}lora_A.default.weight"] == "torch_linear"
    assert report[f"{at}lora_B.default.weight"] == "zeros"
    assert report[f"{at}base_layer.weight"] == "normal(std=0.02)"


# --- heads and gates


@pytest.mark.parametrize("name", ["lm_head", "head", "fc", "classifier", "score"])
def test_heads_by_name(name):
    module = nn.ModuleDict({"body": nn.Linear(4, 8), name: nn.Linear(8, 3)})
    initialize_(module, "he(zero_head=True, output_bias_prior=0.01)")
    assert not module[name].weight.any()
    torch.testing.assert_close(module[name].bias.sigmoid(), torch.full((3,), 0.01))
    assert module["body"].weight.all()
    assert not module["body"].bias.any()


@pytest.mark.parametrize("cell", [nn.LSTM(5, 7, 2, bidirectional=True), nn.LSTMCell(5, 7)])
@pytest.mark.parametrize("scheme", ["auto", "orthogonal"])
def test_forget_gates_start_open(cell, scheme):
    module = nn.ModuleDict({"rnn": cell})
    initialize_(module, f"{scheme}(lstm_forget_bias=1.5)")
    plain = {name: parameter.clone() for name, parameter in module.named_parameters()}
    initialize_(module, scheme)
    for name, parameter in plain.items():
        others = module.get_parameter(name)
        if "bias" not in name:
            assert torch.equal(parameter, others)
            continue
        gates, before = parameter.chunk(4), others.chunk(4)  # input, forget, cell, output
        assert torch.equal(gates[1], torch.full((7,), 1.5 if "bias_ih" in name else 0.0))
        assert all(torch.equal(gates[k], before[k]) for k in (0, 2, 3))


def test_no_forget_gate():
    with pytest.raises(ValueError, match="lstm_forget_bias: GRU has no biases of forget gates"):
        initialize_(nn.GRU(3, 4), "auto(lstm_forget_bias=1)")


def test_notes_of_the_scheme_are_in_the_report():
    report = initialize_(transformer(), "mup(base_width=16)")
    assert "note: mup is table 3 of Tensor Programs V, 2 times the base width of 16" in str(report)
    assert report.scheme == "mup(base_width=16)"
    assert "Adam's learning rate times 0.5 for" in report.notes[-1]
    assert report.learning_rates["encoder.layers.0.linear1.weight"] == 0.5
    assert report.learning_rates["encoder.norm.weight"] == 1.0
