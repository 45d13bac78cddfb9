#pragma once
// The CPU backend: the kernels of the families are in files of their own in the folders beside this
// one.
#include <string>

#include <hero/core/device/backend.h>

namespace hero::core::cpu {

/// What chapters 1 to 6 compute with, and what a reader may try there: the kernels that every
/// program is linked with. The others, and the table of all, are a library of their own
/// (cmake/HeroKernels.cmake).
class BasicKernels : public Backend {
 public:
  using Backend::run;
  void run(const call::Map& call) override;
  void run(const call::FusedMap& call) override;
  void run(const call::FusedMapSum& call) override;
  void run(const call::Copy& call) override;
  void run(const call::Fill& call) override;
  void run(const call::Random& call) override;
  void run(const call::RandomMask& call) override;
  void run(const call::Update& call) override;
  void run(const call::Reduce& call) override;
  void run(const call::Matmul& call) override;
  Array run(const call::CheckedIndex& call) override;
  void run(const call::Gather& call) override;
  void run(const call::IndexSelect& call) override;
  std::optional<int64_t> run(const call::FactorLU& call) override;
  void run(const call::SolveLU& call) override;
  std::optional<int64_t> run(const call::LeastSquares& call) override;

 protected:
  /// Throws the Error of a program that is linked without the kernel of `what`.
  [[noreturn]] static void fail_without(const std::string& what);
};

class CpuBackend final : public BasicKernels {
 public:
  using BasicKernels::run;
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
  void run(const call::Scatter& call) override;
  void run(const call::IndexAdd& call) override;
  void run(const call::SparseMatmul& call) override;
  Array run(const call::Nonzero& call) override;
  void run(const call::Im2col& call) override;
  void run(const call::Col2im& call) override;
  bool run(const call::HasConvolution& call) override;
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
  void run(const call::CellStep& call) override;
  void run(const call::CellStepBack& call) override;
  void run(const call::Encode& call) override;
  void run(const call::Decode& call) override;
  void run(const call::Recurrence& call) override;
  void run(const call::KthPositions& call) override;
  void run(const call::RunningExtremes& call) override;
  void run(const call::GridSample& call) override;
  void run(const call::GridSampleBackX& call) override;
  void run(const call::GridSampleBackGrid& call) override;
  void run(const call::Convolve& call) override;
  bool run(const call::ConvolveBack& call) override;
  void run(const call::ConvolveWeight& call) override;
  void run(const call::QuantizedProduct& call) override;
  void run(const call::SolveTriangular& call) override;
  std::optional<int64_t> run(const call::FactorCholesky& call) override;
  void run(const call::CholeskyFaults& call) override;
  void run(const call::FactorQR& call) override;
  std::optional<int64_t> run(const call::FactorSVD& call) override;
  std::optional<int64_t> run(const call::FactorEigh& call) override;
};

/// Elements that a thread takes at a time in elementwise work: enough that dispatching them costs
/// little, and few enough to divide an array of a few hundred thousand elements among threads.
inline constexpr int64_t kGrain = 32768;

}  // namespace hero::core::cpu
