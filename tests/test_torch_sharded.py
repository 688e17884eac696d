"""Sharded modules: any mesh and placement has the bits of one process, each rank fills its own.

One group of processes for each world size runs all checks (gloo, on this machine). They are forked
from a server that has imported what they need; the values of one process come from the test itself.
"""

import hashlib
import multiprocessing
from itertools import product

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.checkpoint import load, save
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import _StridedShard
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from fanin.torch import initialize_
from fanin.torch.sharding import boxes_of

WORLDS = [1, 2, 3, 4, 8]
TINY = {
    "vocab_size": 37,  # nothing divides
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "pad_token_id": 5,
}


def llama(device="meta", **fields):
    with torch.device(device):
        return LlamaForCausalLM(LlamaConfig(**TINY, **fields))


def gpt2(device="meta"):
    sizes = {"vocab_size": 37, "n_embd": 24, "n_head": 4, "n_layer": 2, "n_positions": 10}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    with torch.device(device):
        return GPT2LMHeadModel(config)


def deepseek(device="meta"):
    """Experts, keys and values by the head, a buffer that is stored."""
    fields = {
        "kv_lora_rank": 6,
        "q_lora_rank": 10,
        "qk_nope_head_dim": 5,
        "qk_rope_head_dim": 4,
        "v_head_dim": 7,
        "first_k_dense_replace": 1,
        "n_routed_experts": 5,
        "moe_intermediate_size": 24,
    }
    with torch.device(device):
        return DeepseekV3ForCausalLM(DeepseekV3Config(**TINY, **fields))


def gpt_oss(device="meta"):
    """Experts whose gate and up alternate by columns."""
    with torch.device(device):
        return GptOssForCausalLM(GptOssConfig(**TINY, num_local_experts=3, head_dim=6))


WITH_EXPERTS = {"deepseek": deepseek, "gpt_oss": gpt_oss}


def poisoned(model):
    """The model in memory of NaN, as a first touch might find it."""
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            local.fill_(float("nan") if local.is_floating_point() else 77)
    return model


def whole(model):
    return {
        name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for name, tensor in model.state_dict().items()
    }


def digest(state):
    result = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        result.update(name.encode())
        result.update(tensor.detach().contiguous().view(torch.uint8).numpy())
    return result.hexdigest()


def one_process(make, scheme="auto"):
    model = poisoned(make())
    model.tie_weights()
    initialize_(model, scheme, seed=3)
    return digest(whole(model))


