"""Small random models of many architectures of `transformers`: exported, run by exg, compared with PyTorch.

    build/venv/bin/pip install transformers==5.23.0
    build/venv/bin/python tests/interop/architectures.py --exg build/release/cli/exg [--forms exported,core,dynamic,bf16,fp16] [--only bert]

Prints a line a model and form, then a table. Beside them a few models by hand: a U-Net, recurrent ones, a recommender, programs
with branches, loops and sizes that lie in the data, an int8 one.
"""

import argparse
import copy
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
SEQ2SEQ = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
               encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=99)
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
    # encoders
    "xlm_roberta": ("XLMRobertaConfig", "XLMRobertaModel", SMALL, TEXT),
    "camembert": ("CamembertConfig", "CamembertModel", SMALL, TEXT),
    "megatron_bert": ("MegatronBertConfig", "MegatronBertModel", SMALL, TEXT),
    "roformer": ("RoFormerConfig", "RoFormerModel", dict(SMALL, embedding_size=32), TEXT),
    "rembert": ("RemBertConfig", "RemBertModel", dict(SMALL, input_embedding_size=16), TEXT),
    "convbert": ("ConvBertConfig", "ConvBertModel", dict(SMALL, embedding_size=32), TEXT),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertModel", dict(SMALL, embedding_size=32), TEXT),
    "mobilebert": ("MobileBertConfig", "MobileBertModel",
                   dict(SMALL, embedding_size=16, true_hidden_size=16, intra_bottleneck_size=16), TEXT),
    "layoutlm": ("LayoutLMConfig", "LayoutLMModel", SMALL, TEXT),
    "fnet": ("FNetConfig", "FNetModel", SMALL, TEXT),
    "ernie": ("ErnieConfig", "ErnieModel", SMALL, TEXT),
    "esm": ("EsmConfig", "EsmModel", dict(SMALL, pad_token_id=0, mask_token_id=1), TEXT),
    "funnel": ("FunnelConfig", "FunnelModel",
               dict(d_model=32, n_head=4, d_head=8, d_inner=64, block_sizes=[1, 1], num_decoder_layers=1, vocab_size=99), TEXT),
    "nystromformer": ("NystromformerConfig", "NystromformerModel", dict(SMALL, num_landmarks=12, segment_means_seq_len=12), TEXT),
    # decoders
    "openai_gpt": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=99), TEXT),
    "gpt_bigcode": ("GPTBigCodeConfig", "GPTBigCodeForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=99), TEXT),
    "codegen": ("CodeGenConfig", "CodeGenForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=99), TEXT),
    "ctrl": ("CTRLConfig", "CTRLLMHeadModel", dict(n_embd=32, n_layer=2, n_head=4, dff=64, vocab_size=99), TEXT),
    "biogpt": ("BioGptConfig", "BioGptForCausalLM", SMALL, TEXT),
    "xglm": ("XGLMConfig", "XGLMForCausalLM", dict(d_model=32, num_layers=2, attention_heads=4, ffn_dim=64, vocab_size=99), TEXT),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "granite": ("GraniteConfig", "GraniteForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "cohere": ("CohereConfig", "CohereForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM", dict(SMALL, num_key_value_heads=2), TEXT),
    "persimmon": ("PersimmonConfig", "PersimmonForCausalLM", SMALL, TEXT),
    "glm": ("GlmConfig", "GlmForCausalLM", dict(SMALL, num_key_value_heads=2, head_dim=8, pad_token_id=0), TEXT),
    "helium": ("HeliumConfig", "HeliumForCausalLM", dict(SMALL, num_key_value_heads=4, head_dim=8), TEXT),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", dict(SMALL, num_key_value_heads=2, pad_token_id=0), TEXT),
    # mixtures of experts, state spaces
    "qwen2_moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM",
                  dict(SMALL, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                       shared_expert_intermediate_size=16), TEXT),
    "olmoe": ("OlmoeConfig", "OlmoeForCausalLM", dict(SMALL, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2), TEXT),
    "granitemoe": ("GraniteMoeConfig", "GraniteMoeForCausalLM",
                   dict(SMALL, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2), TEXT),
    "mamba2": ("Mamba2Config", "Mamba2ForCausalLM",
               dict(hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=8, head_dim=8, num_heads=8, n_groups=1,
                    chunk_size=4), TEXT),
    "falcon_mamba": ("FalconMambaConfig", "FalconMambaForCausalLM",
                     dict(hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=8), TEXT),
    # encoder-decoders
    "mt5": ("MT5Config", "MT5ForConditionalGeneration", dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99), BOTH),
    "pegasus": ("PegasusConfig", "PegasusForConditionalGeneration", SEQ2SEQ, BOTH),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration", SEQ2SEQ, BOTH),
    "marian": ("MarianConfig", "MarianMTModel", dict(SEQ2SEQ, pad_token_id=0), BOTH),
    "blenderbot": ("BlenderbotConfig", "BlenderbotForConditionalGeneration", SEQ2SEQ, BOTH),
    "m2m_100": ("M2M100Config", "M2M100ForConditionalGeneration", SEQ2SEQ, BOTH),
    # images
    "convnextv2": ("ConvNextV2Config", "ConvNextV2ForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2), IMAGE),
    "vit_msn": ("ViTMSNConfig", "ViTMSNModel", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "yolos": ("YolosConfig", "YolosModel", dict(SMALL, image_size=[32, 32], patch_size=8, num_detection_tokens=4), IMAGE),
    "bit": ("BitConfig", "BitModel", dict(embedding_size=8, hidden_sizes=[32, 32], depths=[1, 1], num_groups=4), IMAGE),
    "mobilenet_v1": ("MobileNetV1Config", "MobileNetV1Model", dict(depth_multiplier=0.25), IMAGE),
    "mobilevitv2": ("MobileViTV2Config", "MobileViTV2Model", dict(width_multiplier=0.25, n_attn_blocks=[1, 1, 1], image_size=32), IMAGE),
    "levit": ("LevitConfig", "LevitModel",
              dict(image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]), "image64"),
    "pvt": ("PvtConfig", "PvtModel", dict(image_size=32, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4]), IMAGE),
    "swinv2": ("Swinv2Config", "Swinv2Model", dict(embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, image_size=32, patch_size=4), IMAGE),
    "focalnet": ("FocalNetConfig", "FocalNetModel", dict(embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2],
                                                         focal_windows=[3, 3], image_size=32, patch_size=4), IMAGE),
    "swiftformer": ("SwiftFormerConfig", "SwiftFormerModel", dict(depths=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32]), "image64"),
    "cvt": ("CvtConfig", "CvtModel", dict(embed_dim=[8, 16, 24], num_heads=[1, 2, 3], depth=[1, 1, 1]), IMAGE),
    "glpn": ("GLPNConfig", "GLPNForDepthEstimation",
             dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16), "image64"),
    "upernet": ("UperNetConfig", "UperNetForSemanticSegmentation", "upernet", "image64"),
    "textnet": ("TextNetConfig", "TextNetModel", dict(stem_out_channels=8, hidden_sizes=[8, 8, 16, 16, 16]), "image64"),
    # sound
    "wavlm": ("WavLMConfig", "WavLMModel",
              dict(SMALL, conv_dim=[8, 8], conv_kernel=[8, 4], conv_stride=[4, 2], num_feat_extract_layers=2,
                   num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2), SOUND),
    "unispeech": ("UniSpeechConfig", "UniSpeechModel",
                  dict(SMALL, conv_dim=[8, 8], conv_kernel=[8, 4], conv_stride=[4, 2], num_feat_extract_layers=2,
                       num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2), SOUND),
    "sew": ("SEWConfig", "SEWModel",
            dict(SMALL, conv_dim=[8, 8], conv_kernel=[8, 4], conv_stride=[4, 2], num_feat_extract_layers=2, squeeze_factor=2,
                 num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2), SOUND),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration",
                dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                     encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=99, num_mel_bins=16, max_source_positions=20, pad_token_id=0,
                     bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), "speech"),
    # images and text, series
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "clip_text": ("CLIPTextConfig", "CLIPTextModel", dict(SMALL, eos_token_id=98), TEXT),
    "siglip_vision": ("SiglipVisionConfig", "SiglipVisionModel", dict(SMALL, image_size=32, patch_size=8), IMAGE),
    "patchtst": ("PatchTSTConfig", "PatchTSTModel",
                 dict(num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_attention_heads=2,
                      ffn_dim=32, num_hidden_layers=2), "series"),
}

