"""record_nodes.py PROGRAM.pt2 OUT.safetensors [INPUTS.safetensors]: what every node gives in PyTorch, by the node's name.

Nodes of branches and loops are called by the way there, "cond/true_graph_0/sin"; those of loops also by how often they had run before,
"scan/scan_combine_graph_0/add@2". Between the marks of torch.vmap a node gives all examples, along dim 0.
"""

import collections
import sys

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

LOOPS = ("while_loop", "while_loop_stack_output", "scan", "map_impl")
recorded, times, batches = {}, collections.Counter(), []  # batches: sizes of the calls of torch.vmap around a node


class Recorder(torch.fx.Interpreter):
    def __init__(self, module, path="", repeats=False):
        super().__init__(module)
        self.path, self.repeats = path, repeats

    def run_node(self, node):
        called = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        higher = node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator)
        value = self.run_graphs(node) if higher and not batches else super().run_node(node)
        if called == "_vmap_increment_nesting":
            batches.append(self.fetch_args_kwargs_from_env(node)[0][0])
        elif called == "_vmap_decrement_nesting":
            batches.pop()
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            name, copy = self.path + node.name, value.detach().clone()  # later nodes may write it
            for level in range(len(batches) - (called == "_remove_batch_dim"), 0, -1):
                copy = torch._C._functorch._remove_batch_dim(copy, level, batches[level - 1], 0)
            recorded[f"{name}@{times[name]}" if self.repeats else name] = copy.contiguous()
            times[name] += 1
        return value

    def run_graphs(self, node):
        """A higher-order operator, as it is defined: its graphs are run by recorders."""
        name = node.target.name() if callable(node.target.name) else node.target.name
        args, _ = self.fetch_args_kwargs_from_env(node)

        def graph(at):
            inner = Recorder(args[at], f"{self.path}{node.name}/{node.args[at].target}/", self.repeats or name in LOOPS)
            return inner.run

        if name == "cond":
            return graph(1 if args[0] else 2)(*args[3])
        if name in ("while_loop", "while_loop_stack_output"):
            carried, turns = args[2], []
            while graph(0)(*carried, *args[3]):
                carried = graph(1)(*carried, *args[3])
                turns.append(carried)
            return carried if name == "while_loop" else [torch.stack(values) for values in zip(*turns)]
        if name in ("scan", "map_impl"):
            carried, slices, others = ([], *args[1:3]) if name == "map_impl" else args[1:4]
            count, layers = len(carried), []
            for i in range(slices[0].shape[0]):
                given = graph(0)(*carried, *(x[i] for x in slices), *others)
                carried, layers = given[:count], [*layers, given[count:]]
            return [*carried, *(torch.stack(layer) for layer in zip(*layers))]
        at = next(i for i, arg in enumerate(args) if isinstance(arg, torch.fx.GraphModule))
        if name == "invoke_subgraph":  # its graph, an identifier, what the graph takes
            return graph(at)(*args[at + 2:])
        if name == "hints_wrapper":  # its graph, a tuple of what it takes, keyword arguments
            return graph(at)(*args[at + 1])
        return node.target(*args[:at], graph(at), *args[at + 1:])  # it sets a mode


program = torch.export.load(sys.argv[1])
state = {**program.constants, **program.state_dict}
samples = iter(pytree.tree_leaves(program.example_inputs, is_leaf=lambda leaf: leaf is None))
given = load_file(sys.argv[3]) if len(sys.argv) > 3 else None
with torch.no_grad():
    values = [next(samples) if spec.target is None and given is None else given[spec.arg.name] if spec.target is None
              else state[spec.target] for spec in program.graph_signature.input_specs]  # fmt: skip
    Recorder(program.graph_module).run(*values)
save_file(recorded, sys.argv[2])
