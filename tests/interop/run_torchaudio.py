"""Operators of torchaudio, against what they are defined by: sums over all paths, the best of all paths, recursions in Python. The
package itself is not needed. See README.md beside this file."""

import itertools
import subprocess
import sys

import safetensors.torch
from run_interop import Function, fail, run_cases, torch

LIBRARY = torch.library.Library("torchaudio", "DEF")


def operator(schema, function, fake=None):
    name = schema[: schema.index("(")]
    LIBRARY.define(schema)
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"torchaudio::{name}")(fake or function)


# ---- what they compute --------------------------------------------------------------------------


def lfilter(windows, a, padded):
    """y[n] = x[n] - sum of a[k] y[n - k]; a is flipped, and padded has what was before."""
    order = a.shape[1]
    y = padded.double()
    for n in range(windows.shape[2]):
        y[:, :, n + order - 1] = windows[:, :, n] - (y[:, :, n : n + order].clone().index_fill(2, torch.tensor(order - 1), 0) * a).sum(2)
    return padded.copy_(y)


def overdrive(waveform, temp, last_in, last_out, output):
    before, out = last_in.double(), last_out.double()
    for n in range(waveform.shape[1]):
        out = temp[:, n] - before + 0.995 * out
        before = temp[:, n].double()
        output[:, n] = 0.5 * waveform[:, n] + 0.75 * out
    last_in.copy_(before)
    last_out.copy_(out)
    return last_in, last_out, output


def align(log_probs, targets, input_lengths, target_lengths, blank):
    """The best of all sequences of labels that collapse to the targets."""
    best, score = None, -float("inf")
    for path in itertools.product(sorted({blank, *targets[0].tolist()}), repeat=log_probs.shape[1]):
        collapsed = [label for i, label in enumerate(path) if label != blank and (i == 0 or path[i - 1] != label)]
        own = sum(log_probs[0, t, label].item() for t, label in enumerate(path))
        if collapsed == targets[0].tolist() and own > score:
            best, score = path, own
    return targets.new_tensor([best]), log_probs.clone()


def rnnt(logits, targets, logit_lengths, target_lengths, blank, clamp, fused):
    """Minus the logarithm of the sum over all orders of blanks and targets, and what autograd says of it."""
    with torch.enable_grad():
        x = logits.double().requires_grad_()
        logs = x.log_softmax(3) if fused else x
        costs = []
        for b, (steps, count) in enumerate(zip(logit_lengths.tolist(), target_lengths.tolist())):
            paths = []
            for blanks in itertools.combinations(range(steps - 1 + count), steps - 1):
                t = u = 0
                total = 0
                for move in range(steps - 1 + count):
                    total = total + logs[b, t, u, blank if move in blanks else targets[b, u]]
                    t, u = (t + 1, u) if move in blanks else (t, u + 1)
                paths.append(total + logs[b, t, u, blank])
            costs.append(-torch.stack(paths).logsumexp(0))
        costs = torch.stack(costs)
        (gradients,) = torch.autograd.grad(costs.sum(), x)
    return costs.detach().to(logits.dtype), (gradients.clamp(-clamp, clamp) if clamp > 0 else gradients).to(logits.dtype)


operator("_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> Tensor(a!)",
         lfilter, lambda windows, a, padded: padded)
operator("_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output_waveform) -> "
         "(Tensor(a!), Tensor(b!), Tensor(c!))", overdrive, lambda w, t, i, o, out: (i, o, out))
operator("forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)",
         align, lambda x, t, *rest: (t.new_empty(x.shape[:2]), torch.empty_like(x)))
operator("rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, bool "
         "fused_log_softmax) -> (Tensor, Tensor)", rnnt, lambda x, *rest: (x.new_empty(x.shape[:1]), torch.empty_like(x)))
T = torch.ops.torchaudio


# ---- cases --------------------------------------------------------------------------------------


def filtered(x, a):
    return T._lfilter_core_loop(x, a, x.new_zeros(x.shape[0], x.shape[1], x.shape[2] + a.shape[1] - 1)) * 1


def driven(x):
    return T._overdrive_core_loop(x, x.tanh(), x.new_zeros(x.shape[0]), x.new_zeros(x.shape[0]), torch.zeros_like(x))[2] * 1


def aligned(blank=0):
    return lambda *args: T.forced_align(*args, blank)


def lost(blank, clamp, fused):
    return lambda *args: T.rnnt_loss_forward(*args, blank, clamp, fused)


def speech(steps, targets, dtype=torch.float32, integer=torch.int64):
    x = torch.randn(1, steps, 4, dtype=dtype, generator=torch.manual_seed(steps)).log_softmax(2)
    t = torch.tensor([targets], dtype=integer)
    return x, t, torch.tensor([steps], dtype=integer), torch.tensor([len(targets)], dtype=integer)


