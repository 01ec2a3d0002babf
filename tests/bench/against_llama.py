"""against_llama.py - a token of decoder.py's model by llama.cpp, to lay beside `exg bench` of the same (models.py, record.py):
random weights of the same sizes as BF16, Q8_0 and Q4_0, at position 600.

    pip install gguf llama-cpp-python
    python tests/bench/against_llama.py --cache FOLDER [--threads 1] [--only q4_0]

Says the milliseconds of a token, the median and the least of 60.
"""

import argparse
import pathlib
import re
import time

import gguf
import llama_cpp
import numpy

KINDS = {"bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
POSITION, TOKENS, WARM_UP = 600, 60, 5
SILENT = llama_cpp.llama_log_callback(lambda *_: None)
# decoder.py wants PyTorch, which its sizes do not.
SIZES = re.search(r"^(WIDTH, .*) = (.*)$", (pathlib.Path(__file__).parent / "decoder.py").read_text(), re.M)
WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN, WORDS, CACHE, _ = map(int, SIZES[2].split(","))


def make(path, kind):
    to = gguf.GGUFWriter(path, "llama")
    to.add_context_length(CACHE)
    to.add_embedding_length(WIDTH)
    to.add_block_count(LAYERS)
    to.add_feed_forward_length(HIDDEN)
    to.add_head_count(HEADS)
    to.add_head_count_kv(KV_HEADS)
    to.add_layer_norm_rms_eps(1e-5)
    to.add_rope_dimension_count(HEAD)
    to.add_vocab_size(WORDS)
    to.add_tokenizer_model("no_vocab")
    random = numpy.random.default_rng(0)

    def matrix(name, *shape):
        values = random.standard_normal(shape, dtype=numpy.float32) * 0.02
        to.add_tensor(name, gguf.quants.quantize(values, KINDS[kind]), raw_dtype=KINDS[kind])

    def norm(name):
        to.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    matrix("token_embd.weight", WORDS, WIDTH)
    matrix("output.weight", WORDS, WIDTH)
    norm("output_norm.weight")
    for i in range(LAYERS):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for name, rows, columns in (("attn_q", HEADS * HEAD, WIDTH), ("attn_k", KV_HEADS * HEAD, WIDTH), ("attn_v", KV_HEADS * HEAD, WIDTH),
                                    ("attn_output", WIDTH, HEADS * HEAD), ("ffn_gate", HIDDEN, WIDTH), ("ffn_up", HIDDEN, WIDTH),
                                    ("ffn_down", WIDTH, HIDDEN)):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_tensors_to_file()
    to.close()


def measure(path, threads):
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = CACHE
    options.n_threads = threads
    context = llama_cpp.llama_init_from_model(model, options)

    def decode(count):
        tokens = (llama_cpp.llama_token * count)(*[1] * count)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count)) != 0:
            raise SystemExit("FAILED: llama_decode")
        llama_cpp.llama_synchronize(context)

    decode(POSITION)
    times = []
    for _ in range(TOKENS):
        begin = time.perf_counter()
        decode(1)
        times.append(1e3 * (time.perf_counter() - begin))
    return sorted(times[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="a folder for the models, 1.8 GB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    llama_cpp.llama_log_set(SILENT, None)
    llama_cpp.llama_backend_init()
    for kind in [options.only] if options.only else KINDS:
        path = options.cache / f"decoder.{kind}.gguf"
        if not path.exists():
            make(path, kind)
        times = measure(path, options.threads)
        print(f"{kind:5} {options.threads} threads: median {times[len(times) // 2]:.1f} ms, least {times[0]:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
