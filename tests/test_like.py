"""`--like`: the tensors of a checkpoint that is there, from its headers, told what they are."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from family_configs import TINY
from fanin import cli, families
from fanin.checkpoint import write
from fanin.checkpoint.like import model_like
from fanin.checkpoint.verify import verify
from fanin.plan import make_plan
from tiny_models import CONFIGS, tiny_plan


def all_of(folder):
    loaded = {}
    for path in sorted(folder.glob("*.safetensors")):
        loaded |= load_file(path)
    return loaded


def kinds(tensors):
    return {name: (tuple(value.shape), value.dtype) for name, value in tensors.items()}


def made_like(source, out, **options):
    plan = make_plan(model_like(source), **options)
    report = write(plan, out)
    assert verify(out).ok
    assert kinds(all_of(out)) == kinds(
        all_of(source) if source.is_dir() else load_file(source)
    ) or options.get("dtype")
    return plan, report


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("size", ["5GB", "9KB"])
def test_a_family_gives_the_bits_of_its_config(name, size, tmp_path):
    rules = {"*norm*": "float32"} if name == "llama" else {"*.bias": "float32"}
    plan = tiny_plan(name, seed=5, dtype="bfloat16", dtypes=rules)
    write(plan, tmp_path / "given", max_shard_size=size)
    copied, _ = made_like(tmp_path / "given", tmp_path / "out", seed=5)
    ours, theirs = all_of(tmp_path / "out"), all_of(tmp_path / "given")
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert copied.model.family == plan.model.family
    assert copied.dtype == "bfloat16"
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == json.loads((tmp_path / "given" / "config.json").read_text())
    assert not copied.model.notes


def test_weights_are_not_read(tmp_path):
    info = {"dtype": "BF16", "shape": [2**18, 2**18], "data_offsets": [0, 2**37]}
    text = json.dumps({"mlp.up_proj.weight": info}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with path.open("r+b") as file:
        file.truncate(8 + len(text) + 2**37)  # 137 GB that take no place
    (tensor,) = model_like(path).tensors
    assert (tensor.shape, tensor.role) == ((2**18, 2**18), "mlp.in")


def test_another_dtype_and_scheme(tmp_path):
    write(tiny_plan("llama", dtype="bfloat16", dtypes={"*norm*": "float32"}), tmp_path / "given")
    options = {"dtype": "float16", "scheme": "xavier", "dtypes": {"*.norm.weight": "float64"}}
    made_like(tmp_path / "given", tmp_path / "out", **options)
    loaded = all_of(tmp_path / "out")
    assert loaded["model.embed_tokens.weight"].dtype == torch.float16
    assert loaded["model.layers.0.input_layernorm.weight"].dtype == torch.float32
    assert loaded["model.norm.weight"].dtype == torch.float64


def test_the_exact_set_of_tensors(tmp_path):
    """Some left out, a head that is stored although tied, and a vocabulary that was enlarged."""
    write(tiny_plan("gpt2", seed=2), tmp_path / "given")
    path = tmp_path / "given" / "model.safetensors"
    tensors = load_file(path)
    del tensors["transformer.h.1.ln_2.bias"]
    tensors["transformer.wte.weight"] = torch.zeros(48, 16)
    tensors["lm_head.weight"] = torch.zeros(48, 16)
    save_file(tensors, path)
    plan, _ = made_like(tmp_path / "given", tmp_path / "out", seed=2)
    roles = {tensor.name: tensor.role for tensor in plan.model.tensors}
    assert roles["lm_head.weight"] == roles["transformer.wte.weight"] == "embedding"
    assert plan.model.tied == {}
    loaded = all_of(tmp_path / "out")
    assert 0.015 < loaded["lm_head.weight"].std() < 0.025
    assert not torch.equal(loaded["lm_head.weight"], loaded["transformer.wte.weight"])


def test_through_transformers(tmp_path):
    raw = {"model_type": "mpnet", "architectures": ["MPNetForMaskedLM"], **TINY["bert"]}
    write(make_plan(families.build(raw), seed=1), tmp_path / "given")
    plan, _ = made_like(tmp_path / "given", tmp_path / "out", seed=1)
    assert plan.model.family == "transformers"
    ours, theirs = all_of(tmp_path / "out"), all_of(tmp_path / "given")
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


NAMED = {
    "encoder.block.0.layer_norm.weight": ((8,), "ones"),
    "encoder.block.0.layer_norm.bias": ((8,), "zeros"),
    "encoder.block.0.attention.q_proj.weight": ((8, 8), "normal(std=0.02)"),
    "encoder.block.0.attention.q_proj.bias": ((8,), "zeros"),
    "encoder.block.0.experts.up_proj": ((2, 8, 8), "normal(std=0.02)"),
    "embed_tokens.weight": ((20, 8), "normal(std=0.02)"),
    "stem.weight": ((4, 3, 2, 2), "normal(std=0.02)"),
    "stem.bn1.running_var": ((4,), "ones"),
    "q_proj.weight_scale": ((), "ones"),
    "model.lm_head.weight": ((20, 8), "normal(std=0.02)"),
}


@pytest.mark.parametrize("config", [None, {"model_type": "mine"}, {"dtype": "float32"}])
def test_names_tell_roles_where_no_config_does(config, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    tensors = {name: torch.zeros(shape) for name, (shape, _) in NAMED.items()}
    tensors["stem.bn1.num_batches_tracked"] = torch.tensor(3)
    tensors["embeddings.position_ids"] = torch.zeros(1, 6, dtype=torch.int64)
    save_file(tensors, given / "model.safetensors")
    if config is not None:
        (given / "config.json").write_text(json.dumps(config))
    plan, _ = made_like(given, tmp_path / "out")
    told = {entry.tensor.name: entry.initializer for entry in plan.entries}
    assert {name: told[name] for name in NAMED} == {n: text for n, (_, text) in NAMED.items()}
    loaded = all_of(tmp_path / "out")
    assert loaded["embeddings.position_ids"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert loaded["stem.bn1.num_batches_tracked"] == 0
    assert any("roles are told by names" in note for note in plan.notes)


def test_what_nothing_tells_is_an_error_that_lists_it(tmp_path):
    tensors = {
        "mystery": torch.zeros(3, 2),
        "x.gamma": torch.zeros(5),
        "y.qweight": torch.zeros(2).int(),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    model = model_like(tmp_path)
    with pytest.raises(
        ValueError, match=r"mystery: nothing says .*x\.gamma: .*y\.qweight: .*--set"
    ):
        make_plan(model)
    rules = {"mystery": "normal(std=1)", "*.gamma": "ones", "*.qweight": "constant(value=7)"}
    write(make_plan(model, overrides=rules), tmp_path / "out")
    assert all_of(tmp_path / "out")["y.qweight"].tolist() == [7, 7]


def test_a_quantized_checkpoint_for_load_tests(tmp_path):
    raw = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **TINY["llama"]}
    plan = make_plan(families.build(raw), scheme="dummy", dtype="float8_e4m3fn")
    write(plan, tmp_path / "given")
    copied, report = made_like(tmp_path / "given", tmp_path / "out", scheme="dummy")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == json.loads((tmp_path / "given" / "config.json").read_text())
    assert not any("left out" in note for note in report.notes)
    loaded = all_of(tmp_path / "out")
    scales = [name for name in loaded if name.endswith("_scale")]
    assert scales
    assert all((loaded[name] == 1).all() for name in scales)
    assert copied.num_parameters == plan.num_parameters


def test_packed_integers_and_scales_that_are_exponents(tmp_path):
    """As MXFP4 has them: 2**0 is the byte 127."""
    tensors = {
        "mlp.experts.gate_up_proj_blocks": torch.full((2, 4, 1, 16), 9, dtype=torch.uint8),
        "mlp.experts.gate_up_proj_scales": torch.full((2, 4, 1), 9, dtype=torch.uint8),
        "q.weight_scale": torch.ones(4, 1).to(torch.float8_e8m0fnu),
        "norm.weight": torch.zeros(4, dtype=torch.bfloat16),
    }
    given = tmp_path / "given"
    given.mkdir()
    save_file(tensors, given / "model.safetensors")
    with pytest.raises(ValueError, match=r"gate_up_proj_blocks: .* has no rule for 'packed'"):
        make_plan(model_like(given))
    made_like(given, tmp_path / "out", scheme="dummy")
    loaded = all_of(tmp_path / "out")
    assert (loaded["mlp.experts.gate_up_proj_scales"] == 127).all()
    assert (loaded["mlp.experts.gate_up_proj_blocks"] == 0).all()
    assert (loaded["q.weight_scale"].float() == 1).all()


def test_one_file_and_odd_names(tmp_path):
    write(tiny_plan("bert"), tmp_path / "given")
    one = tmp_path / "given" / "model.safetensors"
    assert model_like(one).architecture == "BertForMaskedLM"
    shutil.move(one, tmp_path / "given" / "weights.safetensors")
    assert model_like(tmp_path / "given").architecture == "BertForMaskedLM"


def header(text, data=8):
    return len(text).to_bytes(8, "little") + text + bytes(data)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "the folder has no safetensors files"),
        ({"model.safetensors": b"123"}, "model.safetensors: not a safetensors file|is not a safe"),
        (
            {
                "model.safetensors": header(
                    b'{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'
                )
            },
            "tensor 'w' of dtype F32",
        ),
        (
            {
                "model.safetensors": header(
                    b'{"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}'
                )
            },
            r"tensor 'w' has the dtype C64 \(64 bits\), which fanin does not write",
        ),
        ({"model.safetensors": header(b"{}", 0)}, "there are no tensors"),
        ({"model.safetensors.index.json": b"["}, "index.json: not an index: "),
        ({"model.safetensors.index.json": b"[" * 100_000}, "not an index: "),
        ({"model.safetensors.index.json": b"\xff"}, "not an index: "),
        ({"model.safetensors.index.json": b"{}"}, "it has no weight_map"),
        ({"model.safetensors.index.json": b"[]"}, "its weight_map is no object"),
        ({"model.safetensors.index.json": b'{"weight_map":{"w":"../x"}}'}, "not a file beside it"),
        ({"model.safetensors.index.json": b'{"weight_map":{"w":3}}'}, "'w' is in 3, not a file"),
        ({"model.safetensors.index.json": b'{"weight_map":{"w":"x"}}'}, "in x, which is not there"),
    ],
)
def test_checkpoints_that_are_none(files, message, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        model_like(tmp_path)
    assert str(error.value).startswith(str(tmp_path))
    assert "\n" not in str(error.value)


def test_an_index_and_files_that_disagree(tmp_path):
    write(tiny_plan("gpt2"), tmp_path, max_shard_size="9KB")
    path = tmp_path / "model.safetensors.index.json"
    content = json.loads(path.read_text())
    del content["weight_map"]["transformer.wpe.weight"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"index\.json: 'transformer\.wpe\.weight' is either"):
        model_like(tmp_path)
    path.unlink()
    (shutil.copy(next(tmp_path.glob("model-*")), tmp_path / "model-twice.safetensors"))
    with pytest.raises(ValueError, match="is in two files, "):
        model_like(tmp_path)


def test_on_the_command_line(tmp_path, capsys):
    write(tiny_plan("llama", dtype="float16"), tmp_path / "given")
    (tmp_path / "given" / "tokenizer.json").write_text("{}")
    given, out = str(tmp_path / "given"), str(tmp_path / "out")
    assert cli.main(["plan", "--like", given, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {row["dtype"] for row in plan["tensors"]} == {"float16"}
    assert cli.main(["init", "--like", given, out]) == 0
    assert "not copied: tokenizer.json" in capsys.readouterr().err
    assert cli.main(["init", "--like", given, out]) == 0
    assert "written" not in capsys.readouterr().out
    assert cli.main(["verify", out]) == 0
    capsys.readouterr()
    assert cli.main(["init", given, out]) == 1
    assert "tensors of a checkpoint" in capsys.readouterr().err
    assert cli.main(["init", "--like", str(tmp_path / "nowhere"), out]) == 1
    assert "nowhere: no such file or folder" in capsys.readouterr().err


def test_the_cut_into_files_changes_nothing(tmp_path, capsys):
    dtypes = {"q_proj": torch.float32, "o_proj": torch.bfloat16}
    stored = {
        f"blocks.{number}.{name}.weight": torch.zeros(16, 16, dtype=dtype)
        for number in range(11)
        for name, dtype in dtypes.items()
    }
    halves = [dict(list(stored.items())[half::2]) for half in (0, 1)]
    for name, half in zip(("b", "a"), halves, strict=True):
        save_file(half, tmp_path / f"{name}.safetensors")
    out = str(tmp_path / "out")
    assert cli.main(["init", "--like", str(tmp_path), out, "--max-shard-size", "3KB"]) == 0
    assert cli.main(["verify", out]) == 0  # the plan is made again from the new files


def test_files_of_the_bare_model(tmp_path):
    """As published for GPT-2: a config of the model with a head, and names without its prefix."""
    plan = tiny_plan("gpt2", {"architectures": ["GPT2Model"]})
    write(plan, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["GPT2LMHeadModel"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = model_like(tmp_path)
    assert model.architecture == "GPT2Model"
    assert [t.name for t in model.tensors] == [e.tensor.name for e in plan.entries]
    fused = next(t for t in model.tensors if t.name == "h.1.attn.c_attn.weight")
    assert (fused.layout, len(fused.parts)) == ("io", 3)