def transduced(steps, counts, fused=True):
    torch.manual_seed(sum(steps))
    x = torch.randn(len(steps), max(steps), max(counts) + 1, 5)
    t = torch.randint(1, 4, (len(steps), max(counts)), dtype=torch.int32)
    return x if fused else x.log_softmax(3), t, torch.tensor(steps, dtype=torch.int32), torch.tensor(counts, dtype=torch.int32)


CASES = {
    "filter": (filtered, torch.randn(2, 3, 20), torch.tensor([[0.2, -0.5, 1.0]] * 3)),
    "filter of float64": (filtered, torch.randn(1, 2, 9, dtype=torch.float64), torch.tensor([[0.1, 1.0], [-0.3, 1.0]], dtype=torch.float64)),
    "filter of no sample": (filtered, torch.randn(2, 1, 0), torch.tensor([[0.2, 1.0]])),
    "filter without a past": (filtered, torch.randn(2, 1, 4), torch.tensor([[1.0]])),
    "overdrive": (driven, torch.rand(2, 30) * 2 - 1),
    "overdrive of float64": (driven, torch.rand(1, 30, dtype=torch.float64) * 2 - 1),
    "alignment": (aligned(), *speech(7, [1, 2, 3])),
    "alignment of repeats": (aligned(), *speech(8, [2, 2, 1], torch.float64)),
    "alignment with no step to spare": (aligned(), *speech(4, [1, 1, 3])),
    "alignment of int32, another blank": (aligned(3), *speech(6, [1, 0], integer=torch.int32)),
    "transducer": (lost(0, -1.0, True), *transduced([4, 3], [3, 2])),
    "transducer of probabilities": (lost(0, -1.0, False), *transduced([4, 2], [1, 3], False)),
    "transducer, gradients cut": (lost(4, 0.05, True), *transduced([5, 5, 1], [2, 0, 1])),
    "transducer of no target": (lost(0, -1.0, True), *transduced([3], [0])),
}


def saved(exg, call, args, is_decomposed):
    program = torch.export.export(Function(call), tuple(x.clone() for x in args))
    path = exg.path(".pt2")
    torch.export.save(program.run_decompositions() if is_decomposed else program, path)
    return path, dict(zip(program.graph_signature.user_inputs, args))


def check(exg, call, *args):
    expected = torch.utils._pytree.tree_leaves(call(*(x.clone() for x in args)))
    # PyTorch decomposes no program with an operator that returns what it wrote.
    for is_decomposed in (False,) if call in (filtered, driven) else (False, True):
        path, inputs = saved(exg, call, args, is_decomposed)
        exg.command("verify", path)
        for options in ({}, {"mesh": 2}):
            outputs, _ = exg.run(path, inputs, **options)
            for i, value in enumerate(expected):
                try:
                    torch.testing.assert_close(outputs[str(i)], value, rtol=1e-4 if value.dtype == torch.float32 else 1e-9, atol=1e-5)
                except AssertionError as error:
                    fail(f"{options} output {i}: {' '.join(str(error).split())[:200]}")


def changed(values, at, value):
    return [*values[:at], value, *values[at + 1 :]]


def lengths(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


SOUND, WORDS = speech(6, [1, 2], integer=torch.int32), transduced([4, 3], [3, 2])
REFUSED = {
    "alignment of too many targets": (aligned(), "repeated, in 3 steps", speech(4, [1, 1, 1])[0][:, :3], *speech(3, [1, 1, 1])[1:]),
    "alignment with a target that is none": (aligned(), "no class", *changed(SOUND, 1, torch.tensor([[1, 4]], dtype=torch.int32))),
    "alignment with a blank that is none": (aligned(4), "blank is 4 of 4", *SOUND),
    "alignment of another length": (aligned(), "lengths", *changed(SOUND, 2, lengths(5))),
    "alignment of two": (aligned(), "one sequence", torch.cat([SOUND[0]] * 2), *SOUND[1:]),
    "transducer with a target that is none": (lost(0, -1.0, True), "no class", *changed(WORDS, 1, torch.full_like(WORDS[1], -1))),
    "transducer of another length": (lost(0, -1.0, True), "lengths", *changed(WORDS, 2, lengths(9, 3))),
    "transducer of no step": (lost(0, -1.0, True), "length of none", *changed(WORDS, 2, lengths(4, 0))),
}


def check_refused(exg, call, told, *args):
    path, inputs = saved(exg, call, args, False)
    given = exg.path(".safetensors")
    safetensors.torch.save_file({name: value.contiguous() for name, value in inputs.items()}, given)
    done = subprocess.run([exg.binary, "run", path, "--input", given], capture_output=True, text=True)
    if done.returncode <= 0 or told not in done.stderr:
        fail(f"ended with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("", check, CASES), ("refused: ", check_refused, REFUSED)))
