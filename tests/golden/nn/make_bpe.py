#!/usr/bin/env python3
"""Writes tests/golden/nn/bpe*: splits by GPT-2's pattern, and what Hugging Face's tokenizers learn
from a text. Needs regex and tokenizers from PyPI, and Debian's bible-kjv."""
import json
import pathlib
import random
import subprocess
import unicodedata

import regex
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder = pathlib.Path(__file__).parent
pattern = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")

# Strings of every kind of character, with runs and neighbours of all sorts.
random.seed(2026)
alphabet = ["'", "'s", "'ll", "'S", "a", "Zz", "7", "42", " ", "  ", "\n", "\t", "\r\n", ".", "!?", "_",
            "\u00e9", "\u00df", "\u4e2d\u6587", "\u0661", "\u2167", "\u00bd", "\u00a0", "\u2003", "\u3000",
            "\u200b", "\u0301", "\u20ac", "\U0001f600", "\U0001d7d8", "\U00020000", "\u0915\u094d", "\x1c", "\x85", "\0"]
texts = ["".join(random.choices(alphabet, k=random.randint(1, 14))) for _ in range(400)]
texts += ["", "Hello world", "it's  we'll\n\n you're", "x = 10;\t// don't", "   ", " a ", "\n\n\nz"]
# Every assigned code point between two letters would be a large file; a sample of them here.
assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
texts += ["a" + "".join(map(chr, random.sample(assigned, 40))) + "b" for _ in range(60)]
splits = [[t, [len(p.encode()) for p in pattern.findall(t)]] for t in texts]
assert all("".join(pattern.findall(t)) == t for t in texts)

text = subprocess.run(["bible", "-f", "gen1:1-gen1:31"], capture_output=True, check=True).stdout.decode()
text += "caf\u00e9 na\u00efve \u4e2d\u6587\u4e2d\u6587 aaaaaaaa abababab \U0001f600\U0001f600\n" * 3
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=420, min_frequency=2, show_progress=False,
                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
tokenizer.train_from_iterator([text], trainer)
tokenizer.add_special_tokens(["<|endoftext|>"])
tokenizer.save(str(folder / "bpe_tokenizer.json"), pretty=False)
samples = ["In the beginning God created the heaven and the earth.", "unseen words: zyzzyva 123",
           "caf\u00e9 \u4e2d\u6587\U0001f600", "aaaaaaaaaaaaaaaaa", "", "\n\n  \n x",
           "the<|endoftext|>the", "ab" * 100 + "a" * 99]
encodings = [[s, tokenizer.encode(s).ids] for s in samples]
gpt2 = json.loads(tokenizer.to_str())["model"]
(folder / "bpe.json").write_text(json.dumps(
    {"splits": splits, "text": text, "encodings": encodings,
     "merges": [m if isinstance(m, str) else " ".join(m) for m in gpt2["merges"]]}) + "\n")
