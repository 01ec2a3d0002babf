"""Small random models of many architectures of `transformers`: exported, run by exg, compared with PyTorch.

    build/venv/bin/pip install transformers==4.57.1
    build/venv/bin/python tests/interop/architectures.py --exg build/release/cli/exg [--core] [--only bert]

Prints a line a model. Not part of the tests yet: what does not run is work, not a fault.
"""

import argparse
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import safetensors.torch
import torch
import transformers
from torch.utils import _pytree as pytree

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99)
TEXT, IMAGE, SOUND, BOTH = "text", "image", "sound", "both"

# name: (configuration class, model class, arguments, what goes in)
MODELS = {
    "bert": ("BertConfig", "BertModel", SMALL, TEXT),
    "roberta": ("RobertaConfig", "RobertaModel", SMALL, TEXT),
    "electra": ("ElectraConfig", "ElectraModel", dict(SMALL, embedding_size=32), TEXT),
    "albert": ("AlbertConfig", "AlbertModel", dict(SMALL, embedding_size=16), TEXT),
    "distilbert": ("DistilBertConfig", "DistilBertModel", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99), TEXT),
    "mpnet": ("MPNetConfig", "MPNetModel", SMALL, TEXT),
    "deberta": ("DebertaV2Config", "DebertaV2Model", SMALL, TEXT),
    "modernbert": ("ModernBertConfig", "ModernBertModel", dict(SMALL, pad_token_id=0), TEXT),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=99), TEXT),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoForCausalLM",
                dict(hidden_size=32, num_layers=2, num_heads=4, vocab_size=99, attention_types=[[["global", "local"], 1]]), TEXT),
    "gptj": ("GPTJConfig", "GPTJForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=8, vocab_size=99), TEXT),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SMALL, TEXT),
    "opt": ("OPTConfig", "OPTForCausalLM", dict(SMALL, ffn_dim=64, word_embed_proj_dim=32), TEXT),
    "bloom": ("BloomConfig", "BloomForCausalLM", dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=99), TEXT),
    "llama": ("LlamaConfig", "LlamaForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "mistral": ("MistralConfig", "MistralForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", dict(SMALL, num_key_value_heads=2, head_dim=8), TEXT),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", dict(SMALL, num_key_value_heads=2, head_dim=8), TEXT),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", dict(SMALL, num_key_value_heads=2, head_dim=8), TEXT),
    "phi": ("PhiConfig", "PhiForCausalLM", SMALL, TEXT),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", dict(SMALL, num_key_value_heads=2, pad_token_id=0), TEXT),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "falcon": ("FalconConfig", "FalconForCausalLM", SMALL, TEXT),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", SMALL, TEXT),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", dict(SMALL, num_key_value_heads=2, num_local_experts=4), TEXT),
    "mamba": ("MambaConfig", "MambaForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=8), TEXT),
    "rwkv": ("RwkvConfig", "RwkvForCausalLM", dict(hidden_size=32, num_hidden_layers=2, vocab_size=99, attention_hidden_size=32), TEXT),
    "t5": ("T5Config", "T5ForConditionalGeneration", dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99), BOTH),
    "bart": ("BartConfig", "BartForConditionalGeneration",
             dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                  encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=99), BOTH),
    "vit": ("ViTConfig", "ViTForImageClassification", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "deit": ("DeiTConfig", "DeiTModel", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "beit": ("BeitConfig", "BeitModel", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "dinov2": ("Dinov2Config", "Dinov2Model", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "swin": ("SwinConfig", "SwinModel", dict(embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, image_size=32, patch_size=4), IMAGE),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2), IMAGE),
    "resnet": ("ResNetConfig", "ResNetForImageClassification", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]), IMAGE),
    "regnet": ("RegNetConfig", "RegNetModel", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8), IMAGE),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2Model", dict(depth_multiplier=0.35), IMAGE),
    "efficientnet": ("EfficientNetConfig", "EfficientNetModel", dict(width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320), IMAGE),
    "segformer": ("SegformerConfig", "SegformerForSemanticSegmentation",
                  dict(hidden_sizes=[8, 16], depths=[1, 1], num_attention_heads=[1, 2], num_encoder_blocks=2, sr_ratios=[2, 1],
                       patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=16), IMAGE),
    "mobilevit": ("MobileViTConfig", "MobileViTModel",
                  dict(hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], image_size=32), IMAGE),
    "poolformer": ("PoolFormerConfig", "PoolFormerModel", dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]), IMAGE),
    "dpt": ("DPTConfig", "DPTForDepthEstimation",
            dict(SMALL, num_hidden_layers=4, image_size=32, patch_size=8, backbone_out_indices=[0, 1, 2, 3],
                 neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16), IMAGE),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2Model",
                 dict(SMALL, conv_dim=[8, 8], conv_kernel=[8, 4], conv_stride=[4, 2], num_feat_extract_layers=2,
                      num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2), SOUND),
    "hubert": ("HubertConfig", "HubertModel",
               dict(SMALL, conv_dim=[8, 8], conv_kernel=[8, 4], conv_stride=[4, 2], num_feat_extract_layers=2,
                    num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2), SOUND),
    "audio_spectrogram": ("ASTConfig", "ASTModel", dict(SMALL, max_length=64, num_mel_bins=32), "spectrogram"),
}


