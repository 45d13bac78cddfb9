#pragma once
// Indices that point outside of their dimension are found by kernels, while the host is elsewhere.
// The first thread that sees one writes it down in pinned memory, where the host finds it without
// asking the device.
namespace hero::cuda {

/// Throws what has been written down for this device, once. Called after the host has waited for
/// the device, and wherever it comes by.
void throw_reported_index(int device);

}  // namespace hero::cuda
