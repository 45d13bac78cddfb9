#pragma once
// A printed table of a module: layers, output shapes, parameters, bytes.
#include <string>

#include <hero/nn/module.h>

namespace hero::nn {

/// Runs `example` through the module (without recording, in eval mode, which is put back) and lists
/// each module called, in the order of the tree: path, type, shape of its output, parameters of its
/// own and their bytes; then the totals. On meta nothing is computed.
std::string summary(Module& module, const Tensor& example);
/// The same for float32 zeros of that shape on the module's device.
std::string summary(Module& module, const Shape& input_shape);
/// Without output shapes: nothing is run.
std::string summary(Module& module);

}  // namespace hero::nn
