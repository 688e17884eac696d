"""`fanin.torch.accelerate`: torch's fills go through fanin, and nothing else changes."""

import gc
import inspect
import math
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import scipy.stats
import torch
import transformers
from torch import Tensor, nn
from torch.nn.init import normal_ as imported_before
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import initialization

import fanin.torch
from fanin.torch import accelerate, replacements

FUNCTIONS = {
    "uniform_": (-0.5, 0.25),
    "normal_": (0.5, 0.25),
    "trunc_normal_": (0.0, 0.5, -0.25, 1.0),
    "xavier_uniform_": (2.0,),
    "xavier_normal_": (2.0,),
    "kaiming_uniform_": (0.5, "fan_out"),
    "kaiming_normal_": (0.5, "fan_out"),
    "orthogonal_": (2.0,),
    "sparse_": (0.4,),
}
BEFORE = {name: getattr(nn.init, name) for name in FUNCTIONS}
CODES = {name: function.__code__ for name, function in BEFORE.items()}


@pytest.fixture(autouse=True)
def _torch_is_as_before():
    yield
    for name in ("normal_", "uniform_"):
        assert name not in Tensor.__dict__
    for name, function in BEFORE.items():
        assert getattr(nn.init, name) is function
        assert function.__code__ is CODES[name]


def sampled(fill, shape=(6, 4), seed=0, **options):
    """The tensor that `fill` makes from that seed."""
    torch.manual_seed(seed)
    tensor = torch.empty(shape, **options)
    with torch.no_grad():
        fill(tensor)
    return tensor


def normal(tensor):
    return tensor.normal_()


FANIN = sampled(fanin.torch.normal_)
TORCH = sampled(normal)


def is_fanin():
    """Whether a fill is fanin's now; one of both it must be."""
    tensor = sampled(normal)
    assert torch.equal(tensor, FANIN) != torch.equal(tensor, TORCH)
    return torch.equal(tensor, FANIN)


# where, and how long


def test_context_and_nesting():
    assert not is_fanin()
    with accelerate():
        assert is_fanin()
        with accelerate():
            assert is_fanin()
        assert is_fanin()
    assert not is_fanin()


def test_after_an_exception():
    with pytest.raises(KeyError), accelerate():
        raise KeyError
    assert not is_fanin()


def test_decorator():
    @accelerate()
    def build(depth=2):
        """Text."""
        return is_fanin() and (depth == 0 or build(depth - 1))

    assert build.__doc__ == "Text."
    assert build()
    assert build()
    assert not is_fanin()


def test_install():
    accelerate.uninstall()
    accelerate.install()
    accelerate.install()
    assert is_fanin()
    with accelerate():
        accelerate.uninstall()
        assert is_fanin()
    assert not is_fanin()
    with accelerate():
        accelerate.install()
    assert is_fanin()
    accelerate.uninstall()
    assert not is_fanin()


def test_contexts_of_threads_overlap():
    """The last to leave restores torch, and threads that hold no context are accelerated too."""
    entered, leave, results = threading.Event(), threading.Event(), []

    def work():
        with accelerate():
            entered.set()
            leave.wait(60)
        results.append(True)

    thread = threading.Thread(target=work)
    with accelerate():
        thread.start()
        assert entered.wait(60)
    assert is_fanin()
    leave.set()
    thread.join()
    assert results == [True]
    assert not is_fanin()


