#pragma once
// Front header of nn/data: datasets, samplers, loaders, file formats and tokenizers.
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/chat.h>
#include <hero/nn/data/csv.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/example.h>
#include <hero/nn/data/idx.h>
#include <hero/nn/data/iterable.h>
#include <hero/nn/data/king_james.h>
#include <hero/nn/data/loader.h>
#include <hero/nn/data/mnist.h>
#include <hero/nn/data/sampler.h>
#include <hero/nn/data/tokenizer.h>
#include <hero/nn/data/tokens.h>
