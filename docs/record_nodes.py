"""record_nodes.py PROGRAM.pt2 OUT.safetensors [INPUTS.safetensors]: what every node gives in PyTorch, by the node's name."""

import sys

import torch
from safetensors.torch import load_file, save_file


class Recorder(torch.fx.Interpreter):
    def run_node(self, node):
        value = super().run_node(node)
        if node.op == "call_function" and isinstance(value, torch.Tensor):  # a copy: later nodes may write it
            recorded[node.name] = value.detach().clone(memory_format=torch.contiguous_format)
        return value


program, recorded = torch.export.load(sys.argv[1]), {}
state = {**program.constants, **program.state_dict}
samples = iter(torch.utils._pytree.tree_leaves(program.example_inputs, is_leaf=lambda leaf: leaf is None))
given = load_file(sys.argv[3]) if len(sys.argv) > 3 else None
with torch.no_grad():
    values = [next(samples) if spec.target is None and given is None else given[spec.arg.name] if spec.target is None
              else state[spec.target] for spec in program.graph_signature.input_specs]  # fmt: skip
    Recorder(program.graph_module).run(*values)
save_file(recorded, sys.argv[2])