def rank_checks(rank, world, folder, expected):
    """Everything that one process of a group checks; an assertion here fails the test."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    try:
        mesh = init_device_mesh("cpu", (world,))
        check_placements(world)
        check_fully_sharded(mesh, expected, folder)
        check_tensor_parallel(mesh, expected)
        if world in (2, 8):
            check_experts(mesh, expected)
        if world in (4, 8):
            check_two_dimensions(world, expected)
        check_partial(mesh)
    finally:
        dist.destroy_process_group()


def check_placements(world):
    """Every pair of placements of a matrix, on meshes of one and two axes; fans of the whole."""
    rules = {"plain": "normal(std=2)", "scaled": "xavier_uniform", "whole": "orthogonal"}
    single = nn.ParameterDict({name: torch.empty(7, 10) for name in rules})
    initialize_(single, overrides=rules)
    meshes = [(world,)] + ([(2, world // 2)] if world in (4, 8) else [])
    for shape in meshes:
        mesh = init_device_mesh("cpu", shape)
        for placements in product([Replicate(), Shard(0), Shard(1)], repeat=len(shape)):
            sharded = nn.ParameterDict(
                {
                    name: distribute_tensor(torch.full((7, 10), float("nan")), mesh, placements)
                    for name in rules
                }
            )
            before = sharded["plain"]._version
            initialize_(sharded, overrides=rules)
            for name in rules:
                gathered = sharded[name].full_tensor()
                assert torch.equal(gathered, single[name]), (name, shape, placements)
            assert sharded["plain"]._version > before


def check_fully_sharded(mesh, expected, folder):
    model = llama()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    report = initialize_(poisoned(model), seed=3)
    assert {row.action for row in report.rows} == {"filled", "recomputed"}
    assert digest(whole(model)) == expected["llama"]

    state = model.state_dict()
    save(state, checkpoint_id=f"{folder}/saved")
    again = {name: torch.full_like(tensor, float("nan")) for name, tensor in state.items()}
    load(again, checkpoint_id=f"{folder}/saved")
    full = {name: tensor.full_tensor() for name, tensor in again.items()}
    assert digest(full) == expected["llama"]

    columns = llama()
    fully_shard(columns, mesh=mesh, shard_placement_fn=lambda p: Shard(p.ndim - 1))
    initialize_(poisoned(columns), seed=3)
    assert digest(whole(columns)) == expected["llama"]

    fused = gpt2()
    fully_shard(fused, mesh=mesh)
    initialize_(poisoned(fused), seed=3)
    assert digest(whole(fused)) == expected["gpt2"]


def check_tensor_parallel(mesh, expected):
    model = parallelize_module(llama(), mesh, PLAN)
    initialize_(poisoned(model), seed=3)
    assert digest(whole(model)) == expected["llama"]


def check_experts(mesh, expected):
    """Experts on different processes (some have none), and parts of every expert."""
    for name, make in WITH_EXPERTS.items():
        for axis in (0, 1):

            def placement(parameter, axis=axis):
                return Shard(axis if parameter.ndim == 3 else 0)

            model = make()
            fully_shard(model, mesh=mesh, shard_placement_fn=placement)
            initialize_(poisoned(model), "orthogonal", seed=3)
            assert digest(whole(model)) == expected[name], (name, axis)


def check_two_dimensions(world, expected):
    """FSDP2 over tensor parallelism: strided shards."""
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(llama(), mesh["tp"], PLAN)
    fully_shard(model, mesh=mesh["dp"])
    kinds = {type(p).__name__ for tensor in model.parameters() for p in tensor.placements}
    assert "_StridedShard" in kinds
    initialize_(poisoned(model), seed=3)
    assert digest(whole(model)) == expected["llama"]


def check_partial(mesh):
    pending = DTensor.from_local(torch.zeros(4, 4), mesh, [Partial()])
    with pytest.raises(ValueError, match=r"^w cannot be filled: .*P\(sum\).*Shard, Replicate"):
        initialize_(nn.ParameterDict({"w": nn.Parameter(pending)}), overrides={"w": "zeros"})


STRIDED = [
    ((8, 3), (2, 2), [_StridedShard(0, split_factor=2), Shard(0)]),
    ((37, 5), (4, 2), [_StridedShard(0, split_factor=2), Shard(0)]),
    ((5, 37), (2, 3), [_StridedShard(1, split_factor=3), Shard(1)]),
    ((13,), (2, 2, 2), [_StridedShard(0, split_factor=4), Shard(0), Shard(0)]),
    ((9, 10), (2, 3), [Shard(1), _StridedShard(1, split_factor=2)]),
    ((9, 10), (3, 2, 2), [Shard(0), Replicate(), Shard(1)]),
    ((2, 3), (8,), [Shard(0)]),
]


@pytest.mark.parametrize(("shape", "mesh", "placements"), STRIDED)
def test_boxes_hold_what_torch_cuts(shape, mesh, placements):
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    for coordinate in product(*map(range, mesh)):
        theirs = numbers
        for count, index, placement in zip(mesh, coordinate, placements, strict=True):
            if not isinstance(placement, Replicate):
                pieces, _ = placement._split_tensor(theirs, count, with_padding=False)
                theirs = pieces[index]
        ours = torch.full_like(theirs, -1)
        for box, places in boxes_of(shape, mesh, coordinate, placements):
            assert (ours[places] == -1).all()
            ours[places] = numbers[box]
        assert torch.equal(ours, theirs), coordinate


PLAN = {
    "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
    "model.layers.*.self_attn.[qkv]_proj": ColwiseParallel(),
    "model.layers.*.self_attn.o_proj": RowwiseParallel(),
    "model.layers.*.mlp.gate_proj": ColwiseParallel(),
    "model.layers.*.mlp.up_proj": ColwiseParallel(),
    "model.layers.*.mlp.down_proj": RowwiseParallel(),
    "lm_head": ColwiseParallel(),
}


@pytest.fixture(scope="module")
def expected():
    experts = {name: one_process(make, "orthogonal") for name, make in WITH_EXPERTS.items()}
    return {"llama": one_process(llama), "gpt2": one_process(gpt2), **experts}


@pytest.mark.parametrize("world", WORLDS)
def test_any_number_of_processes_has_the_bits_of_one(world, expected, tmp_path):
    multiprocessing.set_forkserver_preload(
        [
            "fanin.torch",
            "torch.distributed.checkpoint",
            "torch.distributed.fsdp",
            "torch.distributed.tensor.parallel",
            "transformers.models.deepseek_v3.modeling_deepseek_v3",
            "transformers.models.gpt2.modeling_gpt2",
            "transformers.models.gpt_oss.modeling_gpt_oss",
            "transformers.models.llama.modeling_llama",
        ]
    )
    arguments = (world, str(tmp_path), expected)
    mp.start_processes(rank_checks, arguments, nprocs=world, start_method="forkserver")
