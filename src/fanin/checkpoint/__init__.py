"""Checkpoints: a plan as safetensors files, whole or not there; finished, shared out, verified.

`writing` is the way of a plan into a folder, and `verify` the way back. The rest is what they are
made of: how tensors lie in files (`safetensors_layout`, `safetensors_header`, `files`), what a file
was made from (`recipe`), what a folder holds already (`resume`, `stored_files`), which process
writes what (`ranks`), and the bytes themselves (`shard_content`, `banded_tensors`, `partial_file`).
"""

from fanin.checkpoint.writing import CheckpointError, File, Report, write

__all__ = ["CheckpointError", "File", "Report", "write"]