# By hand: (class, what goes in)
BY_HAND = {"unet": ("UNet", IMAGE), "lstm": ("Recurrent", "sequence"), "gru": ("Gated", "sequence"),
           "recommender": ("Recommender", "bags"), "conditional": ("Conditional", "rows"), "looping": ("Looping", "rows"),
           "scanning": ("Scanning", "sequence"), "counting": ("Counting", "sequence"), "quantised": ("Quantised", "sequence"),
           "quantised_images": ("QuantisedImages", IMAGE)}


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


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.BatchNorm2d(o), torch.nn.ReLU())
        self.down1, self.down2, self.deep = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.up1 = torch.nn.ConvTranspose2d(32, 16, 2, 2), torch.nn.ConvTranspose2d(16, 8, 2, 2)
        self.join2, self.join1, self.head = block(32, 16), block(16, 8), torch.nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(torch.nn.functional.max_pool2d(a, 2))
        c = self.deep(torch.nn.functional.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        return (self.head(self.join1(torch.cat([self.up1(b), a], 1))),)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.layers(x)
        return y, h, c


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.GRU(16, 12, 2)

    def forward(self, x):
        return self.layers(x)


class Recommender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(20, 8, mode=mode) for mode in ("sum", "mean"))
        self.dense, self.over = torch.nn.Linear(16, 8), torch.nn.Linear(8 + 3, 1)

    def forward(self, dense, first, second):
        parts = torch.stack([torch.relu(self.dense(dense)), self.bags[0](first), self.bags[1](second)], 1)
        products = (parts @ parts.transpose(1, 2))[:, [0, 0, 1], [1, 2, 2]]
        return (torch.sigmoid(self.over(torch.cat([parts[:, 0], products], 1))),)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)


