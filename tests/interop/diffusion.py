"""Small models of diffusers: a row has the class, its configuration and its inputs, a tuple standing for random numbers of that shape."""

import torch
from architectures import Plain

HIDDEN = dict(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4)
IMAGE = dict(sample_size=16, in_channels=4, out_channels=4, **HIDDEN)
CODED = dict(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4)
VIDEO = dict(block_out_channels=(8,) * 4, latent_channels=4, layers_per_block=1)
STEPS, TIMES, SAMPLE, WORDS = torch.tensor([3, 500]), torch.tensor([0.3, 0.7]), (2, 4, 16, 16), (2, 7, 32)
SIZES = dict(original_size=torch.full((2, 2), 64.0), target_size=torch.full((2, 2), 64.0), crop_coords=torch.zeros(2, 2))

MODELS = {
    "unet": ("UNet2DModel",
             dict(IMAGE, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4),
             dict(sample=SAMPLE, timestep=STEPS)),
    "unet-skip": ("UNet2DModel",
                  dict(IMAGE, in_channels=3, out_channels=3,
                       down_block_types=("SkipDownBlock2D", "AttnSkipDownBlock2D"),
                       up_block_types=("AttnSkipUpBlock2D", "SkipUpBlock2D"), time_embedding_type="fourier",
                       attention_head_dim=4, block_out_channels=(32, 64)),
                  dict(sample=(2, 3, 16, 16), timestep=STEPS)),
    "unet-text": ("UNet2DConditionModel",
                  dict(IMAGE, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                       cross_attention_dim=32, attention_head_dim=4),
                  dict(sample=SAMPLE, timestep=STEPS, encoder_hidden_states=WORDS)),
    "unet-simple": ("UNet2DConditionModel",
                    dict(IMAGE, down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
                         mid_block_type="UNetMidBlock2DSimpleCrossAttn", up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
                         cross_attention_dim=32, attention_head_dim=4, resnet_time_scale_shift="scale_shift"),
                    dict(sample=SAMPLE, timestep=STEPS, encoder_hidden_states=WORDS)),
    "unet-video": ("UNet3DConditionModel",
                   dict(IMAGE, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
                        cross_attention_dim=32, attention_head_dim=4),
                   dict(sample=(2, 4, 4, 16, 16), timestep=STEPS, encoder_hidden_states=WORDS)),
    "controlnet": ("ControlNetModel",
                   dict(HIDDEN, in_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), cross_attention_dim=32,
                        attention_head_dim=4, conditioning_embedding_out_channels=(8, 16)),
                   dict(sample=SAMPLE, timestep=STEPS, encoder_hidden_states=WORDS, controlnet_cond=(2, 3, 32, 32))),
    "vae": ("AutoencoderKL", dict(CODED, block_out_channels=(8, 16), latent_channels=4), dict(sample=(1, 3, 32, 32))),
    "vae-asymmetric": ("AsymmetricAutoencoderKL", dict(CODED, down_block_out_channels=(8, 16), up_block_out_channels=(8, 16)),
                       dict(sample=(1, 3, 32, 32))),
    "vae-tiny": ("AutoencoderTiny",
                 dict(encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 2), num_decoder_blocks=(2, 1)),
                 dict(sample=(1, 3, 32, 32))),
    "vq": ("VQModel", dict(CODED, block_out_channels=(8, 16), latent_channels=3, num_vq_embeddings=16), dict(sample=(1, 3, 32, 32))),
    "vae-sound": ("AutoencoderOobleck",
                  dict(encoder_hidden_size=12, decoder_channels=12, decoder_input_channels=6, audio_channels=2, downsampling_ratios=[2, 4],
                       channel_multiples=[1, 2]),
                  dict(sample=(1, 2, 64))),
    "vae-cogvideox": ("AutoencoderKLCogVideoX",
                      dict(VIDEO, down_block_types=("CogVideoXDownBlock3D",) * 4, up_block_types=("CogVideoXUpBlock3D",) * 4, norm_num_groups=2,
                           temporal_compression_ratio=4),
                      dict(sample=(1, 3, 9, 16, 16))),
    "vae-hunyuan": ("AutoencoderKLHunyuanVideo",
                    dict(VIDEO, down_block_types=("HunyuanVideoDownBlock3D",) * 4, up_block_types=("HunyuanVideoUpBlock3D",) * 4, norm_num_groups=4),
                    dict(sample=(1, 3, 9, 16, 16))),
    "vae-wan": ("AutoencoderKLWan",
                dict(base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]),
                dict(sample=(1, 3, 9, 16, 16))),
    "dit": ("DiTTransformer2DModel",
            dict(sample_size=8, num_layers=2, patch_size=2, attention_head_dim=8, num_attention_heads=2, in_channels=4, out_channels=8,
                 num_embeds_ada_norm=8, norm_elementwise_affine=False),
            dict(hidden_states=(2, 4, 8, 8), timestep=torch.tensor([3, 7]), class_labels=torch.tensor([1, 4]))),
    "sd3": ("SD3Transformer2DModel",
            dict(sample_size=8, patch_size=1, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=32,
                 caption_projection_dim=32, pooled_projection_dim=64, out_channels=4, qk_norm="rms_norm"),
            dict(hidden_states=(2, 4, 8, 8), encoder_hidden_states=WORDS, pooled_projections=(2, 64), timestep=STEPS)),
    "flux": ("FluxTransformer2DModel",
             dict(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
                  joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=[4, 4, 8]),
             dict(hidden_states=(1, 16, 4), encoder_hidden_states=(1, 7, 32), pooled_projections=(1, 32), timestep=torch.tensor([0.5]),
                  img_ids=(16, 3), txt_ids=torch.zeros(7, 3))),
    "auraflow": ("AuraFlowTransformer2DModel",
                 dict(sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1, joint_attention_dim=32,
                      caption_projection_dim=32, attention_head_dim=8, num_attention_heads=4, out_channels=4, pos_embed_max_size=64),
                 dict(hidden_states=(2, 4, 8, 8), encoder_hidden_states=WORDS, timestep=TIMES)),
    "sana": ("SanaTransformer2DModel",
             dict(patch_size=1, in_channels=4, out_channels=4, num_layers=1, attention_head_dim=4, num_attention_heads=2,
                  num_cross_attention_heads=2, cross_attention_head_dim=4, cross_attention_dim=8, caption_channels=8, sample_size=8),
             dict(hidden_states=(2, 4, 8, 8), encoder_hidden_states=(2, 7, 8), timestep=STEPS)),
    "cogview3": ("CogView3PlusTransformer2DModel",
                 dict(patch_size=2, in_channels=4, num_layers=2, attention_head_dim=4, num_attention_heads=2, out_channels=4, text_embed_dim=8,
                      time_embed_dim=8, condition_dim=2, pos_embed_max_size=8, sample_size=8),
                 dict(SIZES, hidden_states=(2, 4, 8, 8), encoder_hidden_states=(2, 7, 8), timestep=STEPS)),
}


def diffusion_model(diffusers, name):
    """The model, called by position, and its inputs."""
    class_name, configuration, inputs = MODELS[name]
    inputs = {k: v if isinstance(v, torch.Tensor) else torch.randn(v) for k, v in inputs.items()}
    return Plain(getattr(diffusers, class_name)(**configuration), list(inputs)), tuple(inputs.values())