# Their own causal mask is made by what torch.export cannot save: it is given.
WITH_MASK = {"gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "olmo"}

# The others have no such form, or one that torch.export cannot save.
WITH_SDPA = {"bert", "roberta", "albert", "distilbert", "modernbert", "opt", "stablelm", "falcon", "bart", "vit", "deit",
             "beit", "dinov2", "dpt", "audio_spectrogram"}


class Plain(torch.nn.Module):
    """Named outputs become a tuple of tensors."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        result = self.model(**dict(zip(self.names, inputs)), return_dict=True)
        return tuple(v for v in pytree.tree_leaves(dict(result.items())) if isinstance(v, torch.Tensor))


def build(name):
    configuration, model, arguments, kind = MODELS[name]
    config = getattr(transformers, configuration)(**arguments)
    config.use_cache = False
    model = getattr(transformers, model)
    config._attn_implementation = "sdpa" if name in WITH_SDPA else "eager"
    model = model(config).eval()
    tokens = torch.randint(1, 98, (2, 12))
    inputs = {
        TEXT: {"input_ids": tokens},
        BOTH: {"input_ids": tokens, "decoder_input_ids": tokens[:, :7].clone()},
        IMAGE: {"pixel_values": torch.randn(1, 3, 32, 32)},
        SOUND: {"input_values": torch.randn(1, 400)},
        "spectrogram": {"input_values": torch.randn(1, 64, 32)},
    }[kind]
    if name in WITH_MASK:
        inputs["attention_mask"] = torch.full((2, 1, 12, 12), -1e9).triu(1)
    return Plain(model, list(inputs)), tuple(inputs.values())


def run(exg, name, core, folder):
    """None, or why exg and PyTorch do not agree."""
    module, inputs = build(name)
    with torch.no_grad():
        expected = module(*inputs)
        try:
            program = torch.export.export(module, inputs, strict=False)
            program = program.run_decompositions() if core else program
        except Exception as error:
            return f"not exported by PyTorch: {type(error).__name__}: {str(error).splitlines()[0][:80]}"
    model, given, got = folder / "m.pt2", folder / "in.safetensors", folder / "out.safetensors"
    torch.export.save(program, model)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    safetensors.torch.save_file(dict(zip(names, inputs)), given)
    done = subprocess.run([exg, "run", model, "--input", given, "--output", got], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return (done.stderr or "no message").strip().splitlines()[0]
    got = safetensors.torch.load_file(got)
    for i, value in enumerate(expected):
        try:
            torch.testing.assert_close(got[str(i)], value.contiguous(), rtol=1e-3, atol=1e-4)
        except AssertionError as error:
            return "differs: " + " ".join(str(error).split())[:120]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--core", action="store_true", help="after run_decompositions()")
    parser.add_argument("--only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    agreed = 0
    names = [name for name in MODELS if not options.only or name.startswith(options.only)]
    with tempfile.TemporaryDirectory(prefix="exg-architectures-") as folder:
        for name in names:
            torch.manual_seed(0)
            try:
                why = run(options.exg, name, options.core, pathlib.Path(folder))
            except Exception as error:
                why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
            agreed += why is None
            print(f"{'ok  ' if why is None else 'FAIL'} {name}{': ' + why if why else ''}", flush=True)
    print(f"{agreed} of {len(names)} agree")
    return 0 if agreed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