class Conditional(Layer):
    def forward(self, x):
        y = torch.cond(x.mean() > 0, lambda x: torch.relu(self.a(x)), lambda x: torch.tanh(self.b(x)), (x,))
        return (torch.cond(y.sum() > 3, lambda y: y * 2, lambda y: y - 1, (y,)),)


class Looping(Layer):
    def forward(self, x):
        def body(i, x):
            return i + 1, torch.cond(x.sum() > 3, lambda x: x * 0.5, lambda x: self.a(x) + 1, (x,))

        return torch._higher_order_ops.while_loop(lambda i, x: i < 7, body, (torch.zeros((), dtype=torch.int64), x))


class Scanning(Layer):
    def forward(self, x):
        def step(carry, x):
            carry = torch.tanh(self.a(x) + self.b(carry))
            return carry, carry * 2

        return torch._higher_order_ops.scan(step, torch.zeros_like(x[0]), x)


class Counting(Layer):
    def forward(self, x):
        places = (x > 0.5).nonzero()
        chosen = x[x.sum(-1) > 0]
        values, inverse, counts = torch.unique((x * 2).round(), return_inverse=True, return_counts=True)
        return places, self.a(chosen), values, inverse, counts, torch.masked_select(x, x < -1)


class Quantised(torch.nn.Module):
    """int8 weights by channel and activations by tensor; one product in int8 itself."""

    def __init__(self):
        super().__init__()
        from torch.ao.quantization.fx import _decomposed  # noqa: F401, defines the operators
        self.register_buffer("weight", torch.randint(-100, 100, (16, 16), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16) / 50 + 0.01)
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        given = q.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        y = torch.nn.functional.linear(q.dequantize_per_tensor(given, 0.02, 3, -128, 127, torch.int8), weight)
        y = q.dequantize_per_tensor(q.quantize_per_tensor(y, 0.05, 0, -128, 127, torch.int8), 0.05, 0, -128, 127, torch.int8)
        whole = torch._int_mm(given.reshape(-1, 16)[:24].contiguous(), self.weight.t())
        return y, whole.float() * 0.02 * self.scales


