#include <exception>
#include <utility>
#include <vector>

#include <hero/core/json/json.h>
#include <hero/dist/trainer/trainer_report.h>

namespace hero::dist {

TrainerReport::TrainerReport(const Config& config, const Communicator& world,
                             const nn::Module& model)
    : config_(config),
      world_(world),
      report_(config.report, {.title = model.type_name() + " on " + std::to_string(world.size()) +
                                       (world.size() == 1 ? " rank" : " ranks"),
                              .unit = "sample",
                              .per_step = static_cast<double>(config.train_batch_size)}) {
  report_.configure("backend", name(world.backend_kind()));
  const core::JSON keys = core::parse_json(config.text(), "report", "the configuration");
  for (const auto& [key, value] : keys.members()) {
    report_.configure(key, value.is_string() ? value.text() : value.dump());
  }
}

TrainerReport::~TrainerReport() {
  if (std::uncaught_exceptions() == 0) report_.finish();
}

std::map<std::string, int64_t> TrainerReport::sent_so_far() const {
  std::map<std::string, int64_t> sent;
  for (const Traffic::Row& row : world_.traffic().rows()) sent[row.axis] += row.bytes;
  return sent;
}

void TrainerReport::begin() {
  if (!std::exchange(has_begun_, true)) sent_ = sent_so_far();
}

void TrainerReport::loss(double value) {
  losses_ += value;
  ++count_;
}

void TrainerReport::write(const TrainerStep& step) {
  std::vector<nn::Metric> metrics;
  if (count_ > 0) metrics.push_back({"train/loss", losses_ / static_cast<double>(count_)});
  metrics.push_back({"rate", step.lr});
  if (config_.gradient_clipping > 0.0) metrics.push_back({"norm of the gradients", step.norm});
  if (config_.compute == kFloat16) {
    metrics.push_back({"loss scale", step.loss_scale});
    metrics.push_back({"skipped steps", static_cast<double>(step.skipped)});
  }
  for (const auto& [axis, bytes] : sent_so_far()) {
    const int64_t before = sent_[axis];  // more than now where the program has set it to zero
    const int64_t more = bytes - (before <= bytes ? before : 0);
    metrics.push_back({axis + "/sent, MB", static_cast<double>(more) / 1e6});
  }
  has_begun_ = false;
  losses_ = 0.0;
  count_ = 0;
  report_.write(step.step, metrics);
}

}  // namespace hero::dist
