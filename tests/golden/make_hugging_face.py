"""Makes tiny models of Hugging Face's transformers with random weights, as folders that it writes itself,
and what it computes with them (transformers 5.24 with PyTorch 2.15 made those here):

    python make_hugging_face.py hugging_face

Beside a folder's own files, expected.safetensors holds: tokens [2, T] and their logits, in float32 from the
weights of the file; prompts [3, T], each prompt on the left with its length in `lengths`; greedy.<b>, what
each becomes by 12 more of the likeliest tokens, from one batch that is padded on the left; penalised.<b>,
the same with repetition_penalty 1.3. The tests (tests/nn/test_pretrained.cpp) read them.
"""

import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config

VOCABULARY = 61
SIZES = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=48, bos_token_id=None, eos_token_id=None)
GPT2 = dict(vocab_size=VOCABULARY, n_positions=48, n_embd=24, n_layer=2, n_head=3, bos_token_id=None, eos_token_id=None,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16, rope_theta=500000.0)

# name, configuration, dtype of the file, bytes of one file, without the head
MODELS = [
    ("gpt2", GPT2Config(**GPT2), torch.float32, "30KB", False),
    ("gpt2_bare", GPT2Config(**{**GPT2, "n_layer": 1, "activation_function": "gelu"}), torch.float32, "5GB", True),
    ("llama", LlamaConfig(**SIZES), torch.float32, "30KB", False),
    ("llama3", LlamaConfig(**SIZES, head_dim=8, tie_word_embeddings=True, rope_parameters=LLAMA3), torch.bfloat16, "5GB",
     False),
    ("llama_linear", LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True,
                                 rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0)),
     torch.float16, "5GB", False),
    # at most 16 positions in training; the tests' sequences are longer
    ("llama_yarn", LlamaConfig(**{**SIZES, "hidden_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 64},
                               rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
                                                    beta_fast=4.0, rope_theta=100.0)), torch.float32, "5GB", False),
    ("qwen2_yarn", Qwen2Config(**{**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 64},
                               rope_parameters=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=24,
                                                    mscale=1.0, mscale_all_dim=0.7, truncate=False, rope_theta=1e4)),
     torch.float32, "5GB", False),
    ("llama_dynamic", LlamaConfig(**{**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 11},
                                  rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=10000.0)),
     torch.float32, "5GB", False),
    ("qwen2", Qwen2Config(**SIZES, tie_word_embeddings=True), torch.float32, "5GB", False),
    ("mistral", MistralConfig(**{**SIZES, "num_hidden_layers": 1}, sliding_window=None), torch.float32, "5GB", False),
]


def expected(model):
    generator = torch.Generator().manual_seed(7)
    draw = lambda *shape: torch.randint(0, VOCABULARY, shape, generator=generator)
    values = {"tokens": draw(2, 20)}
    lengths = [5, 2, 7]
    prompts = [draw(n) for n in lengths]
    with torch.no_grad():
        values["logits"] = model(values["tokens"]).logits.contiguous()
        longest = max(lengths)
        left = torch.zeros(3, longest, dtype=torch.int64)
        mask = torch.zeros(3, longest, dtype=torch.int64)
        for b, prompt in enumerate(prompts):
            left[b, longest - len(prompt):] = prompt
            mask[b, longest - len(prompt):] = 1
        for name, options in [("greedy", {}), ("penalised", {"repetition_penalty": 1.3})]:
            # One prompt at a time: transformers counts padding as a token that was seen, and a dynamic rule of
            # rotation goes by the longest of a batch.
            if options or model.config.to_dict().get("rope_parameters", {}).get("rope_type") == "dynamic":
                rows = [model.generate(p[None], attention_mask=torch.ones_like(p[None]), do_sample=False, max_new_tokens=12,
                                       pad_token_id=0, **options)[0] for p in prompts]
            else:
                out = model.generate(left, attention_mask=mask, do_sample=False, max_new_tokens=12, pad_token_id=0)
                rows = [out[b, longest - n:] for b, n in enumerate(lengths)]
            for b, row in enumerate(rows):
                values[f"{name}.{b}"] = row.clone()
    values["prompts"] = torch.zeros(3, longest, dtype=torch.int64)
    for b, prompt in enumerate(prompts):
        values["prompts"][b, :len(prompt)] = prompt
    values["lengths"] = torch.tensor(lengths)
    return values


for name, config, dtype, shard, bare in MODELS:
    torch.manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():  # far from even odds, and no bias or norm is trivial
            if "norm" in key or "ln_" in key:
                p.add_(0.1 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (0.05 if key.endswith("bias") else 0.3))
    folder = os.path.join(sys.argv[1], name)
    model = model.to(dtype)
    (model.transformer if bare else model).save_pretrained(folder, max_shard_size=shard)
    for extra in ["generation_config.json"]:
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    if bare:
        model = model.float()  # its head is the embedding
    else:  # to(dtype) has rounded the rates of rotation, too, which are no weights
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    save_file(expected(model), os.path.join(folder, "expected.safetensors"))
