#pragma once
// Kernels find indices that are outside of their dimension while the host has gone on. The first
// thread that finds one writes it to page-locked memory, where the host reads it without a call to
// the device.
namespace hero::cuda {

/// Throws the Error of an index that was reported for this device, once. Called after the host has
/// waited for the device, and by later operations with indices.
void throw_reported_index(int device);

}  // namespace hero::cuda
