#pragma once
// The CUDA backend: the kernels of the families are in files of their own in the folders beside
// this one. Operands are on device index_, and each run() begins with a DeviceGuard of it. Work is
// queued in the calling thread's current stream; the host waits for it only where values are
// returned to the host.
#include <hero/core/device/backend.h>
#include <hero/cuda/runtime/runtime.cuh>

namespace hero::cuda {

using namespace core;  // the names in the interface

class CudaBackend final : public core::Backend {
 public:
  explicit CudaBackend(int index) : index_(index) {}
  using core::Backend::run;
  void run(const call::Map& call) override;
  void run(const call::Copy& call) override;
  void run(const call::Fill& call) override;
  void run(const call::Random& call) override;
  void run(const call::RandomMask& call) override;
  void run(const call::Update& call) override;
  void run(const call::Reduce& call) override;
  void run(const call::ExactSum& call) override;
  void run(const call::ExactResult& call) override;
  void run(const call::ClipNorm& call) override;
  void run(const call::ArgReduce& call) override;
  void run(const call::Scan& call) override;
  void run(const call::Sort& call) override;
  void run(const call::Matmul& call) override;
  PackedMatrix run(const call::PackMatrix& call) override;
  void run(const call::MatmulPacked& call) override;
  void run(const call::Linear& call) override;
  void run(const call::LinearBack& call) override;
  void run(const call::BiasActivation& call) override;
  Array run(const call::CheckedIndex& call) override;
  void run(const call::Gather& call) override;
  void run(const call::Scatter& call) override;
  void run(const call::IndexSelect& call) override;
  void run(const call::IndexAdd& call) override;
  void run(const call::SparseMatmul& call) override;
  Array run(const call::Nonzero& call) override;
  void run(const call::Im2col& call) override;
  void run(const call::Col2im& call) override;
  void run(const call::Pool& call) override;
  void run(const call::MaxPoolBack& call) override;
  void run(const call::AveragePoolBack& call) override;
  void run(const call::Softmax& call) override;
  void run(const call::SoftmaxBack& call) override;
  void run(const call::NormalizeRows& call) override;
  void run(const call::NormalizeRowsBack& call) override;
  void run(const call::NormalizeChannels& call) override;
  void run(const call::NormalizeChannelsBack& call) override;
  void run(const call::Attention& call) override;
  void run(const call::AttentionBack& call) override;
  void run(const call::LogLikelihood& call) override;
  void run(const call::LogLikelihoodBack& call) override;
  void run(const call::LogLikelihoodInPlace& call) override;
  void run(const call::CellStep& call) override;
  void run(const call::CellStepBack& call) override;
  void run(const call::Encode& call) override;
  void run(const call::Decode& call) override;

 private:
  const int index_;  // of its device
};

}  // namespace hero::cuda