def test_threads_that_build():
    def build(results):
        results.append(sampled(lambda tensor: tensor.normal_(generator=generator())))

    def generator():
        return torch.Generator().manual_seed(0)

    results = []
    with accelerate():
        threads = [threading.Thread(target=build, args=(results,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 8
    assert all(torch.equal(result, FANIN) for result in results)


def test_other_patches_of_the_methods(monkeypatch):
    """One that was there before is back afterwards; one that came later stays, and is torch's."""
    calls = []

    def patch():
        below = Tensor.normal_

        def patched(self, *args, **kwargs):
            calls.append(len(args))
            return below(self, *args, **kwargs)

        return patched

    first = patch()
    monkeypatch.setattr(Tensor, "normal_", first, raising=False)
    with accelerate():
        assert is_fanin()
        assert not calls
        second = patch()
        Tensor.normal_ = second
        assert is_fanin()
    assert Tensor.normal_ is second
    assert not is_fanin()
    with accelerate():
        assert is_fanin()
    assert Tensor.normal_ is second
    monkeypatch.undo()
    if "normal_" in Tensor.__dict__:
        del Tensor.normal_


# whoever calls


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_torch(name):
    """By the same seed, the values of `fanin.torch`, whenever the function was imported."""

    def values(function):
        return sampled(lambda tensor: function(tensor, *FUNCTIONS[name]))

    expected = values(getattr(fanin.torch, name))
    signature = inspect.signature(BEFORE[name])
    with accelerate():
        for module in (nn.init, initialization):
            assert torch.equal(values(getattr(module, name)), expected)
        assert torch.equal(values(BEFORE[name]), expected)
        assert inspect.signature(BEFORE[name]) == signature
    assert not torch.equal(values(BEFORE[name]), expected)


def test_an_import_before_and_a_reference_to_the_method():
    with accelerate():
        assert torch.equal(sampled(imported_before), FANIN)
        method = Tensor.normal_
    assert torch.equal(sampled(method), TORCH)


def test_truncation_as_timm_copies_it():
    def truncated(tensor, std=0.5, a=-1.0, b=1.0):
        low, high = (math.erf(bound / std / math.sqrt(2)) for bound in (a, b))
        return tensor.uniform_(low, high).erfinv_().mul_(std * math.sqrt(2)).clamp_(min=a, max=b)

    with accelerate():
        tensor = sampled(truncated, (20_000,))
    assert not torch.equal(tensor, sampled(truncated, (20_000,)))
    law = scipy.stats.truncnorm(-2, 2, 0, 0.5)
    assert scipy.stats.kstest(tensor.numpy(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("fill", "same"),
    [
        (lambda t: t.normal_(1), lambda t: t.normal_(1, 1)),
        (lambda t: t.normal_(mean=1, std=2), lambda t: t.normal_(1, 2.0)),
        (lambda t: t.normal_(std=2), lambda t: t.normal_(0, 2)),
        (lambda t: t.uniform_(), lambda t: t.uniform_(0, 1)),
        (lambda t: t.uniform_(-1), lambda t: t.uniform_(-1, 1)),
        (lambda t: t.uniform_(to=3), lambda t: t.uniform_(0, 3)),
        (lambda t: t.uniform_(**{"from": -1}), lambda t: t.uniform_(-1, to=1)),
    ],
)
def test_arguments_of_the_methods(fill, same):
    plain = sampled(fill)
    with accelerate():
        assert torch.equal(sampled(fill), sampled(same))
        assert not torch.equal(sampled(fill), plain)
        generator = torch.Generator().manual_seed(0)
        expected = sampled(normal)
        assert torch.equal(torch.empty(6, 4).normal_(generator=generator), expected)
        torch.manual_seed(0)
        assert torch.equal(torch.empty(6, 4).normal_(0, 1, generator=None), expected)


def test_a_default_device_does_not_hide_the_calls():
    with accelerate(), torch.device("cpu"):
        assert is_fanin()
        model = nn.Linear(3, 3)
    assert model.weight.device.type == "cpu"


# what stays torch's


class Values(TorchFunctionMode):
    """Sees the functions that are called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def test_modes_see_the_calls():
    with accelerate():
        with Values() as mode:
            assert torch.equal(sampled(normal), FANIN)
        assert Tensor.normal_ in mode.seen
        with Operations() as mode:
            assert torch.equal(sampled(normal), TORCH)
        assert "aten.normal_.default" in mode.seen


def test_subclasses_see_the_calls():
    seen = []

    class Weight(Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs)

    weight = torch.zeros(6, 4).as_subclass(Weight)
    with accelerate():
        torch.manual_seed(0)
        assert type(weight.normal_()) is Weight
        assert Tensor.normal_ in seen
    assert torch.equal(weight.as_subclass(Tensor), FANIN)


def others():
    """Random functions that are not changed, and fills that fanin does not sample."""
    yield torch.randn(5)
    yield torch.rand(5)
    yield torch.randint(100, (5,))
    yield torch.randperm(9)
    yield torch.normal(torch.zeros(5), 1.0)
    yield torch.empty(5).exponential_()
    yield torch.empty(5).bernoulli_(0.5)
    yield torch.empty(5).random_()
    yield torch.empty(5, dtype=torch.complex64).normal_()
    yield torch.empty(5, device="meta").normal_().new_zeros((), device="cpu")
    yield torch.vmap(lambda x: x.clone().normal_(), randomness="different")(torch.zeros(2, 3))
    yield torch.zeros(5, dtype=torch.complex64).conj().imag.normal_()
    yield torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]).normal_()[1]
    yield nn.functional.dropout(torch.ones(50))
    yield torch.empty(5).normal_(math.nan, 1.0).isnan()
    yield torch.zeros(9).as_strided((3, 3), (1, 2)).normal_()[0, 0] > 9


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_everything_else_is_torchs():
    torch.manual_seed(0)
    expected = list(others())
    with accelerate():
        torch.manual_seed(0)
        for value, one in zip(others(), expected, strict=True):
            assert torch.equal(value, one)


def inference_tensor():
    with torch.inference_mode():
        return torch.zeros(3)


REFUSED = {
    "negative std": lambda: torch.zeros(3).normal_(0, -1),
    "bounds in the wrong order": lambda: torch.zeros(3).uniform_(1, 0),
    "bounds beyond the dtype": lambda: torch.zeros(3, dtype=torch.float16).uniform_(0, 1e5),
    "too many arguments": lambda: torch.zeros(3).normal_(0, 1, 2),
    "an argument twice": lambda: torch.zeros(3).normal_(0, mean=0),
    "an unknown argument": lambda: torch.zeros(3).normal_(scale=2),
    "text": lambda: torch.zeros(3).normal_("0"),
    "a leaf with autograd": lambda: torch.zeros(3, requires_grad=True).normal_(),
    "a view of a leaf": lambda: torch.zeros(3, requires_grad=True)[:2].uniform_(),
    "integers": lambda: torch.zeros(3, dtype=torch.int64).normal_(),
    "expanded": lambda: torch.zeros(1).expand(3).normal_(),
    "inference": lambda: inference_tensor().normal_(),
    "sparse": lambda: torch.zeros(3).to_sparse().normal_(),
    "trunc_normal_ of integers": lambda: nn.init.trunc_normal_(torch.zeros(3, dtype=torch.int64)),
    "fans": lambda: nn.init.xavier_normal_(torch.zeros(3)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_are_torchs(kind):
    with pytest.raises(Exception) as plain:  # noqa: PT011
        REFUSED[kind]()
    with accelerate(), pytest.raises(Exception) as accelerated:  # noqa: PT011
        REFUSED[kind]()
    assert accelerated.type is plain.type
    assert str(accelerated.value) == str(plain.value)


def test_autograd_records_as_before():
    with accelerate():
        leaf = torch.ones(3, requires_grad=True)
        (leaf * 2).normal_().sum().backward()
        assert torch.equal(leaf.grad, torch.zeros(3))
        leaf = torch.ones(3, requires_grad=True)
        loss = (leaf * leaf).sum()
        with torch.no_grad():
            version = leaf._version
            leaf.normal_()
            assert leaf._version == version + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_warnings_are_torchs():
    with accelerate():
        nn.init.trunc_normal_(torch.empty(3), std=0.02)  # torch says nothing of bounds that far
        with pytest.warns(UserWarning, match="mean is more than 2 std"):
            tensor = nn.init.trunc_normal_(torch.empty(1000), 3.0, 0.25, 1.0, 2.0)
    assert 1.0 <= tensor.min() <= tensor.max() <= 2.0


def test_compiled_functions():
    @torch.compile(backend="eager", fullgraph=True)
    def compiled(tensor):
        return tensor.normal_()

    try:
        with accelerate():  # traced as a method of that name, and this backend calls it
            assert torch.equal(sampled(compiled), FANIN)
        assert torch.equal(sampled(compiled), TORCH)
    finally:
        torch._dynamo.reset()


def test_a_bad_number_of_threads_is_an_error_at_once(monkeypatch):
    monkeypatch.setenv("FANIN_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="FANIN_NUM_THREADS"), accelerate():
        pass
    with pytest.raises(ValueError, match="FANIN_NUM_THREADS"):
        accelerate.install()


# models


def tiny(name, **fields):
    def build():
        config = transformers.AutoConfig.for_model(name, **fields)
        auto = transformers.AutoModelForCausalLM
        if type(config) not in auto._model_mapping:
            auto = transformers.AutoModel
        return auto.from_config(config)

    return build


SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {
    "gpt2": tiny("gpt2", n_embd=64, n_layer=2, n_head=4, vocab_size=500),
    "llama": tiny("llama", **SIZES, intermediate_size=128, vocab_size=500),
    "bfloat16": tiny("qwen2", **SIZES, intermediate_size=128, vocab_size=500, dtype="bfloat16"),
    "mixtral": tiny(
        "mixtral", **SIZES, num_key_value_heads=2, intermediate_size=96, num_local_experts=3,
        vocab_size=500,
    ),
    "bert": tiny("bert", **SIZES, intermediate_size=128, vocab_size=500),
    "vit": tiny("vit", **SIZES, intermediate_size=128, image_size=32, patch_size=8),
    "resnet": tiny("resnet", embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1]),
    "t5": tiny("t5", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=500),
    "wav2vec2": tiny(
        "wav2vec2", **SIZES, intermediate_size=128, conv_dim=(32, 32), conv_kernel=(5, 3),
        conv_stride=(2, 2), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    ),
    "lstm": lambda: nn.LSTM(20, 30, num_layers=2, bidirectional=True),
    "transformer": lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True),
    "bilinear": lambda: nn.Bilinear(10, 20, 30),
    "transposed": lambda: nn.ConvTranspose2d(16, 32, 5, groups=4),
    "float64": lambda: nn.Linear(50, 60, dtype=torch.float64),
    "float16": lambda: nn.EmbeddingBag(50, 60, padding_idx=3, dtype=torch.float16),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_are_the_same_in_all_but_the_values(name):
    torch.manual_seed(1)
    plain = MODELS[name]()
    torch.manual_seed(0)
    with accelerate():
        model = MODELS[name]()
    torch.manual_seed(0)
    with accelerate():
        again = MODELS[name]()
    changed = 0
    pairs = list(zip(facts(plain), facts(model), facts(again), strict=True))
    assert pairs
    for (one, before), (other, after), (_, repeated) in pairs:
        assert one == other
        assert torch.equal(after, repeated)
        before, after = before.detach().double().flatten(), after.detach().double().flatten()
        if torch.equal(before, after):
            assert after.unique().numel() <= 2 or "inv_freq" in one[0] or "position" in one[0]
            continue
        changed += 1
        pvalue = scipy.stats.ks_2samp(before, after).pvalue
        assert pvalue > 1e-3 / len(pairs), (one[0], pvalue)
        assert torch.equal(before == 0, after == 0) or name in ("bfloat16", "float16")
    assert changed > 0


def facts(model):
    """All of a model's tensors, with everything about them but the values."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        yield (
            (
                name, type(tensor), tensor.shape, tensor.dtype, tensor.stride(), tensor.device,
                tensor.requires_grad, tensor.is_leaf, sorted(vars(tensor)),
            ),
            tensor,
        )  # fmt: skip
    for name, module in model.named_modules():
        hooks = len(module._forward_hooks), len(module._forward_pre_hooks), module.training
        yield (name, type(module).__name__, hooks), torch.zeros(1)


def test_loaded_weights_are_not_touched(tmp_path):
    model = MODELS["gpt2"]()
    model.save_pretrained(tmp_path)
    with accelerate():
        loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    for (name, one), other in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert torch.equal(one, other), name


# memory


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="a kernel without huge pages"
)
def test_fresh_parameters_are_on_huge_pages():
    """Asked for (hg), and no more (nh) where the machine is slow to give them; else neither."""
    gc.collect()
    time.sleep(0.3)  # longer than a slow page before this test counts
    with accelerate():
        weight = nn.Linear(4096, 4096).weight  # 64 MiB: a mapping of its own
    assert {"hg", "nh"} & set(flags_of(weight.data_ptr() + weight.nbytes // 2))
    weight = nn.Linear(4096, 4096).weight
    assert not {"hg", "nh"} & set(flags_of(weight.data_ptr() + weight.nbytes // 2))


def flags_of(address):
    """The kernel's flags of the mapping that an address is in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head and ":" not in head:
            begin, end = (int(part, 16) for part in head.split("-"))
            inside = begin <= address < end
        elif inside and head == "VmFlags:":
            return line.split()[1:]
    raise LookupError(hex(address))


def test_state_is_per_process_not_per_import():
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(accelerate())
        assert replacements.FUNCTIONS["trunc_normal_"] is BEFORE["trunc_normal_"]
        assert is_fanin()
