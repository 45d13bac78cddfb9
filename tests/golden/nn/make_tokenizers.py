#!/usr/bin/env python3
"""Writes tests/golden/nn/tokenizers.json: what Hugging Face's tokenizers (0.23.3 made those here) make of
texts by files with other settings than GPT-2's. Needs tokenizers from PyPI; reads bpe_tokenizer.json beside it.

A case is the sections that differ from bpe_tokenizer.json (those of "model" one by one), tokens of bytes that
are taken out of the vocabulary with their merges ("without"; there are no added tokens then), and the tokens of
each text; "ignored" are those with special tokens as text.
"""
import copy
import json
import pathlib
import random

from tokenizers import Tokenizer

folder = pathlib.Path(__file__).parent
base = json.loads((folder / "bpe_tokenizer.json").read_text())
special = base["added_tokens"][0]

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NFC = {"type": "NFC"}


def split(pattern, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": behavior == "Removed"}


def byte_level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def added(*tokens):
    return [special] + [{**special, "id": 421 + i, "content": text, **options} for i, (text, options) in enumerate(tokens)]


def template(before, after):
    parts = [{"SpecialToken": {"id": one, "type_id": 0}} for one in (before, after)]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [parts[0], text, parts[1]], "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {before: {"id": before, "ids": [420], "tokens": [before]},
                               after: {"id": after, "ids": [3, 300], "tokens": [after, "x"]}}}


ADDED = added(("[L]", {"lstrip": True}), ("word", {"single_word": True, "normalized": True, "special": False}),
              ("<mask>", {"rstrip": True}), ("e\u0301", {"normalized": True}), ("  ", {"special": False}),
              ("\r\n\u3000", {"lstrip": True, "rstrip": True, "normalized": True}),
              ("\u4e2d", {"single_word": True, "rstrip": True, "lstrip": True}), ("[L][L]", {}))
CASES = {
    "llama3": {"pre_tokenizer": sequence(split(LLAMA3), byte_level(False, False)), "model": {"ignore_merges": True},
               "post_processor": {"type": "Sequence", "processors": [byte_level(True, True), template("<|endoftext|>", "x")]}},
    "ignore_merges": {"model": {"ignore_merges": True, "merges": base["model"]["merges"][:60:2]}},
    "qwen2": {"pre_tokenizer": sequence(split(QWEN2), byte_level(False, False)), "normalizer": NFC},
    "llama3_removed": {"pre_tokenizer": sequence(split(LLAMA3, "Removed"), byte_level(False, False))},
    "gpt2_split": {"pre_tokenizer": sequence(split(GPT2), byte_level(True, False))},
    "prefix": {"pre_tokenizer": byte_level(True, True)},
    "whole": {"pre_tokenizer": byte_level(False, False)},
    "single_digits": {"pre_tokenizer": sequence(digits(True), byte_level(False, True))},
    "digits": {"pre_tokenizer": sequence(digits(False), byte_level(False, False))},
    "unknown": {"without": ["\u0120", "\u00c3", "\u00a9", "\u00f0"], "model": {"unk_token": "a"}},
    "fused_unknown": {"without": ["\u0120", "\u00c3", "\u00a9", "\u00f0"], "model": {"unk_token": "a", "fuse_unk": True}},
    "added": {"added_tokens": ADDED},
    "added_nfc": {"added_tokens": ADDED, "normalizer": {"type": "Sequence", "normalizers": [NFC]}},
    "added_prefix": {"added_tokens": ADDED, "pre_tokenizer": byte_level(True, True)},
    "roberta": {"post_processor": {"type": "RobertaProcessing", "sep": ["x", 1], "cls": ["y", 7], "trim_offsets": True,
                                   "add_prefix_space": False}},
}

random.seed(2026)
alphabet = ["'", "'s", "'ll", "'S", "'RE", "'\u017f", "a", "Zz", "7", "42", "12345", " ", "  ", "\n", "\t", "\r\n", " \n", ".",
            "!?", "(", "\u00e9", "e\u0301", "q\u0307\u0323", "\u4e2d\u6587", "\u0661", "\u2167", "\u00bd", "\u00a0", "\u3000",
            "\u0301", "\u1100\u1161\u11a8", "\uac00", "\U0001f600", "\u0915\u094d", "\u212b", "\u0344", "\u0958", "[L]",
            "word", "<mask>", "<|endoftext|>", "the"]
texts = ["".join(random.choices(alphabet, k=random.randint(1, 9))) for _ in range(60)]
texts += ["", " ", "   [L]   x", "xwordx word", "[L][L] [L]", "In the beginning God created 2026 heavens.", "I'LL we'Ve it'S",
          "for (int i = 0;\t\ti < 10;  ++i)\r\n\r\n    x[i] = 3.14159;\n", "caf\u00e9 cafe\u0301 \u043c\u0438\u0440 \u05e9\u05c1\u05b8 "
          "\u0e2a\u0e27\u0e31 \u092e\u0938\u094d\u0924\u0947 \u1112\u1161\u11ab", "\U0001f469\u200d\U0001f467!!\n\n \u3000  end  "]

cases = {}
for name, changes in CASES.items():
    document = copy.deepcopy(base)
    for section, value in changes.items():
        if section == "model":
            document["model"].update(value)
        elif section != "without":
            document[section] = value
    for gone in changes.get("without", []):
        del document["model"]["vocab"][gone]
        document["model"]["merges"] = [m for m in document["model"]["merges"] if gone not in m]
    if "without" in changes:  # an added token would get the number of another
        document["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(document))
    cases[name] = {"changes": changes, "tokens": [tokenizer.encode(text).ids for text in texts]}
    if "added_tokens" in changes:
        tokenizer.encode_special_tokens = True
        cases[name]["ignored"] = [tokenizer.encode(text).ids for text in texts]
(folder / "tokenizers.json").write_text(json.dumps({"texts": texts, "cases": cases}) + "\n")
