#pragma once
// A printed table of a module: layers, output shapes, parameters, bytes.
#include <string>

#include <hero/nn/module.h>

namespace hero::nn {

/// Runs `example` through the module, without recording and in evaluation mode, and lists each
/// module that was called, in the order of the tree: path, type, shape of the output, the number of
/// its own parameters and their bytes; the totals come last. The mode is restored. On meta nothing
/// is computed.
std::string summary(Module& module, const Tensor& example);
/// Does the same with float32 zeros of this shape on the module's device.
std::string summary(Module& module, const Shape& input_shape);
/// Does the same without output shapes, and runs nothing.
std::string summary(Module& module);

}  // namespace hero::nn