class QuantisedImages(torch.nn.Module):
    """Convolutions of int8 images by int8 weights: a stem, one of groups, one a channel, one of a position, as exporters of quantised networks write them."""

    LAYERS = (("stem", 3, 16, 5, 2, 1), ("groups", 16, 16, 3, 1, 4), ("alone", 16, 16, 3, 2, 16), ("point", 16, 24, 1, 1, 1))

    def __init__(self):
        super().__init__()
        from torch.ao.quantization.fx import _decomposed  # noqa: F401, defines the operators
        for name, channels, filters, kernel, _, groups in self.LAYERS:
            self.register_buffer(name, torch.randint(-127, 128, (filters, channels // groups, kernel, kernel), dtype=torch.int8))
            self.register_buffer(name + "_scales", (torch.rand(filters) + 0.5) / (60 * (channels // groups) ** 0.5 * kernel))
            self.register_buffer(name + "_zeros", torch.zeros(filters, dtype=torch.int64))
            self.register_buffer(name + "_bias", torch.randn(filters) / 4)

    def forward(self, pixel_values):
        q = torch.ops.quantized_decomposed
        x = q.quantize_per_tensor(pixel_values, 0.02, 5, -128, 127, torch.int8)
        for at, (name, _, _, kernel, stride, groups) in enumerate(self.LAYERS):
            scale, zero = (0.02, 5) if at == 0 else (0.03, -128)
            weight = q.dequantize_per_channel(
                getattr(self, name), getattr(self, name + "_scales"), getattr(self, name + "_zeros"), 0, -127, 127, torch.int8
            )
            y = torch.nn.functional.conv2d(
                q.dequantize_per_tensor(x, scale, zero, -128, 127, torch.int8), weight, getattr(self, name + "_bias"), stride, kernel // 2, 1, groups
            )
            x = q.quantize_per_tensor(torch.relu(y), 0.03, -128, -128, 127, torch.int8)
        return q.dequantize_per_tensor(x, 0.03, -128, -128, 127, torch.int8)


def given(kind, batch=2):
    tokens = torch.randint(1, 98, (batch, 12))
    return {
        TEXT: {"input_ids": tokens},
        BOTH: {"input_ids": tokens, "decoder_input_ids": tokens[:, :7].clone()},
        IMAGE: {"pixel_values": torch.randn(batch, 3, 32, 32)},
        "image64": {"pixel_values": torch.randn(batch, 3, 64, 64)},
        SOUND: {"input_values": torch.randn(batch, 400)},
        "spectrogram": {"input_values": torch.randn(batch, 64, 32)},
        "speech": {"input_features": torch.randn(batch, 16, 40), "decoder_input_ids": tokens[:, :7].clone()},
        "series": {"past_values": torch.randn(batch, 32, 2)},
        "sequence": {"x": torch.randn(5, batch + 3, 16)},
        "rows": {"x": torch.randn(batch + 4, 16)},
        "bags": {"dense": torch.randn(batch, 16), "first": torch.randint(0, 20, (batch, 5)), "second": torch.randint(0, 20, (batch, 3))},
    }[kind]


def build(name, dtype):
    if name in BY_HAND:
        model, kind = BY_HAND[name]
        model, inputs = globals()[model]().eval(), given(kind)
        module = model
    else:
        configuration, model, arguments, kind = MODELS[name]
        if arguments == "upernet":
            backbone = transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
                                                   out_features=["stage1", "stage2", "stage3", "stage4"])
            arguments = dict(backbone_config=backbone, hidden_size=16, auxiliary_in_channels=16, auxiliary_channels=8, num_labels=5)
        config = getattr(transformers, configuration)(**arguments)
        config.use_cache = False
        config._experts_implementation = "batched_mm"  # "grouped_mm" is an operator of transformers' own, "eager" cannot be exported
        config._attn_implementation = "sdpa" if name in WITH_SDPA else "eager"
        inputs = given(kind)
        if name in WITH_MASK:
            inputs["attention_mask"] = torch.full((2, 1, 12, 12), -1e9).triu(1)
        module = Plain(getattr(transformers, model)(config).eval(), list(inputs))
    module = module.to(dtype)
    return module, tuple(v.to(dtype) if v.is_floating_point() else v for v in inputs.values())


def dynamic(inputs):
    """Every input's first size is one symbol."""
    batch = torch.export.Dim("batch", min=2, max=64)
    return tuple({0: batch} for _ in inputs)


# form: dtype, after run_decompositions(), symbolic batch
FORMS = {"exported": (torch.float32, False, False), "core": (torch.float32, True, False),
         "dynamic": (torch.float32, False, True), "bf16": (torch.bfloat16, False, False), "fp16": (torch.float16, False, False)}
TOLERANCE = {torch.float32: dict(rtol=1e-3, atol=1e-4), torch.bfloat16: dict(rtol=6e-2, atol=6e-2), torch.float16: dict(rtol=1e-2, atol=1e-2)}


def run(exg, name, form, folder):
    """None, or why exg and PyTorch do not agree."""
    dtype, core, symbolic = FORMS[form]
    try:
        module, inputs = build(name, dtype)
        with torch.no_grad():
            expected = module(*inputs)
    except Exception as error:
        return f"not run by PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
    with torch.no_grad():
        try:
            shapes = ((dynamic(inputs),) if isinstance(module, Plain) else dynamic(inputs)) if symbolic else None
            program = torch.export.export(module, inputs, strict=False, dynamic_shapes=shapes)
            program = program.run_decompositions() if core else program
        except Exception as error:
            return f"not exported by PyTorch: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:80]}"
    model, given, got = folder / "m.pt2", folder / "in.safetensors", folder / "out.safetensors"
    torch.export.save(program, model)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    safetensors.torch.save_file({k: v.contiguous() for k, v in zip(names, inputs)}, given)
    done = subprocess.run([exg, "run", model, "--input", given, "--output", got], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return (done.stderr or "no message").strip().splitlines()[0]
    got = safetensors.torch.load_file(got)
    for i, value in enumerate(pytree.tree_leaves(expected)):
        try:
            torch.testing.assert_close(got[str(i)], value.contiguous(), **TOLERANCE[dtype])
        except AssertionError as error:
            if not nearer(module, inputs, i, got[str(i)], value):
                return "differs: " + " ".join(str(error).split())[:120]
    return None


def nearer(module, inputs, i, got, value):
    """Is exg, of narrow numbers, no further from what PyTorch computes in float64 than PyTorch is, by the mean square? Two such sums of roundings are not equal to a tenth."""
    if value.dtype not in (torch.bfloat16, torch.float16) or got.shape != value.shape:
        return False
    with torch.no_grad():
        exact = pytree.tree_leaves(copy.deepcopy(module).double()(*(x.double() if x.is_floating_point() else x for x in inputs)))[i]
    off = [(x.double() - exact).square().mean() for x in (got, value)]
    return bool(off[0] <= 1.2 * off[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--forms", default="exported,core", help="of " + ", ".join(FORMS))
    parser.add_argument("--only", help="names that begin so")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    names = [name for name in (*MODELS, *BY_HAND) if not options.only or name.startswith(options.only)]
    forms = options.forms.split(",")
    agreed, unexported = dict.fromkeys(forms, 0), dict.fromkeys(forms, 0)
    with tempfile.TemporaryDirectory(prefix="exg-architectures-") as folder:
        for name in names:
            for form in forms:
                torch.manual_seed(0)
                try:
                    why = run(options.exg, name, form, pathlib.Path(folder))
                except Exception as error:
                    why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
                agreed[form] += why is None
                unexported[form] += why is not None and why.startswith("not ")
                print(f"{'ok  ' if why is None else 'FAIL'} {name} {form}{': ' + why if why else ''}", flush=True)
    print(f"{'form':10} {'agree':>6} {'of':>4}  not exported or not run by PyTorch")
    for form in forms:
        print(f"{form:10} {agreed[form]:6} {len(names) - unexported[form]:4}  {unexported[form]}")
    return 0 if all(agreed[f] + unexported[f] == len(names) for f in forms) else 1


if __name__ == "__main__":
    sys.exit(main())
